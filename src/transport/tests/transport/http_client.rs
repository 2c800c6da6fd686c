//! The client side of HTTP: responses and event streams, whole and in pieces.

use std::fmt::Write;
use std::time::Duration;

use corelane_transport::http::client::event_reader::EventReader;
use corelane_transport::http::client::response_head::{
    MediaType, ResponseError, ResponseHead, ResponseLimits, RetryAfter,
};
use corelane_transport::http::client::response_reader::{ResponseEvent, ResponseReader};
use proptest::prelude::*;

/// Splits `stream` into pieces of these lengths, and then of one byte.
fn pieces<'s>(stream: &'s [u8], lengths: &[usize]) -> Vec<&'s [u8]> {
    let (mut pieces, mut rest) = (Vec::new(), stream);
    let mut lengths = lengths.iter().copied().chain(std::iter::repeat(1));
    while !rest.is_empty() {
        let length = lengths.next().unwrap_or(1).clamp(1, rest.len());
        let (piece, later) = rest.split_at(length);
        pieces.push(piece);
        rest = later;
    }
    pieces
}

/// Reads responses up to the end of the connection: one line each, and one for an error.
fn read_responses(stream: &[u8], lengths: &[usize], limits: &ResponseLimits) -> Vec<String> {
    let (mut reader, mut body, mut outcomes) = (ResponseReader::new(), Vec::new(), Vec::new());
    let finished = |head: Option<&ResponseHead>, body: &mut Vec<u8>| {
        let head = head.expect("a head precedes the end of its body");
        let text = String::from_utf8_lossy(body).into_owned();
        body.clear();
        format!("{} {:?} {} '{text}'", head.status, head.media_type, head.keep_alive)
    };
    for piece in pieces(stream, lengths) {
        let mut from = 0;
        loop {
            match reader.next(piece, &mut from, limits, &mut body) {
                Ok(ResponseEvent::NeedMore) => break,
                Ok(ResponseEvent::HeadComplete) => {}
                Ok(ResponseEvent::Complete) => outcomes.push(finished(reader.head(), &mut body)),
                Err(error) => {
                    outcomes.push(format!("error: {error}"));
                    return outcomes;
                }
            }
        }
        assert_eq!(from, piece.len(), "input was not consumed");
    }
    match reader.end_of_stream() {
        Ok(true) => outcomes.push(finished(reader.head(), &mut body)),
        Ok(false) => {}
        Err(error) => outcomes.push(format!("error: {error}")),
    }
    outcomes
}

/// Reads events: one line each, and one for an error.
fn read_events(stream: &[u8], lengths: &[usize], event_bytes_max: usize) -> (Vec<String>, String) {
    let (mut reader, mut outcomes) = (EventReader::new(), Vec::new());
    for piece in pieces(stream, lengths) {
        let mut from = 0;
        loop {
            match reader.next(piece, &mut from, event_bytes_max) {
                Ok(false) => break,
                Ok(true) => {
                    let event = reader.event();
                    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                    let mut line = text(event.event_type);
                    if let Some(id) = event.id {
                        write!(line, " {}", text(id)).unwrap();
                    }
                    outcomes.push(format!("{line}: {}", text(event.data.as_bytes())));
                }
                Err(error) => {
                    outcomes.push(format!("error: {error}"));
                    return (outcomes, String::new());
                }
            }
        }
        assert_eq!(from, piece.len(), "input was not consumed");
    }
    (outcomes, String::from_utf8_lossy(reader.last_event_id()).into_owned())
}

fn expect_responses(stream: &str, expected: &[&str]) {
    let limits = ResponseLimits { head_bytes_max: 512, body_bytes_max: 64 };
    for lengths in [&[usize::MAX][..], &[]] {
        assert_eq!(read_responses(stream.as_bytes(), lengths, &limits), expected, "{stream}");
    }
}

