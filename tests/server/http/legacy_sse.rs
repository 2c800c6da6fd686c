//! The HTTP+SSE transport of 2024-11-05: a stream that starts a session, and an endpoint for
//! messages. Its events have no ids, so it cannot be resumed.

use corelane::Options;
use corelane_test_support::http::Response;
use corelane_test_support::messages::{
    call, cancelled, echo, expect_error, initialize_with_elicitation, notification,
    request_without_params, result_text, with_progress,
};
use corelane_test_support::{HttpClient, Request, TestServer, http_options, on_one_shard_and_two};
use serde_json::json;

use crate::http::http_session::HttpSession;

const REVISION: &str = "2024-11-05";

/// The stream of a client and the endpoint for its messages.
struct LegacySseClient {
    stream: HttpClient,
    endpoint: String,
}

impl LegacySseClient {
    /// Opens the stream and makes the handshake, each message on its own connection.
    fn initialize(server: &TestServer) -> Self {
        let mut stream = server.connect_http().with_revision(REVISION);
        stream.request_stream(&Request::new("GET", "/sse"));
        let event = stream.read_event().expect("stream ended");
        assert_eq!((event.event_type.as_deref(), event.id), (Some("endpoint"), None));
        let endpoint = event.data.expect("no endpoint URI");
        assert!(endpoint.starts_with("/messages?sessionId="), "{endpoint}");
        let mut sse = Self { stream, endpoint };
        let initialize = initialize_with_elicitation(0, REVISION);
        sse.stream.register_request(&Request::post(&initialize));
        sse.post(server, &initialize).expect_empty_body(202);
        let response = sse.stream.read_message_without_id();
        assert_eq!(response["result"]["protocolVersion"], REVISION, "{response}");
        sse.post(server, &notification("notifications/initialized")).expect_empty_body(202);
        sse
    }

    fn request(&self, message: &serde_json::Value) -> Request {
        Request::post(message).target(&self.endpoint).without_field("Accept")
    }

    fn post(&self, server: &TestServer, message: &serde_json::Value) -> Response {
        server.connect_http().with_revision(REVISION).exchange(&self.request(message))
    }

    fn session_id(&self) -> &str {
        self.endpoint.rsplit('=').next().expect("no session id")
    }
}

fn with_legacy_sse(mut options: Options) -> Options {
    options.http.legacy_sse = true;
    options
}

#[test]
fn legacy_sse_messages_are_sent_on_the_stream() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(with_legacy_sse(options));
        let mut sse = LegacySseClient::initialize(&server);
        for number in 0..16 {
            sse.post(&server, &echo(number, "posted")).expect_empty_body(202);
            let response = sse.stream.read_message_without_id();
            assert_eq!((&response["id"], result_text(&response)), (&json!(number), "posted"));
            let slow = with_progress(call("slow", "slow", json!({"steps": 1, "step_ms": 0})));
            sse.post(&server, &slow).expect_empty_body(202);
            assert_eq!(sse.stream.read_message_without_id()["method"], "notifications/progress");
            assert_eq!(sse.stream.read_message_without_id()["id"], "slow");
        }
        server.add_tool("more");
        assert_eq!(
            sse.stream.read_message_without_id()["method"],
            "notifications/tools/list_changed"
        );
        drop(sse);
        server.close();
    });
}

#[test]
fn legacy_sse_concurrent_calls_can_be_cancelled() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(with_legacy_sse(options));
        let mut sse = LegacySseClient::initialize(&server);
        for id in 1..=4 {
            sse.post(&server, &call(id, "until-cancelled", json!({}))).expect_empty_body(202);
            assert_eq!(server.next_signal(), "begun");
        }
        sse.post(&server, &request_without_params("ping", "ping")).expect_empty_body(202);
        assert_eq!(sse.stream.read_message_without_id()["id"], "ping");
        for id in 1..=4 {
            sse.post(&server, &cancelled(id)).expect_empty_body(202);
            assert_eq!(server.next_signal(), "cancelled");
        }
        sse.post(&server, &request_without_params("ping", "ping")).expect_empty_body(202);
        assert_eq!(sse.stream.read_message_without_id()["id"], "ping");
        drop(sse);
        server.close();
    });
}

