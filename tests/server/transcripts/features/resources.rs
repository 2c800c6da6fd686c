//! Resources, prompts and completion.

use corelane_test_support::messages::{MODERN, REVISIONS};
use serde_json::json;

use super::Feature;
use crate::transcripts::check_transcript;
use crate::transcripts::transcript_client::TranscriptClient;

#[test]
fn resources_match_golden_transcript() {
    check_transcript(&Feature {
        name: "resources",
        revisions: &REVISIONS,
        arguments: &[],
        scenario: resources,
    });
}

fn resources(client: &mut TranscriptClient) {
    client.open(json!({}));
    client.start_section("lists");
    client.expect_result("resources/list", json!({}));
    client.expect_result("resources/templates/list", json!({}));
    client.expect_error("resources/list", json!({"cursor": "nowhere"}), -32602);
    for uri in [
        "test://static-text",
        "test://static-binary",
        "test://template/123/data",
        "test://watched-resource",
        "test://resource-with-icons",
    ] {
        client.start_section(uri);
        client.expect_result("resources/read", json!({"uri": uri}));
    }
    client.start_section("unknown resources");
    let code = if client.revision == MODERN { -32602 } else { -32002 };
    for uri in
        ["test://nothing", "test://template//data", "file:///etc/passwd", "test://static-text/.."]
    {
        client.expect_error("resources/read", json!({"uri": uri}), code);
    }
    client.start_section("invalid URIs");
    client.expect_error("resources/read", json!({"uri": 7}), -32602);
    client.expect_error("resources/read", json!({}), -32602);
}

#[test]
fn prompts_match_golden_transcript() {
    check_transcript(&Feature {
        name: "prompts",
        revisions: &REVISIONS,
        arguments: &[],
        scenario: prompts,
    });
}

fn prompts(client: &mut TranscriptClient) {
    client.open(json!({}));
    client.start_section("the list");
    client.expect_result("prompts/list", json!({}));
    for (prompt, arguments) in [
        ("test_simple_prompt", json!({})),
        ("test_prompt_with_arguments", json!({"arg1": "hello", "arg2": "world"})),
        ("test_prompt_with_embedded_resource", json!({"resourceUri": "test://static-text"})),
        ("test_prompt_with_image", json!({})),
        ("test_prompt_with_icons", json!({})),
    ] {
        client.start_section(prompt);
        client.expect_result("prompts/get", json!({"name": prompt, "arguments": arguments}));
    }
    client.start_section("invalid requests");
    for params in [
        json!({"name": "unknown"}),
        json!({}),
        json!({"name": "test_prompt_with_arguments", "arguments": {"arg1": "hello"}}),
        json!({"name": "test_prompt_with_arguments", "arguments": {"arg1": 1, "arg2": 2}}),
    ] {
        client.expect_error("prompts/get", params, -32602);
    }
}

#[test]
fn completion_matches_golden_transcript() {
    check_transcript(&Feature {
        name: "completion",
        revisions: &REVISIONS,
        arguments: &[],
        scenario: completion,
    });
}

fn completion(client: &mut TranscriptClient) {
    client.open(json!({}));
    client.start_section("an argument of a prompt");
    let prompt = json!({"type": "ref/prompt", "name": "test_prompt_with_arguments"});
    for value in ["", "par", "zzz"] {
        let argument = json!({"name": "arg1", "value": value});
        client.expect_result("completion/complete", json!({"ref": prompt, "argument": argument}));
    }
    client.start_section("a variable of a template");
    let template = json!({"type": "ref/resource", "uri": "test://template/{id}/data"});
    let argument = json!({"name": "id", "value": "1"});
    client.expect_result("completion/complete", json!({"ref": template, "argument": argument}));
    client.start_section("unknown references");
    let argument = json!({"name": "arg1", "value": ""});
    for reference in [
        json!({"type": "ref/prompt", "name": "unknown"}),
        json!({"type": "ref/resource", "uri": "test://nothing"}),
        json!({"type": "ref/tool", "name": "echo"}),
    ] {
        let params = json!({"ref": reference, "argument": argument});
        client.expect_error("completion/complete", params, -32602);
    }
    client.start_section("an argument without completion");
    let argument = json!({"name": "arg9", "value": ""});
    client.expect_result("completion/complete", json!({"ref": prompt, "argument": argument}));
}
