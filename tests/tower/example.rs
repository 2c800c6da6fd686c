//! The program of `examples/axum.rs`.

use corelane_test_support::messages::{call, modern, result_text, with_progress};
use corelane_test_support::{HttpClient, Request};
use serde_json::json;

use crate::mounted::Mounted;

#[expect(dead_code, reason = "the test binds a free port instead of running its main function")]
#[path = "../../examples/axum.rs"]
mod program;

#[test]
fn example_serves_mcp_beside_other_routes() {
    let axum =
        Mounted::serve(|| program::router(program::mcp_service().expect("the server starts")));
    let mut client = axum.connect();
    let index = client.exchange(&Request::new("GET", "/").field("Accept", "text/plain"));
    assert_eq!(index.body, b"MCP is at /mcp");
    let request = modern(with_progress(call(1, "tea", json!({"seconds": 0}))));
    let response = client.exchange(&Request::modern(&request));
    assert_eq!(result_text(&response.message()), "Your tea is ready.");
    let foreign = Request::modern(&request).field("Host", "evil.example");
    HttpClient::connect(axum.address).exchange(&foreign).expect_error(403, -32600, None);
    drop(client);
    axum.shut_down();
}
