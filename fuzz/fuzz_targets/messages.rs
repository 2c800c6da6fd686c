//! Any bytes as one message: parsed, read as everything that a message can be, written again.

#![no_main]

use corelane::protocol::fuzz;
use corelane::protocol::json::{Limits, Parser};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    fuzz::envelope(&mut Parser::new(Limits::default()), bytes);
});
