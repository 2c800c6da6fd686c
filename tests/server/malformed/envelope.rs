//! Valid JSON that is no JSON-RPC message, unknown methods, invalid params.

use corelane_test_support::messages::{
    LEGACY, call, echo, expect_error, modern, request, result_text,
};
use corelane_test_support::{TestServer, tcp_options};
use serde_json::{Value, json};

#[test]
fn invalid_envelope_is_invalid_request_with_readable_id() {
    let server = TestServer::start(tcp_options());
    let mut client = server.connect_tcp();
    let (one, word) = (Some(json!(1)), Some(json!("a")));
    let table: [(&str, &Option<Value>); 29] = [
        ("7", &None),
        ("null", &None),
        ("true", &None),
        ("\"text\"", &None),
        ("{}", &None),
        (r#"{"id":1}"#, &one),
        (r#"{"id":1,"method":"ping"}"#, &one),
        (r#"{"id":"a","method":"ping"}"#, &word),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, &one),
        (r#"{"jsonrpc":"2","id":1,"method":"ping"}"#, &one),
        (r#"{"jsonrpc":2.0,"id":"a","method":"ping"}"#, &word),
        (r#"{"jsonrpc":null,"id":1,"method":"ping"}"#, &one),
        (r#"{"JSONRPC":"2.0","id":1,"method":"ping"}"#, &one),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, &None),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, &None),
        (r#"{"jsonrpc":"2.0","id":18446744073709551616,"method":"ping"}"#, &None),
        (r#"{"jsonrpc":"2.0","id":-9223372036854775809,"method":"ping"}"#, &None),
        (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, &None),
        (r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#, &None),
        (r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#, &None),
        (r#"{"jsonrpc":"2.0","id":1}"#, &one),
        (r#"{"jsonrpc":"2.0","id":1,"method":null}"#, &one),
        (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, &one),
        (r#"{"jsonrpc":"2.0","id":1,"method":["ping"]}"#, &one),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":7}"#, &one),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":"x"}"#, &one),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":false}"#, &one),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}"#, &one),
        (r#"{"jsonrpc":"2.0","id":"a","method":"ping","error":{}}"#, &word),
    ];
    for (text, id) in &table {
        let response = client.exchange(text);
        expect_error(&response, -32600, (*id).clone());
        client.ping();
    }
    drop(client);
    assert_eq!(server.close().errors.count_of(-32600), table.len() as u64);
}

#[test]
fn unreadable_id_is_null_before_2025_11_25() {
    let server = TestServer::start(tcp_options());
    for (revision, id) in [
        ("2024-11-05", Some(Value::Null)),
        ("2025-03-26", Some(Value::Null)),
        ("2025-06-18", Some(Value::Null)),
        (LEGACY, None),
    ] {
        let mut client = server.connect_initialized(revision);
        expect_error(&client.exchange("{"), -32700, id.clone());
        expect_error(&client.exchange("{}"), -32600, id);
        client.ping();
    }
    server.close();
}

#[test]
fn notifications_and_unmatched_responses_get_no_response() {
    let server = TestServer::start(tcp_options());
    let mut client = server.connect_initialized(LEGACY);
    for text in [
        r#"{"jsonrpc":"2.0","method":"no/such/notification"}"#,
        r#"{"jsonrpc":"2.0","method":"tools/call"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":[1]}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"none"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":"x"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":"no"}}"#,
        r#"{"jsonrpc":"2.0","error":{}}"#,
    ] {
        client.send(text);
        client.ping();
    }
    drop(client);
    let counters = server.close();
    assert_eq!(counters.errors.total(), 0, "{counters}");
}

#[test]
fn unknown_method_is_not_found() {
    let server = TestServer::start(tcp_options());
    let mut client = server.connect_initialized(LEGACY);
    let long = "m".repeat(100_000);
    for method in ["", "nope", "Ping", "tools/call ", "tools", "rpc.discover", "😀", &long] {
        expect_error(&client.exchange(request(1, method, json!({}))), -32601, Some(json!(1)));
        let modern = modern(request("m", method, json!({})));
        expect_error(&client.exchange(modern), -32601, Some(json!("m")));
    }
    client.ping();
    drop(client);
    server.close();
}

#[test]
fn params_of_wrong_type_are_invalid_params() {
    let server = TestServer::start(tcp_options());
    let mut client = server.connect_initialized(LEGACY);
    for (method, params) in [
        ("tools/call", json!([])),
        ("tools/call", json!({})),
        ("tools/call", json!({"name": 7})),
        ("tools/call", json!({"name": null})),
        ("tools/call", json!({"name": "nope"})),
        ("tools/call", json!({"name": "echo", "arguments": []})),
        ("tools/call", json!({"name": "echo", "arguments": "x"})),
        ("tools/call", json!({"name": "echo", "_meta": 7})),
        ("tools/call", json!({"name": "echo", "_meta": {"progressToken": 1.5}})),
        ("tools/call", json!({"name": "echo", "_meta": {"progressToken": {}}})),
        ("tools/list", json!([])),
        ("tools/list", json!({"cursor": 7})),
        ("tools/list", json!({"cursor": "never issued"})),
    ] {
        expect_error(&client.exchange(request(1, method, params)), -32602, Some(json!(1)));
        client.ping();
    }
    let without = client.exchange(r#"{"jsonrpc":"2.0","id":2,"method":"tools/call"}"#);
    expect_error(&without, -32602, Some(json!(2)));
    drop(client);
    server.close();
}

#[test]
fn invalid_arguments_fail_by_protocol_version() {
    let server = TestServer::start(tcp_options());
    for (tool, arguments) in [
        ("add", json!({"a": 1})),
        ("add", json!({"a": 1, "b": "2"})),
        ("add", json!({"a": null, "b": 2})),
        ("echo", json!({})),
        ("echo", json!({"message": 7})),
        ("slow", json!({"steps": -1, "step_ms": 0})),
        ("slow", json!({"steps": 1.5, "step_ms": 0})),
        ("slow", json!({"steps": 0, "step_ms": 0})),
        ("hash", json!({"bytes": -1})),
        ("hash", json!({"bytes": u64::MAX})),
    ] {
        let text = call(1, tool, arguments);
        let refused = server.connect_initialized("2025-06-18").exchange(&text);
        expect_error(&refused, -32602, Some(json!(1)));
        let failed = server.connect_initialized(LEGACY).exchange(&text);
        assert_eq!(failed["result"]["isError"], true, "{failed}");
        let failed = server.connect_tcp().exchange(modern(text));
        assert_eq!(failed["result"]["isError"], true, "{failed}");
    }
    server.close();
}

#[test]
fn unknown_members_are_ignored() {
    let server = TestServer::start(tcp_options());
    let mut client = server.connect_initialized(LEGACY);
    let mut text = echo(1, "kept");
    text["extra"] = json!({"deep": [1, 2, {"method": "other"}]});
    text["params"]["extra"] = json!([null, true]);
    text["params"]["arguments"]["extra"] = json!("x");
    assert_eq!(result_text(&client.exchange(text)), "kept");
    drop(client);
    server.close();
}
