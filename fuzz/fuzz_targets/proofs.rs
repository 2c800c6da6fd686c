//! Reads arbitrary text as a proof of possession (DPoP), as `Authorization` with such a proof, and
//! as a nonce.

#![no_main]

#[path = "../bodies/proofs.rs"]
mod body;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        body::check_text(text);
    }
});
