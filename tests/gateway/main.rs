//! `corelane gateway` as a black box, in front of real programs: who shares them, what passes
//! between the eras, and what is left of a program that does wrong.
//!
//! The upstream is the example `upstream_fixture`. Every message that a client receives is checked
//! against the schema of its protocol version.

mod client;
mod gateway;

mod status;

mod cells;
mod chains;
mod changes;
mod churn;
mod client_requests;
mod commands;
mod faults;
mod handshakes;
mod held;
mod manifests;
mod operators;
mod random;
mod recycling;
mod sharing;
mod tasks;

/// The program under test.
const CORELANE: &str = env!("CARGO_BIN_EXE_corelane");
