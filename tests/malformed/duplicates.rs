//! Keys and ids that come twice.
//!
//! The rule: a key that the protocol itself reads occurs once, or the message is refused; in the
//! arguments of a tool, typed handlers refuse a key that comes twice and raw ones see the last.

use serde_json::json;

use crate::client::{
    LEGACY, call, cancelled, echo, echoed, endless, expect_error, modern, request,
};
use crate::stage::{Stage, options};

#[test]
fn a_key_of_the_envelope_that_comes_twice_is_an_invalid_request() {
    let stage = Stage::open(options());
    let mut client = stage.connect();
    for (text, id) in [
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"ping"}"#, Some(json!(1))),
        (r#"{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"ping"}"#, Some(json!(1))),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{},"params":{}}"#, Some(json!(1))),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":null,"params":{}}"#, Some(json!(1))),
        // Which of the two ids would it be?
        (r#"{"jsonrpc":"2.0","id":1,"id":1,"method":"ping"}"#, None),
        (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, None),
        // The same key, written in another way.
        (r#"{"jsonrpc":"2.0","id":1,"\u0069d":2,"method":"ping"}"#, None),
    ] {
        expect_error(&client.ask(text), -32600, id);
        client.expect_alive();
    }
    drop(client);
    stage.close();
}

#[test]
fn a_key_of_the_params_that_comes_twice_is_invalid_params() {
    let stage = Stage::open(options());
    let mut client = stage.session(LEGACY);
    for params in [
        r#"{"name":"echo","name":"add","arguments":{}}"#,
        r#"{"name":"echo","arguments":{"message":"a"},"arguments":{"message":"b"}}"#,
        r#"{"name":"echo","_meta":{},"_meta":{},"arguments":{"message":"a"}}"#,
        r#"{"name":"echo","_meta":{"progressToken":1,"progressToken":2}}"#,
    ] {
        let method = "tools/call";
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
        expect_error(&client.ask(text), -32602, Some(json!(1)));
        client.expect_alive();
    }
    let text =
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"cursor":"","cursor":""}}"#;
    expect_error(&client.ask(text), -32602, Some(json!(2)));
    drop(client);
    stage.close();
}

#[test]
fn an_argument_that_comes_twice_is_the_handlers_to_judge() {
    let stage = Stage::open(options());
    let mut client = stage.session("2025-06-18");
    let raw = echo(1, "@").to_string().replace(r#""@""#, r#""first","message":"last""#);
    assert_eq!(echoed(&client.ask(raw)), "last");
    let typed = call(2, "add", json!({"a": 1, "b": 2})).to_string();
    let typed = typed.replace(r#""a":1"#, r#""a":1,"a":5"#);
    expect_error(&client.ask(typed), -32602, Some(json!(2)));
    drop(client);
    stage.close();
}

#[test]
fn keys_that_the_protocol_does_not_read_may_come_twice() {
    let stage = Stage::open(options());
    let mut client = stage.connect();
    let text = r#"{"x":1,"x":2,"jsonrpc":"2.0","id":1,"method":"ping","params":{"y":1,"y":2}}"#;
    assert_eq!(client.ask(text)["result"], json!({}));
    drop(client);
    stage.close();
}

#[test]
fn an_id_names_one_request_in_flight_and_is_free_after_its_answer() {
    let stage = Stage::open(options());
    let mut client = stage.session(LEGACY);
    client.send(endless(1));
    client.send(endless("1"));
    for duplicate in [endless(1), echo(1, "x"), request(1, "ping", json!({})), modern(echo(1, "x"))]
    {
        expect_error(&client.ask(duplicate), -32600, Some(json!(1)));
    }
    expect_error(&client.ask(request("1", "tools/list", json!({}))), -32600, Some(json!("1")));
    // Another id is not in their way, and neither is the same id on another connection.
    assert_eq!(echoed(&client.ask(echo(2, "x"))), "x");
    assert_eq!(echoed(&stage.session(LEGACY).ask(echo(1, "y"))), "y");
    client.send(cancelled(1));
    assert_eq!(echoed(&client.ask(echo(1, "free"))), "free");
    client.send(cancelled("1"));
    client.send(call(1, "slow", json!({"steps": 1, "step_ms": 0})));
    assert_eq!(client.answer()["id"], 1);
    assert_eq!(echoed(&client.ask(echo(1, "free"))), "free");
    drop(client);
    let counters = stage.close();
    assert_eq!(counters.requests.cancelled, 2, "{counters}");
}
