//! Duplicate object keys and duplicate request ids.
//!
//! A key that the protocol reads, or inside tool arguments, may occur once, otherwise the message
//! is rejected.

use corelane_test_support::messages::{
    LEGACY, call, cancelled, echo, endless, expect_error, modern, request, result_text,
};
use corelane_test_support::{TestServer, tcp_options};
use serde_json::json;

#[test]
fn duplicate_envelope_key_is_invalid_request() {
    let server = TestServer::start(tcp_options());
    let mut client = server.connect_tcp();
    for (text, id) in [
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"ping"}"#, Some(json!(1))),
        (r#"{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"ping"}"#, Some(json!(1))),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{},"params":{}}"#, Some(json!(1))),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":null,"params":{}}"#, Some(json!(1))),
        // The id is ambiguous.
        (r#"{"jsonrpc":"2.0","id":1,"id":1,"method":"ping"}"#, None),
        (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, None),
        // The same key, escaped.
        (r#"{"jsonrpc":"2.0","id":1,"\u0069d":2,"method":"ping"}"#, None),
    ] {
        expect_error(&client.exchange(text), -32600, id);
        client.ping();
    }
    drop(client);
    server.close();
}

#[test]
fn duplicate_params_key_is_invalid_params() {
    let server = TestServer::start(tcp_options());
    let mut client = server.connect_initialized(LEGACY);
    for params in [
        r#"{"name":"echo","name":"add","arguments":{}}"#,
        r#"{"name":"echo","arguments":{"message":"a"},"arguments":{"message":"b"}}"#,
        r#"{"name":"echo","_meta":{},"_meta":{},"arguments":{"message":"a"}}"#,
        r#"{"name":"echo","_meta":{"progressToken":1,"progressToken":2}}"#,
    ] {
        let method = "tools/call";
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
        expect_error(&client.exchange(text), -32602, Some(json!(1)));
        client.ping();
    }
    let text =
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"cursor":"","cursor":""}}"#;
    expect_error(&client.exchange(text), -32602, Some(json!(2)));
    drop(client);
    server.close();
}

#[test]
fn duplicate_argument_key_is_invalid_params() {
    let server = TestServer::start(tcp_options());
    let mut client = server.connect_initialized("2025-06-18");
    let many: Vec<String> = (0..20).map(|key| format!(r#""k{key}":0"#)).collect();
    for (tool, arguments, key) in [
        ("echo", r#"{"message":"first","message":"last"}"#.to_owned(), "message"),
        ("add", r#"{"a":1,"a":5,"b":2}"#.to_owned(), "a"),
        ("echo", r#"{"message":"x","other":[{"y":1,"\u0079":2}]}"#.to_owned(), "y"),
        ("echo", format!(r#"{{"message":"x",{},"k7":1}}"#, many.join(",")), "k7"),
    ] {
        let call = call(1, tool, json!("@")).to_string().replace(r#""@""#, &arguments);
        let response = client.exchange(call);
        expect_error(&response, -32602, Some(json!(1)));
        let message = response["error"]["message"].as_str().unwrap();
        assert_eq!(message, format!("duplicate key \"{key}\" in params.arguments"));
    }
    // Each once in an object of its own.
    let call = call(2, "echo", json!({"message": "x", "a": {"message": [{"a": 1}, {"a": 2}]}}));
    assert_eq!(result_text(&client.exchange(call)), "x");
    drop(client);
    server.close();
}

#[test]
fn duplicate_unknown_key_is_ignored() {
    let server = TestServer::start(tcp_options());
    let mut client = server.connect_tcp();
    let text = r#"{"x":1,"x":2,"jsonrpc":"2.0","id":1,"method":"ping","params":{"y":1,"y":2}}"#;
    assert_eq!(client.exchange(text)["result"], json!({}));
    drop(client);
    server.close();
}

#[test]
fn request_id_is_reusable_after_its_response() {
    let server = TestServer::start(tcp_options());
    let mut client = server.connect_initialized(LEGACY);
    client.send(endless(1));
    client.send(endless("1"));
    for duplicate in [endless(1), echo(1, "x"), request(1, "ping", json!({})), modern(echo(1, "x"))]
    {
        expect_error(&client.exchange(duplicate), -32600, Some(json!(1)));
    }
    expect_error(&client.exchange(request("1", "tools/list", json!({}))), -32600, Some(json!("1")));
    // Another id, or the same id on another connection, is unaffected.
    assert_eq!(result_text(&client.exchange(echo(2, "x"))), "x");
    assert_eq!(result_text(&server.connect_initialized(LEGACY).exchange(echo(1, "y"))), "y");
    client.send(cancelled(1));
    assert_eq!(result_text(&client.exchange(echo(1, "free"))), "free");
    client.send(cancelled("1"));
    client.send(call(1, "slow", json!({"steps": 1, "step_ms": 0})));
    assert_eq!(client.receive()["id"], 1);
    assert_eq!(result_text(&client.exchange(echo(1, "free"))), "free");
    drop(client);
    let counters = server.close();
    assert_eq!(counters.requests.cancelled, 2, "{counters}");
}
