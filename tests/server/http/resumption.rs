//! Resumption of broken streams by `Last-Event-ID`, and the bounds of what a server replays.

use std::collections::HashSet;
use std::iter;
use std::time::Duration;

use corelane_test_support::messages::{
    LEGACY, SESSION_REVISIONS, call, result_text, with_progress,
};
use corelane_test_support::{HttpClient, TestServer, on_one_shard_and_two};
use serde_json::{Value, json};

use crate::http::http_session::HttpSession;

/// Calls `hold` and waits for its progress. Returns the connection, the id before that of the
/// progress, and that of the progress.
fn begin_call(server: &TestServer, session: &HttpSession, id: &str) -> (HttpClient, [String; 2]) {
    let mut client = session.connect();
    client.request_stream(&session.post(&with_progress(call(id, "hold", json!({})))));
    assert_eq!(server.next_signal(), "begun");
    let first = session.has_priming_events().then(|| client.read_priming_event());
    let (second, notification) = client.read_message();
    assert_eq!(notification["method"], "notifications/progress", "{notification}");
    let second = second.expect("no event id");
    let first = first.unwrap_or_else(|| second.replace("-1", "-0"));
    (client, [first, second])
}

/// Closes a connection and waits until the server has noticed.
fn disconnect(server: &TestServer, client: HttpClient) {
    drop(client);
    server.wait_for_connections(0);
}

#[test]
fn resumed_stream_replays_only_missed_events() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        for revision in SESSION_REVISIONS {
            let session = HttpSession::initialize(server.address(), revision);
            let (client, [first, second]) = begin_call(&server, &session, "a");
            disconnect(&server, client);
            // Before the response: progress is replayed after the first event.
            let mut client = session.connect();
            client.request_stream(&session.resume(&first));
            assert_eq!(client.read_message().0.as_ref(), Some(&second));
            disconnect(&server, client);
            server.open_gate();
            let mut client = session.connect();
            client.request_stream(&session.resume(&second));
            let (third, response) = client.read_message();
            assert_eq!(result_text(&response), "held");
            client.expect_end_of_stream();
            client.expect_alive();
            let end = if session.has_priming_events() { "-3" } else { "-2" };
            assert_eq!(third.map(|id| id.ends_with(end)), Some(true));
            session.connect().exchange(&session.delete()).expect_empty_body(204);
            drop(client);
            server.wait_for_connections(0);
            server.close_gate();
        }
        server.close();
    });
}

#[test]
fn response_while_disconnected_is_replayed() {
    on_one_shard_and_two(|mut options| {
        options.limits.requests_in_flight_max = 1;
        let server = TestServer::with_test_tools(options);
        let session = HttpSession::initialize(server.address(), LEGACY);
        let (client, [_, second]) = begin_call(&server, &session, "a");
        disconnect(&server, client);
        server.open_gate();
        session.wait_until_idle();
        let mut client = session.connect();
        client.request_stream(&session.resume(&second));
        assert_eq!(result_text(&client.read_message().1), "held");
        client.expect_end_of_stream();
        drop(client);
        server.close();
    });
}

#[test]
fn resumption_ends_stream_of_previous_connection() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let session = HttpSession::initialize(server.address(), LEGACY);
        for round in 0..8 {
            let id = format!("round {round}");
            let (mut first, [_, second]) = begin_call(&server, &session, &id);
            let mut other = session.connect();
            other.request_stream(&session.resume(&second));
            first.expect_end_of_stream();
            first.expect_alive();
            server.open_gate();
            assert_eq!(result_text(&other.read_message().1), "held");
            other.expect_end_of_stream();
            server.close_gate();
        }
        server.close();
    });
}

#[test]
fn last_event_id_of_another_session_gets_400() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let session = HttpSession::initialize(server.address(), LEGACY);
        let (mut client, events) = begin_call(&server, &session, "a");
        for _ in 0..8 {
            let foreign = HttpSession::initialize(server.address(), LEGACY);
            let mut thief = foreign.connect();
            for event in &events {
                thief.exchange(&foreign.resume(event)).expect_error(400, -32600, None);
            }
            thief.expect_alive();
        }
        server.open_gate();
        assert_eq!(result_text(&client.read_message().1), "held");
        client.expect_end_of_stream();
        drop(client);
        server.close();
    });
}

