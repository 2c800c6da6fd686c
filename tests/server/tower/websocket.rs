//! WebSocket through axum.

use corelane::tower::McpService;
use corelane_test_support::messages::{LEGACY, echo, result_text};
use corelane_test_support::{TestServer, WebSocketClient, http_options, over_each_ring};

use crate::tower::mounted::Mounted;

#[test]
fn websocket_handshake_and_messages_pass() {
    over_each_ring(http_options(), |options| {
        let server = TestServer::with_test_tools(options);
        let axum = Mounted::start(|| McpService::from_handle(&server.handle()));
        let mut client = WebSocketClient::initialize(axum.address, LEGACY);
        let text = "x".repeat(100_000);
        for id in 1..=3 {
            assert_eq!(result_text(&client.exchange(&echo(id, &text))), text);
        }
        server.drain();
        client.expect_close(1001);
        server.close();
        axum.shut_down();
    });
}
