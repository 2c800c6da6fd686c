//! HTTP client and parser that reject every deviation from the standards.

mod client;
mod request;
mod response_parser;

pub use client::{HttpClient, Response};
pub use request::Request;
pub use response_parser::{BodyFraming, ResponseHead, SseEvent};