#[test]
fn invalid_last_event_id_gets_400() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let session = HttpSession::initialize(server.address(), LEGACY);
        let (client, [_, second]) = begin_call(&server, &session, "a");
        let stream = second.split('-').next().expect("no stream id");
        let mut other = session.connect();
        for event in [
            "",
            "-",
            "x",
            "1",
            "1-",
            "-1",
            "0-1",
            "9-1",
            "1-x",
            "01-1",
            "1-01",
            "+1-1",
            "1-1-1",
            "4294967296-1",
            "1-4294967296",
            "18446744073709551617-1",
            "1 -1",
            "\u{661}-1",
        ] {
            other.exchange(&session.resume(event)).expect_error(400, -32600, None);
        }
        for number in ["3", "4294967295"] {
            let event = format!("{stream}-{number}");
            other.exchange(&session.resume(&event)).expect_error(400, -32600, None);
        }
        other.expect_alive();
        drop((client, other));
        server.open_gate();
        server.close();
    });
}

#[test]
fn get_stream_replays_unsent_events_by_default() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let session = HttpSession::initialize(server.address(), LEGACY);
        let mut listener = session.open_stream();
        server.add_tool("first");
        let first = listener.read_message().0.expect("no event id");
        disconnect(&server, listener);
        server.add_tool("second");
        let mut listener = session.connect();
        listener.request_stream(&session.resume(&first));
        let second = listener.read_message().0.expect("no event id");
        disconnect(&server, listener);
        server.add_tool("third");
        // Without `Last-Event-ID`: only events that were sent on no connection.
        let mut listener = session.open_stream();
        let third = listener.read_message().0.expect("no event id");
        disconnect(&server, listener);
        let mut listener = session.connect();
        listener.request_stream(&session.resume(&first));
        assert_eq!(listener.read_message().0.as_ref(), Some(&second));
        assert_eq!(listener.read_message().0.as_ref(), Some(&third));
        drop(listener);
        server.close();
    });
}

#[test]
fn replay_events_max_keeps_newest_events() {
    on_one_shard_and_two(|mut options| {
        options.http.replay_events_max = 4;
        let server = TestServer::with_test_tools(options);
        let session = HttpSession::initialize(server.address(), LEGACY);
        let mut client = session.connect();
        let slow = call("a", "slow", json!({"steps": 50, "step_ms": 0}));
        client.request_stream(&session.post(&with_progress(slow)));
        let first = client.read_priming_event();
        let mut all = vec![first.clone()];
        // The client has read only two events.
        all.push(client.read_message().0.expect("no event id"));
        let stream = first.split('-').next().expect("no stream id").to_owned();
        let mut seen = HashSet::new();
        let response = loop {
            let (id, message) = client.read_message();
            assert!(seen.insert(id));
            if message.get("result").is_some() {
                break message;
            }
        };
        assert_eq!(result_text(&response), "took 50 steps of 0 ms");
        client.expect_end_of_stream();
        // All events were sent; the server cannot know which of them arrived.
        let mut other = session.connect();
        other.request_stream(&session.resume(&format!("{stream}-1")));
        let kept = other.read_stream_to_end();
        assert_eq!((kept.len(), kept.last()), (4, Some(&response)), "replay_events_max is 4");
        drop((client, other));
        server.close();
    });
}

#[test]
fn completed_streams_kept_for_resumption_are_bounded() {
    on_one_shard_and_two(|mut options| {
        let server = TestServer::with_test_tools(options.clone());
        let session = HttpSession::initialize(server.address(), LEGACY);
        let mut lost = Vec::new();
        for number in 0..20 {
            let (client, [_, second]) = begin_call(&server, &session, &format!("call {number}"));
            disconnect(&server, client);
            lost.push(second);
        }
        options.limits.requests_in_flight_max = 1;
        server.handle().reload_limits(&options);
        session.apply_limits(&mut session.connect());
        server.open_gate();
        session.wait_until_idle();
        let mut kept = 0;
        for event in &lost {
            let mut client = session.connect();
            client.send(&session.resume(event));
            let head = client.read_head();
            if head.status == 200 {
                client.start_stream(&head);
                assert!(client.read_event().expect("stream ended").is_comment);
                assert_eq!(result_text(&client.read_message().1), "held");
                client.expect_end_of_stream();
                kept += 1;
            } else {
                assert_eq!(head.status, 400);
                client.discard_body(head);
            }
            client.expect_alive();
        }
        assert_eq!(kept, 16, "the 16 newest streams are kept");
        server.close();
    });
}

