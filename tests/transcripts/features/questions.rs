//! What the server asks of its client in the revisions that have requests in both directions.

use serde_json::{Value, json};

use super::Feature;
use crate::dialogue::Dialogue;
use crate::{LEGACY, hold};

/// Revisions with elicitation by request.
const ELICITATION: [&str; 2] = [LEGACY[2], LEGACY[3]];

#[test]
fn sampling_reads_as_written() {
    hold(&Feature { name: "sampling", revisions: &LEGACY, arguments: &[], play: sampling });
}

fn sampling(dialogue: &mut Dialogue) {
    dialogue.open(json!({"sampling": {}}));
    dialogue.part("a reply");
    let call = json!({"name": "test_sampling", "arguments": {"prompt": "Say hello"}});
    let id = dialogue.ask("tools/call", call.clone());
    let request = dialogue.hear_from_server("sampling/createMessage");
    let hello = json!({
        "role": "assistant", "model": "m", "stopReason": "endTurn",
        "content": {"type": "text", "text": "Hello!"},
    });
    dialogue.respond(&request, &hello);
    dialogue.answer(id, "tools/call");
    dialogue.part("a client that tells how far it is");
    let id = dialogue.ask("tools/call", call.clone());
    let request = dialogue.hear_from_server("sampling/createMessage");
    for progress in [1, 2] {
        let token = &request["params"]["_meta"]["progressToken"];
        let progress = json!({"progressToken": token, "progress": progress, "total": 2});
        dialogue.notify("notifications/progress", Some(progress));
    }
    dialogue.respond(&request, &hello);
    dialogue.answer(id, "tools/call");
    dialogue.part("a refusal");
    let id = dialogue.ask("tools/call", call.clone());
    let request = dialogue.hear_from_server("sampling/createMessage");
    let error = json!({"code": -1, "message": "User rejected sampling request"});
    dialogue.say(&json!({"jsonrpc": "2.0", "id": request["id"], "error": error}));
    dialogue.answer(id, "tools/call");
    dialogue.part("a second answer, and one that nobody asked for, are passed over");
    dialogue.respond(&request, &json!({}));
    dialogue.say(&json!({"jsonrpc": "2.0", "id": "never", "result": {}}));
    dialogue.part("an answer that is none");
    let id = dialogue.ask("tools/call", call);
    let request = dialogue.hear_from_server("sampling/createMessage");
    dialogue.respond(&request, &json!({"role": "robot"}));
    dialogue.answer(id, "tools/call");
}

#[test]
fn a_client_that_cannot_is_not_asked() {
    hold(&Feature { name: "questions-unasked", revisions: &LEGACY, arguments: &[], play: unasked });
}

fn unasked(dialogue: &mut Dialogue) {
    dialogue.open(json!({}));
    dialogue.part("tools that would have asked");
    for (tool, arguments) in [
        ("test_sampling", json!({"prompt": "Say hello"})),
        ("test_elicitation", json!({"message": "Who are you?"})),
        ("test_elicitation_url", json!({"message": "Please sign in"})),
    ] {
        let id = dialogue.ask("tools/call", json!({"name": tool, "arguments": arguments}));
        dialogue.answer(id, "tools/call");
    }
}

#[test]
fn elicitation_reads_as_written() {
    let revisions = &ELICITATION;
    hold(&Feature { name: "elicitation", revisions, arguments: &[], play: elicitation });
}

