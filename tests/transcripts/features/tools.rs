//! Tools: lists, every kind of content, failures, progress, log messages and cancellation.

use serde_json::json;

use super::Feature;
use crate::dialogue::Dialogue;
use crate::{ALL, hold};

#[test]
fn a_list_of_tools_reads_as_written() {
    let arguments = &["--page-length-max", "20"];
    hold(&Feature { name: "tools-list", revisions: &ALL, arguments, play: list });
}

fn list(dialogue: &mut Dialogue) {
    dialogue.open(json!({}));
    dialogue.part("page by page");
    let mut page = dialogue.succeed("tools/list", json!({}));
    while let Some(cursor) = page.get("nextCursor").cloned() {
        page = dialogue.succeed("tools/list", json!({"cursor": cursor}));
    }
    dialogue.part("cursors that nobody gave");
    for cursor in [json!(""), json!("nowhere"), json!(7)] {
        dialogue.fail("tools/list", json!({"cursor": cursor}), -32602);
    }
}

#[test]
fn every_kind_of_content_reads_as_written() {
    hold(&Feature { name: "tools-content", revisions: &ALL, arguments: &[], play: content });
}

fn content(dialogue: &mut Dialogue) {
    dialogue.open(json!({}));
    for tool in [
        "test_simple_text",
        "test_image_content",
        "test_audio_content",
        "test_embedded_resource",
        "test_multiple_content_types",
        "test_tool_with_icons",
        "test_error_handling",
    ] {
        dialogue.part(tool);
        dialogue.call(tool, &json!({}));
    }
    dialogue.part("a structured result");
    dialogue.call("add", &json!({"a": 2, "b": 40}));
}

#[test]
fn wrong_calls_read_as_written() {
    hold(&Feature { name: "tools-wrong", revisions: &ALL, arguments: &[], play: wrong });
}

fn wrong(dialogue: &mut Dialogue) {
    dialogue.open(json!({}));
    dialogue.part("a tool that there is not");
    dialogue.fail("tools/call", json!({"name": "nobody", "arguments": {}}), -32602);
    dialogue.part("no name");
    dialogue.fail("tools/call", json!({"arguments": {}}), -32602);
    dialogue.part("arguments that do not fit their schema");
    for arguments in [json!({"a": "two", "b": 40}), json!({"a": 2})] {
        let id = dialogue.ask("tools/call", json!({"name": "add", "arguments": arguments}));
        dialogue.answer(id, "tools/call");
    }
    dialogue.part("a schema with conditions");
    for arguments in [
        json!({"name": "A", "contactMethod": "phone", "phone": "1", "address": {"city": "B"}}),
        json!({"name": "A", "contactMethod": "phone", "email": "a@b.c"}),
        json!({"name": "A", "phone": "1", "extra": true}),
    ] {
        let params = json!({"name": "json_schema_2020_12_tool", "arguments": arguments});
        let id = dialogue.ask("tools/call", params);
        dialogue.answer(id, "tools/call");
    }
}

#[test]
fn progress_reads_as_written() {
    hold(&Feature { name: "progress", revisions: &ALL, arguments: &[], play: progress });
}

fn progress(dialogue: &mut Dialogue) {
    dialogue.open(json!({}));
    for token in [json!("a word"), json!(42)] {
        dialogue.part("a call with a token");
        let params = json!({"name": "test_tool_with_progress", "_meta": {"progressToken": token}});
        dialogue.succeed("tools/call", params);
    }
    dialogue.part("a call without one");
    dialogue.call("test_tool_with_progress", &json!({}));
}

#[test]
fn log_messages_read_as_written() {
    hold(&Feature { name: "logging", revisions: &ALL, arguments: &[], play: logging });
}

fn logging(dialogue: &mut Dialogue) {
    dialogue.open(json!({}));
    if dialogue.is_modern() {
        for level in ["debug", "error"] {
            dialogue.part(level);
            let meta = json!({"io.modelcontextprotocol/logLevel": level});
            let params = json!({"name": "test_logging_tool", "_meta": meta});
            dialogue.succeed("tools/call", params);
        }
        dialogue.part("a level that there is not");
        let meta = json!({"io.modelcontextprotocol/logLevel": "loud"});
        let params = json!({"name": "test_logging_tool", "_meta": meta});
        dialogue.fail("tools/call", params, -32602);
        dialogue.part("no level");
        dialogue.call("test_logging_tool", &json!({}));
        return;
    }
    dialogue.part("before a level was set");
    dialogue.call("test_tool_with_logging", &json!({}));
    for level in ["debug", "error"] {
        dialogue.part(level);
        dialogue.succeed("logging/setLevel", json!({"level": level}));
        dialogue.call("test_tool_with_logging", &json!({}));
    }
    dialogue.part("a level that there is not");
    dialogue.fail("logging/setLevel", json!({"level": "loud"}), -32602);
}

#[test]
fn cancellation_reads_as_written() {
    hold(&Feature { name: "cancellation", revisions: &ALL, arguments: &[], play: cancellation });
}

fn cancellation(dialogue: &mut Dialogue) {
    dialogue.open(json!({}));
    dialogue.part("a call that is not wanted any more is not answered");
    let slow = json!({"name": "slow", "arguments": {"steps": 1, "step_ms": 60_000}});
    let id = dialogue.ask("tools/call", slow);
    dialogue.notify("notifications/cancelled", Some(json!({"requestId": id, "reason": "enough"})));
    dialogue.part("what has ended or never was is passed over");
    dialogue.notify("notifications/cancelled", Some(json!({"requestId": id})));
    dialogue.notify("notifications/cancelled", Some(json!({"requestId": "never"})));
    dialogue.call("echo", &json!({"message": "still here"}));
}
