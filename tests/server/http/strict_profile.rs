//! The strict profile: that of the pinned one, except that `initialize` need not name the revision.

use corelane::Options;
use corelane_protocol::revision::Revision;
use corelane_test_support::http::Response;
use corelane_test_support::messages::{
    echo, initialize_with_elicitation, modern, notification, result_text,
};
use corelane_test_support::{HttpClient, Request, TestServer, on_one_shard_and_two};
use serde_json::{Value, json};

const STRICT: &str = "2025-06-18";

/// Connections; enough to reach each of two shards.
const CONNECTIONS: i64 = 20;

fn strict_options(mut options: Options) -> Options {
    options.http.strict = Some(Revision::V2025_06_18);
    options
}

fn connect(server: &TestServer) -> HttpClient {
    server.connect_http().with_revision(STRICT)
}

#[test]
fn strict_initialize_needs_no_version_header() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(strict_options(options));
        for version in [None, Some(STRICT), Some("2025-11-25"), Some("2026-07-28"), Some("x")] {
            let request = Request::post(initialize_with_elicitation(0, "2025-11-25"));
            let request = match version {
                Some(version) => request.field("MCP-Protocol-Version", version),
                None => request,
            };
            let response = connect(&server).exchange(&request);
            assert_eq!(response.message()["result"]["protocolVersion"], STRICT, "{version:?}");
            assert_eq!(response.head.field("MCP-Protocol-Version"), Some(STRICT), "{response:?}");
            let id = response.head.field("Mcp-Session-Id").expect("a session").to_owned();
            let in_session = |message| {
                let request = Request::post(message).field("Mcp-Session-Id", &id);
                request.field("MCP-Protocol-Version", STRICT)
            };
            let initialized = in_session(notification("notifications/initialized"));
            connect(&server).exchange(&initialized).expect_empty_body(202);
            let response = connect(&server).exchange(&in_session(echo(1, "hi")));
            assert_eq!(result_text(&response.message()), "hi");
        }
        server.close();
    });
}

#[test]
fn strict_later_requests_need_the_version_header() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(strict_options(options));
        let initialize = Request::post(initialize_with_elicitation(0, STRICT));
        let response = connect(&server).exchange(&initialize);
        let id = response.head.field("Mcp-Session-Id").expect("a session").to_owned();
        let initialized = notification("notifications/initialized");
        let sessionless = [echo(1, "hi"), modern(echo(1, "hi")), initialized.clone(), json!([])];
        let in_session = [initialized, echo(1, "hi")];
        let requests = sessionless.iter().map(Request::post);
        let requests = requests.chain(
            in_session.iter().map(|message| Request::post(message).field("Mcp-Session-Id", &id)),
        );
        for request in requests {
            let mut client = connect(&server);
            client.exchange(&request).expect_error(400, -32600, None);
            let request = request.field("MCP-Protocol-Version", "2025-11-25");
            let response = client.exchange(&request);
            let error = response.expect_error(400, -32600, None);
            let message = "MCP-Protocol-Version must be 2025-06-18";
            assert_eq!(error["error"]["message"], message, "{request:?}");
            assert_eq!(response.head.field("MCP-Protocol-Version"), Some(STRICT), "{response:?}");
        }
        server.close();
    });
}

/// Begins a session and returns its id.
fn begin_session(server: &TestServer) -> String {
    let initialize = Request::post(initialize_with_elicitation(0, STRICT));
    let response = connect(server).exchange(&initialize);
    let id = response.head.field("Mcp-Session-Id").expect("a session").to_owned();
    let initialized = in_session(&notification("notifications/initialized"), &id);
    connect(server).exchange(&initialized).expect_empty_body(202);
    id
}

fn in_session(message: &Value, id: &str) -> Request {
    let request = Request::post(message).field("Mcp-Session-Id", id);
    request.field("MCP-Protocol-Version", STRICT)
}

