//! Event streams, and clients that disconnect.

use corelane::tower::McpService;
use corelane_test_support::messages::{call, echo, modern, result_text, with_progress};
use corelane_test_support::{Request, TestServer, http_options, over_each_ring};
use serde_json::json;

use crate::tower::mounted::Mounted;

fn call_with_progress(tool: &str) -> Request {
    Request::modern(&modern(with_progress(call(1, tool, json!({})))))
}

#[test]
fn progress_arrives_before_response() {
    over_each_ring(http_options(), |options| {
        let server = TestServer::with_test_tools(options);
        let axum = Mounted::start(|| McpService::from_handle(&server.handle()));
        let mut client = axum.connect();
        client.request_stream(&call_with_progress("hold"));
        let progress = client.read_message_without_id();
        assert_eq!(progress["params"]["message"], "begun", "{progress}");
        server.open_gate();
        assert_eq!(result_text(&client.read_message_without_id()), "held");
        client.expect_end_of_stream();
        // The connection to the shard can be used again.
        let response = client.exchange(&Request::modern(&modern(echo(2, "hi"))));
        assert_eq!(result_text(&response.message()), "hi");
        drop(client);
        axum.shut_down();
        let counters = server.close();
        assert_eq!(counters.connections.accepted, 1, "{counters}");
    });
}

#[test]
fn client_disconnect_cancels_handler() {
    over_each_ring(http_options(), |options| {
        let server = TestServer::with_test_tools(options);
        let axum = Mounted::start(|| McpService::from_handle(&server.handle()));
        // During the stream.
        let mut client = axum.connect();
        client.request_stream(&call_with_progress("until-cancelled"));
        assert_eq!(server.next_signal(), "begun");
        drop(client);
        assert_eq!(server.next_signal(), "cancelled");
        // Before the response.
        let mut client = axum.connect();
        client.send(&Request::modern(&modern(call(2, "until-cancelled", json!({})))));
        assert_eq!(server.next_signal(), "begun");
        drop(client);
        assert_eq!(server.next_signal(), "cancelled");
        axum.shut_down();
        server.close();
    });
}
