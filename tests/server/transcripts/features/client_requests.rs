//! Requests from the server to the client, in the legacy revisions.

use corelane_test_support::messages::LEGACY_REVISIONS;
use serde_json::{Value, json};

use super::Feature;
use crate::transcripts::check_transcript;
use crate::transcripts::transcript_client::TranscriptClient;

/// Revisions with elicitation by request.
const ELICITATION: [&str; 2] = [LEGACY_REVISIONS[2], LEGACY_REVISIONS[3]];

#[test]
fn sampling_matches_golden_transcript() {
    check_transcript(&Feature {
        name: "sampling",
        revisions: &LEGACY_REVISIONS,
        arguments: &[],
        scenario: sampling,
    });
}

fn sampling(client: &mut TranscriptClient) {
    client.open(json!({"sampling": {}}));
    client.start_section("a result");
    let call = json!({"name": "test_sampling", "arguments": {"prompt": "Say hello"}});
    let id = client.send_request("tools/call", call.clone());
    let request = client.receive_method("sampling/createMessage");
    let hello = json!({
        "role": "assistant", "model": "m", "stopReason": "endTurn",
        "content": {"type": "text", "text": "Hello!"},
    });
    client.respond(&request, &hello);
    client.receive_response(id, "tools/call");
    client.start_section("a client that sends progress");
    let id = client.send_request("tools/call", call.clone());
    let request = client.receive_method("sampling/createMessage");
    for progress in [1, 2] {
        let token = &request["params"]["_meta"]["progressToken"];
        let progress = json!({"progressToken": token, "progress": progress, "total": 2});
        client.notify("notifications/progress", Some(progress));
    }
    client.respond(&request, &hello);
    client.receive_response(id, "tools/call");
    client.start_section("an error");
    let id = client.send_request("tools/call", call.clone());
    let request = client.receive_method("sampling/createMessage");
    let error = json!({"code": -1, "message": "User rejected sampling request"});
    client.send(&json!({"jsonrpc": "2.0", "id": request["id"], "error": error}));
    client.receive_response(id, "tools/call");
    client.start_section("a second and an unknown response are ignored");
    client.respond(&request, &json!({}));
    client.send(&json!({"jsonrpc": "2.0", "id": "never", "result": {}}));
    client.start_section("an invalid result");
    let id = client.send_request("tools/call", call);
    let request = client.receive_method("sampling/createMessage");
    client.respond(&request, &json!({"role": "robot"}));
    client.receive_response(id, "tools/call");
}

#[test]
fn client_without_capability_receives_no_request() {
    check_transcript(&Feature {
        name: "client-requests-undeclared",
        revisions: &LEGACY_REVISIONS,
        arguments: &[],
        scenario: undeclared,
    });
}

fn undeclared(client: &mut TranscriptClient) {
    client.open(json!({}));
    client.start_section("tools that need a client capability");
    for (tool, arguments) in [
        ("test_sampling", json!({"prompt": "Say hello"})),
        ("test_elicitation", json!({"message": "Who are you?"})),
        ("test_elicitation_url", json!({"message": "Please sign in"})),
    ] {
        let id = client.send_request("tools/call", json!({"name": tool, "arguments": arguments}));
        client.receive_response(id, "tools/call");
    }
}

#[test]
fn elicitation_matches_golden_transcript() {
    let revisions = &ELICITATION;
    check_transcript(&Feature {
        name: "elicitation",
        revisions,
        arguments: &[],
        scenario: elicitation,
    });
}

