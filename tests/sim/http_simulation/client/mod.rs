//! One client over HTTP with all its connections.
//!
//! `http_requests` encodes requests, `connection` is one connection, `http_client` performs the
//! actions, `requests` sends most requests, `legacy_sse` those of the legacy HTTP+SSE transport,
//! `tracked_requests` those whose response is checked in detail; `receiver` checks what arrives,
//! `response_heads` the response heads.

pub(crate) mod http_requests;

pub(crate) mod connection;

pub(crate) mod http_client;

mod requests;

mod legacy_sse;

mod tracked_requests;

mod response_heads;

mod receiver;
