//! Tests of the HTTP checkers: each must reject what violates its rules.

use std::time::Duration;

use corelane_base::time::Instant;
use corelane_protocol::revision::Revision;
use serde_json::{Value, json};

use super::response_reader::{ResponsePart, ResponseReader, SseEvent};
use super::session_checker::{SessionChecker, StreamPosition};
use crate::http_simulation::catalog::{client_label, resource_uri};
use crate::http_simulation::client::http_requests;

const CLIENT: u32 = 3;

fn checker() -> SessionChecker {
    let mut checker =
        SessionChecker::new(CLIENT, "id".to_owned(), Revision::LATEST_LEGACY, Instant::ORIGIN);
    for id in [7, 8] {
        checker.record_request(id, Duration::from_millis(10), Instant::ORIGIN);
    }
    checker
}

fn event(id: (u32, u32), data: &Value) -> SseEvent {
    SseEvent { id: Some(id), data: Some(data.to_string()), ..SseEvent::default() }
}

fn progress(id: u64, progress: u64) -> Value {
    let params =
        json!({"progressToken": id, "progress": progress, "message": client_label(CLIENT)});
    json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
}

/// Checks the events of one response to request 7; requires all but the last to pass.
fn check_last_event(
    checker: &mut SessionChecker,
    carried: &mut StreamPosition,
    numbers: &[(u32, u32)],
) -> bool {
    let mut last = true;
    for number in numbers {
        assert!(last, "{numbers:?}");
        let received = event(*number, &json!({"number": number.1}));
        last = checker.check_event(carried, &received, Some(7)).is_ok();
    }
    last
}

#[test]
fn event_missing_repeated_or_misrouted_is_rejected() {
    for (numbers, is_fine) in [
        (vec![(1, 1), (1, 2), (1, 3)], true),
        (vec![(1, 2)], false),
        (vec![(1, 1), (1, 3)], false),
        (vec![(1, 1), (1, 1)], false),
        (vec![(1, 1), (2, 2)], false),
    ] {
        let result = check_last_event(&mut checker(), &mut StreamPosition::default(), &numbers);
        assert_eq!(result, is_fine, "{numbers:?}");
    }
}

#[test]
fn stream_resumed_at_wrong_event_is_rejected() {
    for (next, is_fine) in [(2, true), (3, false), (1, false)] {
        let mut checker = checker();
        assert!(check_last_event(&mut checker, &mut StreamPosition::default(), &[(1, 1)]));
        let mut carried = StreamPosition { stream: Some(1), last: Some(1) };
        assert_eq!(check_last_event(&mut checker, &mut carried, &[(1, next)]), is_fine, "{next}");
    }
}

#[test]
fn changed_event_or_shared_stream_is_rejected() {
    let mut checker = checker();
    let received = event((1, 1), &json!({"a": 1}));
    assert!(checker.check_event(&mut StreamPosition::default(), &received, Some(7)).is_ok());
    let again = StreamPosition { stream: Some(1), last: Some(0) };
    assert_eq!(
        checker.check_event(&mut { again }, &received, Some(7)),
        Ok(None),
        "received before"
    );
    let other = event((1, 1), &json!({"a": 2}));
    assert!(checker.check_event(&mut { again }, &other, Some(7)).is_err());
    assert!(checker.check_event(&mut { again }, &received, Some(8)).is_err());
}

