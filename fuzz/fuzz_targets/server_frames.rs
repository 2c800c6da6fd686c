//! Reads arbitrary bytes as the WebSocket frames of a server: the result must not depend on how
//! they are split.
//!
//! The first byte gives the length of the pieces.

#![no_main]

#[path = "../bodies/server_frames.rs"]
mod body;
#[path = "../bodies/upgrade.rs"]
mod upgrade;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some((&length, stream)) = bytes.split_first() {
        body::check_frames(stream, usize::from(length));
    }
});
