//! Reads arbitrary text as the value of `Authorization`, as a JWT, as its claims, and as a key set.

#![no_main]

#[path = "../bodies/tokens.rs"]
mod body;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        body::check_text(text);
    }
});
