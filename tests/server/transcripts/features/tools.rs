//! Tools: lists, content types, errors, progress, log messages and cancellation.

use corelane_test_support::messages::REVISIONS;
use serde_json::json;

use super::Feature;
use crate::transcripts::check_transcript;
use crate::transcripts::transcript_client::TranscriptClient;

#[test]
fn tools_list_matches_golden_transcript() {
    let arguments = &["--page-size", "20"];
    check_transcript(&Feature {
        name: "tools-list",
        revisions: &REVISIONS,
        arguments,
        scenario: list,
    });
}

fn list(client: &mut TranscriptClient) {
    client.open(json!({}));
    client.start_section("page by page");
    let mut page = client.expect_result("tools/list", json!({}));
    while let Some(cursor) = page.get("nextCursor").cloned() {
        page = client.expect_result("tools/list", json!({"cursor": cursor}));
    }
    client.start_section("invalid cursors");
    for cursor in [json!(""), json!("nowhere"), json!(7)] {
        client.expect_error("tools/list", json!({"cursor": cursor}), -32602);
    }
}

#[test]
fn tool_content_matches_golden_transcript() {
    check_transcript(&Feature {
        name: "tools-content",
        revisions: &REVISIONS,
        arguments: &[],
        scenario: content,
    });
}

fn content(client: &mut TranscriptClient) {
    client.open(json!({}));
    for tool in [
        "test_simple_text",
        "test_image_content",
        "test_audio_content",
        "test_embedded_resource",
        "test_multiple_content_types",
        "test_tool_with_icons",
        "test_error_handling",
    ] {
        client.start_section(tool);
        client.call_tool(tool, &json!({}));
    }
    client.start_section("a structured result");
    client.call_tool("add", &json!({"a": 2, "b": 40}));
}

#[test]
fn invalid_tool_calls_match_golden_transcript() {
    check_transcript(&Feature {
        name: "tools-invalid",
        revisions: &REVISIONS,
        arguments: &[],
        scenario: invalid_calls,
    });
}

fn invalid_calls(client: &mut TranscriptClient) {
    client.open(json!({}));
    client.start_section("an unknown tool");
    client.expect_error("tools/call", json!({"name": "unknown", "arguments": {}}), -32602);
    client.start_section("no name");
    client.expect_error("tools/call", json!({"arguments": {}}), -32602);
    client.start_section("arguments that violate the schema");
    for arguments in [json!({"a": "two", "b": 40}), json!({"a": 2})] {
        let id = client.send_request("tools/call", json!({"name": "add", "arguments": arguments}));
        client.receive_response(id, "tools/call");
    }
    client.start_section("a schema with conditions");
    for arguments in [
        json!({"name": "A", "contactMethod": "phone", "phone": "1", "address": {"city": "B"}}),
        json!({"name": "A", "contactMethod": "phone", "email": "a@b.c"}),
        json!({"name": "A", "phone": "1", "extra": true}),
    ] {
        let params = json!({"name": "json_schema_2020_12_tool", "arguments": arguments});
        let id = client.send_request("tools/call", params);
        client.receive_response(id, "tools/call");
    }
}

#[test]
fn progress_matches_golden_transcript() {
    check_transcript(&Feature {
        name: "progress",
        revisions: &REVISIONS,
        arguments: &[],
        scenario: progress,
    });
}

fn progress(client: &mut TranscriptClient) {
    client.open(json!({}));
    for token in [json!("a word"), json!(42)] {
        client.start_section("a call with a token");
        let params = json!({"name": "test_tool_with_progress", "_meta": {"progressToken": token}});
        client.expect_result("tools/call", params);
    }
    client.start_section("a call without one");
    client.call_tool("test_tool_with_progress", &json!({}));
}

#[test]
fn log_messages_match_golden_transcript() {
    check_transcript(&Feature {
        name: "logging",
        revisions: &REVISIONS,
        arguments: &[],
        scenario: logging,
    });
}

fn logging(client: &mut TranscriptClient) {
    client.open(json!({}));
    if client.is_modern() {
        for level in ["debug", "error"] {
            client.start_section(level);
            let meta = json!({"io.modelcontextprotocol/logLevel": level});
            let params = json!({"name": "test_logging_tool", "_meta": meta});
            client.expect_result("tools/call", params);
        }
        client.start_section("an unknown level");
        let meta = json!({"io.modelcontextprotocol/logLevel": "loud"});
        let params = json!({"name": "test_logging_tool", "_meta": meta});
        client.expect_error("tools/call", params, -32602);
        client.start_section("no level");
        client.call_tool("test_logging_tool", &json!({}));
        return;
    }
    client.start_section("before logging/setLevel");
    client.call_tool("test_tool_with_logging", &json!({}));
    for level in ["debug", "error"] {
        client.start_section(level);
        client.expect_result("logging/setLevel", json!({"level": level}));
        client.call_tool("test_tool_with_logging", &json!({}));
    }
    client.start_section("an unknown level");
    client.expect_error("logging/setLevel", json!({"level": "loud"}), -32602);
}

#[test]
fn cancellation_matches_golden_transcript() {
    check_transcript(&Feature {
        name: "cancellation",
        revisions: &REVISIONS,
        arguments: &[],
        scenario: cancellation,
    });
}

fn cancellation(client: &mut TranscriptClient) {
    client.open(json!({}));
    client.start_section("a cancelled call gets no response");
    let slow = json!({"name": "slow", "arguments": {"steps": 1, "step_ms": 60_000}});
    let id = client.send_request("tools/call", slow);
    client.notify("notifications/cancelled", Some(json!({"requestId": id, "reason": "enough"})));
    client.start_section("cancellation of an ended or unknown request is ignored");
    client.notify("notifications/cancelled", Some(json!({"requestId": id})));
    client.notify("notifications/cancelled", Some(json!({"requestId": "never"})));
    client.call_tool("echo", &json!({"message": "still here"}));
}
