//! Fuzz target body for HTTP responses and event streams: arbitrary bytes, split arbitrarily.
//!
//! Panics when an invariant of a reader is violated. Called by the fuzzer with its own input and by
//! the tests with seeded mutations.

use corelane_transport::http::client::event_reader::EventReader;
use corelane_transport::http::client::response_head::{
    ResponseError, ResponseHead, ResponseLimits,
};
use corelane_transport::http::client::response_reader::{ResponseEvent, ResponseReader};

/// One result of reading a stream of responses.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum ResponseOutcome {
    /// A response, with its body or the events of its body.
    Response(ResponseHead, Vec<u8>, Vec<EventOutcome>),
    /// The connection ended, and with it a response or not.
    End(Result<bool, ResponseError>),
    /// Why the stream was rejected.
    Rejected(ResponseError),
}

/// An event: its type, its id and its data.
pub(crate) type EventOutcome = (Vec<u8>, Option<Vec<u8>>, Vec<u8>);

/// Reads `stream` in single bytes and again in pieces of `length` bytes, and returns the results.
/// Pieces are not larger than a body may be: so much of an event stream is held at a time.
///
/// # Panics
///
/// If an invariant is violated.
pub(crate) fn check_stream(
    stream: &[u8],
    length: usize,
    limits: &ResponseLimits,
) -> Vec<ResponseOutcome> {
    let outcomes = read(stream, 1, limits);
    let length = length.min(limits.body_bytes_max);
    assert_eq!(read(stream, length, limits), outcomes, "the result depends on the split");
    outcomes
}

/// Reads `stream` in pieces, and events as a connection of the client does.
fn read(stream: &[u8], length: usize, limits: &ResponseLimits) -> Vec<ResponseOutcome> {
    let (mut reader, mut events) = (ResponseReader::new(), EventReader::new());
    let (mut body, mut found, mut outcomes) = (Vec::new(), Vec::new(), Vec::new());
    for arrival in stream.chunks(length.max(1)) {
        let mut from = 0;
        loop {
            let before = from;
            let event = reader.next(arrival, &mut from, limits, &mut body);
            assert!(from >= before && from <= arrival.len(), "bytes are read twice");
            let event = match event {
                Ok(event) => event,
                Err(error) => {
                    outcomes.push(ResponseOutcome::Rejected(error));
                    return outcomes;
                }
            };
            let head = reader.head();
            if event != ResponseEvent::HeadComplete
                && head.is_some_and(ResponseHead::is_event_stream)
            {
                if let Err(error) = read_events(&mut events, &body, limits, &mut found) {
                    outcomes.push(ResponseOutcome::Rejected(error));
                    return outcomes;
                }
                body.clear();
            }
            assert!(body.len() <= limits.body_bytes_max, "more is held than the limit allows");
            match event {
                ResponseEvent::NeedMore => {
                    assert_eq!(from, arrival.len(), "input was not consumed");
                    break;
                }
                ResponseEvent::HeadComplete => assert!(reader.head().is_some(), "no head"),
                ResponseEvent::Complete => {
                    let head = reader.head().expect("a complete response has a head").clone();
                    let (body, found) = (std::mem::take(&mut body), std::mem::take(&mut found));
                    outcomes.push(ResponseOutcome::Response(head, body, found));
                    events = EventReader::new();
                }
            }
        }
    }
    outcomes.push(ResponseOutcome::End(reader.end_of_stream()));
    outcomes
}

fn read_events(
    events: &mut EventReader,
    body: &[u8],
    limits: &ResponseLimits,
    found: &mut Vec<EventOutcome>,
) -> Result<(), ResponseError> {
    let mut from = 0;
    while events.next(body, &mut from, limits.body_bytes_max)? {
        let event = events.event();
        let data = event.data.as_bytes().to_vec();
        assert!(data.len() <= limits.body_bytes_max, "an event over the limit");
        found.push((event.event_type.to_vec(), event.id.map(<[u8]>::to_vec), data));
    }
    assert_eq!(from, body.len(), "input was not consumed");
    Ok(())
}
