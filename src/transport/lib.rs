//! Sans-IO codecs: bytes to frames and back.
//!
//! A frame carries one JSON text. A codec finds the texts in a stream and frames outgoing ones. It
//! uses no sockets and does not interpret the texts.

#![forbid(unsafe_code)]

pub mod http;
pub mod ndjson;
pub mod proxy_protocol;
pub mod websocket;
