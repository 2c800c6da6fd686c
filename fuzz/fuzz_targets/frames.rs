//! Any bytes as frames of WebSocket: they read the same wherever they are cut.
//!
//! The first byte says into which pieces the rest is cut, and by its highest bit whether messages
//! may be compressed; the limit is small, so that messages reach it.

#![no_main]

use corelane::transport::websocket::fuzz;
use corelane::transport::websocket::limits::FrameLimits;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some((&first, stream)) = bytes.split_first() {
        let length = usize::from(first & 0x7F).max(1);
        fuzz::stream(stream, &[length], &LIMITS, first & 0x80 != 0);
    }
});

const LIMITS: FrameLimits = FrameLimits { message_bytes_max: 300, is_binary_allowed: false };
