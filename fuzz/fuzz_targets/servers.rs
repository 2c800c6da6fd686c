//! Sends arbitrary bytes as a server to a whole client: every call must end, and everything must be
//! released.
//!
//! The first byte selects the transport, the second gives the length of the pieces.

#![no_main]

#[path = "../bodies/servers.rs"]
mod body;
#[path = "../bodies/upgrade.rs"]
mod upgrade;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let [first, length, stream @ ..] = bytes else { return };
    let transport = body::FuzzTransport::ALL[usize::from(first % 3)];
    // Every piece costs a turn of the client.
    let length = usize::from(*length).max(1 + stream.len() / 64);
    body::run_client(transport, stream, length);
});