fn elicitation(client: &mut TranscriptClient) {
    client.open(json!({"elicitation": {}}));
    for reply in [
        json!({"action": "accept", "content": {"username": "u", "email": "u@example.com"}}),
        json!({"action": "decline"}),
        json!({"action": "cancel"}),
        json!({"action": "perhaps"}),
    ] {
        client.start_section(reply["action"].as_str().unwrap_or_default());
        let arguments = json!({"message": "Who are you?"});
        elicit(client, "test_elicitation", &arguments, &reply);
    }
    client.start_section("defaults");
    let content = json!({
        "name": "Jane", "age": 31, "score": 1.5, "status": "pending", "verified": false,
    });
    let reply = json!({"action": "accept", "content": content});
    elicit(client, "test_elicitation_sep1034_defaults", &json!({}), &reply);
    client.start_section("enumerations");
    let content = json!({
        "untitledSingle": "option1", "titledSingle": "value2", "legacyEnum": "opt3",
        "untitledMulti": ["option1"], "titledMulti": ["value1", "value3"],
    });
    let reply = json!({"action": "accept", "content": content});
    elicit(client, "test_elicitation_sep1330_enums", &json!({}), &reply);
}

fn elicit(client: &mut TranscriptClient, tool: &str, arguments: &Value, reply: &Value) {
    let id = client.send_request("tools/call", json!({"name": tool, "arguments": arguments}));
    let request = client.receive_method("elicitation/create");
    client.respond(&request, reply);
    client.receive_response(id, "tools/call");
}

#[test]
fn elicitation_url_matches_golden_transcript() {
    let revisions = &[LEGACY_REVISIONS[3]];
    check_transcript(&Feature {
        name: "elicitation-url",
        revisions,
        arguments: &[],
        scenario: elicitation_url,
    });
}

fn elicitation_url(client: &mut TranscriptClient) {
    client.open(json!({"elicitation": {"url": {}}}));
    let arguments = json!({"message": "Please sign in"});
    // Sent if the client accepted, when the interaction at the URL has ended.
    let complete = "notifications/elicitation/complete";
    for reply in ["accept", "decline", "cancel"] {
        client.start_section(reply);
        let call = json!({"name": "test_elicitation_url", "arguments": arguments});
        let id = client.send_request("tools/call", call);
        let request = client.receive_method("elicitation/create");
        client.respond(&request, &json!({"action": reply}));
        if reply == "accept" {
            let completed = client.receive_method(complete);
            assert_eq!(completed["params"]["elicitationId"], request["params"]["elicitationId"]);
        }
        client.receive_response(id, "tools/call");
    }
    client.start_section("form mode, which the client did not declare");
    let call = json!({"name": "test_elicitation", "arguments": arguments});
    let id = client.send_request("tools/call", call);
    client.receive_response(id, "tools/call");
}

#[test]
fn cancelled_call_cancels_its_elicitation() {
    let revisions = &ELICITATION;
    check_transcript(&Feature {
        name: "client-requests-cancelled",
        revisions,
        arguments: &[],
        scenario: cancelled,
    });
}

fn cancelled(client: &mut TranscriptClient) {
    client.open(json!({"elicitation": {}}));
    client.start_section("the call is cancelled during its elicitation");
    let arguments = json!({"message": "Who are you?"});
    let call = json!({"name": "test_elicitation", "arguments": arguments});
    let id = client.send_request("tools/call", call);
    let request = client.receive_method("elicitation/create");
    client.notify("notifications/cancelled", Some(json!({"requestId": id})));
    client.receive_method("notifications/cancelled");
    client.respond(&request, &json!({"action": "decline"}));
    client.call_tool("echo", &json!({"message": "still here"}));
}

#[test]
fn roots_match_golden_transcript() {
    check_transcript(&Feature {
        name: "roots",
        revisions: &LEGACY_REVISIONS,
        arguments: &[],
        scenario: roots,
    });
}

fn roots(client: &mut TranscriptClient) {
    client.open(json!({"roots": {"listChanged": true}}));
    client.start_section("a tool that needs the roots");
    let call = json!({"name": "test_input_required_result_list_roots", "arguments": {}});
    let id = client.send_request("tools/call", call);
    let request = client.receive_method("roots/list");
    client.respond(&request, &json!({"roots": [{"uri": "file:///p", "name": "p"}]}));
    client.receive_response(id, "tools/call");
    client.start_section("roots change");
    client.notify("notifications/roots/list_changed", None);
    client.call_tool("echo", &json!({"message": "still here"}));
}
