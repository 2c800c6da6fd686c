//! Server-sent events: a client parses the events as written, each chunk being complete events.

use corelane_transport::http::sse::{self, EventId, StreamFraming};
use proptest::prelude::*;

use crate::client_parser::{ParsedStream, parse_chunks, parse_events};

const CHUNKED: StreamFraming = StreamFraming { is_chunked: true };
const PLAIN: StreamFraming = StreamFraming { is_chunked: false };

/// An item of an event stream.
#[derive(Clone, Debug)]
enum StreamItem {
    Comment,
    Endpoint,
    Event(Option<EventId>, String),
    Prime(EventId, Option<u32>),
    Retry(u32),
}

impl StreamItem {
    fn write(&self, out: &mut Vec<u8>, framing: StreamFraming) {
        match self {
            Self::Comment => sse::write_comment(out, framing),
            Self::Endpoint => sse::write_endpoint(out, framing, "/messages?session=1"),
            Self::Event(id, text) => sse::write_event(out, framing, *id, text.as_bytes()),
            Self::Prime(id, retry_ms) => sse::write_priming_event(out, framing, *id, *retry_ms),
            Self::Retry(retry_ms) => sse::write_reconnection_time(out, framing, *retry_ms),
        }
    }
}

/// Returns what a client has to parse.
fn expected_stream(items: &[StreamItem]) -> ParsedStream {
    let mut expected = ParsedStream::default();
    let mut last_id = String::new();
    for item in items {
        let (kind, data) = match item {
            StreamItem::Comment => {
                expected.comments += 1;
                continue;
            }
            StreamItem::Retry(retry_ms) => {
                expected.retry_ms = Some((*retry_ms).into());
                continue;
            }
            StreamItem::Endpoint => ("endpoint", "/messages?session=1"),
            StreamItem::Event(id, text) => {
                last_id = id.map_or(last_id, |id| id.to_string());
                ("message", text.as_str())
            }
            StreamItem::Prime(id, retry_ms) => {
                last_id = id.to_string();
                expected.retry_ms = retry_ms.map(u64::from).or(expected.retry_ms);
                ("", "")
            }
        };
        expected.events.push((kind.to_owned(), data.to_owned(), last_id.clone()));
    }
    expected
}

/// Writes `items` to a chunked and a plain stream and parses them; both must be equal.
fn parse_items(items: &[StreamItem]) -> ParsedStream {
    let (mut chunked, mut plain) = (Vec::new(), Vec::new());
    for item in items {
        item.write(&mut chunked, CHUNKED);
        item.write(&mut plain, PLAIN);
    }
    sse::end_stream(&mut chunked, CHUNKED);
    sse::end_stream(&mut plain, PLAIN);
    let (chunks, used) = parse_chunks(&chunked);
    assert_eq!(used, chunked.len());
    assert_eq!(chunks.len(), items.len(), "one chunk per item");
    for chunk in &chunks {
        parse_events(chunk);
    }
    assert_eq!(chunks.concat(), plain);
    parse_events(&plain)
}

#[test]
fn sse_message_has_id_and_type() {
    let id = EventId { stream: 3, number: 17 };
    let parsed = parse_items(&[StreamItem::Event(Some(id), "{\"jsonrpc\":\"2.0\"}".to_owned())]);
    let expected = ("message".to_owned(), "{\"jsonrpc\":\"2.0\"}".to_owned(), "3-17".to_owned());
    assert_eq!(parsed.events, [expected]);
}

#[test]
fn modern_sse_message_has_no_id() {
    let mut out = Vec::new();
    sse::write_event(&mut out, PLAIN, None, b"{}");
    assert_eq!(out, b"event: message\ndata: {}\n\n");
}

#[test]
fn sse_message_can_be_appended_in_pieces() {
    let (mut pieces, mut whole) = (b"before".to_vec(), b"before".to_vec());
    let mark = sse::begin_event(&mut pieces, CHUNKED, None);
    for piece in ["{\"a\"", ":", "1}"] {
        pieces.extend_from_slice(piece.as_bytes());
    }
    sse::end_event(&mut pieces, mark);
    sse::write_event(&mut whole, CHUNKED, None, b"{\"a\":1}");
    assert_eq!(pieces, whole);
}

#[test]
fn priming_event_sets_last_event_id() {
    let id = EventId { stream: 1, number: 0 };
    let parsed = parse_items(&[StreamItem::Prime(id, Some(500))]);
    assert_eq!(parsed.events, [(String::new(), String::new(), "1-0".to_owned())]);
    assert_eq!(parsed.retry_ms, Some(500));
    assert_eq!(parse_items(&[StreamItem::Prime(id, None)]).retry_ms, None);
}

#[test]
fn comment_and_retry_are_not_events() {
    let parsed = parse_items(&[StreamItem::Comment, StreamItem::Retry(3_000), StreamItem::Comment]);
    assert_eq!(parsed, ParsedStream { events: Vec::new(), retry_ms: Some(3_000), comments: 2 });
}

#[test]
fn legacy_sse_begins_with_endpoint_event() {
    let mut out = Vec::new();
    sse::write_endpoint(&mut out, PLAIN, "/messages?session=0b0e\n\nevent: message");
    assert_eq!(out, b"event: endpoint\ndata: /messages?session=0b0e  event: message\n\n");
}

#[test]
fn chunk_size_equals_its_content() {
    for bytes in [0, 1, 15, 16, 255, 256, 4_095, 65_535, 65_536, 1_048_576] {
        let text = "9".repeat(bytes);
        let parsed = parse_items(&[StreamItem::Event(None, text.clone()), StreamItem::Comment]);
        assert_eq!(parsed.events[0].1, text);
        assert_eq!(parsed.comments, 1);
    }
}

#[test]
fn only_chunked_stream_has_last_chunk() {
    let (mut chunked, mut plain) = (Vec::new(), Vec::new());
    sse::end_stream(&mut chunked, CHUNKED);
    sse::end_stream(&mut plain, PLAIN);
    assert_eq!((chunked.as_slice(), plain.as_slice()), (&b"0\r\n\r\n"[..], &b""[..]));
}

fn ids() -> impl Strategy<Value = EventId> {
    any::<(u32, u32)>().prop_map(|(stream, number)| EventId { stream, number })
}

fn stream_items() -> impl Strategy<Value = StreamItem> {
    let text = "[^\r\n\\x00-\\x1f]{0,80}";
    prop_oneof![
        1 => Just(StreamItem::Comment),
        1 => Just(StreamItem::Endpoint),
        4 => (prop::option::of(ids()), text).prop_map(|(id, text)| StreamItem::Event(id, text)),
        1 => (ids(), any::<Option<u32>>()).prop_map(|(id, retry)| StreamItem::Prime(id, retry)),
        1 => any::<u32>().prop_map(StreamItem::Retry),
    ]
}

proptest! {
    #[test]
    fn client_parses_all_items_in_order(
        items in prop::collection::vec(stream_items(), 0..40),
    ) {
        prop_assert_eq!(parse_items(&items), expected_stream(&items));
    }

    #[test]
    fn event_id_is_parsed_back(id in ids()) {
        prop_assert_eq!(EventId::parse(id.to_string().as_bytes()), Some(id));
    }

    #[test]
    fn parsed_event_id_is_canonical(text in "[0-9 +-]{0,24}") {
        if let Some(id) = EventId::parse(text.as_bytes()) {
            prop_assert_eq!(id.to_string(), text);
        }
    }
}
