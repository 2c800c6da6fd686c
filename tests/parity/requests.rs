//! Requests: methods, errors, limits, idempotency keys, cancellation.

use corelane_test_support::TestServer;
use serde_json::{Value, json};

use crate::client::{ParityClient, call, handshake, request, streamed};
use crate::options;

#[test]
fn methods_have_results_of_mcp() {
    let server = TestServer::with_test_tools(options());
    let mut client = ParityClient::ready(&server);
    let echoed = client.result(&call(1, "echo", json!({"message": "é\n"})));
    assert_eq!(echoed["content"][0]["text"], "é\n");
    assert!(client.result(&request(2, "resources/list"))["resources"].is_array());
    assert!(client.result(&request(3, "resources/templates/list"))["resourceTemplates"].is_array());
    let mut read = request("r", "resources/read");
    read["params"] = json!({"uri": "test://one"});
    assert_eq!(client.result(&read)["contents"][0]["text"], "text");
    assert!(client.result(&request(4, "prompts/list"))["prompts"].is_array());
    let failed = client.result(&call(5, "add", json!({"a": 1e308, "b": 1e308})));
    assert_eq!(failed["isError"], true, "an error of a tool is a result");
    drop(client);
    server.close();
}

#[test]
fn blocking_and_local_handlers_answer_later() {
    let server = TestServer::with_test_tools(options());
    let mut client = ParityClient::ready(&server);
    client.send(&call("slow", "hold", json!({})));
    assert_eq!(server.next_signal(), "begun");
    let hashed = client.result(&call("h", "hash", json!({"bytes": 1000})));
    assert!(hashed["structuredContent"].is_object());
    server.open_gate();
    let held = client.receive();
    assert_eq!((&held["id"], &held["type"]), (&json!("slow"), &json!("response")));
    assert_eq!(held["result"]["content"][0]["text"], "held");
    drop(client);
    server.close();
}

#[test]
fn invalid_requests_get_typed_errors() {
    let server = TestServer::with_test_tools(options());
    let mut client = ParityClient::ready(&server);
    let mut task = call(1, "echo", json!({"message": "a"}));
    task["params"]["task"] = json!({"ttl": 1000});
    for (message, kind, code, mcp_code) in [
        (task, "response", "error.feature_not_available", Value::Null),
        (call(1, "none", json!({})), "response", "error.internal", json!(-32602)),
        (request(1, "tasks/list"), "response", "error.feature_not_available", Value::Null),
        (request(1, "initialize"), "response", "error.feature_not_available", Value::Null),
        (request(1, "no/such"), "response", "error.feature_not_available", Value::Null),
        (json!({"type": "request", "id": 1}), "response", "error.internal", json!(-32600)),
        (request(Value::Null, "ping"), "error", "error.internal", json!(-32600)),
        (request("i".repeat(257), "ping"), "error", "error.internal", json!(-32600)),
        (json!({"type": "cancel"}), "error", "error.internal", json!(-32600)),
    ] {
        let error = client.expect_error(&message, kind, code);
        assert_eq!(error["details"]["mcpCode"], mcp_code, "{message}");
        assert_eq!(error["retryable"], false, "{message}");
    }
    client.ping();
    drop(client);
    server.close();
}

#[test]
fn negotiated_limits_are_enforced() {
    let server = TestServer::with_test_tools(options());
    let mut client = ParityClient::connect(&server);
    let mut offered = handshake();
    offered["capabilities"]["maxConcurrent"] = json!(2);
    offered["capabilities"]["maxPayloadBytes"] = json!(300);
    client.exchange(&offered);
    for id in 1..3 {
        client.send(&call(id, "hold", json!({})));
        assert_eq!(server.next_signal(), "begun");
    }
    let third = call(3, "hold", json!({}));
    let error = client.expect_error(&third, "response", "error.rate_limited");
    assert_eq!((&error["retryable"], &error["retryAfter"]), (&json!(true), &json!(1)));
    server.open_gate();
    for _ in 0..2 {
        assert_eq!(client.receive()["result"]["content"][0]["text"], "held");
    }
    client.ping();
    let long = call(4, "echo", json!({"message": "x".repeat(300)}));
    let error = client.expect_error(&long, "response", "error.payload_too_large");
    assert_eq!(error["retryable"], false);
    assert_eq!(client.receive_or_end(), None);
    server.close();
}

