//! Subscriptions and changes at run time, over real sockets.
//!
//! A whole server on a free port of the loopback, clients over plain blocking sockets. Nothing
//! sleeps: where a test must know that the server has come so far, it asks another question on the
//! same connection and waits for the answer. Every notification and every result of a stream is
//! judged by the schema of its revision.

#[expect(dead_code, reason = "the tests of bad input ask for more")]
#[path = "../support/client.rs"]
mod client;
#[path = "../support/judge.rs"]
mod judge;
#[expect(dead_code, reason = "these tests run over one ring")]
#[path = "../support/loopback.rs"]
mod loopback;
mod stage;

mod bounds;
mod changes;
mod sessions;
mod slow;
mod streams;