#[test]
fn response_body_ends_as_its_head_states() {
    expect_responses(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json; a=b\r\nContent-Length: 2\r\n\r\n{}\
         HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n\
         HTTP/1.1 204 No Content\r\n\r\n\
         HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\n{\"\r\n2\r\n\"}\r\n\
         0\r\nTrailer: a\r\n\r\n\
         HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\n\r\nto the end",
        &[
            "200 Json true '{}'",
            "202 Missing true ''",
            "204 Missing true ''",
            "200 Missing true '{\"\"}'",
            "404 Other false 'to the end'",
        ],
    );
}

#[test]
fn interim_responses_are_skipped() {
    expect_responses(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n\
         HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n7",
        &["200 Missing true '7'"],
    );
    expect_responses(
        "HTTP/1.1 101 Switching Protocols\r\n\r\n",
        &["error: the server switches protocols"],
    );
}

#[test]
fn connection_persists_unless_head_denies() {
    for (head, expected) in [
        ("HTTP/1.1 200 OK\r\n", "true"),
        ("HTTP/1.1 200 OK\r\nConnection: x, Close\r\n", "false"),
        ("HTTP/1.0 200 OK\r\n", "false"),
        ("HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n", "true"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n", "false"),
    ] {
        let body = if head.contains("chunked") { "0\r\n\r\n" } else { "" };
        let outcome = format!("200 Missing {expected} ''");
        expect_responses(&format!("{head}Content-Length: 0\r\n\r\n{body}"), &[&outcome]);
    }
}

#[test]
fn invalid_response_is_an_error() {
    let large = format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", "a".repeat(600));
    let too_large = "error: the body of the response is too large";
    let truncated = "error: the connection ended inside the response";
    for (stream, expected) in [
        ("{\"jsonrpc\":\"2.0\"}\n\n", "error: the server does not speak HTTP/1.1"),
        ("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "error: Content-Length is invalid"),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "error: Content-Length is invalid",
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
            "error: Transfer-Encoding is not chunked",
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            "error: malformed chunked body",
        ),
        ("HTTP/1.1 200 OK\r\nMcp-Session-Id: \r\n\r\n", "error: Mcp-Session-Id is invalid"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 65\r\n\r\n", too_large),
        (&large, "error: the head of the response is too large"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort", truncated),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", truncated),
        ("HTTP/1.1 200", truncated),
    ] {
        expect_responses(stream, &[expected]);
    }
    let chunks = "40\r\n".to_owned() + &"a".repeat(64) + "\r\n1\r\na\r\n";
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned() + &chunks;
    expect_responses(&chunked, &[too_large]);
    expect_responses(&("HTTP/1.1 200 OK\r\n\r\n".to_owned() + &"a".repeat(65)), &[too_large]);
}

#[test]
fn fields_of_mcp_are_read() {
    let head = "HTTP/1.1 429 Too Many Requests\r\nmcp-session-id: a-1\r\nRetry-After: 120\r\n\
                Keep-Alive: max=100, timeout=5\r\n\
                Content-Type: Text/Event-Stream;charset=utf-8\r\n\r\n";
    let head = ResponseHead::parse(head.as_bytes()).unwrap();
    assert_eq!(head.session_id.as_deref(), Some("a-1"));
    assert_eq!(head.retry_after, Some(RetryAfter::Seconds(120)));
    assert_eq!(head.retry_delay(0), Some(Duration::from_mins(2)));
    assert_eq!(head.keep_alive_seconds, Some(5));
    assert_eq!(head.media_type, MediaType::EventStream);
    assert!(!head.is_event_stream());
    let error = ResponseHead::parse(b"HTTP/2 200\r\n\r\n").unwrap_err();
    assert!(matches!(error, ResponseError::Invalid(_)));
}

#[test]
fn retry_after_is_read_in_every_form() {
    let delay = |fields: &str| {
        let head = format!("HTTP/1.1 503 A\r\n{fields}\r\n");
        ResponseHead::parse(head.as_bytes()).unwrap().retry_delay(784_111_775_500)
    };
    for (value, milliseconds) in [
        ("0", Some(0)),
        ("7", Some(7_000)),
        ("Sun, 06 Nov 1994 08:49:37 GMT", Some(1_500)),
        ("Sunday, 06-Nov-94 08:49:37 GMT", Some(1_500)),
        ("Sun Nov  6 08:49:37 1994", Some(1_500)),
        ("Fri, 31 Dec 1993 23:59:59 GMT", Some(0)),
        ("soon", None),
        ("+7", None),
        ("", None),
    ] {
        let expected = milliseconds.map(Duration::from_millis);
        assert_eq!(delay(&format!("Retry-After: {value}\r\n")), expected, "{value}");
    }
    let endless = delay("Retry-After: 99999999999999999999\r\n");
    assert_eq!(endless, Some(Duration::from_secs(u64::MAX)));
    let fields = "Date: Sun, 06 Nov 1994 08:00:00 GMT\r\n\
                  Retry-After: Sun, 06 Nov 1994 08:00:09 GMT\r\n";
    assert_eq!(delay(fields), Some(Duration::from_secs(9)));
}

#[test]
fn events_are_read_with_every_line_end() {
    let lines = [
        "\u{feff}: comment",
        "",
        "id: 1",
        "data",
        "",
        "event: a",
        "data: b",
        "data:c",
        "id:2",
        "",
        "event: no data",
        "",
        "id: 3",
        "unknown: x",
        "data: {}",
        "retry: 250",
        "",
        "id: 4",
        "data: cut off",
    ];
    let expected = ["message 1: ", "a 2: b\nc", "message 3: {}"];
    for end in ["\n", "\r", "\r\n"] {
        let stream = lines.join(end) + end;
        for lengths in [&[usize::MAX][..], &[]] {
            let (events, last) = read_events(stream.as_bytes(), lengths, 64);
            assert_eq!(events, expected, "{end:?}");
            assert_eq!(last, "3");
        }
    }
}

#[test]
fn reconnection_time_is_in_milliseconds() {
    let mut reader = EventReader::new();
    let is_complete = reader.next(b"retry: 2500\nretry: 1s\nretry:\n\n", &mut 0, 64);
    assert_eq!(is_complete, Ok(false));
    assert_eq!(reader.reconnection_time(), Some(Duration::from_millis(2500)));
}

#[test]
fn event_without_data_moves_last_id() {
    let (events, last) = read_events(b"data: a\nid: 1\n\nid: 2\n\nid: a\0b\ndata\n\n", &[], 64);
    assert_eq!(events, ["message 1: a", "message: "]);
    assert_eq!(last, "2");
}

#[test]
fn oversized_event_is_an_error() {
    let (events, _) = read_events(b"data: a\n\ndata: 0123456789\n\n", &[4], 12);
    assert_eq!(events, ["message: a", "error: an event of the server is too large"]);
    let (events, _) = read_events(b"data: 0123\ndata: 0123\ndata: 0123\n\n", &[], 12);
    assert_eq!(events, ["error: an event of the server is too large"]);
}

proptest! {
    #[test]
    fn responses_do_not_depend_on_cuts(
        parts in prop::collection::vec(0..PARTS.len(), 1..6),
        lengths in prop::collection::vec(1_usize..40, 0..40),
    ) {
        let stream: String = parts.iter().map(|part| PARTS[*part]).collect();
        let limits = ResponseLimits { head_bytes_max: 128, body_bytes_max: 24 };
        let whole = read_responses(stream.as_bytes(), &[usize::MAX], &limits);
        prop_assert_eq!(read_responses(stream.as_bytes(), &lengths, &limits), whole);
    }

    #[test]
    fn events_do_not_depend_on_cuts(
        lines in prop::collection::vec(0..LINES.len(), 0..24),
        lengths in prop::collection::vec(1_usize..16, 0..40),
    ) {
        let stream: String = lines.iter().map(|line| LINES[*line]).collect();
        let whole = read_events(stream.as_bytes(), &[usize::MAX], 48);
        prop_assert_eq!(read_events(stream.as_bytes(), &lengths, 48), whole);
    }
}

/// Responses, complete and not.
const PARTS: [&str; 8] = [
    "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd",
    "HTTP/1.1 100 Continue\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n002\r\nbc\r\n0\r\n\r\n",
    "HTTP/1.1 204 No Content\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\n",
    "\r\n",
    "HTTP/1.1 200 OK\nContent-Length: 1\n\nx",
];

/// Lines of an event stream.
const LINES: [&str; 10] = [
    "\n",
    "\r\n",
    "\r",
    "data: a\n",
    "data: 0123456789\r\n",
    "id: 1\r",
    "event: x\n",
    ": c\r\n",
    "data\r",
    "retry: 1\n",
];
