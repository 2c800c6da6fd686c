//! Tasks of both generations over real sockets: calls that are answered with a name and keep their
//! result until somebody asks for it.
//!
//! How each test is made: a whole server on a free port of the loopback, peers that hold every
//! message against the schema of its revision, and tools that wait for the test, never for a time.
//! Read timeouts are the bound after which a test fails.

#[expect(dead_code, reason = "the tests of bad input ask for more")]
#[path = "../support/client.rs"]
mod client;
#[path = "../support/judge.rs"]
mod judge;
#[path = "../support/loopback.rs"]
mod loopback;

mod before;
mod core;
mod extension;
mod generations;
mod hop;
mod lifetimes;
mod peer;
mod questions;
mod stage;
