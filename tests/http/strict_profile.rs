//! The strict profile: that of the pinned one, except that `initialize` need not name the revision.

use corelane::protocol::revision::Revision;
use corelane::server::Options;
use corelane_test_support::messages::{
    echo, initialize_with_elicitation, modern, notification, result_text,
};
use corelane_test_support::{HttpClient, Request, TestServer, on_one_shard_and_two};
use serde_json::json;

const STRICT: &str = "2025-06-18";

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
