//! Timeouts: capabilities, keepalive, idle. That of the handshake is in `failures`.

use std::time::Duration;

use corelane::Options;
use corelane::options::CapabilitiesTimeoutPolicy;
use corelane_test_support::TestServer;
use corelane_test_support::websocket::{WebSocketClient, text_frame};
use serde_json::{Value, json};

use crate::client::{ParityClient, call, handshake, request, streamed};
use crate::http::Session;
use crate::options;

const SHORT: Duration = Duration::from_millis(50);

#[test]
fn missing_capabilities_follow_the_policy() {
    for policy in [CapabilitiesTimeoutPolicy::Continue, CapabilitiesTimeoutPolicy::Fail] {
        let mut options = options();
        options.parity.timeouts.capabilities = SHORT;
        options.parity.timeouts.capabilities_policy = policy;
        options.parity.timeouts.keepalive = SHORT;
        let server = TestServer::start(options);
        let mut client = ParityClient::connect(&server);
        let mut offered = handshake();
        offered["capabilitiesExchange"] = json!(true);
        assert_eq!(client.exchange(&offered)["type"], "handshakeAck");
        let next = client.receive();
        if policy == CapabilitiesTimeoutPolicy::Continue {
            assert_eq!(next["type"], "keepalive", "the session is ready");
        } else {
            assert_eq!(next["error"]["code"], "error.feature_not_available", "{next}");
            assert_eq!(client.receive_or_end(), None);
        }
        drop(client);
        server.close();
    }
}

/// Options with short times: a session is idle after 250 ms.
fn short_times() -> Options {
    let mut options = options();
    options.parity.timeouts.keepalive = SHORT;
    options.parity.timeouts.sse_keepalive = SHORT;
    options.parity.timeouts.idle = 4 * SHORT;
    options
}

/// Keepalives in more than the idle time.
const KEEPALIVES: usize = 8;

/// What `receive` returns after some keepalives.
#[track_caller]
fn expect_keepalives(mut receive: impl FnMut() -> Value) {
    for _ in 0..KEEPALIVES {
        assert_eq!(receive(), json!({"type": "keepalive", "timeoutHintSec": 1}));
    }
}

/// Checks that a session gets keepalives, then the reason for its end.
#[track_caller]
fn expect_idle_end(mut receive: impl FnMut() -> Value) {
    let last = loop {
        let message = receive();
        if message["type"] != "keepalive" {
            break message;
        }
    };
    let reason = json!({"reason": "idle_timeout"});
    assert_eq!((&last["type"], &last["error"]["details"]), (&json!("error"), &reason), "{last}");
    let (code, retryable) = (&last["error"]["code"], &last["error"]["retryable"]);
    assert_eq!((code, retryable), (&json!("error.internal"), &json!(true)));
}

fn text_of(client: &mut WebSocketClient) -> Value {
    serde_json::from_str(&client.read_text()).expect("JSON")
}

#[test]
fn silent_client_that_answers_keepalives_stays() {
    let server = TestServer::start(short_times());
    let mut client = ParityClient::ready(&server);
    for _ in 0..KEEPALIVES {
        assert_eq!(client.receive(), json!({"type": "keepalive", "timeoutHintSec": 1}));
        // A keepalive has no answer.
        client.send(&json!({"type": "keepalive", "timeoutHintSec": 1}));
    }
    expect_idle_end(|| client.receive());
    assert_eq!(client.receive_or_end(), None);
    server.close();
}

/// Receives messages up to the end of the request.
fn skip_to_end(mut receive: impl FnMut() -> Value) {
    while !receive().to_string().contains("held") {}
}

#[test]
fn running_request_keeps_session_of_connection() {
    let server = TestServer::with_test_tools(short_times());
    for message in [call(1, "hold", json!({})), streamed(call(1, "hold", json!({})))] {
        server.close_gate();
        let mut lines = ParityClient::ready(&server);
        let mut socket = WebSocketClient::connect(server.http());
        socket.send_bytes(&text_frame(handshake()));
        assert_eq!(text_of(&mut socket)["type"], "handshakeAck");
        lines.send(&message);
        socket.send_bytes(&text_frame(&message));
        for _ in 0..2 {
            assert_eq!(server.next_signal(), "begun");
        }
        if message["stream"] == true {
            // The response, and a chunk with progress.
            for _ in 0..2 {
                lines.receive();
                text_of(&mut socket);
            }
        }
        expect_keepalives(|| lines.receive());
        expect_keepalives(|| text_of(&mut socket));
        server.open_gate();
        skip_to_end(|| lines.receive());
        skip_to_end(|| text_of(&mut socket));
        if message["stream"] == true {
            assert_eq!(lines.receive()["chunkType"], "eos");
            assert_eq!(text_of(&mut socket)["chunkType"], "eos");
        }
        expect_idle_end(|| lines.receive());
        assert_eq!(lines.receive_or_end(), None);
        expect_idle_end(|| text_of(&mut socket));
        socket.expect_close(1011);
    }
    server.close();
}

#[test]
fn open_exchange_keeps_session_of_http() {
    for shards in [1, 2] {
        let mut options = short_times();
        options.engine.shards = Some(shards);
        let server = TestServer::with_test_tools(options);
        let listening = Session::begin(&server);
        let mut events = listening.events();
        let streaming = Session::begin(&server);
        let body = streamed(call(1, "hold", json!({}))).to_string();
        let accept = "Accept: text/event-stream\r\n";
        let mut stream = streaming.start("POST", "/parity", accept, &body);
        assert_eq!(server.next_signal(), "begun");
        expect_keepalives(|| {
            let event = events.next_event().expect("an event");
            assert_eq!(event.name, "keepalive");
            event.data
        });
        for session in [&listening, &streaming] {
            assert_eq!(session.post(&request(2, "ping")).0, 200);
        }
        server.open_gate();
        while stream.next_event().is_some() {}
        drop((events, stream));
        // Sessions that begin later are idle later.
        for _ in 0..2 {
            let mut later = ParityClient::ready(&server);
            expect_idle_end(|| later.receive());
        }
        for session in [&listening, &streaming] {
            assert_eq!(session.post(&request(3, "ping")).0, 404);
        }
        server.close();
    }
}
