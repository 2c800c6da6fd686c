//! `/status` reports totals over all shards, on whichever connection it is requested. A GET of the
//! MCP endpoint names the page.

use corelane_test_support::messages::LEGACY;
use corelane_test_support::{Request, TestServer, on_one_shard_and_two};
use serde_json::Value;

use crate::http::http_session::HttpSession;

/// Connections and sessions; enough to reach each of two shards.
const MANY: u64 = 24;

/// Waits until `/status` shows these totals, then checks it on many connections.
#[track_caller]
fn expect_totals_everywhere(server: &TestServer, sessions: u64, streams: u64) {
    let fits = |status: &Value| status["sessions"] == sessions && status["streams"] == streams;
    server.wait_for_status(fits);
    for _ in 0..MANY {
        let status = server.connect_http().exchange(&Request::new("GET", "/status")).message();
        assert!(fits(&status), "{sessions} sessions and {streams} streams: {status}");
    }
}

#[test]
fn status_totals_include_all_shards() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let sessions: Vec<_> =
            (0..MANY).map(|_| HttpSession::initialize(server.address(), LEGACY)).collect();
        expect_totals_everywhere(&server, MANY, 0);
        let mut listeners: Vec<_> = sessions.iter().map(HttpSession::open_stream).collect();
        expect_totals_everywhere(&server, MANY, MANY);
        drop(listeners.split_off(8));
        expect_totals_everywhere(&server, MANY, 8);
        for session in &sessions[..16] {
            session.connect().exchange(&session.delete()).expect_empty_body(204);
        }
        expect_totals_everywhere(&server, MANY - 16, 0);
        drop(listeners);
        server.close();
    });
}

#[test]
fn get_of_browser_names_page() {
    let server = TestServer::with_test_tools(corelane_test_support::http_options());
    let request = Request::new("GET", "/mcp").field("Accept", "text/html,*/*;q=0.8");
    let response = server.connect_http().exchange(&request);
    let message = response.message();
    let text = message["error"]["message"].as_str().expect("an error");
    assert!(text.ends_with("the page for browsers is at /"), "{text}");
}
