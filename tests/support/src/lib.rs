//! Servers, clients and checks that the tests of Corelane and its load generator share.
//!
//! Clients use blocking sockets with timeouts, so that a missing message fails a test. Servers
//! listen on free ports of 127.0.0.1. A failed check panics.

#![expect(
    clippy::missing_panics_doc,
    clippy::return_self_not_must_use,
    missing_docs,
    reason = "used by tests only: a failed check panics, and most names need no explanation"
)]

pub mod alloc_counter;
pub mod collector;
pub mod damage;
pub mod mcp_schema;
pub mod messages;

mod schema_checker;
pub mod sockets;

pub mod http;
pub mod line_client;
pub mod listening_process;
pub mod process;
pub mod promtool;
pub mod websocket;

#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "server")]
pub mod test_tools;

pub mod stall;
pub mod tls;
pub mod wrk;

pub use http::{HttpClient, Request, Response, ResponseHead};
pub use line_client::LineClient;
pub use listening_process::ListeningProcess;
pub use process::{ExitResult, Process, SMALL_RINGS, ServeProcess, run_program};
#[cfg(feature = "server")]
pub use server::{
    TestServer, http_and_tcp_options, http_options, on_one_shard_and_two, over_each_ring,
    tcp_options,
};
pub use websocket::WebSocketClient;

/// Timeout of each operation, generous for a loaded machine. A test fails when it expires.
pub const TIMEOUT: std::time::Duration = std::time::Duration::from_mins(1);
