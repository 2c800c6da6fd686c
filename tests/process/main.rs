//! The whole process as a black box: what a user starts, a peer speaks to and an operator stops.
//!
//! These tests hold nothing of the library in their hands. They start the program, wait for the
//! lines that it promises, speak MCP to it over sockets and pipes, send it signals and look at how
//! it ends. Every message that they hear is judged against the schema of its revision.

#[path = "../support/judge.rs"]
mod judge;

mod backends;
mod eras;
mod peer;
mod process;
#[cfg(target_os = "linux")]
mod refused_rings;
mod session;
mod signals;
mod standard_streams;
mod start;
mod stdio;

/// Revisions with a handshake, oldest first.
const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// The revision in which every request stands alone.
const MODERN: &str = "2026-07-28";
