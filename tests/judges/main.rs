//! The server and the client judged by others: official clients and suites, and a browser.
//!
//! Every test needs what the `install.sh` of its module installs, and is ignored without
//! `./test.sh`.

mod autobahn;
mod bundle;
mod conformance;
mod interop;
mod page;

/// The program under test.
const CORELANE: &str = env!("CARGO_BIN_EXE_corelane");
