//! Disconnects and hostile clients.

use corelane_test_support::TestServer;
use serde_json::json;

use crate::client::{ParityClient, call, handshake, request, streamed};
use crate::options;

#[test]
fn disconnect_in_any_state_leaves_nothing() {
    let server = TestServer::with_test_tools(options());
    let mut exchanging = handshake();
    exchanging["capabilitiesExchange"] = json!(true);
    let mut not_resumable = handshake();
    not_resumable["capabilities"]["resume"] = json!(false);
    for messages in [
        vec![],
        vec![request(1, "ping")],
        vec![exchanging],
        vec![handshake()],
        vec![not_resumable.clone(), call(1, "until-cancelled", json!({}))],
        vec![not_resumable, streamed(call(1, "until-cancelled", json!({})))],
    ] {
        let mut client = ParityClient::connect(&server);
        for message in &messages {
            client.send(message);
        }
        if messages.len() == 2 {
            assert_eq!(server.next_signal(), "begun");
        }
        drop(client);
        if messages.len() == 2 {
            assert_eq!(server.next_signal(), "cancelled");
        }
    }
    ParityClient::ready(&server).ping();
    server.close();
}

#[test]
fn drain_answers_calls_in_flight() {
    let server = TestServer::with_test_tools(options());
    let mut client = ParityClient::ready(&server);
    let stream = client.open_stream(call(1, "hold", json!({})));
    assert_eq!(client.receive()["chunkType"], "progress");
    client.send(&call(2, "hold", json!({})));
    for _ in 0..2 {
        assert_eq!(server.next_signal(), "begun");
    }
    server.drain();
    let announced = client.receive();
    assert_eq!(announced["error"]["details"], json!({"reason": "draining"}), "{announced}");
    server.open_gate();
    let mut types = Vec::new();
    while let Some(message) = client.receive_or_end() {
        types.push(message["type"].as_str().expect("a type").to_owned());
        if message["type"] == "stream.chunk" {
            assert_eq!(message["streamId"], stream);
        }
    }
    types.sort_unstable();
    assert_eq!(types, ["response", "stream.chunk", "stream.chunk"]);
    server.join();
}

#[test]
fn half_handshakes_do_not_delay_other_clients() {
    let server = TestServer::start(options());
    let mut clients: Vec<_> = (0..200).map(|_| ParityClient::connect(&server)).collect();
    for client in &mut clients {
        client.lines.send_bytes(br#"{"type":"handshake","protocolVersion":"1.0","cap"#);
    }
    ParityClient::ready(&server).ping();
    drop(clients);
    server.close();
}
