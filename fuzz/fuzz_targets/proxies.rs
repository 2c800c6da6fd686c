//! Reads arbitrary bytes as a PROXY header and as the addresses that a client has written into its
//! request.
//!
//! The first byte gives the length of the pieces.

#![no_main]

#[path = "../bodies/proxies.rs"]
mod body;

use corelane_transport::http::forwarded::ForwardedField;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some((&length, bytes)) = bytes.split_first() {
        let _: Result<_, _> = body::check_header(bytes, usize::from(length));
        body::check_forwarded(ForwardedField::XForwardedFor, bytes);
        body::check_forwarded(ForwardedField::Forwarded, bytes);
    }
});