fn elicitation(dialogue: &mut Dialogue) {
    dialogue.open(json!({"elicitation": {}}));
    for answer in [
        json!({"action": "accept", "content": {"username": "u", "email": "u@example.com"}}),
        json!({"action": "decline"}),
        json!({"action": "cancel"}),
        json!({"action": "perhaps"}),
    ] {
        dialogue.part(answer["action"].as_str().unwrap_or_default());
        let arguments = json!({"message": "Who are you?"});
        elicit(dialogue, "test_elicitation", &arguments, &answer);
    }
    dialogue.part("defaults");
    let content = json!({
        "name": "Jane", "age": 31, "score": 1.5, "status": "pending", "verified": false,
    });
    let answer = json!({"action": "accept", "content": content});
    elicit(dialogue, "test_elicitation_sep1034_defaults", &json!({}), &answer);
    dialogue.part("enumerations");
    let content = json!({
        "untitledSingle": "option1", "titledSingle": "value2", "legacyEnum": "opt3",
        "untitledMulti": ["option1"], "titledMulti": ["value1", "value3"],
    });
    let answer = json!({"action": "accept", "content": content});
    elicit(dialogue, "test_elicitation_sep1330_enums", &json!({}), &answer);
}

fn elicit(dialogue: &mut Dialogue, tool: &str, arguments: &Value, answer: &Value) {
    let id = dialogue.ask("tools/call", json!({"name": tool, "arguments": arguments}));
    let request = dialogue.hear_from_server("elicitation/create");
    dialogue.respond(&request, answer);
    dialogue.answer(id, "tools/call");
}

#[test]
fn elicitation_by_address_reads_as_written() {
    let revisions = &[LEGACY[3]];
    hold(&Feature { name: "elicitation-url", revisions, arguments: &[], play: by_address });
}

fn by_address(dialogue: &mut Dialogue) {
    dialogue.open(json!({"elicitation": {"url": {}}}));
    let arguments = json!({"message": "Please sign in"});
    // Told to whoever agreed to go there: what happens there is over.
    let complete = "notifications/elicitation/complete";
    for answer in ["accept", "decline", "cancel"] {
        dialogue.part(answer);
        let call = json!({"name": "test_elicitation_url", "arguments": arguments});
        let id = dialogue.ask("tools/call", call);
        let request = dialogue.hear_from_server("elicitation/create");
        dialogue.respond(&request, &json!({"action": answer}));
        if answer == "accept" {
            let told = dialogue.hear_from_server(complete);
            assert_eq!(told["params"]["elicitationId"], request["params"]["elicitationId"]);
        }
        dialogue.answer(id, "tools/call");
    }
    dialogue.part("a form, which the client did not declare");
    let call = json!({"name": "test_elicitation", "arguments": arguments});
    let id = dialogue.ask("tools/call", call);
    dialogue.answer(id, "tools/call");
}

#[test]
fn a_question_of_a_cancelled_call_is_taken_back() {
    let revisions = &ELICITATION;
    hold(&Feature { name: "questions-cancelled", revisions, arguments: &[], play: cancelled });
}

fn cancelled(dialogue: &mut Dialogue) {
    dialogue.open(json!({"elicitation": {}}));
    dialogue.part("the call is cancelled while its question is open");
    let arguments = json!({"message": "Who are you?"});
    let call = json!({"name": "test_elicitation", "arguments": arguments});
    let id = dialogue.ask("tools/call", call);
    let request = dialogue.hear_from_server("elicitation/create");
    dialogue.notify("notifications/cancelled", Some(json!({"requestId": id})));
    dialogue.hear_from_server("notifications/cancelled");
    dialogue.respond(&request, &json!({"action": "decline"}));
    dialogue.call("echo", &json!({"message": "still here"}));
}

#[test]
fn one_tool_serves_both_eras_with_roots() {
    hold(&Feature { name: "roots", revisions: &LEGACY, arguments: &[], play: roots });
}

fn roots(dialogue: &mut Dialogue) {
    dialogue.open(json!({"roots": {"listChanged": true}}));
    dialogue.part("the tool that the modern era plays in rounds");
    let call = json!({"name": "test_input_required_result_list_roots", "arguments": {}});
    let id = dialogue.ask("tools/call", call);
    let request = dialogue.hear_from_server("roots/list");
    dialogue.respond(&request, &json!({"roots": [{"uri": "file:///p", "name": "p"}]}));
    dialogue.answer(id, "tools/call");
    dialogue.part("roots change");
    dialogue.notify("notifications/roots/list_changed", None);
    dialogue.call("echo", &json!({"message": "still here"}));
}
