//! The whole server over WebSocket, over real sockets: one file a behaviour, named as sentences.
//!
//! Policy: **a panic is our bug, never bad input.** Whatever a peer sends, or does not send, it
//! gets an error of JSON-RPC on a connection that is kept, or a close frame with the code that the
//! transport contract wants (seed 001, section 4); everybody else is served as if nothing had
//! happened; and when it is over, nothing of it is left behind.
//!
//! How each test is made: a server on a free port of the loopback, as in `tests/http`, and clients
//! over plain blocking sockets. Their frames are written by hand, so that they can be wrong; those
//! of the server are read by tungstenite, and every message is held against the schema of its
//! revision. Nothing sleeps: read timeouts are the bound after which a test fails, and what waits
//! for time has milliseconds of it by configuration. What depends on how bytes and connections move
//! runs over both rings, what shares anything also on two shards.

mod calls;
mod closing;
mod deflating;
mod drains;
mod faults;
mod fragments;
mod peer;
mod pressure;
mod telling;
mod texts;
mod upgrades;
mod waiting;

#[expect(dead_code, reason = "the tests of HTTP ask for more")]
#[path = "../http/client.rs"]
mod client;
#[path = "../support/judge.rs"]
mod judge;
#[path = "../http/messages.rs"]
mod messages;
#[expect(dead_code, reason = "the tests of HTTP ask for more")]
#[path = "../http/request.rs"]
mod request;
#[expect(dead_code, reason = "the tests of HTTP ask for more")]
#[path = "../http/stage.rs"]
mod stage;
#[path = "../http/wire.rs"]
mod wire;
