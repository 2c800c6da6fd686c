//! Reads arbitrary bytes as WebSocket frames: the result must not depend on how they are split.
//!
//! The first byte gives the length of the pieces and, in its highest bit, whether messages may be
//! compressed. The message limit is small, so that inputs reach it.

#![no_main]

#[path = "../bodies/frames.rs"]
mod body;

use corelane_transport::websocket::limits::FrameLimits;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some((&first, stream)) = bytes.split_first() {
        let length = usize::from(first & 0x7F).max(1);
        body::check_stream(stream, &[length], &LIMITS, first & 0x80 != 0);
    }
});

const LIMITS: FrameLimits = FrameLimits { message_bytes_max: 300, is_binary_allowed: false };
