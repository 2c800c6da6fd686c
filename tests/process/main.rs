//! The `corelane` process as a black box: start, sessions over sockets and pipes, signals, exit.
//!
//! These tests do not use the library. Every received message is checked against the schema of its
//! protocol version.

mod backends;
mod eras;
mod mcp_client;
mod peer;
mod process;
#[cfg(target_os = "linux")]
mod ring_fallback;
mod signals;
mod standard_streams;
mod startup;
mod stdio;

/// Protocol versions with a handshake, oldest first.
const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// The protocol version without a handshake.
const MODERN: &str = "2026-07-28";
