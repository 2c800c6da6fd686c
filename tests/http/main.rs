//! The whole server over HTTP, over real sockets: one file a behaviour, named as sentences.
//!
//! Policy: **a panic is our bug, never bad input.** Whatever a peer sends, or does not send, it
//! gets the status that the specification wants, with an error of JSON-RPC where there is a body,
//! on a connection that is kept where HTTP allows it; everybody else is served as if nothing had
//! happened; and when it is over, nothing of it is left behind.
//!
//! How each test is made: a server on a free port of the loopback, clients over plain blocking
//! sockets that hold every byte against RFC 9112, the standard of event streams and the schema of
//! the revision, and at the end a drain whose counters are looked at. Nothing sleeps: read timeouts
//! are the bound after which a test fails, and where a test must know that the server has noticed
//! something, it asks until the answer shows it. What depends on how bytes and connections move
//! runs over both rings, and what depends on who owns a session on one shard and on two.

mod abuse;
mod batches;
mod census;
mod client;
mod drains;
mod guard;
mod keeping;
mod lifetimes;
mod listening;
mod lost;
mod messages;
mod modern;
mod pair;
mod request;
mod resuming;
mod rungs;
mod session;
mod sessions;
mod stage;
mod streams;
mod strict;
mod telling;
mod waiting;
mod wire;

#[path = "../support/judge.rs"]
mod judge;
