//! Endpoints at configured paths.

use corelane_test_support::http::Response;
use corelane_test_support::messages::{
    LEGACY, echo, initialize_with_elicitation, modern, notification, result_text,
};
use corelane_test_support::{Request, TestServer, on_one_shard_and_two};
use serde_json::Value;

const PATH: &str = "/api/v1&x/mcp";

fn start(mut options: corelane::Options) -> TestServer {
    options.http.path = PATH.into();
    options.http.legacy_sse = true;
    options.http.legacy_sse_path = "/api/events".into();
    options.http.legacy_messages_path = "/api/messages".into();
    TestServer::with_test_tools(options)
}

/// Sends the request alone on a connection.
fn exchange(server: &TestServer, request: &Request) -> Response {
    server.connect_http().with_revision(LEGACY).exchange(request)
}

#[test]
fn both_eras_are_served_at_configured_path() {
    on_one_shard_and_two(|options| {
        let server = start(options);
        let call = Request::modern(&modern(echo(1, "modern")));
        let response = server.connect_http().exchange(&call.clone().target(PATH));
        assert_eq!(result_text(&response.message()), "modern");
        let initialize = Request::post(initialize_with_elicitation(2, LEGACY)).target(PATH);
        let response = exchange(&server, &initialize);
        let id = response.head.field("Mcp-Session-Id").expect("no Mcp-Session-Id").to_owned();
        let in_session = |request: Request| request.target(PATH).field("Mcp-Session-Id", &id);
        let initialized = Request::post(notification("notifications/initialized"));
        exchange(&server, &in_session(initialized)).expect_empty_body(202);
        let mut listener = server.connect_http().with_revision(LEGACY);
        listener.request_stream(&in_session(
            Request::new("GET", PATH).field("Accept", "text/event-stream"),
        ));
        server.add_tool("more");
        assert_eq!(listener.read_message().1["method"], "notifications/tools/list_changed");
        let delete = in_session(Request::new("DELETE", PATH));
        exchange(&server, &delete).expect_empty_body(204);
        listener.expect_end_of_stream();
        let error = server.connect_http().exchange(&call).expect_error(404, -32600, None);
        assert_eq!(error["error"]["message"], "not found: the MCP endpoint is /api/v1&x/mcp");
        drop(listener);
        server.close();
    });
}

#[test]
fn legacy_sse_is_served_at_configured_paths() {
    on_one_shard_and_two(|options| {
        let server = start(options);
        let mut stream = server.connect_http().with_revision("2024-11-05");
        stream.request_stream(&Request::new("GET", "/api/events"));
        let endpoint = stream.read_event().and_then(|event| event.data).expect("no endpoint");
        assert!(endpoint.starts_with("/api/messages?sessionId="), "{endpoint}");
        let initialize = initialize_with_elicitation(0, "2024-11-05");
        stream.register_request(&Request::post(&initialize));
        exchange(&server, &Request::post(&initialize).target(&endpoint)).expect_empty_body(202);
        let response: Value = stream.read_message_without_id();
        assert_eq!(response["result"]["protocolVersion"], "2024-11-05", "{response}");
        for (method, target) in [("GET", "/sse"), ("POST", "/messages?sessionId=1")] {
            exchange(&server, &Request::new(method, target)).expect_error(404, -32600, None);
        }
        drop(stream);
        server.close();
    });
}

#[test]
fn page_names_the_configured_path() {
    on_one_shard_and_two(|options| {
        let server = start(options);
        let page = exchange(&server, &Request::new("GET", "/"));
        let page = String::from_utf8(page.body).expect("the page is UTF-8");
        assert!(page.contains("<meta name=\"mcp-path\" content=\"/api/v1&amp;x/mcp\">"));
        server.close();
    });
}
