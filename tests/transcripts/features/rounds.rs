//! Results in more than one round, and what becomes of states that are not what they were.

use serde_json::{Value, json};

use super::Feature;
use crate::dialogue::Dialogue;
use crate::{MODERN, hold};

#[test]
fn rounds_read_as_written() {
    hold(&Feature { name: "rounds", revisions: &[MODERN], arguments: &[], play: rounds });
}

/// A client that can do everything.
fn able() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}})
}

fn accept(content: &Value) -> Value {
    json!({"action": "accept", "content": content})
}

fn sampled(text: &str) -> Value {
    let content = json!({"type": "text", "text": text});
    json!({"role": "assistant", "model": "m", "stopReason": "endTurn", "content": content})
}

/// A retry of `tool` with answers to what was asked.
fn again(tool: &str, responses: &Value, state: &Value) -> Value {
    json!({"name": tool, "arguments": {}, "inputResponses": responses, "requestState": state})
}

fn rounds(dialogue: &mut Dialogue) {
    dialogue.open(able());
    let roots = json!({"roots": [{"uri": "file:///p", "name": "p"}]});
    for (tool, responses) in [
        (
            "test_input_required_result_elicitation",
            json!({"user_name": accept(&json!({"name": "Alice"}))}),
        ),
        ("test_input_required_result_sampling", json!({"capital_question": sampled("Paris")})),
        ("test_input_required_result_list_roots", json!({"client_roots": roots})),
        (
            "test_input_required_result_request_state",
            json!({"confirm": accept(&json!({"ok": true}))}),
        ),
        (
            "test_input_required_result_multiple_inputs",
            json!({
                "user_name": accept(&json!({"name": "Alice"})),
                "greeting": sampled("Hello"),
                "client_roots": roots,
            }),
        ),
    ] {
        dialogue.part(tool);
        let asked = dialogue.call(tool, &json!({}));
        assert_eq!(asked["resultType"], "input_required", "{asked}");
        dialogue.succeed("tools/call", again(tool, &responses, &asked["requestState"]));
    }
    several(dialogue);
    prompt(dialogue);
}

/// One round after the other.
fn several(dialogue: &mut Dialogue) {
    let tool = "test_input_required_result_multi_round";
    dialogue.part(tool);
    let first = dialogue.call(tool, &json!({}));
    let responses = json!({"step1": accept(&json!({"name": "Alice"}))});
    let second = dialogue.succeed("tools/call", again(tool, &responses, &first["requestState"]));
    let responses = json!({"step2": accept(&json!({"color": "blue"}))});
    dialogue.succeed("tools/call", again(tool, &responses, &second["requestState"]));
}

/// Prompts have rounds too.
fn prompt(dialogue: &mut Dialogue) {
    let name = "test_input_required_result_prompt";
    dialogue.part(name);
    let asked = dialogue.succeed("prompts/get", json!({"name": name}));
    let responses = json!({"user_context": accept(&json!({"context": "tests"}))});
    let params = json!({
        "name": name, "inputResponses": responses, "requestState": asked["requestState"],
    });
    dialogue.succeed("prompts/get", params);
}

#[test]
fn a_round_that_asks_by_address_reads_as_written() {
    let revisions = &[MODERN];
    hold(&Feature { name: "elicitation-url", revisions, arguments: &[], play: by_address });
}

fn by_address(dialogue: &mut Dialogue) {
    dialogue.open(json!({"elicitation": {"url": {}}}));
    let tool = "test_elicitation_url";
    let arguments = json!({"message": "Please sign in"});
    for answer in ["accept", "decline", "cancel"] {
        dialogue.part(answer);
        let asked = dialogue.call(tool, &arguments);
        let responses = json!({"page": {"action": answer}});
        let mut params = again(tool, &responses, &asked["requestState"]);
        params["arguments"] = arguments.clone();
        dialogue.succeed("tools/call", params);
    }
    dialogue.part("a form, which the client did not declare");
    let call = json!({"name": "test_elicitation", "arguments": arguments});
    dialogue.fail("tools/call", call, -32021);
}

#[test]
fn states_that_were_changed_read_as_written() {
    hold(&Feature { name: "rounds-wrong", revisions: &[MODERN], arguments: &[], play: wrong });
}

fn wrong(dialogue: &mut Dialogue) {
    dialogue.open(able());
    let tool = "test_input_required_result_elicitation";
    let responses = json!({"user_name": accept(&json!({"name": "Alice"}))});
    dialogue.part("a longer one, a shorter one, none of ours");
    let asked = dialogue.call(tool, &json!({}));
    let state = asked["requestState"].as_str().unwrap_or_default().to_owned();
    let shorter = &state[..state.len() - 2];
    dialogue.note("requestState", shorter);
    for changed in [&format!("{state}A"), shorter, "x"] {
        let params = again(tool, &responses, &json!(changed));
        dialogue.fail("tools/call", params, -32602);
    }
    dialogue.part("another tool, and another method");
    let other = "test_input_required_result_request_state";
    dialogue.fail("tools/call", again(other, &responses, &json!(state)), -32602);
    let params = json!({
        "name": "test_input_required_result_prompt",
        "inputResponses": responses, "requestState": state,
    });
    dialogue.fail("prompts/get", params, -32602);
    dialogue.part("other arguments");
    let mut params = again(tool, &responses, &json!(state));
    params["arguments"] = json!({"more": true});
    dialogue.fail("tools/call", params, -32602);
    dialogue.part("used twice");
    dialogue.succeed("tools/call", again(tool, &responses, &json!(state)));
    dialogue.fail("tools/call", again(tool, &responses, &json!(state)), -32602);
    dialogue.part("an answer to another question is not enough");
    let asked = dialogue.call(tool, &json!({}));
    let other = json!({"somebody": accept(&json!({"name": "Alice"}))});
    dialogue.succeed("tools/call", again(tool, &other, &asked["requestState"]));
    dialogue.part("an answer that is none");
    for malformed in [json!(12_345), json!({"action": "perhaps"})] {
        let params = json!({
            "name": tool, "arguments": {}, "inputResponses": {"user_name": malformed},
        });
        dialogue.fail("tools/call", params, -32602);
    }
}

#[test]
fn what_a_client_cannot_do_reads_as_written() {
    hold(&Feature { name: "rounds-unable", revisions: &[MODERN], arguments: &[], play: unable });
}

fn unable(dialogue: &mut Dialogue) {
    dialogue.open(json!({}));
    dialogue.part("tools that need what was not declared");
    for tool in ["test_missing_capability", "test_input_required_result_elicitation"] {
        dialogue.fail("tools/call", json!({"name": tool, "arguments": {}}), -32021);
    }
    dialogue.part("an address, where forms were declared");
    dialogue.open(json!({"elicitation": {}}));
    let arguments = json!({"message": "Please sign in"});
    let call = json!({"name": "test_elicitation_url", "arguments": arguments});
    dialogue.fail("tools/call", call, -32021);
    dialogue.open(json!({"sampling": {}}));
    dialogue.part("a tool that asks only what its client can answer");
    dialogue.call("test_input_required_result_capabilities", &json!({}));
}