#[test]
fn message_for_another_client_or_request_is_rejected() {
    let result = |id: u64, client| {
        let text = format!("{} completed 2 steps", client_label(client));
        json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"text": text}]}})
    };
    let updated = |client| {
        let params = json!({"uri": resource_uri(client)});
        json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params})
    };
    assert_eq!(checker().check_message(&result(7, CLIENT), Some(7)), Ok(true));
    assert_eq!(checker().check_message(&updated(CLIENT), None), Ok(false));
    assert_eq!(checker().check_message(&progress(7, 1), Some(7)), Ok(false));
    for (wrong, request) in [
        (result(7, CLIENT + 1), Some(7)),
        (result(8, CLIENT), Some(7)),
        (result(9, CLIENT), Some(9)),
        (updated(CLIENT + 1), None),
        (updated(10 * CLIENT), None),
        (progress(8, 1), Some(7)),
        (progress(7, 2), Some(7)),
        (progress(7, 1), None),
    ] {
        assert!(checker().check_message(&wrong, request).is_err(), "{wrong}");
    }
    let mut twice = checker();
    assert!(twice.check_message(&result(7, CLIENT), Some(7)).is_ok());
    assert!(twice.check_message(&result(7, CLIENT), Some(7)).is_err(), "a second response");
}

#[test]
fn session_or_stream_ending_early_is_rejected() {
    let (ttl, late) = (Some(Duration::from_millis(100)), Duration::from_millis(90));
    let soon = Instant::ORIGIN.after(Duration::from_millis(20));
    assert!(checker().record_not_found(soon, ttl).is_err());
    assert!(checker().record_not_found(Instant::ORIGIN.after(late), ttl).is_ok());
    assert!(checker().record_not_found(soon, None).is_ok(), "the session may have been evicted");
    let mut half_closed = checker();
    half_closed.is_stream_half_closed = true;
    assert!(half_closed.check_stream_open(soon).is_ok());
    assert!(half_closed.record_not_found(soon, ttl).is_ok(), "it ends with its one stream");
    assert!(half_closed.check_stream_open(soon).is_ok(), "the end may be on its way");
    assert!(half_closed.check_stream_open(Instant::ORIGIN.after(late)).is_err());
    let mut checker = checker();
    assert!(check_last_event(&mut checker, &mut StreamPosition::default(), &[(1, 1)]));
    assert!(checker.must_be_open(1, Instant::ORIGIN.after(Duration::from_millis(9))));
    assert!(!checker.must_be_open(1, soon));
    assert!(checker.must_be_kept(1, soon), "its response was not received");
    assert_eq!(checker.resumable_streams(), [(1, 1)]);
    let result = json!({"jsonrpc": "2.0", "id": 7, "result": {}});
    assert_eq!(checker.check_message(&result, Some(7)), Ok(true));
    assert!(!checker.must_be_kept(1, soon));
}

#[test]
fn malformed_http_response_is_rejected() {
    let read = |bytes: &[u8]| {
        let mut reader = ResponseReader::default();
        reader.feed(bytes);
        let mut pieces = Vec::new();
        while let Some(piece) = reader.next_part(false, false)? {
            pieces.push(piece);
        }
        Ok::<Vec<ResponsePart>, String>(pieces)
    };
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked";
    let whole = format!("{head}\r\n\r\n9\r\ndata: 1\n\n\r\n0\r\n\r\n");
    assert_eq!(read(whole.as_bytes()).map(|pieces| pieces.len()), Ok(3));
    for wrong in [
        "HTTP/1.1 200 OK\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n".to_owned(),
        "nonsense\r\n\r\n".to_owned(),
        format!("{head}\r\n\r\nHTTP/1.1 202 Accepted\r\n"),
        format!("{head}\r\n\r\n8\r\ndata: 1\n\n\r\n"),
        format!("{head}\r\n\r\n8\r\ndata: 1\n\r\n"),
        format!("{head}\r\n\r\na\r\nwords: 1\n\n\r\n"),
    ] {
        assert!(read(wrong.as_bytes()).is_err(), "{wrong}");
    }
}

#[test]
fn every_server_message_names_its_client() {
    let (ours, others) = (progress(1, 1), json!({"method": "notifications/message"}));
    assert!(
        http_requests::is_addressed_to(&ours, CLIENT)
            && !http_requests::is_addressed_to(&ours, CLIENT + 1)
    );
    assert!(!http_requests::is_addressed_to(&others, CLIENT));
}
