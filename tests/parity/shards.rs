//! Resumption on a connection of another shard than the one that has the session. The kernel
//! distributes connections, so each test makes enough of them.

use std::time::Duration;

use corelane_test_support::TestServer;
use corelane_test_support::websocket::{WebSocketClient, text_frame};
use serde_json::{Value, json};

use crate::client::{ParityClient, call, handshake, kinds, request, resuming, streamed};
use crate::http::on_shards;

/// Connections of one session. With three shards, all of them belong to one shard in one of 3^11
/// runs.
const CONNECTIONS: u64 = 12;

#[test]
fn stream_continues_on_any_shard() {
    let server = TestServer::with_test_tools(on_shards(3));
    let mut client = ParityClient::connect(&server);
    let mut ack = client.exchange(&handshake());
    let stream = client.open_stream(call(0, "hold", json!({})));
    assert_eq!(server.next_signal(), "begun");
    assert_eq!(client.receive()["seq"], 1);
    let mut acknowledged = json!({ &*stream: 1 });
    for round in 1..=CONNECTIONS {
        drop(client);
        client = ParityClient::connect(&server);
        let resumed = client.exchange(&resuming(&ack, acknowledged.clone()));
        assert_eq!(resumed["resumed"], true, "{resumed}");
        assert_eq!(resumed["sessionId"], ack["sessionId"]);
        assert!(resumed["streams"].as_array().is_some_and(|it| !it.is_empty()), "{resumed}");
        ack = resumed;
        // Requests with and without a stream, a keyed one, and a malformed one, in one write.
        let mut keyed = request(10 * round + 1, "ping");
        keyed["idempotencyKey"] = json!(format!("key-{round}"));
        for message in [&keyed, &keyed, &json!({"type": "request", "id": 10 * round + 2})] {
            client.send(message);
        }
        assert_eq!(client.receive()["result"], json!({}));
        assert_eq!(client.receive()["error"]["code"], "error.already_processed");
        assert_eq!(client.receive()["error"]["details"]["mcpCode"], -32600);
        let slow = call(10 * round + 3, "slow", json!({"steps": 2, "step_ms": 0}));
        let other = client.open_stream(slow);
        let chunks = client.receive_stream(&other, 1);
        assert_eq!(kinds(&chunks), ["progress", "progress", "result", "eos"]);
        acknowledged[other] = json!(4);
    }
    server.open_gate();
    assert_eq!(kinds(&client.receive_stream(&stream, 2)), ["result", "eos"]);
    drop(client);
    assert!(server.close().shard.messages_sent > 0);
}

#[test]
fn missed_chunks_follow_on_any_shard() {
    let server = TestServer::with_test_tools(on_shards(3));
    let mut client = ParityClient::connect(&server);
    let mut ack = client.exchange(&handshake());
    let stream = client.open_stream(call(0, "slow", json!({"steps": 20, "step_ms": 0})));
    let before = client.receive_stream(&stream, 1);
    for last in 0..CONNECTIONS {
        drop(client);
        client = ParityClient::connect(&server);
        ack = client.exchange(&resuming(&ack, json!({ &*stream: last })));
        assert_eq!(ack["streams"], json!([{"streamId": stream, "nextSeq": last + 1}]));
        let from = usize::try_from(last).expect("small");
        assert_eq!(client.receive_stream(&stream, last + 1), before[from..]);
    }
    drop(client);
    server.close();
}

#[test]
fn websocket_continues_on_any_shard() {
    let server = TestServer::with_test_tools(on_shards(3));
    let exchange = |client: &mut WebSocketClient, message: &Value| -> Value {
        client.send_bytes(&text_frame(message));
        serde_json::from_str(&client.read_text()).expect("JSON")
    };
    let mut client = WebSocketClient::connect(server.http());
    let mut ack = exchange(&mut client, &handshake());
    exchange(&mut client, &streamed(call(1, "hold", json!({}))));
    assert_eq!(server.next_signal(), "begun");
    for round in 0..CONNECTIONS {
        client.reset();
        client = WebSocketClient::connect(server.http());
        ack = exchange(&mut client, &resuming(&ack, json!({"s1": 0})));
        assert_eq!(ack["resumed"], true, "{ack}");
        let chunk: Value = serde_json::from_str(&client.read_text()).expect("JSON");
        assert_eq!((&chunk["seq"], &chunk["chunkType"]), (&json!(1), &json!("progress")));
        let pong = exchange(&mut client, &request(10 + round, "ping"));
        assert_eq!(pong["result"], json!({}), "{pong}");
    }
    server.open_gate();
    for kind in ["result", "eos"] {
        let chunk: Value = serde_json::from_str(&client.read_text()).expect("JSON");
        assert_eq!(chunk["chunkType"], kind);
    }
    drop(client);
    server.close();
}

