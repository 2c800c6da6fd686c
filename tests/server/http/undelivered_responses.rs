//! Streams whose end did not reach the client, and what the client receives when it resumes.

use corelane_test_support::messages::{LEGACY, call, result_text, with_progress};
use corelane_test_support::test_tools::LONG_BYTES;
use corelane_test_support::{HttpClient, TestServer, on_one_shard_and_two};
use serde_json::json;

use crate::http::http_session::HttpSession;

/// Calls a tool that waits for the gate. Returns the connection and the id of its last event.
fn begin_call(server: &TestServer, session: &HttpSession, tool: &str) -> (HttpClient, String) {
    let mut client = session.connect();
    client.request_stream(&session.post(&with_progress(call(tool, tool, json!({})))));
    assert_eq!(server.next_signal(), "begun");
    client.read_priming_event();
    let (seen, notification) = client.read_message();
    assert_eq!(notification["method"], "notifications/progress", "{notification}");
    (client, seen.expect("no event id"))
}

/// Calls `long` and closes the connection before the response. Returns the session and the id of
/// the last event.
fn disconnect_before_long_response(server: &TestServer) -> (HttpSession, String) {
    let session = HttpSession::initialize(server.address(), LEGACY);
    let (client, seen) = begin_call(server, &session, "long");
    drop(client);
    server.wait_for_connections(0);
    server.open_gate();
    session.wait_until_idle();
    (session, seen)
}

#[test]
fn long_response_is_kept_for_resumption() {
    on_one_shard_and_two(|mut options| {
        options.limits.requests_in_flight_max = 1;
        let server = TestServer::with_test_tools(options);
        let (session, seen) = disconnect_before_long_response(&server);
        let mut client = session.connect();
        client.request_stream(&session.resume(&seen));
        let response = client.read_message().1;
        assert_eq!((&response["id"], result_text(&response).len()), (&json!("long"), LONG_BYTES));
        client.expect_end_of_stream();
        drop(client);
        server.close();
    });
}

#[test]
fn lost_end_of_stream_is_sent_again() {
    on_one_shard_and_two(|mut options| {
        options.limits.requests_in_flight_max = 1;
        let server = TestServer::with_test_tools(options);
        let session = HttpSession::initialize(server.address(), LEGACY);
        let (client, seen) = begin_call(&server, &session, "hold");
        server.open_gate();
        session.wait_until_idle();
        // The kernel has all bytes, and the server has finished the stream.
        server.wait_for_status(|status| status["streams"] == 0);
        client.reset();
        // A stream can be resumed more than once.
        for _ in 0..3 {
            let mut client = session.connect();
            client.request_stream(&session.resume(&seen));
            assert_eq!(result_text(&client.read_message().1), "held");
            client.reset();
        }
        let counters = server.close();
        assert_eq!(counters.sessions.streams_resumed, 3, "{counters}");
    });
}

#[test]
fn response_beyond_replay_limit_is_dropped_and_counted() {
    on_one_shard_and_two(|mut options| {
        options.limits.requests_in_flight_max = 1;
        options.http.replay_bytes_max = LONG_BYTES;
        let server = TestServer::with_test_tools(options);
        let (session, seen) = disconnect_before_long_response(&server);
        let mut client = session.connect();
        client.request_stream(&session.resume(&seen));
        client.expect_end_of_stream();
        client.expect_alive();
        drop(client);
        let counters = server.close();
        assert_eq!(counters.sessions.events_dropped, 1, "{counters}");
    });
}

#[test]
fn only_newest_completed_streams_can_be_resumed() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let session = HttpSession::initialize(server.address(), LEGACY);
        server.open_gate();
        let mut sent = Vec::new();
        for _ in 0..20 {
            let (mut client, seen) = begin_call(&server, &session, "hold");
            assert_eq!(result_text(&client.read_message().1), "held");
            client.expect_end_of_stream();
            sent.push(seen);
        }
        server.wait_for_status(|status| status["streams"] == 0);
        let mut client = session.connect();
        for seen in &sent[..4] {
            client.exchange(&session.resume(seen)).expect_error(400, -32600, None);
        }
        for seen in &sent[4..] {
            client.request_stream(&session.resume(seen));
            assert_eq!(result_text(&client.read_message().1), "held");
            client.expect_end_of_stream();
        }
        drop(client);
        let counted = server.close().sessions;
        assert_eq!((counted.streams_resumed, counted.resumes_failed), (16, 4), "{counted:?}");
    });
}
