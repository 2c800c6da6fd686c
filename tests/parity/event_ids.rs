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

/// Opens a stream on the response to its request, and returns it with its id.
fn post_stream(session: &Session<'_>, request: Value) -> (Exchange, String) {
    let (accept, body) = ("Accept: text/event-stream\r\n", streamed(request).to_string());
    let mut response = session.start("POST", "/parity", accept, &body);
    let opened = response.next_event().expect("a response");
    let stream = opened.data["result"]["streamId"].as_str().expect("a stream").to_owned();
    assert_eq!((&*opened.name, opened.id), ("response", Some(format!("{stream}:0"))));
    (response, stream)
}

/// Attaches the event stream of a session after an event, and returns the next number of each of
/// these streams.
fn continue_after(session: &Session<'_>, last: &str, streams: &[&str]) -> (Exchange, Vec<u64>) {
    let field = format!("Last-Event-ID: {last}\r\n");
    let mut events = session.start("GET", "/parity/events", &field, "");
    let ack = events.next_event().expect("a prelude").data;
    assert_eq!((&ack["resumed"], &ack["sessionId"]), (&json!(true), &json!(session.id)), "{last}");
    let continued = ack["streams"].as_array().expect("streams");
    let next = streams.iter().map(|stream| {
        let found = continued.iter().find(|it| it["streamId"] == **stream);
        found.expect("the stream")["nextSeq"].as_u64().expect("a number")
    });
    let next = next.collect();
    (events, next)
}

/// Reads chunks, and checks their ids and those of their events.
fn expect_chunks(events: &mut Exchange, stream: &str, numbers: impl IntoIterator<Item = u64>) {
    for seq in numbers {
        let chunk = events.next_event().expect("a chunk");
        assert_eq!((&chunk.data["streamId"], &chunk.data["seq"]), (&json!(stream), &json!(seq)));
        assert_eq!(chunk.id, Some(format!("{stream}:{seq}")));
    }
}

#[test]
fn lost_post_stream_continues_as_events() {
    for shards in [1, 3] {
        let server = TestServer::with_test_tools(on_shards(shards));
        let session = Session::begin(&server);
        for received in 0..=6 {
            // Its end is sent before the client is back.
            let slow = call(received, "slow", json!({"steps": 4, "step_ms": 0}));
            let (mut response, stream) = post_stream(&session, slow);
            expect_chunks(&mut response, &stream, 1..=received);
            drop(response);
            let last = format!("{stream}:{received}");
            // The first event stream is lost, too.
            for _ in 0..2 {
                let (mut events, next) = continue_after(&session, &last, &[&stream]);
                assert_eq!(next, [received + 1]);
                expect_chunks(&mut events, &stream, received + 1..=6);
            }
            // From now on these are events of the event stream.
            let (mut events, next) = continue_after(&session, &format!("{stream}:5"), &[&stream]);
            assert_eq!(next, [6]);
            expect_chunks(&mut events, &stream, [6]);
        }
        server.close();
    }
}

#[test]
fn open_post_stream_moves_to_events() {
    for shards in [1, 3] {
        let server = TestServer::with_test_tools(on_shards(shards));
        let session = Session::begin(&server);
        let mut events = session.events();
        let (_, opened) = session.post(&streamed(call(1, "hold", json!({}))));
        let other = opened["result"]["streamId"].as_str().expect("a stream").to_owned();
        expect_chunks(&mut events, &other, [1]);
        let (mut kept, kept_stream) = post_stream(&session, call(2, "hold", json!({})));
        expect_chunks(&mut kept, &kept_stream, [1]);
        let (mut response, stream) = post_stream(&session, call(3, "hold", json!({})));
        expect_chunks(&mut response, &stream, [1]);
        let last = format!("{stream}:1");
        let (mut continued, next) = continue_after(&session, &last, &[&stream, &other]);
        assert_eq!(next, [2, 2]);
        assert!(response.next_event().is_none() && events.next_event().is_none());
        server.open_gate();
        // Each chunk once, in the order of its stream; the other response has its own.
        expect_chunks(&mut kept, &kept_stream, [2, 3]);
        assert!(kept.next_event().is_none());
        let mut ids = ids_of(&mut continued, 4);
        ids.sort();
        let mut expected = [&other, &stream].map(|it| [2, 3].map(|seq| format!("{it}:{seq}")));
        expected.sort();
        assert_eq!(ids, expected.concat());
        server.close();
    }
}

fn ids_of(events: &mut Exchange, count: usize) -> Vec<String> {
    let events = (0..count).map(|_| events.next_event().expect("a chunk"));
    let ids: Vec<(String, u64)> = events
        .map(|event| {
            let seq = event.data["seq"].as_u64().expect("a number");
            (event.id.expect("an id"), seq)
        })
        .collect();
    // In order within each stream.
    for (id, seq) in &ids {
        let stream = id.split(':').next();
        let before = ids.iter().take_while(|(known, _)| known != id);
        let of_stream = before.filter(|(known, _)| known.split(':').next() == stream);
        assert!(of_stream.clone().all(|(_, known)| known < seq), "{ids:?}");
    }
    ids.into_iter().map(|(id, _)| id).collect()
}

#[test]
fn chunks_after_loss_of_post_stream_are_ordered() {
    for (shards, is_attached) in [(1, false), (1, true), (3, false), (3, true)] {
        let server = TestServer::with_test_tools(on_shards(shards));
        let session = Session::begin(&server);
        let mut events = is_attached.then(|| session.events());
        let (mut response, stream) = post_stream(&session, call(1, "hold", json!({})));
        expect_chunks(&mut response, &stream, [1]);
        assert_eq!(server.next_signal(), "begun");
        drop(response);
        server.wait_for_connections(is_attached.into());
        server.open_gate();
        // With an event stream they come there; its client may lack what was lost before.
        if let Some(events) = &mut events {
            expect_chunks(events, &stream, [2, 3]);
        }
        let (mut continued, next) = continue_after(&session, &format!("{stream}:0"), &[&stream]);
        assert_eq!(next, [1]);
        expect_chunks(&mut continued, &stream, 1..=3);
        server.close();
    }
}

#[test]
fn post_stream_out_of_window_gives_advice() {
    let mut options = on_shards(2);
    options.parity.resume_window_chunks = 2;
    let server = TestServer::with_test_tools(options);
    let session = Session::begin(&server);
    let (mut response, stream) =
        post_stream(&session, call(1, "slow", json!({"steps": 4, "step_ms": 0})));
    expect_chunks(&mut response, &stream, 1..=2);
    drop(response);
    let reason = |last: u64| {
        let field = format!("Last-Event-ID: {stream}:{last}\r\n");
        let mut events = session.start("GET", "/parity/events", &field, "");
        let ack = events.next_event().expect("a prelude").data;
        (ack["resumed"].clone(), ack["advice"].clone(), ack["reason"].clone())
    };
    let advice = (json!(false), json!("restart"), json!("stale_window"));
    assert_eq!([reason(2), reason(3), reason(7)], [advice.clone(), advice.clone(), advice]);
    let (mut events, next) = continue_after(&session, &format!("{stream}:4"), &[&stream]);
    assert_eq!(next, [5]);
    expect_chunks(&mut events, &stream, [5, 6]);
    server.close();
}
