//! Fuzz target body for WebSocket frames: arbitrary bytes, split arbitrarily.
//!
//! Panics when an invariant of the frame reader is violated. Called by the fuzzer with its own
//! input and by the tests with seeded mutations.

use corelane_transport::websocket::limits::{CloseCode, FrameLimits, ProtocolError};
use corelane_transport::websocket::reader::{FrameEvent, FrameReader};
use corelane_transport::websocket::utf8;

/// One result of reading a stream.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum FrameOutcome {
    /// The stream is invalid; reading stopped.
    Invalid(ProtocolError),
    /// A close frame, with its code and payload.
    Close(Option<CloseCode>, Vec<u8>),
    /// A compressed message.
    Compressed(Vec<u8>),
    /// A binary message.
    Binary(Vec<u8>),
    /// A ping, with its payload.
    Ping(Vec<u8>),
    /// A pong, with its payload.
    Pong(Vec<u8>),
    /// A text message.
    Text(Vec<u8>),
}

/// Reads `stream` whole and again in pieces of the given `lengths` (repeating the last one; single
/// bytes if empty), and returns the results. Text is validated as a parser would.
///
/// # Panics
///
/// If an invariant is violated.
pub(crate) fn check_stream(
    stream: &[u8],
    lengths: &[usize],
    limits: &FrameLimits,
    is_deflating: bool,
) -> Vec<FrameOutcome> {
    let whole = read(stream, &[stream.len()], limits, is_deflating);
    let split = read(stream, lengths, limits, is_deflating);
    assert_eq!(split, whole, "the result depends on the split");
    whole
}

/// Reads `stream` in pieces and checks every result.
fn read(
    stream: &[u8],
    lengths: &[usize],
    limits: &FrameLimits,
    is_deflating: bool,
) -> Vec<FrameOutcome> {
    let last = lengths.last().copied().unwrap_or(1);
    let mut lengths = lengths.iter().copied().chain(std::iter::repeat(last));
    let mut reader =
        if is_deflating { FrameReader::with_compression() } else { FrameReader::new() };
    let (mut outcomes, mut rest) = (Vec::new(), stream);
    while !rest.is_empty() {
        let (arrival, later) = rest.split_at(lengths.next().unwrap_or(1).clamp(1, rest.len()));
        rest = later;
        if !read_arrival(&mut reader, arrival, limits, &mut outcomes) {
            break;
        }
        assert!(reader.held_bytes() <= limits.message_bytes_max, "more is held than the limit");
        assert!(
            reader.held_bytes() == 0 || reader.is_inside_message(),
            "an idle reader holds data"
        );
    }
    outcomes
}

/// Reads one piece. Returns whether reading continues.
fn read_arrival(
    reader: &mut FrameReader,
    original: &[u8],
    limits: &FrameLimits,
    outcomes: &mut Vec<FrameOutcome>,
) -> bool {
    let mut arrival = original.to_vec();
    let mut from = 0;
    loop {
        let before = from;
        let next = reader.next(&mut arrival, &mut from, limits, Vec::new);
        assert!(from >= before, "bytes are read twice");
        assert_eq!(arrival[from..], original[from..], "unread bytes were changed");
        assert!(reader.control_payload().len() <= 125, "control payload over 125 bytes");
        let control = reader.control_payload().to_vec();
        outcomes.push(match next {
            FrameEvent::Assembled { is_compressed } => {
                let message = reader.take();
                assert!(!reader.is_inside_message(), "a taken message is still pending");
                let message = classify_message(message.as_bytes(), is_compressed, reader, limits);
                let is_broken = matches!(message, FrameOutcome::Invalid(_));
                assert!(!is_broken, "assembled text is not UTF-8");
                message
            }
            FrameEvent::InPlace { start, end, is_compressed } => {
                assert!(before <= start && end == from, "wrong message range");
                classify_message(&arrival[start..end], is_compressed, reader, limits)
            }
            FrameEvent::Ping => FrameOutcome::Ping(control),
            FrameEvent::Pong => FrameOutcome::Pong(control),
            FrameEvent::Close(code) => FrameOutcome::Close(code, control),
            FrameEvent::Invalid(fault) => FrameOutcome::Invalid(fault),
            FrameEvent::NeedMore => {
                assert_eq!(from, arrival.len(), "input was not consumed");
                return true;
            }
        });
        if matches!(outcomes.last(), Some(FrameOutcome::Invalid(_) | FrameOutcome::Close(..))) {
            assert!(reader.held_bytes() == 0 && !reader.is_inside_message(), "data is still held");
            return false;
        }
    }
}

/// Classifies a message and validates its text.
fn classify_message(
    bytes: &[u8],
    is_compressed: bool,
    reader: &FrameReader,
    limits: &FrameLimits,
) -> FrameOutcome {
    assert!(bytes.len() <= limits.message_bytes_max, "message over the limit");
    assert!(!reader.is_binary() || limits.is_binary_allowed, "binary message was accepted");
    let bytes = bytes.to_vec();
    if is_compressed {
        FrameOutcome::Compressed(bytes)
    } else if reader.is_binary() {
        FrameOutcome::Binary(bytes)
    } else if utf8::is_utf8(&bytes) {
        FrameOutcome::Text(bytes)
    } else {
        FrameOutcome::Invalid(ProtocolError::INVALID_UTF8)
    }
}
