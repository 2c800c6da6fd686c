//! The pinned profile: one revision, which every request names, JSON responses only, and fixed
//! header fields.

use std::time::Duration;

use corelane::Options;
use corelane_protocol::revision::Revision;
use corelane_test_support::http::Response;
use corelane_test_support::messages::{
    call, cancelled, echo, initialize_with_elicitation, modern, notification,
    request_without_params, result_text, with_progress,
};
use corelane_test_support::{HttpClient, Request, TestServer, on_one_shard_and_two};
use serde_json::{Value, json};

const PINNED: &str = "2025-06-18";

fn pinned_options(mut options: Options) -> Options {
    options.http.pinned = Some(Revision::V2025_06_18);
    options.http.sse_start_delay = Duration::from_millis(1);
    options.http.sse_keepalive_interval = Duration::from_millis(1);
    options
}

/// Builds a POST without `Accept`, which this profile does not require.
fn post(message: &Value) -> Request {
    Request::post(message).without_field("Accept").field("MCP-Protocol-Version", PINNED)
}

fn connect(server: &TestServer) -> HttpClient {
    server.connect_http().with_revision(PINNED)
}

/// Creates a session and returns its id.
fn initialize_session(server: &TestServer) -> String {
    let mut client = connect(server);
    let response = client.exchange(&post(&initialize_with_elicitation(0, PINNED)));
    assert_eq!(response.message()["result"]["protocolVersion"], PINNED);
    let id = response.head.field("Mcp-Session-Id").expect("no Mcp-Session-Id").to_owned();
    expect_header_fields(&response, Some(&id));
    let notification =
        post(&notification("notifications/initialized")).field("Mcp-Session-Id", &id);
    let response = client.exchange(&notification);
    response.expect_empty_body(202);
    expect_header_fields(&response, Some(&id));
    id
}

/// Asserts the header fields that name the revision and the session.
#[track_caller]
fn expect_header_fields(response: &Response, session: Option<&str>) {
    assert_eq!(response.head.field("MCP-Protocol-Version"), Some(PINNED), "{response:?}");
    assert_eq!(response.head.field("Mcp-Session-Id"), session, "{response:?}");
}

#[test]
fn pinned_responses_name_revision_and_session() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(pinned_options(options));
        let id = initialize_session(&server);
        for number in 0..16 {
            let mut client = connect(&server);
            let in_session = |message: &Value| post(message).field("Mcp-Session-Id", &id);
            let response = client.exchange(&in_session(&echo(number, "hi")));
            assert_eq!(result_text(&response.message()), "hi");
            expect_header_fields(&response, Some(&id));
            let response = client.exchange(&in_session(&notification("notifications/none")));
            response.expect_empty_body(202);
            expect_header_fields(&response, Some(&id));
            let response = client.exchange(&in_session(&request_without_params(number, "no/such")));
            response.expect_error(200, -32601, Some(json!(number)));
            expect_header_fields(&response, Some(&id));
        }
        let mut client = connect(&server);
        let end = Request::new("DELETE", "/mcp").field("MCP-Protocol-Version", PINNED);
        let response = client.exchange(&end.clone().field("Mcp-Session-Id", &id));
        response.expect_empty_body(204);
        expect_header_fields(&response, Some(&id));
        let response = client.exchange(&post(&echo(1, "hi")).field("Mcp-Session-Id", &id));
        response.expect_error(404, -32600, None);
        assert_eq!(response.head.field("MCP-Protocol-Version"), Some(PINNED), "{response:?}");
        drop(client);
        server.close();
    });
}

#[test]
fn pinned_response_is_json_despite_progress_and_delay() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(pinned_options(options));
        let id = initialize_session(&server);
        for _ in 0..8 {
            let mut client = connect(&server);
            let request = with_progress(call(1, "slow", json!({"steps": 3, "step_ms": 5})));
            let request = post(&request).field("Mcp-Session-Id", &id);
            // Also when the client accepts an event stream.
            let request = request.field("Accept", "application/json, text/event-stream");
            let response = client.exchange(&request);
            assert_eq!(result_text(&response.message()), "took 3 steps of 5 ms");
            expect_header_fields(&response, Some(&id));
            client.expect_alive();
        }
        server.close();
    });
}

#[test]
fn pinned_cancelled_request_gets_202_deleted_one_404() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(pinned_options(options));
        for _ in 0..8 {
            let id = initialize_session(&server);
            let request = with_progress(call(1, "until-cancelled", json!({})));
            let (mut first, mut second) = (connect(&server), connect(&server));
            let in_session = |message: &Value| post(message).field("Mcp-Session-Id", &id);
            first.send(&in_session(&request));
            assert_eq!(server.next_signal(), "begun");
            connect(&server).exchange(&in_session(&cancelled(1))).expect_empty_body(202);
            assert_eq!(server.next_signal(), "cancelled");
            first.read_response().expect_empty_body(202);
            first.expect_alive();
            second.send(&in_session(&request));
            assert_eq!(server.next_signal(), "begun");
            let end = Request::new("DELETE", "/mcp").field("MCP-Protocol-Version", PINNED);
            connect(&server).exchange(&end.field("Mcp-Session-Id", &id)).expect_empty_body(204);
            assert_eq!(server.next_signal(), "cancelled");
            second.read_response().expect_error(404, -32600, Some(json!(1)));
            second.expect_alive();
        }
        server.close();
    });
}

