//! Any bytes as requests of HTTP: they read the same wherever they are cut.
//!
//! The first byte says into which pieces the rest is cut; the limits are small, so that requests
//! reach them.

#![no_main]

use corelane::transport::http::fuzz;
use corelane::transport::http::limits::Limits;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some((&length, stream)) = bytes.split_first() {
        fuzz::stream(stream, &[usize::from(length).max(1)], &LIMITS);
    }
});

const LIMITS: Limits = Limits { head_bytes_max: 400, fields_max: 12, body_bytes_max: 60 };