#[test]
fn token_is_accepted_once_on_all_shards() {
    let server = TestServer::with_test_tools(on_shards(3));
    let mut holder = ParityClient::connect(&server);
    let mut ack = holder.exchange(&handshake());
    for _ in 0..CONNECTIONS {
        let mut rivals = [ParityClient::connect(&server), ParityClient::connect(&server)];
        for rival in &mut rivals {
            rival.send(&resuming(&ack, json!({})));
        }
        let acks = rivals.each_mut().map(ParityClient::receive);
        assert_eq!(holder.receive_or_end(), None, "the connection before closes");
        let [first, second] = rivals;
        let (winner, mut loser, won, lost) = if acks[0]["resumed"] == true {
            (first, second, &acks[0], &acks[1])
        } else {
            (second, first, &acks[1], &acks[0])
        };
        assert_eq!((&won["resumed"], &lost["resumed"]), (&json!(true), &json!(false)));
        assert_eq!((&lost["advice"], &lost["reason"]), (&json!("restart"), &json!("taken_over")));
        loser.ping();
        ack = won.clone();
        holder = winner;
        holder.ping();
    }
    drop(holder);
    server.close();
}

#[test]
fn cancelled_stream_ends_on_any_shard() {
    let server = TestServer::with_test_tools(on_shards(3));
    for id in 0..CONNECTIONS {
        let mut client = ParityClient::connect(&server);
        let ack = client.exchange(&handshake());
        let stream = client.open_stream(call(id, "until-cancelled", json!({})));
        assert_eq!(server.next_signal(), "begun");
        drop(client);
        let mut client = ParityClient::connect(&server);
        client.exchange(&resuming(&ack, json!({})));
        assert_eq!(client.receive()["seq"], 1);
        client.send(&json!({"type": "cancel", "streamId": stream}));
        assert_eq!(kinds(&client.receive_stream(&stream, 2)), ["eos"]);
        assert_eq!(server.next_signal(), "cancelled");
        // A plain call ends with its connection.
        client.send(&call(100, "until-cancelled", json!({})));
        assert_eq!(server.next_signal(), "begun");
        drop(client);
        assert_eq!(server.next_signal(), "cancelled");
    }
    server.close();
}

/// The shard of the session does not answer: the client is served without it, and keeps its token,
/// because it was not told that it has resumed the session.
#[test]
fn blocked_shard_delays_only_its_session() {
    let mut options = on_shards(4);
    options.parity.timeouts.handshake = Duration::from_millis(100);
    let server = TestServer::with_test_tools(options);
    let is_answered = (0..20).any(|_| {
        let mut client = ParityClient::connect(&server);
        let ack = client.exchange(&handshake());
        client.send(&call(1, "stall", json!({})));
        assert_eq!(server.next_signal(), "begun");
        let mut other = ParityClient::connect(&server);
        let timeout = Some(Duration::from_millis(400));
        other.lines.socket().set_read_timeout(timeout).expect("a timeout");
        other.send(&resuming(&ack, json!({})));
        let Some(advised) = other.try_receive() else {
            // It belongs to the same shard.
            server.open_gate();
            assert_eq!(client.receive()["id"], 1);
            server.close_gate();
            return false;
        };
        assert_eq!((&advised["resumed"], &advised["advice"]), (&json!(false), &json!("restart")));
        assert_eq!(advised["reason"], "unavailable");
        other.ping();
        server.open_gate();
        let mut client = ParityClient::connect(&server);
        let resumed = client.exchange(&resuming(&ack, json!({})));
        assert_eq!(resumed["resumed"], true, "{resumed}");
        client.ping();
        true
    });
    assert!(is_answered, "20 connections reached the shard of their session");
    server.close();
}
