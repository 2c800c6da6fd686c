//! Reads arbitrary text as the value of `Authorization`, as a JWT, as its claims, and as a key set.

#![no_main]

use corelane::guard::auth::jwt::fuzz;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        fuzz::check_text(text);
    }
});
