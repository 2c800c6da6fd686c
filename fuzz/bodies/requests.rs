//! Fuzz target body for HTTP requests: arbitrary bytes, split arbitrarily.
//!
//! Panics when an invariant of the request reader is violated. Called by the fuzzer with its own
//! input and by the tests with seeded mutations.

use corelane_protocol::json::PADDING_BYTES;
use corelane_transport::http::head::{BodyLength, Field, Head, RequestError, RequestLimits};
use corelane_transport::http::reader::{RequestEvent, RequestReader};

/// One result of reading a stream.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum RequestOutcome {
    /// A request: its head as sent, as parsed, and its body.
    Request(Vec<u8>, Head, Vec<u8>),
    /// Why the stream was rejected, and the head that was.
    Rejected(RequestError, Vec<u8>),
}

/// Reads `stream` whole and again in pieces of the given `lengths` (repeating the last one; single
/// bytes if empty), and returns the results.
///
/// # Panics
///
/// If an invariant is violated.
pub(crate) fn check_stream(
    stream: &[u8],
    lengths: &[usize],
    limits: &RequestLimits,
) -> Vec<RequestOutcome> {
    let whole = read(stream, &[stream.len()], limits);
    assert_eq!(read(stream, lengths, limits), whole, "the result depends on the split");
    whole
}

/// Reads `stream` in pieces and checks every result.
fn read(stream: &[u8], lengths: &[usize], limits: &RequestLimits) -> Vec<RequestOutcome> {
    let last = lengths.last().copied().unwrap_or(1);
    let mut lengths = lengths.iter().copied().chain(std::iter::repeat(last));
    let mut reader = RequestReader::new();
    let (mut outcomes, mut rest) = (Vec::new(), stream);
    while !rest.is_empty() {
        let (arrival, later) = rest.split_at(lengths.next().unwrap_or(1).clamp(1, rest.len()));
        rest = later;
        read_arrival(&mut reader, arrival, limits, &mut outcomes);
        let held_bytes_max = limits.head_bytes_max + limits.body_bytes_max;
        assert!(reader.held_bytes() <= held_bytes_max, "more is held than the limits allow");
        assert!(
            reader.held_bytes() == 0 || reader.is_inside_request(),
            "an idle reader holds data"
        );
    }
    outcomes
}

fn read_arrival(
    reader: &mut RequestReader,
    arrival: &[u8],
    limits: &RequestLimits,
    outcomes: &mut Vec<RequestOutcome>,
) {
    let mut from = 0;
    loop {
        match reader.next(arrival, &mut from, limits, Vec::new) {
            RequestEvent::HeadComplete => {
                let (head, bytes) = reader.pending_head();
                check_head(head, bytes, limits);
                assert_ne!(head.body, BodyLength::None, "announced a request without a body");
            }
            RequestEvent::Assembled => {
                let assembled = reader.take();
                let (head, bytes) = (assembled.head, assembled.bytes);
                assert!(
                    bytes[assembled.body.end..].iter().eq(&[0; PADDING_BYTES]),
                    "padding is missing"
                );
                assert!(!reader.is_inside_request(), "a taken request is still pending");
                outcomes.push(request(head, &bytes, &bytes[assembled.body], limits));
            }
            RequestEvent::InPlace { head, start, body } => {
                outcomes.push(request(head, &arrival[start..], &arrival[body], limits));
            }
            RequestEvent::NeedMore => break,
            RequestEvent::Rejected(error) => {
                assert!(matches!(error.status.code(), 400..=599), "not an error status");
                let is_second =
                    outcomes.iter().any(|it| matches!(it, RequestOutcome::Rejected(_, _)));
                assert!(!is_second, "rejected twice");
                let head = reader.take_rejected_head();
                assert!(head.len() <= limits.head_bytes_max, "more is held than the limits allow");
                assert!(reader.take_rejected_head().is_empty(), "the head was taken twice");
                outcomes.push(RequestOutcome::Rejected(error, head));
            }
        }
    }
    assert_eq!(from, arrival.len(), "input was not consumed");
}

fn request(head: Head, bytes: &[u8], body: &[u8], limits: &RequestLimits) -> RequestOutcome {
    check_head(&head, bytes, limits);
    match head.body {
        BodyLength::None => assert!(body.is_empty(), "unexpected body"),
        BodyLength::Length(length) => assert_eq!(length, body.len() as u64, "wrong body length"),
        BodyLength::Chunked => {}
    }
    assert!(body.len() <= limits.body_bytes_max, "body over the limit");
    RequestOutcome::Request(bytes[..head.bytes as usize].to_vec(), head, body.to_vec())
}

/// Checks the invariants of an accepted head.
fn check_head(head: &Head, bytes: &[u8], limits: &RequestLimits) {
    let lines = &bytes[..head.bytes as usize];
    assert!(lines.len() <= limits.head_bytes_max, "head over the limit");
    assert!(lines.ends_with(b"\r\n\r\n"), "head without an end");
    let (feeds, ends) = (memchr::memchr_iter(b'\n', lines).count(), lines.windows(2));
    assert_eq!(ends.filter(|two| two == b"\r\n").count(), feeds, "LF without CR");
    assert_eq!(memchr::memchr_iter(b'\r', lines).count(), feeds, "CR without LF");
    assert_eq!(Head::parse(lines, limits).as_ref(), Ok(&Some(head.clone())), "ambiguous head");
    assert!(matches!(head.path(bytes), [b'/', ..] | b"*"), "target is not a path");
    assert!(head.minor_version == 0 || head.field(bytes, Field::Host).is_some(), "no host");
    assert!(
        head.has_param_headers || head.param_headers(bytes).next().is_none(),
        "missed a param header"
    );
    for field in FIELDS {
        let value = head.field(bytes, field).unwrap_or_default();
        assert_eq!(value, value.trim_ascii(), "value has surrounding white space");
    }
}

const FIELDS: [Field; 9] = [
    Field::Authorization,
    Field::Host,
    Field::LastEventId,
    Field::McpMethod,
    Field::McpName,
    Field::McpProtocolVersion,
    Field::McpSessionId,
    Field::Origin,
    Field::XRequestId,
];
