//! The body of a fuzz target: any bytes, cut anywhere, and what must hold for the frames in them.
//!
//! It panics when the reading of frames breaks a promise, which no input may bring about. A fuzzer
//! calls it with bytes of its own; the tests call it with seeded mutations. It is not part of the
//! road.

use super::code::CloseCode;
use super::limits::{Fault, FrameLimits};
use super::reader::{FrameReader, Next, PADDING};
use super::utf8;

/// One thing that a reader said of a stream.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Said {
    /// Why nothing more is read.
    Broken(Fault),
    /// The peer closed, with this code and this payload.
    Close(Option<CloseCode>, Vec<u8>),
    /// A message that has to be inflated.
    Compressed(Vec<u8>),
    /// A message that is not text.
    Binary(Vec<u8>),
    /// A ping with this payload.
    Ping(Vec<u8>),
    /// A pong with this payload.
    Pong(Vec<u8>),
    /// A message.
    Text(Vec<u8>),
}

/// Reads `stream` whole and again in pieces of the given `lengths` (the last one again and again;
/// one byte each where there are none), and returns what was said. Text that came whole is looked
/// at as a parser would.
///
/// # Panics
///
/// When something that is promised does not hold.
pub fn stream(
    stream: &[u8],
    lengths: &[usize],
    limits: &FrameLimits,
    is_deflating: bool,
) -> Vec<Said> {
    let whole = read(stream, &[stream.len()], limits, is_deflating);
    let cut = read(stream, lengths, limits, is_deflating);
    assert_eq!(cut, whole, "a stream reads otherwise where it is cut");
    whole
}

/// Reads `stream` in pieces and checks every word.
fn read(stream: &[u8], lengths: &[usize], limits: &FrameLimits, is_deflating: bool) -> Vec<Said> {
    let last = lengths.last().copied().unwrap_or(1);
    let mut lengths = lengths.iter().copied().chain(std::iter::repeat(last));
    let mut reader = if is_deflating { FrameReader::compressed() } else { FrameReader::new() };
    let (mut said, mut rest) = (Vec::new(), stream);
    while !rest.is_empty() {
        let (arrival, later) = rest.split_at(lengths.next().unwrap_or(1).clamp(1, rest.len()));
        rest = later;
        if !read_arrival(&mut reader, arrival, limits, &mut said) {
            break;
        }
        assert!(reader.held_bytes() <= limits.message_bytes_max, "more is held than a message has");
        assert!(reader.held_bytes() == 0 || reader.is_inside_message(), "an idle reader holds");
    }
    said
}

/// Reads one arrival; says whether there is more to read.
fn read_arrival(
    reader: &mut FrameReader,
    original: &[u8],
    limits: &FrameLimits,
    said: &mut Vec<Said>,
) -> bool {
    let mut arrival = original.to_vec();
    let mut from = 0;
    loop {
        let before = from;
        let next = reader.next(&mut arrival, &mut from, limits, Vec::new);
        assert!(from >= before, "bytes are read twice");
        assert_eq!(arrival[from..], original[from..], "what was not read was changed");
        assert!(reader.control().len() <= 125, "a control frame is too long");
        let control = reader.control().to_vec();
        said.push(match next {
            Next::Assembled { is_compressed } => {
                let (bytes, length) = reader.take();
                assert!(bytes[length..].iter().eq(&[0; PADDING]), "padding is missing");
                assert!(!reader.is_inside_message(), "what was taken is still awaited");
                let message = message(&bytes[..length], is_compressed, reader, limits);
                let is_broken = matches!(message, Said::Broken(_));
                assert!(!is_broken, "text was assembled that is none");
                message
            }
            Next::Inside { start, end, is_compressed } => {
                assert!(before <= start && end == from, "a message lies somewhere else");
                message(&arrival[start..end], is_compressed, reader, limits)
            }
            Next::Ping => Said::Ping(control),
            Next::Pong => Said::Pong(control),
            Next::Close(code) => Said::Close(code, control),
            Next::Broken(fault) => Said::Broken(fault),
            Next::NeedMore => {
                assert_eq!(from, arrival.len(), "an arrival was not used up");
                return true;
            }
        });
        if matches!(said.last(), Some(Said::Broken(_) | Said::Close(..))) {
            assert!(reader.held_bytes() == 0 && !reader.is_inside_message(), "it still holds");
            return false;
        }
    }
}

/// What a message is, to whoever looks at its text.
fn message(
    bytes: &[u8],
    is_compressed: bool,
    reader: &mut FrameReader,
    limits: &FrameLimits,
) -> Said {
    assert!(bytes.len() <= limits.message_bytes_max, "a message is too long");
    assert!(!reader.is_binary() || limits.is_binary_allowed, "binary data was taken");
    let bytes = bytes.to_vec();
    if is_compressed {
        Said::Compressed(bytes)
    } else if reader.is_binary() {
        Said::Binary(bytes)
    } else if utf8::is_text(&bytes) {
        Said::Text(bytes)
    } else {
        drop(reader.give_up());
        Said::Broken(Fault::NOT_UTF8)
    }
}
