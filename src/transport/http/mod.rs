//! HTTP/1.1 and server-sent events (RFC 9110, RFC 9112), sans-IO.
//!
//! [`reader::RequestReader`] parses the input of a connection into requests, each a [`head::Head`]
//! and a body. Ambiguous input is rejected to prevent request smuggling. [`checks`] classifies a
//! request by its head and decides whether its body is read; [`header_consistency`] compares the
//! headers with the body.
//!
//! Responses are written into a buffer of the caller: the head, then the body; lengths and chunk
//! sizes are filled in at the end. [`client`] is the other side: requests written, responses read.
//! Nothing here uses clocks, sockets or sessions.

pub mod status;

mod grammar;

pub mod request_id;

pub mod head;

pub mod reader;

pub mod checks;

pub mod header_consistency;

pub mod fields;

pub mod head_template;

pub mod response;

pub mod sse;

pub mod client;

pub mod forwarded;
