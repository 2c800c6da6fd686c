//! Parses arbitrary bytes as one message, reads it as every kind of message and encodes it again.

#![no_main]

#[path = "../bodies/messages.rs"]
mod body;

use corelane_protocol::json::{ParseLimits, Parser};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    body::check_message(&mut Parser::new(ParseLimits::default()), bytes);
});
