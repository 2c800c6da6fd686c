//! HTTP/1.1 (RFC 9110, RFC 9112): requests are cut from a stream.
//!
//! [`reader::RequestReader`] turns what arrives on one connection into requests, each a
//! [`head::Head`] and a body. What two readers of the same bytes could understand differently is
//! refused, so that nobody can smuggle a request past whoever stands in front of this server.

pub mod status;

pub mod limits;

mod grammar;

pub mod head;

pub mod reader;

pub mod fuzz;
