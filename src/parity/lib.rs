//! The parity dialect, sans-IO: one handshake state machine over every transport.
//!
//! A client sends a `handshake`, the server answers with `handshakeAck`, and requests follow, each
//! a JSON object with the member `type`. The dialect has streams with numbered chunks, resumption,
//! cancellation and one list of errors; its methods, params and results are those of MCP
//! 2025-11-25.
//!
//! | module | contents |
//! | --- | --- |
//! | [`error`] | the errors, with their HTTP, WebSocket and MCP codes |
//! | [`capabilities`] | what both sides offer, and the intersection |
//! | [`envelope`] | messages, read from JSON |
//! | [`mod@write`] | messages, appended to a buffer |
//! | [`machine`] | states, events and the transition table |
//! | [`stream`] | chunks of outgoing and incoming streams |
//! | [`idempotency`] | keys of requests that are answered once |
//! | [`timers`] | deadlines of a session |
//! | [`server_session`] | the server's side of a session |
//! | [`client_session`] | the client's side of a session |
#![forbid(unsafe_code)]

pub mod error;

pub mod capabilities;
pub mod idempotency;
pub mod machine;
pub mod timers;

pub mod envelope;

pub mod write;

pub mod stream;

pub mod client_session;
pub mod server_session;

/// The version of the dialect.
pub const PROTOCOL_VERSION: &str = "1.0";
