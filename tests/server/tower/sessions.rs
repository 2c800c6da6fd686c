//! Legacy sessions: handshake, GET stream and DELETE.

use corelane::tower::McpService;
use corelane_test_support::messages::{
    LEGACY, echo, initialize_with_elicitation, notification, result_text,
};
use corelane_test_support::{Request, TestServer, on_one_shard_and_two};

use crate::tower::mounted::Mounted;

#[test]
fn session_has_get_stream_until_delete() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let axum = Mounted::start(|| McpService::from_handle(&server.handle()));
        let mut client = axum.connect().with_revision(LEGACY);
        let response = client.exchange(&Request::post(initialize_with_elicitation(0, LEGACY)));
        let session = response.head.field("Mcp-Session-Id").expect("a session").to_owned();
        let in_session = |request: Request| {
            request.field("Mcp-Session-Id", &session).field("MCP-Protocol-Version", LEGACY)
        };
        let initialized = Request::post(notification("notifications/initialized"));
        client.exchange(&in_session(initialized)).expect_empty_body(202);
        let mut stream = axum.connect().with_revision(LEGACY);
        let get = Request::new("GET", "/mcp").field("Accept", "text/event-stream");
        stream.request_stream(&in_session(get));
        server.add_tool("later");
        let mut change = stream.read_event().expect("an event");
        if change.data.as_deref() == Some("") {
            change = stream.read_event().expect("an event");
        }
        assert!(change.data.unwrap_or_default().contains("tools/list_changed"));
        // On another connection to a shard: the first one has the stream.
        let response = client.exchange(&in_session(Request::post(echo(1, "hi"))));
        assert_eq!(result_text(&response.message()), "hi");
        let deleted = client.exchange(&in_session(Request::new("DELETE", "/mcp")));
        deleted.expect_empty_body(204);
        stream.expect_end_of_stream();
        let gone = client.exchange(&in_session(Request::post(echo(2, "hi"))));
        assert_eq!(gone.status(), 404, "{gone:?}");
        drop((client, stream));
        axum.shut_down();
        server.close();
    });
}
