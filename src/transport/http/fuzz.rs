//! The body of a fuzz target: any bytes, cut anywhere, and what must hold for the requests in them.
//!
//! It panics when the reading of HTTP breaks a promise, which no input may bring about. A fuzzer
//! calls it with bytes of its own; the tests call it with seeded mutations. It is not part of the
//! road.

use super::head::{BodyLength, Field, Head};
use super::limits::{Limits, Refusal};
use super::reader::{Next, PADDING, RequestReader};

/// One thing that a reader said of a stream.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Said {
    /// A request: its head as it was sent, what was read from it, and its body.
    Request(Vec<u8>, Head, Vec<u8>),
    /// Why there is no further one.
    Refused(Refusal),
}

/// Reads `stream` whole and again in pieces of the given `lengths` (the last one again and again;
/// one byte each where there are none), and returns what was said.
///
/// # Panics
///
/// When something that is promised does not hold.
pub fn stream(stream: &[u8], lengths: &[usize], limits: &Limits) -> Vec<Said> {
    let whole = read(stream, &[stream.len()], limits);
    assert_eq!(read(stream, lengths, limits), whole, "a stream reads otherwise where it is cut");
    whole
}

/// Reads `stream` in pieces and checks every word.
fn read(stream: &[u8], lengths: &[usize], limits: &Limits) -> Vec<Said> {
    let last = lengths.last().copied().unwrap_or(1);
    let mut lengths = lengths.iter().copied().chain(std::iter::repeat(last));
    let mut reader = RequestReader::new();
    let (mut said, mut rest) = (Vec::new(), stream);
    while !rest.is_empty() {
        let (arrival, later) = rest.split_at(lengths.next().unwrap_or(1).clamp(1, rest.len()));
        rest = later;
        read_arrival(&mut reader, arrival, limits, &mut said);
        let held_bytes_max = limits.head_bytes_max + limits.body_bytes_max;
        assert!(reader.held_bytes() <= held_bytes_max, "more is held than a request may have");
        assert!(reader.held_bytes() == 0 || reader.is_inside_request(), "an idle reader holds");
    }
    said
}

fn read_arrival(reader: &mut RequestReader, arrival: &[u8], limits: &Limits, said: &mut Vec<Said>) {
    let mut from = 0;
    loop {
        match reader.next(arrival, &mut from, limits, Vec::new) {
            Next::Announced => {
                let (head, bytes) = reader.announced();
                check(head, bytes, limits);
                assert_ne!(head.body, BodyLength::None, "nothing was to be waited for");
            }
            Next::Assembled => {
                let assembled = reader.take();
                let (head, bytes) = (assembled.head, assembled.bytes);
                assert!(bytes[assembled.body.end..].iter().eq(&[0; PADDING]), "padding is missing");
                assert!(!reader.is_inside_request(), "what was taken is still awaited");
                said.push(request(head, &bytes, &bytes[assembled.body], limits));
            }
            Next::Inside { head, start, body } => {
                said.push(request(head, &arrival[start..], &arrival[body], limits));
            }
            Next::NeedMore => break,
            Next::Refused(refusal) => {
                assert!(matches!(refusal.status.code(), 400..=599), "a refusal is an error");
                assert!(!said.iter().any(|said| matches!(said, Said::Refused(_))), "said twice");
                said.push(Said::Refused(refusal));
            }
        }
    }
    assert_eq!(from, arrival.len(), "an arrival was not used up");
}

fn request(head: Head, bytes: &[u8], body: &[u8], limits: &Limits) -> Said {
    check(&head, bytes, limits);
    match head.body {
        BodyLength::None => assert!(body.is_empty(), "a body came from nowhere"),
        BodyLength::Length(length) => assert_eq!(length, body.len() as u64, "a body was cut"),
        BodyLength::Chunked => {}
    }
    assert!(body.len() <= limits.body_bytes_max, "a body is too large");
    Said::Request(bytes[..head.bytes as usize].to_vec(), head, body.to_vec())
}

/// What holds for every head that is taken.
fn check(head: &Head, bytes: &[u8], limits: &Limits) {
    let lines = &bytes[..head.bytes as usize];
    assert!(lines.len() <= limits.head_bytes_max, "a head is too large");
    assert!(lines.ends_with(b"\r\n\r\n"), "a head has no end");
    let (feeds, ends) = (memchr::memchr_iter(b'\n', lines).count(), lines.windows(2));
    assert_eq!(ends.filter(|two| two == b"\r\n").count(), feeds, "a line feed stands alone");
    assert_eq!(memchr::memchr_iter(b'\r', lines).count(), feeds, "a return stands alone");
    assert_eq!(Head::parse(lines, limits).as_ref(), Ok(&Some(head.clone())), "read in two ways");
    assert!(matches!(head.path(bytes), [b'/', ..] | b"*"), "a target is no path");
    assert!(head.minor_version == 0 || head.field(bytes, Field::Host).is_some(), "no host");
    assert!(head.has_params || head.params(bytes).next().is_none(), "params were overlooked");
    for field in FIELDS {
        let value = head.field(bytes, field).unwrap_or_default();
        assert_eq!(value, value.trim_ascii(), "a value has white space around it");
    }
}

const FIELDS: [Field; 10] = [
    Field::AccessControlRequestHeaders,
    Field::AccessControlRequestMethod,
    Field::Authorization,
    Field::Host,
    Field::LastEventId,
    Field::McpMethod,
    Field::McpName,
    Field::McpProtocolVersion,
    Field::McpSessionId,
    Field::Origin,
];
