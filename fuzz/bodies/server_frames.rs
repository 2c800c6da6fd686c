//! Fuzz target body of the WebSocket frames of a server.
//!
//! It panics if an invariant is violated, which no input may cause. The fuzzer passes its own
//! bytes, the tests seeded ones.

use corelane_client::WebSocketEcho;

use super::upgrade::accept_upgrade;

/// Reads `stream` as the WebSocket frames of a server, whole and again in pieces of `length` bytes.
/// Returns the messages, and why the connection ends.
///
/// # Panics
///
/// If the result depends on the split.
pub(crate) fn check_frames(stream: &[u8], length: usize) -> (Vec<Vec<u8>>, Option<String>) {
    let whole = read_frames(stream, stream.len());
    assert_eq!(read_frames(stream, length), whole, "the result depends on the split");
    whole
}

fn read_frames(stream: &[u8], length: usize) -> (Vec<Vec<u8>>, Option<String>) {
    let mut echo = WebSocketEcho::begin("a", "/", 300).expect("the system has random bytes");
    let request = echo.take_output().expect("the upgrade request is written");
    let accepted = echo.receive(&accept_upgrade(&request));
    assert!(accepted.is_ok(), "the upgrade is accepted");
    let mut error = None;
    for piece in stream.chunks(length.max(1)) {
        if let Err(reason) = echo.receive(piece) {
            error = Some(reason.to_string());
            break;
        }
    }
    (echo.take_messages(), error)
}
