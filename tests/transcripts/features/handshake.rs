//! How a client and the server become acquainted, and how they part.

use serde_json::json;

use super::Feature;
use crate::dialogue::Dialogue;
use crate::{LEGACY, MODERN, hold};

#[test]
fn a_handshake_reads_as_written() {
    hold(&Feature { name: "handshake", revisions: &LEGACY, arguments: &[], play: handshake });
}

fn handshake(dialogue: &mut Dialogue) {
    dialogue.part("before the handshake");
    dialogue.succeed("ping", json!({}));
    dialogue.fail("tools/list", json!({}), -32600);
    dialogue.open(json!({}));
    dialogue.part("after it");
    dialogue.succeed("ping", json!({}));
    let again = json!({
        "protocolVersion": dialogue.revision,
        "capabilities": {},
        "clientInfo": {"name": "transcript", "version": "1"},
    });
    dialogue.fail("initialize", again, -32600);
}

#[test]
fn a_discovery_reads_as_written() {
    hold(&Feature { name: "discovery", revisions: &[MODERN], arguments: &[], play: discovery });
}

fn discovery(dialogue: &mut Dialogue) {
    dialogue.part("what the server offers");
    dialogue.succeed("server/discover", json!({}));
    dialogue.part("a revision that nobody speaks");
    dialogue.say(&json!({
        "jsonrpc": "2.0", "id": "v", "method": "server/discover",
        "params": {"_meta": {
            "io.modelcontextprotocol/protocolVersion": "1900-01-01",
            "io.modelcontextprotocol/clientCapabilities": {},
        }},
    }));
    dialogue.hear(None);
    dialogue.part("a request that does not say what its client can do");
    dialogue.say(&json!({
        "jsonrpc": "2.0", "id": "m", "method": "tools/list",
        "params": {"_meta": {"io.modelcontextprotocol/protocolVersion": MODERN}},
    }));
    dialogue.hear(None);
    dialogue.part("what the revision does not have any more");
    for method in ["initialize", "ping", "logging/setLevel", "resources/subscribe"] {
        dialogue.fail(method, json!({"level": "info", "uri": "test://static-text"}), -32601);
    }
}

#[test]
fn a_batch_reads_as_written() {
    hold(&Feature { name: "batch", revisions: &["2025-03-26"], arguments: &[], play: batch });
}

fn batch(dialogue: &mut Dialogue) {
    dialogue.open(json!({}));
    dialogue.part("two requests, a notification and something that is no message");
    dialogue.say(&json!([
        {"jsonrpc": "2.0", "id": "a", "method": "ping"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "x"}},
        {"jsonrpc": "2.0", "id": "b", "method": "tools/call",
         "params": {"name": "echo", "arguments": {"message": "together"}}},
        7,
    ]));
    dialogue.hear(None);
    dialogue.part("nothing at all");
    dialogue.say(&json!([]));
    dialogue.hear(None);
}
