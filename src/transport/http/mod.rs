//! HTTP/1.1 and server-sent events (RFC 9110, RFC 9112), sans-IO: bytes to requests, answers to
//! bytes.
//!
//! [`reader::RequestReader`] turns what arrives on one connection into requests, each a
//! [`head::Head`] and a body. What two readers of the same bytes could understand differently is
//! refused, so that nobody can smuggle a request past whoever stands in front of this server.
//! [`ladder`] says of a head what the request is and whether its message is read at all, and
//! [`mirror`] holds it against the message.
//!
//! An answer is written into a buffer that the caller owns: its head first, the text behind it, and
//! what could not be known before (a length, the size of a chunk) is put in at the end. Nothing
//! here reads a clock or knows a socket, a session or what a text means.

pub mod status;

pub mod limits;

mod grammar;

pub mod head;

pub mod reader;

pub mod fuzz;

pub mod ladder;

pub mod mirror;

pub mod date;

pub mod fields;

pub mod response;

pub mod sse;
