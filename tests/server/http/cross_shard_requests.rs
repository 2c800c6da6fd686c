//! `HttpSession` requests that wait for another shard, or are refused for lack of capacity.

use std::io::ErrorKind;
use std::time::Duration;

use corelane::Options;
use corelane::options::SecondStream;
use corelane_test_support::messages::{
    LEGACY, call, modern, notification, request_without_params, result_text, with_progress,
};
use corelane_test_support::{
    HttpClient, Request, TIMEOUT, TestServer, http_options, on_one_shard_and_two, over_each_ring,
};
use serde_json::json;

use crate::http::http_session::HttpSession;

/// Connections; enough to reach each of two shards.
const CONNECTIONS: usize = 32;

/// Runs a test on two shards, with event streams that start after 5 ms without a response.
fn on_two_shards(test: impl Fn(Options)) {
    over_each_ring(http_options(), |mut options| {
        options.engine.shards = Some(2);
        options.http.sse_start_delay = Duration::from_millis(5);
        options.http.sse_keepalive_interval = Duration::from_millis(5);
        test(options);
    });
}

/// A session whose shard is blocked, and connections of the other shard.
struct StalledShard {
    session: HttpSession,
    /// The connection whose request blocks the shard.
    stalling: HttpClient,
    /// Connections of the shard that still runs.
    free: Vec<HttpClient>,
}

impl StalledShard {
    /// Blocks the shard of a new session until the gate opens.
    fn start(server: &TestServer) -> Self {
        let session = HttpSession::initialize(server.address(), LEGACY);
        let mut stalling = session.connect();
        stalling.send(&session.post(&call("stall", "stall", json!({}))));
        assert_eq!(server.next_signal(), "begun");
        let mut waiting: Vec<_> = (0..CONNECTIONS).map(|_| session.connect()).collect();
        for client in &mut waiting {
            client.send(&Request::new("GET", "/healthz"));
        }
        let mut free = Vec::new();
        while free.len() < 4 {
            let (answered, rest) = waiting.into_iter().partition(has_response);
            waiting = rest;
            free.extend::<Vec<HttpClient>>(answered);
        }
        for client in &mut free {
            assert_eq!(client.read_response().status(), 200);
        }
        Self { session, stalling, free }
    }

    /// Waits until requests sent before this call have exceeded the start delay of streams.
    fn wait_for_stream_delay(&mut self, server: &TestServer) {
        let mut witness = self.free.pop().expect("no connection left").with_revision("2026-07-28");
        witness.request_stream(&Request::modern(&modern(call("witness", "hold", json!({})))));
        assert_eq!(server.next_signal(), "begun");
        for _ in 0..2 {
            assert!(witness.read_event().expect("stream ended").is_comment);
        }
    }
}

