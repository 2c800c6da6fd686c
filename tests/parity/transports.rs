//! The same dialect over standard input and WebSocket, with TLS, and compressed.

use corelane_test_support::TestServer;
use corelane_test_support::process::Process;
use corelane_test_support::websocket::{WebSocketClient, text_frame};
use serde_json::{Value, json};

use crate::CORELANE;
use crate::client::{ParityClient, call, handshake, kinds, request, streamed};
use crate::options;

#[test]
fn stdio_carries_the_dialect() {
    let mut process = Process::start(CORELANE, &["stdio"]);
    let mut client = ParityClient::new(process.take_pipes());
    let ack = client.exchange(&handshake());
    assert_eq!(ack["serverInfo"]["name"], "corelane", "{ack}");
    // The session ends with the process.
    assert_eq!(ack["capabilities"]["resume"], false);
    client.ping();
    let stream = client.open_stream(call(1, "slow", json!({"steps": 2, "step_ms": 0})));
    let chunks = client.receive_stream(&stream, 1);
    assert_eq!(kinds(&chunks), ["progress", "progress", "result", "eos"]);
    client.expect_error(&handshake(), "error", "error.feature_not_available");
    drop(client);
    assert_eq!(process.wait().status, 0);
}

#[test]
fn sequential_stdio_carries_the_dialect() {
    let arguments = ["stdio", "--stdio-sequential", "true"];
    let mut process = Process::start(CORELANE, &arguments);
    let mut client = ParityClient::new(process.take_pipes());
    client.exchange(&handshake());
    client.send(&call("slow", "slow", json!({"steps": 1, "step_ms": 1})));
    client.send(&request("fast", "ping"));
    let ids = [client.receive()["id"].take(), client.receive()["id"].take()];
    assert!(ids.contains(&json!("slow")) && ids.contains(&json!("fast")), "{ids:?}");
    drop(client);
    assert_eq!(process.wait().status, 0);
}

fn exchange(client: &mut WebSocketClient, message: &Value) -> Value {
    client.send_bytes(&text_frame(message));
    serde_json::from_str(&client.read_text()).expect("JSON")
}

#[test]
fn websocket_carries_the_dialect() {
    let server = TestServer::with_test_tools(options());
    let mut client = WebSocketClient::connect(server.http());
    let ack = exchange(&mut client, &handshake());
    assert_eq!(ack["type"], "handshakeAck", "{ack}");
    let pong = exchange(&mut client, &request(1, "ping"));
    assert_eq!(pong, json!({"type": "response", "id": 1, "result": {}}));
    let opened = exchange(&mut client, &streamed(call(2, "echo", json!({"message": "m"}))));
    let stream = opened["result"]["streamId"].clone();
    for (seq, kind) in [(1, "result"), (2, "eos")] {
        let chunk: Value = serde_json::from_str(&client.read_text()).expect("JSON");
        assert_eq!((&chunk["streamId"], &chunk["seq"]), (&stream, &json!(seq)));
        assert_eq!(chunk["chunkType"], kind);
    }
    // One that answers later.
    client.send_bytes(&text_frame(call("h", "hold", json!({}))));
    assert_eq!(server.next_signal(), "begun");
    server.open_gate();
    let held: Value = serde_json::from_str(&client.read_text()).expect("JSON");
    assert_eq!((&held["type"], &held["id"]), (&json!("response"), &json!("h")));
    drop(client);
    server.close();
}

#[test]
fn websocket_closes_with_code_of_error() {
    let server = TestServer::start(options());
    let mut other_version = handshake();
    other_version["protocolVersion"] = json!("0.9");
    let mut no_capabilities = handshake();
    no_capabilities["capabilities"] = json!({});
    for (message, code, close_code) in [
        (other_version, "error.version_unsupported", 1002),
        (no_capabilities, "error.feature_not_available", 1008),
    ] {
        let mut client = WebSocketClient::connect(server.http());
        let error = exchange(&mut client, &message);
        assert_eq!(error["error"]["code"], code);
        client.expect_close(close_code);
    }
    server.close();
}

#[test]
fn websocket_stream_continues_over_tcp() {
    let server = TestServer::with_test_tools(options());
    let mut client = WebSocketClient::connect(server.http());
    let ack = exchange(&mut client, &handshake());
    exchange(&mut client, &streamed(call(2, "hold", json!({}))));
    assert_eq!(server.next_signal(), "begun");
    client.reset();
    let mut resuming = handshake();
    resuming["resumeToken"] = ack["resumeToken"].clone();
    resuming["lastAckSeq"] = json!({"s1": 0});
    let mut client = ParityClient::connect(&server);
    assert_eq!(client.exchange(&resuming)["resumed"], true);
    server.open_gate();
    assert_eq!(kinds(&client.receive_stream("s1", 1)), ["progress", "result", "eos"]);
    drop(client);
    server.close();
}
