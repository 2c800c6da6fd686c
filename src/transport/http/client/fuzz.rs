//! Fuzz target body for HTTP responses and event streams: arbitrary bytes, split arbitrarily.
//!
//! Panics when an invariant of a reader is violated. Called by the fuzzer with its own input and by
//! the tests with seeded mutations.

use super::event_reader::EventReader;
use super::response_head::{ResponseError, ResponseHead, ResponseLimits};
use super::response_reader::{ResponseEvent, ResponseReader};

/// One result of reading a stream of responses.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ResponseOutcome {
    /// A response, with its body or the events of its body.
    Response(ResponseHead, Vec<u8>, Vec<EventOutcome>),
    /// The connection ended, and with it a response or not.
    End(Result<bool, ResponseError>),
    /// Why the stream was rejected.
    Rejected(ResponseError),
}

/// An event: its type, its id and its data.
pub type EventOutcome = (Vec<u8>, Option<Vec<u8>>, Vec<u8>);

/// Reads `stream` in single bytes and again in pieces of `length` bytes, and returns the results.
/// Pieces are not larger than a body may be: so much of an event stream is held at a time.
///
/// # Panics
///
/// If an invariant is violated.
pub fn check_stream(stream: &[u8], length: usize, limits: &ResponseLimits) -> Vec<ResponseOutcome> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::random::Random;

    const LIMITS: ResponseLimits = ResponseLimits { head_bytes_max: 200, body_bytes_max: 60 };
    const STREAM: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\
        Content-Length: 2\r\n\r\n{}HTTP/1.1 103 Early Hints\r\n\r\n\
        HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n\
        e\r\nid: 1\r\ndata: a\r\n2\r\n\n\n\r\n8\r\ndata: b\n\r\n1\r\n\n\r\n0\r\n\r\n\
        HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n";

    #[test]
    fn responses_of_every_kind_are_read() {
        for length in 1..STREAM.len() {
            let outcomes = check_stream(STREAM.as_bytes(), length, &LIMITS);
            let [
                ResponseOutcome::Response(_, json, _),
                ResponseOutcome::Response(_, _, events),
                ResponseOutcome::Response(accepted, ..),
                ResponseOutcome::End(Ok(false)),
            ] = &outcomes[..]
            else {
                panic!("{outcomes:?}")
            };
            assert_eq!((&json[..], events.len(), accepted.status), (&b"{}"[..], 2, 202));
        }
    }

    #[test]
    fn damaged_responses_do_not_depend_on_split() {
        let mut rejected = 0;
        for seed in 0..500 {
            let mut random = Random::seeded(seed);
            let mut stream = STREAM.as_bytes().to_vec();
            for _ in 0..=random.below(3) {
                let at = random.below(stream.len());
                match random.below(3) {
                    0 => stream[at] = b"\r\n: 0f\xFF"[random.below(7)],
                    1 => drop(stream.remove(at)),
                    _ => stream.truncate(at.max(1)),
                }
            }
            let outcomes = check_stream(&stream, 1 + random.below(40), &LIMITS);
            let is_rejected = matches!(outcomes.last(), Some(ResponseOutcome::Rejected(_)));
            rejected += usize::from(is_rejected);
        }
        assert!((50..500).contains(&rejected), "{rejected} streams were rejected");
    }
}
