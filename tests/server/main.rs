//! The server: over real sockets and pipes, in the thread of its client, in the HTTP server of a
//! host.
//!
//! The modules share a process and run in parallel. None changes what belongs to the process: its
//! environment, working directory or signals. The subscriber of the log that `authorization::audit`
//! sets receives the events of every server and keeps those of its own.

mod abuse;
mod accounting;
#[cfg(feature = "oauth-jwt")]
mod authorization;
mod executors;
mod files;
mod http;
mod in_process;
mod large_messages;
mod malformed;
mod mcp_schema;
mod overload;
mod proxies;
mod rate_limits;
mod service;
mod subscriptions;
mod tasks;
mod tls;
mod tower;
mod traces;
mod transcripts;
mod websocket;

/// The program under test.
const CORELANE: &str = env!("CARGO_BIN_EXE_corelane");
