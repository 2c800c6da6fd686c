//! Reads arbitrary bytes as HTTP responses and event streams: the result must not depend on how
//! they are split.
//!
//! The first byte gives the length of the pieces. The limits are small, so that inputs reach them.

#![no_main]

#[path = "../bodies/responses.rs"]
mod body;

use corelane_transport::http::client::response_head::ResponseLimits;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some((&length, stream)) = bytes.split_first() {
        body::check_stream(stream, usize::from(length), &LIMITS);
    }
});

const LIMITS: ResponseLimits = ResponseLimits { head_bytes_max: 400, body_bytes_max: 100 };