#[test]
fn legacy_sse_duplicate_id_is_refused() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(with_legacy_sse(options));
        let mut sse = LegacySseClient::initialize(&server);
        sse.post(&server, &call(1, "hold", json!({}))).expect_empty_body(202);
        assert_eq!(server.next_signal(), "begun");
        sse.post(&server, &echo(1, "again")).expect_empty_body(202);
        expect_error(&sse.stream.read_message_without_id(), -32600, Some(json!(1)));
        server.open_gate();
        assert_eq!(result_text(&sse.stream.read_message_without_id()), "held");
        sse.post(&server, &echo(1, "free")).expect_empty_body(202);
        assert_eq!(result_text(&sse.stream.read_message_without_id()), "free");
        drop(sse);
        server.close();
    });
}

#[test]
fn legacy_sse_session_ends_with_its_stream() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(with_legacy_sse(options));
        for _ in 0..8 {
            let sse = LegacySseClient::initialize(&server);
            sse.post(&server, &call(1, "until-cancelled", json!({}))).expect_empty_body(202);
            assert_eq!(server.next_signal(), "begun");
            let LegacySseClient { stream, endpoint } = sse;
            drop(stream);
            assert_eq!(server.next_signal(), "cancelled");
            let late = Request::post(echo(1, "late")).target(&endpoint);
            let mut client = server.connect_http().with_revision(REVISION);
            client.exchange(&late).expect_error(404, -32600, None);
            client.expect_alive();
        }
        server.close();
    });
}

#[test]
fn session_gets_404_at_the_other_endpoint() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(with_legacy_sse(options));
        let mut sse = LegacySseClient::initialize(&server);
        let newer = HttpSession::initialize(server.address(), "2025-11-25");
        let mut listener = newer.open_stream();
        let disguised = HttpSession::with_id(server.address(), sse.session_id(), "2025-11-25");
        for _ in 0..16 {
            let mut client = disguised.connect();
            for request in [
                disguised.post(&echo(1, "hi")),
                disguised.get(),
                disguised.resume("0-1"),
                disguised.delete(),
                Request::post(echo(1, "hi")).target(&format!("/messages?sessionId={}", newer.id())),
            ] {
                client.exchange(&request).expect_error(404, -32600, None);
            }
            client.expect_alive();
        }
        sse.post(&server, &echo(1, "still there")).expect_empty_body(202);
        assert_eq!(result_text(&sse.stream.read_message_without_id()), "still there");
        newer.connect().exchange(&newer.delete()).expect_empty_body(204);
        listener.expect_end_of_stream();
        drop((sse, listener));
        server.close();
    });
}

#[test]
fn legacy_sse_post_errors_are_sent_on_stream() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(with_legacy_sse(options));
        let mut sse = LegacySseClient::initialize(&server);
        for _ in 0..8 {
            let mut client = server.connect_http().with_revision(REVISION);
            client.exchange(&sse.request(&json!(0)).body("{")).expect_empty_body(202);
            assert_eq!(sse.stream.read_message_without_id()["error"]["code"], -32700);
            let request = sse.request(&json!(0)).field("Content-Type", "text/plain");
            client.exchange(&request).expect_error(415, -32600, None);
            client.exchange(&sse.request(&json!(0)).method("GET")).expect_error(405, -32600, None);
            for target in ["/messages", "/messages?sessionId=x", "/messages?sessionid=1"] {
                let response = client.exchange(&sse.request(&echo(1, "hi")).target(target));
                assert!(matches!(response.status(), 400 | 404), "{response:?}");
            }
            client.expect_alive();
        }
        drop(sse);
        server.close();
    });
}

#[test]
fn legacy_sse_endpoints_are_off_by_default() {
    let server = TestServer::with_test_tools(http_options());
    let mut client = server.connect_http();
    client.exchange(&Request::new("GET", "/sse")).expect_error(404, -32600, None);
    let request = Request::post(echo(1, "hi")).target("/messages?sessionId=x");
    client.exchange(&request).expect_error(404, -32600, None);
    drop(client);
    server.close();
}

#[test]
fn drain_ends_legacy_sse_stream_after_responses() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(with_legacy_sse(options));
        let mut sse = LegacySseClient::initialize(&server);
        for id in 1..=2 {
            sse.post(&server, &call(id, "hold", json!({}))).expect_empty_body(202);
            assert_eq!(server.next_signal(), "begun");
        }
        let mut idle = server.connect_http();
        idle.expect_alive();
        server.drain();
        idle.expect_eof_or_reset();
        server.open_gate();
        for _ in 1..=2 {
            assert_eq!(result_text(&sse.stream.read_message_without_id()), "held");
        }
        sse.stream.expect_end_of_stream();
        sse.stream.expect_eof_or_reset();
        drop(sse);
        server.join();
    });
}