#[test]
fn pinned_errors_name_the_revision() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(pinned_options(options));
        let good = post(&initialize_with_elicitation(1, PINNED));
        let mut client = connect(&server);
        for (request, status) in [
            (good.clone().without_field("MCP-Protocol-Version"), 400),
            (good.clone().field("MCP-Protocol-Version", "2025-11-25"), 400),
            (good.clone().without_field("Content-Type"), 400),
            (good.clone().field("Content-Type", "text/plain"), 415),
            (good.clone().field("Accept", "text/event-stream"), 406),
            (good.clone().field("Accept", "application/json;q=0"), 406),
            (Request::new("GET", "/mcp").field("MCP-Protocol-Version", PINNED), 405),
            (Request::new("GET", "/mcp").field("Mcp-Session-Id", "x"), 405),
            (good.clone().method("PUT"), 405),
            (post(&echo(1, "no session")), 400),
        ] {
            let response = client.exchange(&request);
            assert_eq!(response.status(), status, "{request:?}: {response:?}");
            expect_header_fields(&response, None);
            assert!(response.message()["error"].is_object());
        }
        client.expect_alive();
        drop(client);
        server.close();
    });
}

#[test]
fn pinned_refused_framing_names_the_revision() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(pinned_options(options));
        for text in ["GET /mcp HTTP/1.1\r\nbad field\r\n\r\n", "nonsense\r\n\r\n"] {
            let mut client = connect(&server);
            client.send_bytes(text.as_bytes());
            let response = client.read_response();
            assert_eq!(response.status(), 400, "{response:?}");
            expect_header_fields(&response, None);
        }
        server.close();
    });
}

#[test]
fn pinned_connection_limit_names_the_revision() {
    on_one_shard_and_two(|options| {
        let mut options = pinned_options(options);
        options.http.connections_max = 1;
        let server = TestServer::with_test_tools(options);
        let mut first = connect(&server);
        first.expect_alive();
        let mut second = connect(&server);
        let response = second.exchange(&Request::new("GET", "/status"));
        assert_eq!(response.status(), 503, "{response:?}");
        expect_header_fields(&response, None);
        drop((first, second));
        server.close();
    });
}

#[test]
fn pinned_initialize_answers_the_revision() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(pinned_options(options));
        for requested in ["2025-11-25", "2024-11-05", "1999-01-01"] {
            let response =
                connect(&server).exchange(&post(&initialize_with_elicitation(0, requested)));
            let result = &response.message()["result"];
            assert_eq!(result["protocolVersion"], PINNED, "{requested}");
            // The session keeps it: members of later revisions are not listed.
            let id = response.head.field("Mcp-Session-Id").expect("a session").to_owned();
            let initialized = notification("notifications/initialized");
            connect(&server).exchange(&post(&initialized).field("Mcp-Session-Id", &id));
            let again = post(&initialize_with_elicitation(1, requested));
            let response = connect(&server).exchange(&again.field("Mcp-Session-Id", &id));
            response.expect_error(400, -32600, Some(json!(1)));
        }
        server.close();
    });
}

#[test]
fn pinned_session_refuses_meta_of_other_revision() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(pinned_options(options));
        let id = initialize_session(&server);
        for number in 0..4 {
            let request = post(&modern(echo(number, "hi"))).field("Mcp-Session-Id", &id);
            let response = connect(&server).exchange(&request);
            let error = &response.message()["error"];
            assert_eq!(error["data"]["supported"], json!([PINNED]), "{response:?}");
            expect_header_fields(&response, Some(&id));
            let request = post(&echo(number, "hi")).field("Mcp-Session-Id", &id);
            let response = connect(&server).exchange(&request);
            assert_eq!(result_text(&response.message()), "hi");
        }
        server.close();
    });
}

#[test]
fn pinned_refusal_names_the_open_session() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(pinned_options(options));
        let id = initialize_session(&server);
        let good = || post(&echo(1, "hi")).field("Mcp-Session-Id", &id);
        for (request, status) in [
            (good().without_field("MCP-Protocol-Version"), 400),
            (good().field("Content-Type", "text/plain"), 415),
            (good().method("PUT"), 405),
        ] {
            for _ in 0..16 {
                let response = connect(&server).exchange(&request);
                assert_eq!(response.status(), status, "{response:?}");
                expect_header_fields(&response, Some(&id));
            }
        }
        let unknown = good().field("Mcp-Session-Id", "unknown").field("Content-Type", "text/plain");
        expect_header_fields(&connect(&server).exchange(&unknown), None);
        server.close();
    });
}
