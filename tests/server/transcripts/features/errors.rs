//! Invalid JSON, invalid messages, unknown methods and ignored messages.

use corelane_test_support::messages::REVISIONS;
use serde_json::json;

use super::Feature;
use crate::transcripts::check_transcript;
use crate::transcripts::transcript_client::TranscriptClient;

#[test]
fn errors_match_golden_transcript() {
    check_transcript(&Feature {
        name: "errors",
        revisions: &REVISIONS,
        arguments: &[],
        scenario: errors,
    });
}

fn errors(client: &mut TranscriptClient) {
    client.open(json!({}));
    client.start_section("invalid JSON");
    for text in ["{", "nonsense", "{\"a\":\"\\ud800\"}"] {
        client.send_raw(text);
        client.receive(None);
    }
    client.start_section("invalid messages");
    for text in ["7", "{}", "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}"] {
        client.send_raw(text);
        client.receive(None);
    }
    client.start_section("unknown methods");
    client.expect_error("no/such/method", json!({}), -32601);
    client.start_section("unexpected messages are ignored");
    client.notify("notifications/unknown", None);
    let progress = json!({"progressToken": "unknown", "progress": 1});
    client.notify("notifications/progress", Some(progress));
    client.send(&json!({"jsonrpc": "2.0", "id": "never", "result": {}}));
    client.call_tool("echo", &json!({"message": "still here"}));
}
