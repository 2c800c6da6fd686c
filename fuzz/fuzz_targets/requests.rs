//! Reads arbitrary bytes as HTTP requests: the result must not depend on how they are split.
//!
//! The first byte gives the length of the pieces. The limits are small, so that inputs reach them.

#![no_main]

#[path = "../bodies/requests.rs"]
mod body;

use corelane_transport::http::head::RequestLimits;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some((&length, stream)) = bytes.split_first() {
        body::check_stream(stream, &[usize::from(length).max(1)], &LIMITS);
    }
});

const LIMITS: RequestLimits =
    RequestLimits { head_bytes_max: 400, fields_max: 12, body_bytes_max: 60 };