/// Returns requests in session `id` that are refused before they reach the session, with their
/// status, and whether the connection stays open.
fn refused_requests(id: &str) -> Vec<(Request, u16, bool)> {
    let good = || in_session(&echo(1, "hi"), id);
    vec![
        (good().without_field("MCP-Protocol-Version"), 400, true),
        (good().field("MCP-Protocol-Version", "2025-11-25"), 400, true),
        (good().without_field("Content-Type"), 400, true),
        (good().field("Content-Type", "text/plain"), 415, true),
        (good().add_field("Content-Encoding", "gzip"), 415, true),
        (good().field("Accept", "text/event-stream"), 406, true),
        (good().field("Origin", "http://evil.example"), 403, true),
        (good().method("PUT"), 405, true),
        (good().method("GET").body(""), 405, true),
        (good().add_field("Expect", "miracles"), 417, false),
        (good().body(" ".repeat(BODY_BYTES_MAX + 1)), 413, false),
    ]
}

/// The limit of a body.
const BODY_BYTES_MAX: usize = 1 << 12;

fn with_small_bodies(options: Options) -> Options {
    let mut options = strict_options(options);
    options.limits.message_bytes_max = BODY_BYTES_MAX;
    options
}

#[test]
fn each_strict_response_names_the_open_session() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(with_small_bodies(options));
        let id = begin_session(&server);
        let expect_named = |response: &Response| {
            assert_eq!(response.head.field("Mcp-Session-Id"), Some(&*id), "{response:?}");
            assert_eq!(response.head.field("MCP-Protocol-Version"), Some(STRICT), "{response:?}");
        };
        for number in 0..CONNECTIONS {
            let mut client = connect(&server);
            for (request, status, stays_open) in refused_requests(&id) {
                let response = client.exchange(&request);
                assert_eq!(response.status(), status, "{request:?}: {response:?}");
                expect_named(&response);
                if stays_open {
                    client.expect_alive();
                } else {
                    client.expect_eof_or_reset();
                    client = connect(&server);
                }
            }
            expect_named(&client.exchange(&in_session(&echo(number, "hi"), &id)));
            let response = client.exchange(&in_session(&json!({}), &id).body("{"));
            response.expect_error(400, -32700, Some(Value::Null));
            expect_named(&response);
            client.send(&in_session(&json!({}), &id).method("HEAD").body(""));
            expect_named(&client.read_head_response());
            client.expect_alive();
        }
        let end = in_session(&json!({}), &id).method("DELETE").body("");
        expect_named(&connect(&server).exchange(&end));
        server.close();
    });
}

#[test]
fn strict_response_names_no_unknown_session() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(with_small_bodies(options));
        let ended = begin_session(&server);
        let end = in_session(&json!({}), &ended).method("DELETE").body("");
        connect(&server).exchange(&end).expect_empty_body(204);
        let open = begin_session(&server);
        let last = if open.ends_with('0') { "1" } else { "0" };
        let near = format!("{}{last}", &open[..open.len() - 1]);
        for id in [&*ended, &near, "x", "00000000-0000-4000-8000-000000000000"] {
            for _ in 0..CONNECTIONS / 2 {
                for (request, status, _) in refused_requests(id) {
                    let response = connect(&server).exchange(&request);
                    assert_eq!(response.status(), status, "{request:?}: {response:?}");
                    assert_eq!(response.head.field("Mcp-Session-Id"), None, "{response:?}");
                }
                let requests = [
                    in_session(&echo(1, "hi"), id),
                    in_session(&notification("notifications/none"), id),
                    in_session(&json!({}), id).method("DELETE").body(""),
                ];
                for request in requests {
                    let response = connect(&server).exchange(&request);
                    response.expect_error(404, -32600, None);
                    assert_eq!(response.head.field("Mcp-Session-Id"), None, "{response:?}");
                }
            }
        }
        server.close();
    });
}

#[test]
fn pipelined_requests_follow_a_refused_one() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(strict_options(options));
        let id = begin_session(&server);
        for number in 0..CONNECTIONS {
            let mut client = connect(&server);
            let good = in_session(&echo(number, "hi"), &id);
            client.send(&good.clone().field("Content-Type", "text/plain"));
            client.send(&good);
            let refused = client.read_response();
            assert_eq!(refused.status(), 415, "{refused:?}");
            assert_eq!(refused.head.field("Mcp-Session-Id"), Some(&*id), "{refused:?}");
            assert_eq!(result_text(&client.read_response().message()), "hi");
        }
        server.close();
    });
}
