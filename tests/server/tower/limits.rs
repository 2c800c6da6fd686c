//! The limits of the server apply to the service.

use corelane::tower::McpService;
use corelane_test_support::messages::{call, echo, modern, result_text, with_progress};
use corelane_test_support::{Request, TestServer, http_options, over_each_ring};
use serde_json::json;

use crate::tower::mounted::Mounted;

#[test]
fn connection_limit_gets_503() {
    let mut options = http_options();
    options.http.connections_max = 2;
    over_each_ring(options, |options| {
        let server = TestServer::with_test_tools(options);
        let axum = Mounted::start(|| McpService::from_handle(&server.handle()));
        let held = Request::modern(&modern(with_progress(call(1, "hold", json!({})))));
        let mut streams = [axum.connect(), axum.connect()];
        for stream in &mut streams {
            stream.request_stream(&held);
            stream.read_message_without_id();
        }
        let echoed = Request::modern(&modern(echo(2, "hi")));
        let mut client = axum.connect();
        let refused = client.exchange(&echoed);
        refused.expect_error(503, 1001, None);
        assert_eq!(refused.head.field("Retry-After"), Some("1"), "{refused:?}");
        server.open_gate();
        for mut stream in streams {
            assert_eq!(result_text(&stream.read_message_without_id()), "held");
            stream.expect_end_of_stream();
        }
        assert_eq!(result_text(&client.exchange(&echoed).message()), "hi");
        drop(client);
        axum.shut_down();
        let counters = server.close();
        assert_eq!(counters.connections.refused_limit, 1, "{counters}");
    });
}
