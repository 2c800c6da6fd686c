//! Resumption on another connection.

use corelane::Options;
use corelane_test_support::TestServer;
use serde_json::{Value, json};

use crate::client::{ParityClient, call, handshake, kinds, resuming};
use crate::options;

/// Connects, makes the handshake and returns the acknowledgement.
fn ready(server: &TestServer) -> (ParityClient, Value) {
    let mut client = ParityClient::connect(server);
    let ack = client.exchange(&handshake());
    (client, ack)
}

fn start(options: Options) -> TestServer {
    TestServer::with_test_tools(options)
}

#[test]
fn stream_continues_on_another_connection() {
    let server = start(options());
    let (mut client, ack) = ready(&server);
    let stream = client.open_stream(call(1, "hold", json!({})));
    assert_eq!(server.next_signal(), "begun");
    assert_eq!(client.receive()["seq"], 1);
    drop(client);
    let mut client = ParityClient::connect(&server);
    let resumed = client.exchange(&resuming(&ack, json!({ &*stream: 1 })));
    assert_eq!(resumed["resumed"], true, "{resumed}");
    assert_eq!(resumed["sessionId"], ack["sessionId"]);
    assert_eq!(resumed["streams"], json!([{"streamId": stream, "nextSeq": 2}]));
    assert_ne!(resumed["resumeToken"], ack["resumeToken"]);
    server.open_gate();
    let chunks = client.receive_stream(&stream, 2);
    assert_eq!(kinds(&chunks), ["result", "eos"]);
    client.ping();
    drop(client);
    server.close();
}

#[test]
fn chunks_after_acknowledged_one_are_sent_again() {
    let server = start(options());
    let (mut client, ack) = ready(&server);
    let stream = client.open_stream(call(1, "slow", json!({"steps": 4, "step_ms": 0})));
    let before = client.receive_stream(&stream, 1);
    // The connection is lost before the client has processed more than two of them.
    drop(client);
    let mut client = ParityClient::connect(&server);
    let resumed = client.exchange(&resuming(&ack, json!({ &*stream: 2 })));
    assert_eq!(resumed["streams"], json!([{"streamId": stream, "nextSeq": 3}]));
    assert_eq!(client.receive_stream(&stream, 3), before[2..]);
    drop(client);
    server.close();
}

#[test]
fn session_is_taken_over_once() {
    let server = start(options());
    let (mut first, ack) = ready(&server);
    let stream = first.open_stream(call(1, "hold", json!({})));
    assert_eq!(first.receive()["seq"], 1);
    let mut second = ParityClient::connect(&server);
    let resumed = second.exchange(&resuming(&ack, json!({ &*stream: 1 })));
    assert_eq!(resumed["resumed"], true, "{resumed}");
    assert_eq!(first.receive_or_end(), None);
    let mut third = ParityClient::connect(&server);
    let refused = third.exchange(&resuming(&ack, json!({ &*stream: 1 })));
    assert_eq!((&refused["resumed"], &refused["advice"]), (&json!(false), &json!("restart")));
    assert_eq!(refused["reason"], "taken_over");
    third.ping();
    server.open_gate();
    assert_eq!(kinds(&second.receive_stream(&stream, 2)), ["result", "eos"]);
    drop((first, second, third));
    server.close();
}

#[test]
fn stale_resumption_advises_restart() {
    let mut options = options();
    options.parity.resume_window_chunks = 2;
    let server = start(options);
    let (mut client, ack) = ready(&server);
    let stream = client.open_stream(call(1, "slow", json!({"steps": 4, "step_ms": 0})));
    client.receive_stream(&stream, 1);
    drop(client);
    for (acknowledged, reason) in [
        (json!({ &*stream: 3 }), "stale_window"),
        (json!({ &*stream: 77 }), "stale_window"),
        (json!({"s9": 1}), "unknown_stream"),
    ] {
        let mut client = ParityClient::connect(&server);
        let ack = client.exchange(&resuming(&ack, acknowledged));
        assert_eq!((&ack["resumed"], &ack["advice"]), (&json!(false), &json!("restart")));
        assert_eq!(ack["reason"], reason, "{ack}");
        client.ping();
    }
    let mut client = ParityClient::connect(&server);
    let ack = client.exchange(&resuming(&ack, json!({ &*stream: 4 })));
    assert_eq!(ack["resumed"], true, "{ack}");
    drop(client);
    server.close();
}

#[test]
fn foreign_tokens_are_not_accepted() {
    let servers = [start(options()), start(options())];
    let (client, ack) = ready(&servers[0]);
    let mut other = ParityClient::connect(&servers[1]);
    let refused = other.exchange(&resuming(&ack, json!({})));
    assert_eq!(
        (&refused["resumed"], &refused["reason"]),
        (&json!(false), &json!("unknown_server"))
    );
    other.ping();
    let token = ack["resumeToken"].as_str().expect("a token");
    // Another character in the middle of the sealed part.
    let (head, tail) = token.split_at(40);
    let other = if tail.starts_with('A') { "B" } else { "A" };
    let forged = json!({"resumeToken": format!("{head}{other}{}", &tail[1..])});
    let mut forger = ParityClient::connect(&servers[0]);
    forger.expect_error(&resuming(&forged, json!({})), "error", "error.auth.unauthorized");
    assert_eq!(forger.receive_or_end(), None);
    drop((client, other));
    for server in servers {
        server.close();
    }
}

#[test]
fn session_without_resume_ends_with_connection() {
    let server = start(options());
    let mut client = ParityClient::connect(&server);
    let mut offered = handshake();
    offered["capabilities"]["resume"] = json!(false);
    let ack = client.exchange(&offered);
    assert!(ack.get("resumeToken").is_none(), "{ack}");
    assert!(ack["capabilities"].get("resumeWindow").is_none(), "{ack}");
    client.open_stream(call(1, "until-cancelled", json!({})));
    assert_eq!(server.next_signal(), "begun");
    drop(client);
    assert_eq!(server.next_signal(), "cancelled");
    server.close();
}
