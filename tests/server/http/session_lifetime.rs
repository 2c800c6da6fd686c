//! Creation and end of sessions: by DELETE, by idle timeout, by eviction.

use std::collections::HashSet;
use std::time::Duration;

use corelane_test_support::messages::{
    LEGACY, call, echo, expect_error, initialize_with_elicitation, notification,
    request_without_params, result_text, with_progress,
};
use corelane_test_support::{
    HttpClient, Request, TestServer, http_options, on_one_shard_and_two, over_each_ring,
};
use serde_json::json;

use crate::http::http_session::HttpSession;

/// Connections; enough to reach each of two shards.
const CONNECTIONS: usize = 32;

#[test]
fn session_ids_are_unique_uuids_of_version_4() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let mut seen = HashSet::new();
        for _ in 0..CONNECTIONS {
            let session = HttpSession::initialize(server.address(), LEGACY);
            let bytes = session.id().as_bytes();
            assert_eq!((bytes.len(), bytes[14]), (36, b'4'), "{}", session.id());
            assert!(b"89ab".contains(&bytes[19]), "{}", session.id());
            assert!(seen.insert(session.id().to_owned()));
        }
        server.close();
    });
}

#[test]
fn idle_session_expires_after_timeout() {
    over_each_ring(http_options(), |mut options| {
        let server = TestServer::with_test_tools(options.clone());
        let session = HttpSession::initialize(server.address(), LEGACY);
        options.http.session_idle_timeout = Duration::from_millis(1);
        server.handle().reload_limits(&options);
        server.wait_for_status(|status| status["sessions"] == 0);
        let mut client = session.connect();
        client.exchange(&session.post(&echo(1, "late"))).expect_error(404, -32600, None);
        drop(client);
        server.close();
    });
}

#[test]
fn session_with_stream_or_request_does_not_expire() {
    on_one_shard_and_two(|mut options| {
        let server = TestServer::with_test_tools(options.clone());
        let listening = HttpSession::initialize(server.address(), LEGACY);
        let mut listener = listening.open_stream();
        let waiting = HttpSession::initialize(server.address(), LEGACY);
        let mut waiter = waiting.connect();
        waiter.send(&waiting.post(&call(1, "hold", json!({}))));
        assert_eq!(server.next_signal(), "begun");
        // An idle session shows that the timeout has expired.
        let idle = HttpSession::initialize(server.address(), LEGACY);
        let mut client = idle.connect();
        options.http.session_idle_timeout = Duration::from_millis(1);
        server.handle().reload_limits(&options);
        // The slow call takes longer than the timeout, and keeps its session busy meanwhile.
        let mut request = call(1, "slow", json!({"steps": 1, "step_ms": 300}));
        request["id"] = json!("slow");
        let response = waiting.connect().exchange(&waiting.post(&request));
        assert_eq!(response.status(), 200);
        client.exchange(&idle.post(&echo(1, "late"))).expect_error(404, -32600, None);
        server.open_gate();
        assert_eq!(result_text(&waiter.read_response().message()), "held");
        server.add_tool("added");
        listener.read_message();
        drop((listener, waiter, client));
        server.close();
    });
}

#[test]
fn session_limit_evicts_only_longest_idle_session() {
    over_each_ring(http_options(), |mut options| {
        options.http.sessions_max = 3;
        let server = TestServer::with_test_tools(options);
        let active = HttpSession::initialize(server.address(), LEGACY);
        let mut listener = active.open_stream();
        let oldest = HttpSession::initialize(server.address(), LEGACY);
        let newest = HttpSession::initialize(server.address(), LEGACY);
        let another = HttpSession::initialize(server.address(), LEGACY);
        let is_there = |session: &HttpSession| {
            let response =
                session.connect().exchange(&session.post(&request_without_params(1, "ping")));
            response.status() == 200
        };
        assert!(!is_there(&oldest) && is_there(&newest) && is_there(&another));
        let (mut second, mut third) = (newest.open_stream(), another.open_stream());
        // No session is idle: one more is refused.
        let mut client = server.connect_http().with_revision(LEGACY);
        let response = client.exchange(&Request::post(initialize_with_elicitation(1, LEGACY)));
        assert_eq!(response.status(), 503, "{response:?}");
        assert!(response.head.field("Retry-After").is_some(), "{response:?}");
        assert!(response.head.field("Mcp-Session-Id").is_none(), "{response:?}");
        client.expect_alive();
        // The three sessions are unaffected.
        server.add_tool("added");
        for listener in [&mut listener, &mut second, &mut third] {
            listener.read_message();
        }
        drop((listener, second, third, client));
        server.close();
    });
}

#[test]
fn failed_initialize_creates_no_session() {
    let server = TestServer::with_test_tools(http_options());
    let mut client = server.connect_http().with_revision(LEGACY);
    let mut broken = initialize_with_elicitation(1, LEGACY);
    broken["params"]["capabilities"] = json!(7);
    let response = client.exchange(&Request::post(&broken));
    assert!(response.message()["error"].is_object(), "{response:?}");
    assert!(response.head.field("Mcp-Session-Id").is_none(), "{response:?}");
    let status = client.exchange(&Request::new("GET", "/status")).message();
    assert_eq!(status["sessions"], 0, "{status}");
    drop(client);
    server.close();
}

