//! Malformed input and network faults over real sockets, one file a kind of fault.
//!
//! Whatever a peer sends or omits, it gets a JSON-RPC error or a closed connection; other
//! connections are served unchanged, and afterwards no resource stays in use. A panic is a bug.
//!
//! Each test starts a server on a free port of 127.0.0.1, talks to it over blocking sockets, drains
//! it and checks its counters. No test sleeps: read timeouts only bound failures, and where a test
//! must know that the server has read its input, it sends another request to the same shard and
//! waits for the response. Tests that depend on byte or connection timing run over both rings.

mod batches;
mod cancellation;
mod client_requests;
mod connection_churn;
mod connection_limit;
mod deadlines;
mod drains;
mod duplicates;
mod envelope;
mod eras;
mod framing;
mod half_open;
mod handshake;
mod idle_timeouts;
mod ids;
mod interactive_catalog;
mod lifetimes;
mod logs;
mod memory;
mod mutations;
mod oversize;
mod parse_errors;
mod progress;
mod request_state;
mod resets;
mod schema_checks;
mod slow_readers;
mod state_keys;
mod subscriptions;
mod tasks;
mod unreadable_texts;
