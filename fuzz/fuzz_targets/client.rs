//! Makes calls and receives messages in any order in a session of the client: every call must end
//! once.

#![no_main]

use corelane::client::session::fuzz;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    fuzz::run_session(bytes);
});
