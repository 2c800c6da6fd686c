//! Reads the lines of arbitrary text as messages of the parity dialect, in one session.

#![no_main]

#[path = "../bodies/parity.rs"]
mod body;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        body::check_text(text);
    }
});
