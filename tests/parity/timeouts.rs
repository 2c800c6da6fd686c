//! Timeouts: handshake, capabilities, keepalive, idle.

use std::time::Duration;

use corelane::options::{CapabilitiesTimeoutPolicy, ParityMode};
use corelane_test_support::TestServer;
use serde_json::json;

use crate::client::{ParityClient, handshake, request};
use crate::options;

const SHORT: Duration = Duration::from_millis(50);

#[test]
fn session_without_handshake_is_closed() {
    let mut options = options();
    options.parity.timeouts.handshake = SHORT;
    let server = TestServer::start(options);
    let mut client = ParityClient::connect(&server);
    client.expect_error(&request(1, "ping"), "response", "error.feature_not_available");
    let error = client.receive();
    assert_eq!(
        (&error["type"], &error["error"]["code"]),
        (&json!("error"), &json!("error.internal"))
    );
    assert_eq!(client.receive_or_end(), None);
    server.close();
}

#[test]
fn silent_connection_of_only_dialect_is_closed() {
    let mut options = options();
    options.parity.timeouts.handshake = SHORT;
    options.parity.mode = ParityMode::Only;
    let server = TestServer::start(options);
    let mut client = ParityClient::connect(&server);
    let error = client.receive();
    assert_eq!(error["error"]["code"], "error.internal", "{error}");
    assert_eq!(client.receive_or_end(), None);
    server.close();
}

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

#[test]
fn silent_session_gets_keepalives_then_closes() {
    let mut options = options();
    options.parity.timeouts.keepalive = SHORT;
    options.parity.timeouts.idle = Duration::from_secs(1);
    let server = TestServer::start(options);
    let mut client = ParityClient::ready(&server);
    let keepalive = client.receive();
    assert_eq!(keepalive, json!({"type": "keepalive", "timeoutHintSec": 1}));
    // A client that answers stays; a keepalive has no answer.
    client.send(&json!({"type": "keepalive", "timeoutHintSec": 1}));
    assert_eq!(client.receive()["type"], "keepalive");
    while let Some(message) = client.receive_or_end() {
        assert_eq!(message["type"], "keepalive");
    }
    server.close();
}
