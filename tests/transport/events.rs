//! Server-sent events: a client hears what was said, in chunks that are whole events.

use corelane::transport::http::sse::{self, EventId, Framing};
use proptest::prelude::*;

use crate::wire::{Heard, read_chunks, read_events};

const CHUNKED: Framing = Framing { is_chunked: true };
const PLAIN: Framing = Framing { is_chunked: false };

/// What may be said on a stream.
#[derive(Clone, Debug)]
enum Said {
    Comment,
    Endpoint,
    Event(Option<EventId>, String),
    Prime(EventId, Option<u32>),
    Retry(u32),
}

impl Said {
    fn write(&self, out: &mut Vec<u8>, framing: Framing) {
        match self {
            Self::Comment => sse::comment(out, framing),
            Self::Endpoint => sse::endpoint(out, framing, "/messages?session=1"),
            Self::Event(id, text) => sse::event(out, framing, *id, text.as_bytes()),
            Self::Prime(id, retry_ms) => sse::prime(out, framing, *id, *retry_ms),
            Self::Retry(retry_ms) => sse::retry(out, framing, *retry_ms),
        }
    }
}

/// What a client is to hear.
fn model(said: &[Said]) -> Heard {
    let mut heard = Heard::default();
    let mut last = String::new();
    for said in said {
        let (kind, data) = match said {
            Said::Comment => {
                heard.comments += 1;
                continue;
            }
            Said::Retry(retry_ms) => {
                heard.retry_ms = Some((*retry_ms).into());
                continue;
            }
            Said::Endpoint => ("endpoint", "/messages?session=1"),
            Said::Event(id, text) => {
                last = id.map_or(last, |id| id.to_string());
                ("message", text.as_str())
            }
            Said::Prime(id, retry_ms) => {
                last = id.to_string();
                heard.retry_ms = retry_ms.map(u64::from).or(heard.retry_ms);
                ("", "")
            }
        };
        heard.events.push((kind.to_owned(), data.to_owned(), last.clone()));
    }
    heard
}

/// `said` on a stream with chunks and on one without; both are heard the same.
fn hear(said: &[Said]) -> Heard {
    let (mut chunked, mut plain) = (Vec::new(), Vec::new());
    for said in said {
        said.write(&mut chunked, CHUNKED);
        said.write(&mut plain, PLAIN);
    }
    sse::end_stream(&mut chunked, CHUNKED);
    sse::end_stream(&mut plain, PLAIN);
    let (chunks, used) = read_chunks(&chunked);
    assert_eq!(used, chunked.len());
    assert_eq!(chunks.len(), said.len(), "a chunk for each");
    for chunk in &chunks {
        read_events(chunk);
    }
    assert_eq!(chunks.concat(), plain);
    read_events(&plain)
}

#[test]
fn a_message_is_heard_with_its_id_and_its_type() {
    let id = EventId { stream: 3, number: 17 };
    let heard = hear(&[Said::Event(Some(id), "{\"jsonrpc\":\"2.0\"}".to_owned())]);
    let expected = ("message".to_owned(), "{\"jsonrpc\":\"2.0\"}".to_owned(), "3-17".to_owned());
    assert_eq!(heard.events, [expected]);
}

#[test]
fn a_message_of_the_modern_era_has_no_id() {
    let mut out = Vec::new();
    sse::event(&mut out, PLAIN, None, b"{}");
    assert_eq!(out, b"event: message\ndata: {}\n\n");
}

#[test]
fn a_message_may_be_appended_piece_by_piece() {
    let (mut pieces, mut whole) = (b"before".to_vec(), b"before".to_vec());
    let mark = sse::begin_event(&mut pieces, CHUNKED, None);
    for piece in ["{\"a\"", ":", "1}"] {
        pieces.extend_from_slice(piece.as_bytes());
    }
    sse::end_event(&mut pieces, mark);
    sse::event(&mut whole, CHUNKED, None, b"{\"a\":1}");
    assert_eq!(pieces, whole);
}

#[test]
fn a_primed_stream_gives_an_id_before_it_says_anything() {
    let id = EventId { stream: 1, number: 0 };
    let heard = hear(&[Said::Prime(id, Some(500))]);
    assert_eq!(heard.events, [(String::new(), String::new(), "1-0".to_owned())]);
    assert_eq!(heard.retry_ms, Some(500));
    assert_eq!(hear(&[Said::Prime(id, None)]).retry_ms, None);
}

#[test]
fn a_comment_and_a_time_to_come_back_are_no_events() {
    let heard = hear(&[Said::Comment, Said::Retry(3_000), Said::Comment]);
    assert_eq!(heard, Heard { events: Vec::new(), retry_ms: Some(3_000), comments: 2 });
}

#[test]
fn the_old_pair_of_endpoints_begins_with_where_to_post() {
    let mut out = Vec::new();
    sse::endpoint(&mut out, PLAIN, "/messages?session=0b0e\n\nevent: message");
    assert_eq!(out, b"event: endpoint\ndata: /messages?session=0b0e  event: message\n\n");
}

#[test]
fn a_chunk_tells_its_size_whatever_it_is() {
    for bytes in [0, 1, 15, 16, 255, 256, 4_095, 65_535, 65_536, 1_048_576] {
        let text = "9".repeat(bytes);
        let heard = hear(&[Said::Event(None, text.clone()), Said::Comment]);
        assert_eq!(heard.events[0].1, text);
        assert_eq!(heard.comments, 1);
    }
}

#[test]
fn only_a_chunked_stream_has_a_last_chunk() {
    let (mut chunked, mut plain) = (Vec::new(), Vec::new());
    sse::end_stream(&mut chunked, CHUNKED);
    sse::end_stream(&mut plain, PLAIN);
    assert_eq!((chunked.as_slice(), plain.as_slice()), (&b"0\r\n\r\n"[..], &b""[..]));
}

fn ids() -> impl Strategy<Value = EventId> {
    any::<(u32, u32)>().prop_map(|(stream, number)| EventId { stream, number })
}

fn things_said() -> impl Strategy<Value = Said> {
    let text = "[^\r\n\\x00-\\x1f]{0,80}";
    prop_oneof![
        1 => Just(Said::Comment),
        1 => Just(Said::Endpoint),
        4 => (prop::option::of(ids()), text).prop_map(|(id, text)| Said::Event(id, text)),
        1 => (ids(), any::<Option<u32>>()).prop_map(|(id, retry)| Said::Prime(id, retry)),
        1 => any::<u32>().prop_map(Said::Retry),
    ]
}

proptest! {
    #[test]
    fn a_client_hears_everything_that_was_said_in_order(
        said in prop::collection::vec(things_said(), 0..40),
    ) {
        prop_assert_eq!(hear(&said), model(&said));
    }

    #[test]
    fn an_id_reads_back_as_itself(id in ids()) {
        prop_assert_eq!(EventId::parse(id.to_string().as_bytes()), Some(id));
    }

    #[test]
    fn what_reads_as_an_id_was_written_by_us(text in "[0-9 +-]{0,24}") {
        if let Some(id) = EventId::parse(text.as_bytes()) {
            prop_assert_eq!(id.to_string(), text);
        }
    }
}
