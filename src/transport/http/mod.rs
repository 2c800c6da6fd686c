//! HTTP/1.1 and server-sent events, sans-IO: bytes to requests, answers to bytes.
//!
//! An answer is written into a buffer that the caller owns: its head first, the text behind it, and
//! what could not be known before (a length, the size of a chunk) is put in at the end. Nothing
//! here reads a clock or knows a socket, a session or what a text means.

pub mod status;

pub mod date;

pub mod fields;

pub mod response;

pub mod sse;
