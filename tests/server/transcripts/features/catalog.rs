//! Catalog changes during a connection.

use corelane_test_support::messages::REVISIONS;
use serde_json::json;

use super::Feature;
use crate::transcripts::check_transcript;
use crate::transcripts::transcript_client::TranscriptClient;

#[test]
fn changed_prompts_list_matches_golden_transcript() {
    check_transcript(&Feature {
        name: "catalog-change",
        revisions: &REVISIONS,
        arguments: &[],
        scenario: change,
    });
}

fn change(client: &mut TranscriptClient) {
    client.open(json!({}));
    client.start_section("a prompt is added");
    let before = client.expect_result("prompts/list", json!({}));
    client.call_tool("test_trigger_prompt_change", &json!({}));
    let after = client.expect_result("prompts/list", json!({}));
    assert_ne!(before["prompts"], after["prompts"]);
}