/// Returns whether a connection has received bytes.
fn has_response(client: &HttpClient) -> bool {
    let socket = client.socket();
    socket.set_read_timeout(Some(Duration::from_millis(1))).expect("set SO_RCVTIMEO");
    let peeked = socket.peek(&mut [0]);
    socket.set_read_timeout(Some(TIMEOUT)).expect("set SO_RCVTIMEO");
    match peeked {
        Ok(bytes) => bytes > 0,
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => false,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn large_message_to_another_shard_is_answered() {
    on_two_shards(|options| {
        let server = TestServer::with_test_tools(options);
        let session = HttpSession::initialize(server.address(), LEGACY);
        let text = "x".repeat(1 << 20);
        let large = session.post(&call("large", "echo", json!({"message": text})));
        // Some of them reach the shard of the session, some the other one, which forwards them.
        let mut clients: Vec<_> = (0..CONNECTIONS).map(|_| session.connect()).collect();
        for client in &mut clients {
            assert_eq!(result_text(&client.exchange(&large).message()), text);
        }
        drop(clients);
        server.close();
    });
}

#[test]
fn request_waiting_for_another_shard_gets_its_status() {
    on_two_shards(|options| {
        let server = TestServer::with_test_tools(options);
        let mut stalled = StalledShard::start(&server);
        let session = stalled.session.clone();
        let mut pending = [(); 3].map(|()| stalled.free.pop().expect("no connection left"));
        pending[0].send(&session.post(&notification("notifications/none")));
        pending[1].send(&session.resume("9-9"));
        let unknown =
            HttpSession::with_id(server.address(), &unknown_session_id(session.id()), LEGACY);
        pending[2].send(&unknown.post(&request_without_params(1, "ping")));
        stalled.wait_for_stream_delay(&server);
        server.open_gate();
        assert_eq!(stalled.stalling.read_response().status(), 200);
        pending[0].read_response().expect_empty_body(202);
        pending[1].read_response().expect_error(400, -32600, None);
        pending[2].read_response().expect_error(404, -32600, None);
        pending.iter_mut().for_each(HttpClient::expect_alive);
        drop((stalled, pending));
        server.close();
    });
}

#[test]
fn refused_concurrent_get_stream_gets_409() {
    on_two_shards(|mut options| {
        options.http.second_stream = SecondStream::Refuse;
        let server = TestServer::with_test_tools(options);
        let mut stalled = StalledShard::start(&server);
        let mut pending = [(); 2].map(|()| stalled.free.pop().expect("no connection left"));
        for client in &mut pending {
            client.send(&stalled.session.get());
        }
        stalled.wait_for_stream_delay(&server);
        server.open_gate();
        let mut heads = pending.each_mut().map(HttpClient::read_head);
        heads.sort_by_key(|head| head.status);
        assert_eq!(heads.map(|head| head.status), [200, 409]);
        drop((stalled, pending));
        server.close();
    });
}

#[test]
fn delete_waiting_for_another_shard_completes_after_ping() {
    on_two_shards(|options| {
        let server = TestServer::with_test_tools(options);
        let mut stalled = StalledShard::start(&server);
        let session = stalled.session.clone();
        let mut pending = [(); 2].map(|()| stalled.free.pop().expect("no connection left"));
        pending[0].send(&session.post(&request_without_params("ping", "ping")));
        stalled.wait_for_stream_delay(&server);
        pending[1].send(&session.delete());
        stalled.wait_for_stream_delay(&server);
        server.open_gate();
        let response = pending[0].read_response();
        assert_eq!((response.status(), &response.message()["id"]), (200, &json!("ping")));
        pending[1].read_response().expect_empty_body(204);
        drop((stalled, pending));
        server.close();
    });
}

/// Returns a well-formed session id of no session, near `id`.
fn unknown_session_id(id: &str) -> String {
    let last = if id.ends_with('0') { "1" } else { "0" };
    format!("{}{last}", &id[..id.len() - 1])
}

#[test]
fn call_without_stream_capacity_gets_503_before_start() {
    on_one_shard_and_two(|mut options| {
        let server = TestServer::with_test_tools(options.clone());
        let session = HttpSession::initialize(server.address(), LEGACY);
        let mut client = session.connect();
        client.expect_alive();
        server.open_gate();
        // Two streams have ended, but their clients have not read the ends.
        let mut slow = ["a", "b"].map(|id| {
            let mut slow =
                HttpClient::connect_with_buffers(server.address(), 4_096).with_revision(LEGACY);
            slow.request_stream(&session.post(&with_progress(call(id, "long", json!({})))));
            assert_eq!(server.next_signal(), "begun");
            slow
        });
        options.limits.requests_in_flight_max = 1;
        server.handle().reload_limits(&options);
        session.apply_limits(&mut client);
        session.wait_until_idle();
        server.close_gate();
        options.http.connections_max = 1;
        server.handle().reload_limits(&options);
        session.apply_limits(&mut client);
        let hold = session.post(&call("hold", "hold", json!({})));
        let response = client.exchange(&hold);
        response.expect_error(503, -32603, Some(json!("hold")));
        assert!(response.head.field("Retry-After").is_some(), "{response:?}");
        server.expect_no_signal();
        for slow in &mut slow {
            let responses = slow.read_stream_to_end();
            assert!(responses.last().is_some_and(|last| last.get("result").is_some()));
        }
        server.open_gate();
        // Capacity is free once the server has noticed.
        let response = loop {
            let response = client.exchange(&hold);
            if response.status() != 503 {
                break response;
            }
        };
        assert_eq!(result_text(&response.message()), "held");
        drop((client, slow));
        server.close();
    });
}
