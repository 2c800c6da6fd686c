//! Reads arbitrary bytes as the certificate of a TLS client.

#![no_main]

use corelane::guard::auth::certificates::fuzz;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    fuzz::check_certificate(bytes);
});
