//! Change notifications: `subscriptions/listen` and `resources/subscribe`.

use corelane_test_support::messages::{LEGACY_REVISIONS, MODERN};
use serde_json::json;

use super::Feature;
use crate::transcripts::check_transcript;
use crate::transcripts::transcript_client::TranscriptClient;

#[test]
fn subscriptions_listen_matches_golden_transcript() {
    check_transcript(&Feature {
        name: "subscriptions-listen",
        revisions: &[MODERN],
        arguments: &[],
        scenario: subscriptions_listen,
    });
}

fn subscriptions_listen(client: &mut TranscriptClient) {
    client.open(json!({}));
    client.start_section("two streams with different filters");
    let tools = client.send_request(
        "subscriptions/listen",
        json!({"notifications": {"toolsListChanged": true, "taskIds": []}}),
    );
    client.receive_method("notifications/subscriptions/acknowledged");
    let filter = json!({
        "promptsListChanged": true,
        "resourcesListChanged": true,
        "resourceSubscriptions": ["test://watched-resource"],
    });
    client.send_request("subscriptions/listen", json!({"notifications": filter}));
    client.receive_method("notifications/subscriptions/acknowledged");
    client.start_section("tools change");
    client.call_tool("test_trigger_tool_change", &json!({}));
    client.start_section("prompts change");
    client.call_tool("test_trigger_prompt_change", &json!({}));
    client.start_section("a stream is cancelled, and an unknown one");
    client.notify("notifications/cancelled", Some(json!({"requestId": tools})));
    client.notify("notifications/cancelled", Some(json!({"requestId": "never"})));
    client.call_tool("test_trigger_tool_change", &json!({}));
    client.start_section("invalid filters");
    for notifications in [json!(7), json!({"toolsListChanged": "yes"})] {
        client.expect_error(
            "subscriptions/listen",
            json!({"notifications": notifications}),
            -32602,
        );
    }
}

#[test]
fn resources_subscribe_matches_golden_transcript() {
    check_transcript(&Feature {
        name: "resources-subscribe",
        revisions: &LEGACY_REVISIONS,
        arguments: &[],
        scenario: resources_subscribe,
    });
}

fn resources_subscribe(client: &mut TranscriptClient) {
    client.open(json!({}));
    let watched = json!({"uri": "test://watched-resource"});
    client.start_section("a resource, and an unknown one");
    client.expect_result("resources/subscribe", watched.clone());
    client.expect_error("resources/subscribe", json!({"uri": "test://nothing"}), -32002);
    client.start_section("lists change");
    client.call_tool("test_trigger_tool_change", &json!({}));
    client.call_tool("test_trigger_prompt_change", &json!({}));
    client.start_section("unsubscribe, twice");
    client.expect_result("resources/unsubscribe", watched.clone());
    client.expect_result("resources/unsubscribe", watched);
}