#[test]
fn failed_initialize_evicts_no_session() {
    over_each_ring(http_options(), |mut options| {
        options.http.sessions_max = 1;
        let server = TestServer::with_test_tools(options);
        let session = HttpSession::initialize(server.address(), LEGACY);
        let mut client = server.connect_http().with_revision(LEGACY);
        let mut broken = initialize_with_elicitation(1, LEGACY);
        broken["params"]["capabilities"] = json!(7);
        for _ in 0..4 {
            let response = client.exchange(&Request::post(&broken));
            assert!(response.message()["error"].is_object(), "{response:?}");
        }
        assert_eq!(
            client.exchange(&session.post(&request_without_params(2, "ping"))).status(),
            200
        );
        // A successful handshake evicts the idle session.
        let next = HttpSession::initialize(server.address(), LEGACY);
        client
            .exchange(&session.post(&request_without_params(3, "ping")))
            .expect_error(404, -32600, None);
        assert_eq!(client.exchange(&next.post(&request_without_params(4, "ping"))).status(), 200);
        drop(client);
        let counted = server.close().sessions;
        assert_eq!((counted.created, counted.evicted), (2, 1), "{counted:?}");
    });
}

#[test]
fn unsupported_initialize_version_negotiates_newest_with_sessions() {
    let server = TestServer::with_test_tools(http_options());
    let mut client: HttpClient = server.connect_http().with_revision(LEGACY);
    for requested in ["2026-07-28", "1999-01-01"] {
        let request = Request::post(initialize_with_elicitation(1, requested));
        // The header decides nothing: clients send the newest revision that they know.
        for header in [None, Some("2024-10-07"), Some("2026-07-28"), Some("2027-01-01"), Some("x")]
        {
            let request = match header {
                Some(version) => request.clone().field("MCP-Protocol-Version", version),
                None => request.clone(),
            };
            let response = client.exchange(&request);
            assert_eq!(response.message()["result"]["protocolVersion"], LEGACY, "{response:?}");
            assert!(response.head.field("Mcp-Session-Id").is_some(), "{response:?}");
        }
    }
    drop(client);
    server.close();
}

#[test]
fn two_sessions_can_share_one_connection() {
    let server = TestServer::with_test_tools(http_options());
    let mut client = server.connect_http().with_revision(LEGACY);
    let mut begin = || {
        let response = client.exchange(&Request::post(initialize_with_elicitation(1, LEGACY)));
        response.head.field("Mcp-Session-Id").expect("no Mcp-Session-Id").to_owned()
    };
    let (one, other) = (begin(), begin());
    assert_ne!(one, other);
    for id in [one, other] {
        let session = HttpSession::with_id(server.address(), &id, LEGACY);
        client
            .exchange(&session.post(&notification("notifications/initialized")))
            .expect_empty_body(202);
        assert_eq!(result_text(&client.exchange(&session.post(&echo(1, &id))).message()), id);
    }
    drop(client);
    server.close();
}

#[test]
fn deleted_session_gets_404_on_every_connection() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        for _ in 0..CONNECTIONS {
            let session = HttpSession::initialize(server.address(), LEGACY);
            let mut other = session.connect();
            assert_eq!(
                result_text(&other.exchange(&session.post(&echo(1, "here"))).message()),
                "here"
            );
            session.connect().exchange(&session.delete()).expect_empty_body(204);
            for request in [
                session.post(&echo(1, "gone")),
                session.post(&notification("notifications/none")),
                session.get(),
                session.resume("0-1"),
                session.delete(),
            ] {
                other.exchange(&request).expect_error(404, -32600, None);
            }
            other.expect_alive();
        }
        server.close();
    });
}

#[test]
fn deleted_session_responds_to_calls_and_ends_streams() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let session = HttpSession::initialize(server.address(), LEGACY);
        let mut listener = session.open_stream();
        let mut silent = session.connect();
        silent.send(&session.post(&call(1, "until-cancelled", json!({}))));
        assert_eq!(server.next_signal(), "begun");
        let mut streaming = session.connect();
        streaming.request_stream(&session.post(&with_progress(call(
            2,
            "until-cancelled",
            json!({}),
        ))));
        assert_eq!(server.next_signal(), "begun");
        streaming.read_priming_event();
        streaming.read_message();
        session.connect().exchange(&session.delete()).expect_empty_body(204);
        assert_eq!((server.next_signal(), server.next_signal()), ("cancelled", "cancelled"));
        listener.expect_end_of_stream();
        let (_, message) = streaming.read_message();
        expect_error(&message, -32600, Some(json!(2)));
        streaming.expect_end_of_stream();
        // No message was sent for this one.
        silent.read_response().expect_error(404, -32600, Some(json!(1)));
        for client in [&mut listener, &mut streaming, &mut silent] {
            client.expect_alive();
        }
        drop((listener, streaming, silent));
        let counters = server.close();
        assert_eq!(counters.requests.cancelled, 2, "{counters}");
    });
}
