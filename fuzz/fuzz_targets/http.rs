//! Sends arbitrary bytes over HTTP to a whole shard: every request must get a response, and all
//! resources must be released.
//!
//! The first byte gives the length of the pieces.

#![no_main]

#[path = "../bodies/http.rs"]
mod body;

use corelane::internal::demo;
use corelane::model::Implementation;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((&length, stream)) = bytes.split_first() else { return };
    let catalog =
        demo::catalog(Implementation::new("fuzz", "1")).expect("the demo catalog is valid");
    body::run_http(catalog, stream, &[usize::from(length).max(1)]);
});
