//! Messages that a legacy session receives besides responses, on the stream of a request and on the
//! GET stream.

use corelane::options::SecondStream;
use corelane_test_support::messages::{
    LEGACY, SESSION_REVISIONS, call, cancelled, request, result_text, with_progress,
};
use corelane_test_support::{HttpClient, TestServer, on_one_shard_and_two};
use serde_json::json;

use crate::http::http_session::HttpSession;

#[test]
fn progress_is_sent_on_its_request_stream() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        for revision in SESSION_REVISIONS {
            let session = HttpSession::initialize(server.address(), revision);
            let mut listener = session.open_stream();
            for _ in 0..8 {
                let mut client = session.connect();
                let request = call(1, "slow", json!({"steps": 2, "step_ms": 0}));
                client.request_stream(&session.post(&with_progress(request)));
                let mut ids = Vec::new();
                if session.has_priming_events() {
                    ids.push(client.read_priming_event());
                }
                for _ in 0..2 {
                    let (id, notification) = client.read_message();
                    assert_eq!(notification["method"], "notifications/progress", "{notification}");
                    ids.extend(id);
                }
                let (id, response) = client.read_message();
                assert_eq!(result_text(&response), "took 2 steps of 0 ms");
                ids.extend(id);
                let stream = ids[0].split('-').next().expect("no stream id").to_owned();
                let expected = (1..=3 + usize::from(session.has_priming_events()))
                    .map(|number| format!("{stream}-{number}"));
                assert_eq!(ids, expected.collect::<Vec<_>>());
                client.expect_end_of_stream();
                client.expect_alive();
            }
            // Messages that belong to a request are sent on no other stream.
            session.connect().exchange(&session.delete()).expect_empty_body(204);
            listener.expect_end_of_stream();
        }
        server.close();
    });
}

#[test]
fn elicitation_on_request_stream_accepts_response_over_post() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        for revision in ["2025-06-18", "2025-11-25"] {
            let session = HttpSession::initialize(server.address(), revision);
            let mut listener = session.open_stream();
            for _ in 0..8 {
                let mut client = session.connect();
                client.request_stream(&session.post(&call(1, "ask", json!({}))));
                if session.has_priming_events() {
                    client.read_priming_event();
                }
                let (_, elicitation) = client.read_message();
                assert_eq!(elicitation["method"], "elicitation/create", "{elicitation}");
                let result = json!({"action": "accept", "content": {"name": "Ada"}});
                let response = json!({"jsonrpc": "2.0", "id": elicitation["id"], "result": result});
                session.connect().exchange(&session.post(&response)).expect_empty_body(202);
                let (_, response) = client.read_message();
                assert_eq!(result_text(&response), "Hello, Ada!");
                client.expect_end_of_stream();
            }
            session.connect().exchange(&session.delete()).expect_empty_body(204);
            listener.expect_end_of_stream();
        }
        let counters = server.close();
        assert_eq!(
            (counters.client_requests.sent, counters.client_requests.answered),
            (16, 16),
            "{counters}"
        );
    });
}

#[test]
fn elicitation_response_of_another_session_is_ignored() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let session = HttpSession::initialize(server.address(), LEGACY);
        let mut client = session.connect();
        client.request_stream(&session.post(&call(1, "ask", json!({}))));
        client.read_priming_event();
        let (_, elicitation) = client.read_message();
        let response = |name: &str| {
            let result = json!({"action": "accept", "content": {"name": name}});
            json!({"jsonrpc": "2.0", "id": elicitation["id"], "result": result})
        };
        for _ in 0..8 {
            let foreign = HttpSession::initialize(server.address(), LEGACY);
            foreign.connect().exchange(&foreign.post(&response("Eve"))).expect_empty_body(202);
        }
        session.connect().exchange(&session.post(&response("Ada"))).expect_empty_body(202);
        let (_, response) = client.read_message();
        assert_eq!(result_text(&response), "Hello, Ada!");
        client.expect_end_of_stream();
        drop(client);
        let counters = server.close();
        assert_eq!(counters.client_requests.unmatched_responses, 8, "{counters}");
    });
}

#[test]
fn change_notifications_are_sent_on_get_stream() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        for revision in SESSION_REVISIONS {
            let sessions: Vec<_> =
                (0..8).map(|_| HttpSession::initialize(server.address(), revision)).collect();
            let mut listeners: Vec<_> = sessions.iter().map(HttpSession::open_stream).collect();
            server.add_tool(&format!("of-{revision}"));
            for listener in &mut listeners {
                let (id, notification) = listener.read_message();
                assert_eq!(
                    notification["method"], "notifications/tools/list_changed",
                    "{notification}"
                );
                assert!(id.is_some_and(|id| id.starts_with("0-")));
            }
            for session in &sessions {
                let uri = json!({"uri": "test://one"});
                let request = session.post(&request(1, "resources/subscribe", uri));
                assert_eq!(session.connect().exchange(&request).status(), 200);
            }
            server.handle().notify_resource_updated("test://one");
            for (session, listener) in sessions.iter().zip(&mut listeners) {
                let (_, notification) = listener.read_message();
                assert_eq!(
                    notification["method"], "notifications/resources/updated",
                    "{notification}"
                );
                session.connect().exchange(&session.delete()).expect_empty_body(204);
                listener.expect_end_of_stream();
            }
        }
        server.close();
    });
}

#[test]
fn refused_second_get_stream_gets_409() {
    on_one_shard_and_two(|mut options| {
        options.http.second_stream = SecondStream::Refuse;
        let server = TestServer::with_test_tools(options);
        let session = HttpSession::initialize(server.address(), LEGACY);
        for _ in 0..8 {
            let first = open_stream_when_free(&session);
            let mut second = session.connect();
            second.exchange(&session.get()).expect_error(409, -32600, None);
            second.expect_alive();
            drop(first);
            open_stream_when_free(&session);
        }
        server.close();
    });
}

/// Opens the GET stream as soon as the server has noticed that the previous one is closed.
fn open_stream_when_free(session: &HttpSession) -> HttpClient {
    for _ in 0..ATTEMPTS_MAX {
        let mut client = session.connect();
        client.send(&session.get());
        if client.read_head().status == 200 {
            return client;
        }
    }
    panic!("the GET stream is still in use");
}

/// Attempts; take longer than any message between shards.
const ATTEMPTS_MAX: usize = 10_000;

#[test]
fn cancelled_request_ends_stream_without_response() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let session = HttpSession::initialize(server.address(), LEGACY);
        for _ in 0..8 {
            let request = call(1, "until-cancelled", json!({}));
            let mut silent = session.connect();
            silent.send(&session.post(&request));
            assert_eq!(server.next_signal(), "begun");
            session.connect().exchange(&session.post(&cancelled(1))).expect_empty_body(202);
            assert_eq!(server.next_signal(), "cancelled");
            silent.read_stream_head();
            silent.expect_end_of_stream();
            silent.expect_alive();
            let mut streaming = session.connect();
            streaming.request_stream(&session.post(&with_progress(request)));
            assert_eq!(server.next_signal(), "begun");
            streaming.read_priming_event();
            streaming.read_message();
            session.connect().exchange(&session.post(&cancelled(1))).expect_empty_body(202);
            assert_eq!(server.next_signal(), "cancelled");
            streaming.expect_end_of_stream();
            streaming.expect_alive();
        }
        let counters = server.close();
        assert_eq!(counters.requests.cancelled, 16, "{counters}");
    });
}
