//! Sans-IO bindings: bytes to frames and back.
//!
//! A frame is exactly one JSON text. A binding knows how texts are cut from a stream and how they
//! are put on one; it knows neither sockets nor what the texts mean.

#![forbid(unsafe_code)]

pub mod http;
pub mod ndjson;
pub mod websocket;
