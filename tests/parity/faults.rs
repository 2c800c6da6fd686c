//! Disconnects and hostile clients.

use corelane_test_support::TestServer;
use corelane_test_support::websocket::{WebSocketClient, text_frame};
use serde_json::{Value, json};

use crate::client::{ParityClient, call, handshake, request, streamed};
use crate::http::Session;
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
fn drain_is_announced_on_every_transport() {
    let server = TestServer::start(options());
    let mut lines = ParityClient::ready(&server);
    let mut socket = WebSocketClient::connect(server.http());
    socket.send_bytes(&text_frame(handshake()));
    assert!(socket.read_text().contains("handshakeAck"));
    let mut events = Session::begin(&server).events();
    server.drain();
    let event = events.next_event().expect("an event");
    assert_eq!(event.name, "error");
    let text: Value = serde_json::from_str(&socket.read_text()).expect("JSON");
    for message in [lines.receive(), text, event.data] {
        assert_eq!(message["type"], "error", "{message}");
        assert_eq!(message["error"]["details"], json!({"reason": "draining"}), "{message}");
        assert_eq!(message["error"]["retryable"], true, "{message}");
    }
    assert_eq!(lines.receive_or_end(), None);
    assert!(events.next_event().is_none());
    socket.expect_close(1001);
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
