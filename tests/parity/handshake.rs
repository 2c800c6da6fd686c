//! Handshakes, capabilities, and messages that the state does not allow.

use corelane::options::ParityMode;
use corelane_test_support::messages::LEGACY;
use corelane_test_support::{TestServer, tcp_options};
use serde_json::json;

use crate::client::{ParityClient, call, handshake, request};
use crate::options;

#[test]
fn handshake_is_acknowledged_with_intersection() {
    let server = TestServer::with_test_tools(options());
    let mut client = ParityClient::connect(&server);
    let mut offered = handshake();
    offered["capabilities"]["prompts"] = json!(false);
    offered["capabilities"]["maxConcurrent"] = json!(5);
    let ack = client.exchange(&offered);
    assert_eq!(ack["type"], "handshakeAck");
    assert_eq!(ack["protocolVersion"], "1.0");
    assert_eq!(ack["serverInfo"], json!({"name": "test", "version": "1.0.0"}));
    assert!(ack["sessionId"].is_string() && ack["resumeToken"].is_string(), "{ack}");
    assert!(ack.get("resumed").is_none(), "{ack}");
    let agreed = &ack["capabilities"];
    assert_eq!((&agreed["tools"], &agreed["prompts"]), (&json!(true), &json!(false)));
    assert_eq!(agreed["resources"], true);
    assert_eq!(agreed["maxConcurrent"], 5);
    assert_eq!(agreed["resumeWindow"], json!({"chunks": 1_000, "seconds": 60}));
    let error =
        client.expect_error(&request(1, "prompts/list"), "response", "error.feature_not_available");
    assert_eq!(error["retryable"], false);
    client.ping();
    drop(client);
    server.close();
}

#[test]
fn capabilities_are_those_of_the_catalog() {
    let server = TestServer::start(options());
    let ack = ParityClient::connect(&server).exchange(&handshake());
    let agreed = &ack["capabilities"];
    assert_eq!((&agreed["tools"], &agreed["resources"]), (&json!(true), &json!(false)), "{ack}");
    server.close();
}

#[test]
fn refined_capabilities_narrow() {
    let server = TestServer::start(options());
    let mut client = ParityClient::connect(&server);
    let mut offered = handshake();
    offered["capabilitiesExchange"] = json!(true);
    offered["capabilities"]["prompts"] = json!(false);
    assert_eq!(client.exchange(&offered)["type"], "handshakeAck");
    let early = client.exchange(&request(1, "ping"));
    assert_eq!(early["error"]["code"], "error.feature_not_available");
    assert_eq!(early["error"]["details"]["state"], "HandshakeAcked");
    let refined = json!({"tools": true, "prompts": true, "maxConcurrent": 3});
    let refined = json!({"type": "capabilities", "capabilities": refined});
    let ack = client.exchange(&refined);
    assert_eq!(ack["type"], "capabilitiesAck");
    assert_eq!(ack["capabilities"]["prompts"], false);
    assert_eq!(ack["capabilities"]["streaming"], false);
    assert_eq!(ack["capabilities"]["maxConcurrent"], 3);
    client.ping();
    client.expect_error(&refined, "error", "error.feature_not_available");
    client.ping();
    drop(client);
    server.close();
}

#[test]
fn unacceptable_handshake_closes_connection() {
    let server = TestServer::start(options());
    let mut other_version = handshake();
    other_version["protocolVersion"] = json!("2.0");
    let mut no_capabilities = handshake();
    no_capabilities["capabilities"] = json!({"streaming": true});
    for (message, code) in [
        (other_version, "error.version_unsupported"),
        (no_capabilities, "error.feature_not_available"),
    ] {
        let mut client = ParityClient::connect(&server);
        client.expect_error(&message, "error", code);
        assert_eq!(client.receive_or_end(), None);
    }
    server.close();
}

#[test]
fn messages_before_and_after_handshake_are_rejected() {
    let server = TestServer::start(options());
    let mut client = ParityClient::connect(&server);
    // A handshake behind another first message is not read.
    let early = client.exchange(&format_args!("{}\n{}", request(1, "ping"), handshake()));
    assert_eq!(early["error"]["code"], "error.feature_not_available");
    let details = json!({"state": "Connecting", "event": "sendRequest"});
    assert_eq!(early["error"]["details"], details);
    assert_eq!(client.receive_or_end(), None);
    let mut client = ParityClient::ready(&server);
    client.ping();
    client.expect_error(&handshake(), "error", "error.feature_not_available");
    for message in [
        json!({"type": "response", "id": 1, "result": {}}),
        json!({"type": "unknown"}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}),
        json!({"id": 1}),
        json!([1]),
    ] {
        let error = client.expect_error(&message, "error", "error.internal");
        assert_eq!(error["details"]["mcpCode"], -32600, "{message}");
        assert_eq!(error["retryable"], false);
    }
    client.lines.send("{\"type\":");
    let error = client.receive();
    assert_eq!(error["error"]["details"]["mcpCode"], -32700, "{error}");
    client.ping();
    drop(client);
    server.close();
}

#[test]
fn json_rpc_after_handshake_is_rejected() {
    let server = TestServer::start(options());
    let mut client = ParityClient::connect(&server);
    assert_eq!(client.exchange(&handshake())["type"], "handshakeAck");
    for message in [
        json!({"jsonrpc": "2.0", "id": "q", "method": "ping"}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 1, "result": {}}),
    ] {
        let error = client.expect_error(&message, "error", "error.internal");
        assert_eq!(error["details"]["mcpCode"], -32600, "{message}");
        assert!(error["message"].as_str().unwrap().contains("not JSON-RPC"), "{error}");
    }
    client.ping();
    drop(client);
    server.close();
}

#[test]
fn mcp_connection_stays_with_mcp() {
    let server = TestServer::start(options());
    let mut client = server.connect_initialized(LEGACY);
    let refused = client.exchange(handshake());
    assert_eq!(refused["error"]["code"], -32600, "{refused}");
    client.ping();
    drop(client);
    server.close();
}

#[test]
fn dialect_is_off_or_the_only_one() {
    let mut off = options();
    off.parity.mode = ParityMode::Off;
    let server = TestServer::start(off);
    let mut client = server.connect_tcp();
    assert_eq!(client.exchange(handshake())["error"]["code"], -32600);
    drop(client);
    server.close();
    let mut only = options();
    only.parity.mode = ParityMode::Only;
    let server = TestServer::start(only);
    ParityClient::ready(&server).ping();
    for first in [
        json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}),
        request(1, "ping"),
        json!({"type": "unknown"}),
    ] {
        let mut client = ParityClient::connect(&server);
        assert!(client.exchange(&first)["error"]["code"].is_string());
        assert_eq!(client.receive_or_end(), None, "{first}");
    }
    server.close();
}

#[test]
fn tools_are_those_of_mcp() {
    let mut options = tcp_options();
    options.service.page_size = 2;
    let server = TestServer::start(options);
    let mut mcp = server.connect_initialized(LEGACY);
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let expected = mcp.exchange(list)["result"].take();
    let mut client = ParityClient::ready(&server);
    assert_eq!(client.result(&request(1, "tools/list")), expected);
    let sum = client.result(&call("a", "add", json!({"a": 1, "b": 2})));
    assert_eq!(sum["structuredContent"]["sum"], 3.0);
    drop((mcp, client));
    server.close();
}
