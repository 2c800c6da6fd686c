//! `input_required` results (MRTR) and invalid `requestState` values.

use corelane_test_support::messages::MODERN;
use serde_json::{Value, json};

use super::Feature;
use crate::transcripts::check_transcript;
use crate::transcripts::transcript_client::TranscriptClient;

#[test]
fn input_required_matches_golden_transcript() {
    check_transcript(&Feature {
        name: "input-required",
        revisions: &[MODERN],
        arguments: &[],
        scenario: input_required,
    });
}

/// Capabilities of a client that supports every input request.
fn all_capabilities() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}})
}

fn accept(content: &Value) -> Value {
    json!({"action": "accept", "content": content})
}

fn message_result(text: &str) -> Value {
    let content = json!({"type": "text", "text": text});
    json!({"role": "assistant", "model": "m", "stopReason": "endTurn", "content": content})
}

/// Parameters of a retry of `tool` with input responses.
fn retry_params(tool: &str, responses: &Value, state: &Value) -> Value {
    json!({"name": tool, "arguments": {}, "inputResponses": responses, "requestState": state})
}

fn input_required(client: &mut TranscriptClient) {
    client.open(all_capabilities());
    let roots = json!({"roots": [{"uri": "file:///p", "name": "p"}]});
    for (tool, responses) in [
        (
            "test_input_required_result_elicitation",
            json!({"user_name": accept(&json!({"name": "Alice"}))}),
        ),
        (
            "test_input_required_result_sampling",
            json!({"capital_question": message_result("Paris")}),
        ),
        ("test_input_required_result_list_roots", json!({"client_roots": roots})),
        (
            "test_input_required_result_request_state",
            json!({"confirm": accept(&json!({"ok": true}))}),
        ),
        (
            "test_input_required_result_multiple_inputs",
            json!({
                "user_name": accept(&json!({"name": "Alice"})),
                "greeting": message_result("Hello"),
                "client_roots": roots,
            }),
        ),
    ] {
        client.start_section(tool);
        let first = client.call_tool(tool, &json!({}));
        assert_eq!(first["resultType"], "input_required", "{first}");
        client.expect_result("tools/call", retry_params(tool, &responses, &first["requestState"]));
    }
    two_rounds(client);
    prompt(client);
}

/// Two rounds of one call.
fn two_rounds(client: &mut TranscriptClient) {
    let tool = "test_input_required_result_multi_round";
    client.start_section(tool);
    let first = client.call_tool(tool, &json!({}));
    let responses = json!({"step1": accept(&json!({"name": "Alice"}))});
    let second =
        client.expect_result("tools/call", retry_params(tool, &responses, &first["requestState"]));
    let responses = json!({"step2": accept(&json!({"color": "blue"}))});
    client.expect_result("tools/call", retry_params(tool, &responses, &second["requestState"]));
}

/// A prompt with an input request.
fn prompt(client: &mut TranscriptClient) {
    let name = "test_input_required_result_prompt";
    client.start_section(name);
    let first = client.expect_result("prompts/get", json!({"name": name}));
    let responses = json!({"user_context": accept(&json!({"context": "tests"}))});
    let params = json!({
        "name": name, "inputResponses": responses, "requestState": first["requestState"],
    });
    client.expect_result("prompts/get", params);
}

#[test]
fn input_required_url_matches_golden_transcript() {
    let revisions = &[MODERN];
    check_transcript(&Feature {
        name: "elicitation-url",
        revisions,
        arguments: &[],
        scenario: elicitation_url,
    });
}

fn elicitation_url(client: &mut TranscriptClient) {
    client.open(json!({"elicitation": {"url": {}}}));
    let tool = "test_elicitation_url";
    let arguments = json!({"message": "Please sign in"});
    for action in ["accept", "decline", "cancel"] {
        client.start_section(action);
        let first = client.call_tool(tool, &arguments);
        let responses = json!({"page": {"action": action}});
        let mut params = retry_params(tool, &responses, &first["requestState"]);
        params["arguments"] = arguments.clone();
        client.expect_result("tools/call", params);
    }
    client.start_section("form mode, which the client did not declare");
    let call = json!({"name": "test_elicitation", "arguments": arguments});
    client.expect_error("tools/call", call, -32021);
}

#[test]
fn invalid_request_state_matches_golden_transcript() {
    check_transcript(&Feature {
        name: "input-required-invalid",
        revisions: &[MODERN],
        arguments: &[],
        scenario: invalid_state,
    });
}

fn invalid_state(client: &mut TranscriptClient) {
    client.open(all_capabilities());
    let tool = "test_input_required_result_elicitation";
    let responses = json!({"user_name": accept(&json!({"name": "Alice"}))});
    client.start_section("a longer, a shorter and an unknown state");
    let first = client.call_tool(tool, &json!({}));
    let state = first["requestState"].as_str().unwrap_or_default().to_owned();
    let shorter = &state[..state.len() - 2];
    client.mark_volatile("requestState", shorter);
    for changed in [&format!("{state}A"), shorter, "x"] {
        let params = retry_params(tool, &responses, &json!(changed));
        client.expect_error("tools/call", params, -32602);
    }
    client.start_section("another tool, and another method");
    let other = "test_input_required_result_request_state";
    client.expect_error("tools/call", retry_params(other, &responses, &json!(state)), -32602);
    let params = json!({
        "name": "test_input_required_result_prompt",
        "inputResponses": responses, "requestState": state,
    });
    client.expect_error("prompts/get", params, -32602);
    client.start_section("other arguments");
    let mut params = retry_params(tool, &responses, &json!(state));
    params["arguments"] = json!({"more": true});
    client.expect_error("tools/call", params, -32602);
    client.start_section("replayed");
    client.expect_result("tools/call", retry_params(tool, &responses, &json!(state)));
    client.expect_error("tools/call", retry_params(tool, &responses, &json!(state)), -32602);
    client.start_section("a response to another input request");
    let first = client.call_tool(tool, &json!({}));
    let other = json!({"unknown": accept(&json!({"name": "Alice"}))});
    client.expect_result("tools/call", retry_params(tool, &other, &first["requestState"]));
    client.start_section("invalid input responses");
    for malformed in [json!(12_345), json!({"action": "perhaps"})] {
        let params = json!({
            "name": tool, "arguments": {}, "inputResponses": {"user_name": malformed},
        });
        client.expect_error("tools/call", params, -32602);
    }
}

#[test]
fn undeclared_input_capability_matches_golden_transcript() {
    check_transcript(&Feature {
        name: "input-required-undeclared",
        revisions: &[MODERN],
        arguments: &[],
        scenario: undeclared,
    });
}

fn undeclared(client: &mut TranscriptClient) {
    client.open(json!({}));
    client.start_section("tools that need undeclared capabilities");
    for tool in ["test_missing_capability", "test_input_required_result_elicitation"] {
        client.expect_error("tools/call", json!({"name": tool, "arguments": {}}), -32021);
    }
    client.start_section("URL mode, with only form mode declared");
    client.open(json!({"elicitation": {}}));
    let arguments = json!({"message": "Please sign in"});
    let call = json!({"name": "test_elicitation_url", "arguments": arguments});
    client.expect_error("tools/call", call, -32021);
    client.open(json!({"sampling": {}}));
    client.start_section("a tool that adapts to the capabilities");
    client.call_tool("test_input_required_result_capabilities", &json!({}));
}
