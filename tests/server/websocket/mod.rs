//! The WebSocket server over real sockets.
//!
//! A peer's input must never cause a panic. Invalid input gets a JSON-RPC error on a connection
//! that stays open, or a close frame with the code of RFC 6455, section 7.4.1; other clients are
//! not affected; and no state is left when the server has stopped.
//!
//! Each test starts a server on a free loopback port, as in [`http`](crate::http). Its clients use
//! blocking sockets and encode frames themselves, so that frames can be invalid; frames of the
//! server are decoded by tungstenite, and every message is checked against the schema of its
//! revision. Tests do not sleep: read timeouts bound them, and tests of timeouts configure some
//! milliseconds. Tests that depend on I/O run over both rings, tests of shared state also on two
//! shards.

mod backpressure;
mod calls;
mod close_handshake;
mod compression;
mod drains;
mod fragments;
mod protocol_errors;
mod request_context;
mod server_messages;
mod text_messages;
mod timeouts;
mod upgrades;
