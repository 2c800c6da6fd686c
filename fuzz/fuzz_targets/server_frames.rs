//! Reads arbitrary bytes as the WebSocket frames of a server: the result must not depend on how
//! they are split.
//!
//! The first byte gives the length of the pieces.

#![no_main]

use corelane::client::fuzz;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some((&length, stream)) = bytes.split_first() {
        fuzz::check_frames(stream, usize::from(length));
    }
});
