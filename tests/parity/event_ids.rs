//! Event streams that continue after `Last-Event-ID`, as browsers reconnect.

use corelane_test_support::TestServer;
use serde_json::{Value, json};

use crate::client::{call, handshake, request, streamed};
use crate::http::{Event, Exchange, Session, on_shards};

const PATH: &str = "/parity/events?protocolVersion=1.0&capabilities=tools,streaming,resume";

/// Opens an event stream as a browser does: without a session, after this event.
fn connect(server: &TestServer, last_event: Option<&str>) -> (Exchange, Event) {
    let field = last_event.map(|id| format!("Last-Event-ID: {id}\r\n"));
    let mut events = Exchange::start(server, "GET", PATH, &field.unwrap_or_default(), "");
    assert_eq!(events.head.status, 200);
    let prelude = events.next_event().expect("a prelude");
    assert_eq!(prelude.name, "handshake");
    assert_eq!(events.head.field("Mcp-Session-Id"), prelude.data["sessionId"].as_str());
    (events, prelude)
}

/// Sends a request of a session, and returns the id of its stream.
fn open_stream(server: &TestServer, session: &str, request: Value) -> String {
    let field = format!("Mcp-Session-Id: {session}\r\n");
    let body = streamed(request).to_string();
    let response = Exchange::start(server, "POST", "/parity", &field, &body).json();
    response["result"]["streamId"].as_str().expect("a stream").to_owned()
}

fn ids(events: &mut Exchange, count: usize) -> Vec<String> {
    let events = (0..count).map(|_| {
        let event = events.next_event().expect("a chunk");
        let (stream, seq) = (&event.data["streamId"], &event.data["seq"]);
        let id = event.id.expect("an id");
        assert!(id.starts_with(&format!("{}:{seq}@", stream.as_str().expect("an id"))), "{id}");
        id
    });
    events.collect()
}

#[test]
fn browser_continues_after_its_last_event() {
    for shards in [1, 3] {
        let server = TestServer::with_test_tools(on_shards(shards));
        let (mut events, prelude) = connect(&server, None);
        let session = prelude.data["sessionId"].as_str().expect("a session").to_owned();
        assert_eq!(prelude.id, Some(format!("0@{session}")));
        let held = open_stream(&server, &session, call(1, "hold", json!({})));
        assert_eq!(server.next_signal(), "begun");
        let slow = call(2, "slow", json!({"steps": 4, "step_ms": 0}));
        let other = open_stream(&server, &session, slow);
        let sent = ids(&mut events, 7);
        // Two streams in one order; after each of their events, and before the first.
        for (received, last) in [(0, &format!("0@{session}"))].into_iter().chain((1..).zip(&sent)) {
            drop(events);
            let prelude;
            (events, prelude) = connect(&server, Some(last));
            assert_eq!(prelude.data["resumed"], true, "{prelude:?}");
            assert_eq!(prelude.data["sessionId"], session);
            // The client keeps the last id that it has received.
            assert_eq!(prelude.id.as_ref(), (received == 0).then_some(last));
            let next = |stream: &str| {
                let missing = sent[received..].iter().filter(|id| id.starts_with(stream)).count();
                let streams = prelude.data["streams"].as_array().expect("streams");
                let found = streams.iter().find(|it| it["streamId"] == stream);
                (found.expect("the stream")["nextSeq"].as_u64(), missing)
            };
            let (held_next, held_missing) = next(&held);
            assert_eq!(held_next, Some(2 - held_missing as u64));
            let (other_next, other_missing) = next(&other);
            assert_eq!(other_next, Some(7 - other_missing as u64));
            assert_eq!(ids(&mut events, sent.len() - received), sent[received..]);
        }
        server.open_gate();
        assert_eq!(ids(&mut events, 2), [2, 3].map(|seq| format!("{held}:{seq}@{session}")));
        drop(events);
        server.close();
    }
}

#[test]
fn unknown_event_gives_advice() {
    let server = TestServer::with_test_tools(on_shards(2));
    let (mut events, prelude) = connect(&server, None);
    let session = prelude.data["sessionId"].as_str().expect("a session").to_owned();
    let stream = open_stream(&server, &session, request(1, "ping"));
    ids(&mut events, 2);
    drop(events);
    let other = "01234567-89ab-4def-8123-456789abcdef";
    for (last, reason, is_known) in [
        (format!("s9:1@{session}"), "unknown_stream", true),
        (format!("{stream}:7@{session}"), "stale_window", true),
        (format!("7@{session}"), "unknown_stream", true),
        (format!("{stream}:1@{other}"), "expired", false),
        (format!("{stream}:1"), "expired", false),
        ("3-7".to_owned(), "expired", false),
    ] {
        let (_, prelude) = connect(&server, Some(&last));
        let data = &prelude.data;
        assert_eq!((&data["resumed"], &data["advice"]), (&json!(false), &json!("restart")));
        assert_eq!(data["reason"], reason, "{last}");
        assert_eq!(data["sessionId"] == session, is_known, "{last}");
    }
    server.close();
}

#[test]
fn session_of_header_continues_after_its_last_event() {
    let server = TestServer::with_test_tools(on_shards(2));
    let session = Session::begin(&server);
    let mut events = session.events();
    let (_, opened) = session.post(&streamed(request(1, "ping")));
    let stream = opened["result"]["streamId"].as_str().expect("a stream");
    assert_eq!(events.next_event().expect("a chunk").id, Some(format!("{stream}:1")));
    drop(events);
    let field = format!("Last-Event-ID: {stream}:1\r\n");
    let mut events = session.start("GET", "/parity/events", &field, "");
    assert_eq!(events.next_event().expect("a prelude").data["resumed"], true);
    let last = events.next_event().expect("a chunk");
    assert_eq!((last.id, &last.data["chunkType"]), (Some(format!("{stream}:2")), &json!("eos")));
    // Without the capability to resume nothing is kept.
    let mut offered = handshake();
    offered["capabilities"]["resume"] = json!(false);
    let session = Session::begin_with(&server, &offered);
    let mut events = session.start("GET", "/parity/events", "Last-Event-ID: s1:1\r\n", "");
    let prelude = events.next_event().expect("a prelude").data;
    assert_eq!(prelude["reason"], "feature_not_available", "{prelude}");
    server.close();
}
