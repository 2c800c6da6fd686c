//! HTTP/1.1 and server-sent events, sans-IO: bytes to requests, answers to bytes (RFC 9110, RFC
//! 9112).
//!
//! [`reader::RequestReader`] turns what arrives on one connection into requests, each a
//! [`head::Head`] and a body. What two readers of the same bytes could understand differently is
//! refused, so that nobody can smuggle a request past whoever stands in front of this server.
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

pub mod date;

pub mod fields;

pub mod response;

pub mod sse;
