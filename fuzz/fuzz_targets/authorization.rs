//! Reads arbitrary text as a challenge, as metadata of OAuth, and as a URL of a server.

#![no_main]

#[path = "../bodies/authorization.rs"]
mod body;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        body::check_text(text);
    }
});
