//! The parity dialect over real sockets: handshake, requests, streams, cancellation, resumption.
//!
//! Each test starts a server on a free port of 127.0.0.1 and talks to it over blocking sockets. No
//! test sleeps: where a handler must wait, it waits at the gate of its test.

mod authentication;
mod client;
mod event_ids;
mod expiry;
mod failures;
mod faults;
mod handshake;
mod http;
mod observability;
mod parity_check;
mod requests;
mod resume;
mod shards;
mod slow_readers;
mod streams;
mod timeouts;
mod traces;
mod transports;

use corelane_test_support::http_and_tcp_options as options;

/// The program under test.
const CORELANE: &str = env!("CARGO_BIN_EXE_corelane");
