//! The `corelane` process as a black box: start, sessions over sockets and pipes, signals, exit.
//!
//! These tests do not use the library. Every received message is checked against the schema of its
//! protocol version.

mod backends;
mod config;
#[cfg(target_os = "linux")]
mod declared;
#[cfg(target_os = "linux")]
mod descriptors;
mod drains;
mod eras;
mod examples;
mod mcp_client;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod memory;
mod parity_log;
mod publish;
mod reloads;
#[cfg(target_os = "linux")]
mod ring_fallback;
mod sequential;
mod signals;
mod stalled_log;
mod standard_streams;
mod startup;
mod stdio;
mod traces;

/// The program under test.
const CORELANE: &str = env!("CARGO_BIN_EXE_corelane");