#[test]
fn replay_bytes_max_keeps_the_response() {
    on_one_shard_and_two(|mut options| {
        options.http.replay_bytes_max = 2 * 4_000;
        let server = TestServer::with_test_tools(options);
        let session = HttpSession::initialize(server.address(), LEGACY);
        let mut client = session.connect();
        let long = call("a", "test_tool_with_progress", json!({}));
        client.request_stream(&session.post(&with_progress(long)));
        let first = client.read_priming_event();
        disconnect(&server, client);
        let mut client = session.connect();
        client.request_stream(&session.resume(&first));
        let messages: Vec<Value> = client.read_stream_to_end();
        assert!(messages.last().is_some_and(|last| last.get("result").is_some()), "{messages:?}");
        drop(client);
        server.close();
    });
}

#[test]
fn slow_response_becomes_resumable_stream() {
    on_one_shard_and_two(|mut options| {
        options.http.sse_start_delay = Duration::from_millis(5);
        options.http.sse_keepalive_interval = Duration::from_millis(5);
        let server = TestServer::with_test_tools(options);
        let session = HttpSession::initialize(server.address(), LEGACY);
        for round in 0..8 {
            let mut client = session.connect();
            client.request_stream(&session.post(&call(round, "hold", json!({}))));
            assert_eq!(server.next_signal(), "begun");
            let first = client.read_priming_event();
            assert!(client.read_event().expect("stream ended").is_comment);
            drop(client);
            let mut client = session.connect();
            client.request_stream(&session.resume(&first));
            assert!(client.read_event().expect("stream ended").is_comment);
            server.open_gate();
            let responses = client.read_stream_to_end();
            assert_eq!((responses.len(), result_text(&responses[0])), (1, "held"));
            server.close_gate();
        }
        server.close();
    });
}

#[test]
fn older_session_stream_has_no_priming_event() {
    on_one_shard_and_two(|mut options| {
        options.http.sse_start_delay = Duration::from_millis(5);
        options.http.sse_keepalive_interval = Duration::from_millis(5);
        let server = TestServer::with_test_tools(options);
        for revision in &SESSION_REVISIONS[..2] {
            let session = HttpSession::initialize(server.address(), revision);
            for round in 0..4 {
                // A slow call, whose stream begins with a comment.
                let mut client = session.connect();
                client.request_stream(&session.post(&call(round, "hold", json!({}))));
                assert_eq!(server.next_signal(), "begun");
                assert!(client.read_event().expect("stream ended").is_comment);
                server.open_gate();
                let events: Vec<_> = iter::from_fn(|| client.read_event()).collect();
                let events: Vec<_> = events.into_iter().filter(|event| !event.is_comment).collect();
                assert_eq!((events.len(), &events[0].id, events[0].retry_ms), (1, &None, None));
                assert!(events[0].data.as_deref().is_some_and(|data| data.contains("held")));
                server.close_gate();
                // A handler cannot end the stream before the response.
                let (_, response) = client.exchange_to_end(&session.post(&call(
                    round,
                    "test_reconnection",
                    json!({}),
                )));
                assert_eq!(response["id"], round, "{response}");
            }
        }
        server.close();
    });
}

#[test]
fn session_stream_begins_with_a_comment() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        for revision in SESSION_REVISIONS {
            let session = HttpSession::initialize(server.address(), revision);
            let mut client = session.connect();
            client.send(&session.get());
            client.read_stream_head();
            assert!(client.read_event().expect("stream ended").is_comment);
        }
        server.close();
    });
}

#[test]
fn stream_closed_by_handler_resumes_with_response() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let session = HttpSession::initialize(server.address(), LEGACY);
        for round in 0..4 {
            let mut client = session.connect();
            client.request_stream(&session.post(&call(round, "test_reconnection", json!({}))));
            let first = client.read_priming_event();
            let event = client.read_event().expect("stream ended");
            assert_eq!((event.retry_ms, event.data), (Some(3_000), None));
            client.expect_end_of_stream();
            client.expect_alive();
            client.request_stream(&session.resume(&first));
            let (_, response) = client.read_message();
            assert_eq!(response["id"], round, "{response}");
            client.expect_end_of_stream();
        }
        server.close();
    });
}
