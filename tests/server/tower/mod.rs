//! `McpService` in an axum router over real sockets.
//!
//! Clients connect to axum, and in some tests also to a listener of the same server, whose
//! responses must be the same.

mod mounted;

mod extensions;
mod lifetime;
mod limits;
mod same_responses;
mod sessions;
mod streams;
mod websocket;
