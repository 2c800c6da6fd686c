//! Makes calls and receives messages in any order in a session of the client: every call must end
//! once.

#![no_main]

#[path = "../bodies/session.rs"]
mod body;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    body::run_session(bytes);
});