#[test]
fn idempotency_key_is_accepted_once() {
    let server = TestServer::with_test_tools(options());
    let mut client = ParityClient::ready(&server);
    let mut first = call(1, "echo", json!({"message": "once"}));
    first["idempotencyKey"] = json!("k");
    client.send(&first);
    let line = client.lines.receive_line().expect("a response");
    let result = &line[line.find("\"result\":").expect("a result") + 9..line.len() - 1];
    let hash = sha256(result.as_bytes());
    let error = client.expect_error(&first, "response", "error.already_processed");
    assert_eq!(error["details"], json!({"resultHash": hash}));
    // The same for one that is answered later.
    let mut held = call(2, "hold", json!({}));
    held["idempotencyKey"] = json!("l");
    client.send(&held);
    assert_eq!(server.next_signal(), "begun");
    let mut again = held.clone();
    again["id"] = json!(3);
    let error = client.expect_error(&again, "response", "error.already_processed");
    assert!(error.get("details").is_none(), "{error}");
    server.open_gate();
    assert_eq!(client.receive()["id"], 2);
    let error = client.expect_error(&again, "response", "error.already_processed");
    assert!(error["details"]["resultHash"].is_string(), "{error}");
    drop(client);
    server.close();
}

#[test]
fn refused_request_keeps_its_idempotency_key() {
    let mut options = options();
    options.rate.rules = vec!["tools/call rate=1/d burst=1 per=session".to_owned()];
    let server = TestServer::with_test_tools(options);
    let mut client = ParityClient::ready(&server);
    client.result(&call(1, "echo", json!({"message": "m"})));
    let mut keyed = call(2, "echo", json!({"message": "m"}));
    keyed["idempotencyKey"] = json!("k");
    for request in [keyed.clone(), keyed.clone(), streamed(keyed)] {
        if request["stream"] == true {
            let stream = client.open_stream(request);
            let chunks = client.receive_stream(&stream, 1);
            assert_eq!(chunks[0]["data"]["code"], "error.rate_limited", "{chunks:?}");
        } else {
            client.expect_error(&request, "response", "error.rate_limited");
        }
    }
    drop(client);
    server.close();
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    corelane_parity::idempotency::hex(&Sha256::digest(bytes))
}

#[test]
fn cancelled_request_gets_terminal_response() {
    let server = TestServer::with_test_tools(options());
    let mut client = ParityClient::ready(&server);
    client.send(&call("c", "until-cancelled", json!({})));
    assert_eq!(server.next_signal(), "begun");
    let cancelled = client.exchange(&json!({"type": "cancel", "id": "c"}));
    assert_eq!((&cancelled["type"], &cancelled["id"]), (&json!("response"), &json!("c")));
    let expected = json!({
        "code": "error.internal",
        "message": cancelled["error"]["message"],
        "retryable": false,
        "details": {"reason": "cancelled"},
    });
    assert_eq!(cancelled["error"], expected);
    assert_eq!(server.next_signal(), "cancelled");
    // It has ended: a second cancellation, and that of an unknown id, have no effect.
    client.send(&json!({"type": "cancel", "id": "c"}));
    client.send(&json!({"type": "cancel", "streamId": "s9"}));
    client.ping();
    drop(client);
    server.close();
}

#[test]
fn cancel_needs_its_capability() {
    let server = TestServer::start(options());
    let mut client = ParityClient::connect(&server);
    let mut offered = handshake();
    offered["capabilities"]["cancellation"] = json!(false);
    offered["capabilities"]["streaming"] = json!(false);
    client.exchange(&offered);
    let cancel = json!({"type": "cancel", "id": 7});
    client.expect_error(&cancel, "error", "error.feature_not_available");
    let mut stream = request(1, "ping");
    stream["stream"] = json!(true);
    client.expect_error(&stream, "response", "error.feature_not_available");
    client.ping();
    drop(client);
    server.close();
}

#[test]
fn id_in_flight_is_rejected() {
    let server = TestServer::with_test_tools(options());
    let mut client = ParityClient::ready(&server);
    client.send(&call(1, "hold", json!({})));
    assert_eq!(server.next_signal(), "begun");
    let mut twice = call(1, "echo", json!({"message": "x"}));
    client.expect_error(&twice, "response", "error.internal");
    twice["stream"] = json!(true);
    client.expect_error(&twice, "response", "error.internal");
    server.open_gate();
    assert_eq!(client.receive()["result"]["content"][0]["text"], "held");
    drop(client);
    server.close();
}
