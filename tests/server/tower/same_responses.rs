//! Responses through axum are those of the server's own listener.

use corelane::tower::McpService;
use corelane_test_support::messages::{
    MODERN, SESSION_REVISIONS, call, echo, initialize, modern, notification, request, result_text,
};
use corelane_test_support::{
    HttpClient, Request, Response, TestServer, http_options, on_one_shard_and_two,
};
use serde_json::{Value, json};

use crate::tower::mounted::Mounted;

/// Requests that the server accepts.
fn valid_requests() -> Vec<Request> {
    let list = modern(request(1, "tools/list", json!({})));
    let discover = modern(request("d", "server/discover", json!({})));
    let echoed = modern(echo(2, "hi"));
    vec![
        Request::modern(&list),
        Request::modern(&discover),
        Request::modern(&echoed),
        Request::modern(&echoed).chunked(7),
        Request::modern(&echoed).field("Origin", "http://localhost:3000"),
        Request::modern(&echoed).field("Connection", "close"),
        Request::modern(&echoed).field("Host", "127.0.0.1:9"),
        Request::modern(&modern(call(3, "add", json!({"a": 1, "b": 2})))),
        Request::modern(&modern(call(4, "slow", json!({"steps": 2, "step_ms": 1})))),
        Request::new("OPTIONS", "/mcp"),
        Request::new("OPTIONS", "/mcp")
            .field("Origin", "http://localhost:3000")
            .field("Access-Control-Request-Method", "POST"),
    ]
}

/// Requests that the server rejects.
fn invalid_requests() -> Vec<Request> {
    let echoed = modern(echo(1, "hi"));
    let valid = || Request::modern(&echoed);
    let batch = json!([echo(1, "a"), echo(2, "b")]);
    vec![
        valid().without_field("Accept"),
        valid().field("Accept", "text/html"),
        valid().field("Content-Type", "text/plain"),
        valid().without_field("Content-Type"),
        valid().field("Content-Encoding", "gzip"),
        valid().field("Host", "evil.example"),
        valid().without_field("Host"),
        valid().add_field("Host", "localhost"),
        valid().field("Origin", "https://evil.example"),
        valid().field("Origin", "null"),
        valid().without_field("MCP-Protocol-Version"),
        valid().without_field("Mcp-Method"),
        valid().field("Mcp-Name", "other"),
        valid().field("MCP-Protocol-Version", "2999-01-01"),
        valid().target("/mcp/no/such?query"),
        valid().target("/mcp/metrics"),
        valid().method("PUT"),
        valid().method("PATCH"),
        valid().body("{"),
        valid().body(""),
        valid().body("x".repeat(20_000)),
        Request::modern(&modern(call(2, "no such tool", json!({})))),
        Request::modern(&modern(call(3, "add", json!({"a": "one"})))),
        Request::modern(&modern(request(4, "no/such", json!({})))),
        Request::post(batch),
        Request::post(echo(5, "without a session")),
        Request::post(notification("notifications/initialized")),
        Request::new("GET", "/mcp").field("Accept", "text/event-stream"),
        Request::new("GET", "/mcp")
            .field("Accept", "text/event-stream")
            .field("Mcp-Session-Id", "x"),
        Request::new("GET", "/mcp"),
        Request::new("HEAD", "/mcp"),
        Request::new("DELETE", "/mcp"),
        Request::new("DELETE", "/mcp").field("Mcp-Session-Id", "unknown"),
        Request::new("GET", "/mcp/ws"),
    ]
}

/// The parts of a response that do not belong to its connection or its time.
fn comparable(response: &Response) -> (u16, Vec<(String, String)>, Value) {
    let is_compared = |name: &str| {
        let of_request = matches!(name, "date" | "mcp-session-id" | "x-request-id");
        !of_request && !matches!(name, "connection" | "keep-alive" | "upgrade")
    };
    let mut fields: Vec<(String, String)> = response
        .head
        .fields()
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .filter(|(name, _)| is_compared(name))
        .collect();
    fields.sort();
    let body = String::from_utf8_lossy(&response.body).into_owned();
    (response.status(), fields, json!(body))
}

#[test]
fn responses_match_those_of_own_listener() {
    on_one_shard_and_two(|mut options| {
        options.limits.message_bytes_max = 16_000;
        let server = TestServer::with_test_tools(options);
        let axum = Mounted::start(|| McpService::from_handle(&server.handle()));
        let expect_same = |request: &Request, revision: &'static str| {
            let [direct, mounted] = [server.http(), axum.address].map(|address| {
                let mut client = HttpClient::connect(address).with_revision(revision);
                comparable(&client.exchange(request))
            });
            assert_eq!(direct, mounted, "{request:?}");
        };
        for request in valid_requests().iter().chain(&invalid_requests()) {
            expect_same(request, MODERN);
        }
        for revision in SESSION_REVISIONS {
            expect_same(&Request::post(initialize(1, revision)), revision);
        }
        axum.shut_down();
        server.close();
    });
}

#[test]
fn large_messages_pass_in_both_directions() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let axum = Mounted::start(|| McpService::from_handle(&server.handle()));
        let text = "x".repeat(1 << 20);
        let mut client = axum.connect();
        for request in [1, 2].map(|id| Request::modern(&modern(echo(id, &text)))) {
            let response = client.exchange(&request);
            assert_eq!(result_text(&response.message()), text);
            let response = client.exchange(&request.chunked(100_000));
            assert_eq!(result_text(&response.message()), text);
        }
        drop(client);
        axum.shut_down();
        server.close();
    });
}

#[test]
fn connections_to_shards_are_used_again() {
    let server = TestServer::with_test_tools(http_options());
    let axum = Mounted::start(|| McpService::from_handle(&server.handle()));
    for id in 0..20 {
        let response = axum.connect().exchange(&Request::modern(&modern(echo(id, "hi"))));
        assert_eq!(result_text(&response.message()), "hi");
    }
    axum.shut_down();
    let counters = server.close();
    assert_eq!(counters.connections.accepted, 1, "{counters}");
    assert_eq!(counters.requests.tools_call, 20, "{counters}");
}
