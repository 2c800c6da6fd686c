//! Reads arbitrary bytes as the certificate of a TLS client.

#![no_main]

#[path = "../bodies/certificates.rs"]
mod body;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    body::check_certificate(bytes);
});
