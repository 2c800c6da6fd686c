//! Reads arbitrary text as a challenge, as metadata of OAuth, and as a URL of a server.

#![no_main]

use corelane::client::fuzz;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        fuzz::check_authorization_text(text);
    }
});
