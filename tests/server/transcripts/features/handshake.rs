//! Handshake, discovery and batches.

use corelane_test_support::messages::{LEGACY_REVISIONS, MODERN};
use serde_json::json;

use super::Feature;
use crate::transcripts::check_transcript;
use crate::transcripts::transcript_client::TranscriptClient;

#[test]
fn handshake_matches_golden_transcript() {
    check_transcript(&Feature {
        name: "handshake",
        revisions: &LEGACY_REVISIONS,
        arguments: &[],
        scenario: handshake,
    });
}

fn handshake(client: &mut TranscriptClient) {
    client.start_section("before the handshake");
    client.expect_result("ping", json!({}));
    client.expect_error("tools/list", json!({}), -32600);
    client.open(json!({}));
    client.start_section("after the handshake");
    client.expect_result("ping", json!({}));
    let again = json!({
        "protocolVersion": client.revision,
        "capabilities": {},
        "clientInfo": {"name": "transcript", "version": "1"},
    });
    client.expect_error("initialize", again, -32600);
}

#[test]
fn discovery_matches_golden_transcript() {
    check_transcript(&Feature {
        name: "discovery",
        revisions: &[MODERN],
        arguments: &[],
        scenario: discovery,
    });
}

fn discovery(client: &mut TranscriptClient) {
    client.start_section("server/discover");
    client.expect_result("server/discover", json!({}));
    client.start_section("an unsupported revision");
    client.send(&json!({
        "jsonrpc": "2.0", "id": "v", "method": "server/discover",
        "params": {"_meta": {
            "io.modelcontextprotocol/protocolVersion": "1900-01-01",
            "io.modelcontextprotocol/clientCapabilities": {},
        }},
    }));
    client.receive(None);
    client.start_section("a request without client capabilities");
    client.send(&json!({
        "jsonrpc": "2.0", "id": "m", "method": "tools/list",
        "params": {"_meta": {"io.modelcontextprotocol/protocolVersion": MODERN}},
    }));
    client.receive(None);
    client.start_section("methods removed in this revision");
    for method in ["initialize", "ping", "logging/setLevel", "resources/subscribe"] {
        client.expect_error(method, json!({"level": "info", "uri": "test://static-text"}), -32601);
    }
}

#[test]
fn batch_matches_golden_transcript() {
    check_transcript(&Feature {
        name: "batch",
        revisions: &["2025-03-26"],
        arguments: &[],
        scenario: batch,
    });
}

fn batch(client: &mut TranscriptClient) {
    client.open(json!({}));
    client.start_section("two requests, a notification and an invalid message");
    client.send(&json!([
        {"jsonrpc": "2.0", "id": "a", "method": "ping"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "x"}},
        {"jsonrpc": "2.0", "id": "b", "method": "tools/call",
         "params": {"name": "echo", "arguments": {"message": "together"}}},
        7,
    ]));
    client.receive(None);
    client.start_section("an empty batch");
    client.send(&json!([]));
    client.receive(None);
}
