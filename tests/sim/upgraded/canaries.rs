//! Proof that a run over WebSocket notices a server that is broken: the same visits, and one thing
//! goes wrong between the server and each client.
