//! JSON that is no JSON-RPC message, methods nobody knows, params that do not fit.

use serde_json::{Value, json};

use crate::client::{LEGACY, call, echo, echoed, expect_error, modern, request};
use crate::stage::{Stage, options};

#[test]
fn json_that_is_no_message_is_an_invalid_request_with_the_id_where_it_could_be_read() {
    let stage = Stage::open(options());
    let mut client = stage.connect();
    let (one, word) = (Some(json!(1)), Some(json!("a")));
    let table: [(&str, &Option<Value>); 34] = [
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
        (r#"{"jsonrpc":"2.0","id":1.0,"method":"ping"}"#, &None),
        (r#"{"jsonrpc":"2.0","id":1e2,"method":"ping"}"#, &None),
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
        (r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#, &one),
        (r#"{"jsonrpc":"2.0","result":{}}"#, &None),
        (r#"{"jsonrpc":"2.0","id":1,"error":"x"}"#, &one),
    ];
    for (text, id) in &table {
        let answer = client.ask(text);
        expect_error(&answer, -32600, (*id).clone());
        client.expect_alive();
    }
    drop(client);
    assert_eq!(stage.close().errors.of(-32600), table.len() as u64);
}

#[test]
fn an_unreadable_id_is_null_in_the_revisions_that_say_so() {
    let stage = Stage::open(options());
    for (revision, id) in [
        ("2024-11-05", Some(Value::Null)),
        ("2025-03-26", Some(Value::Null)),
        ("2025-06-18", Some(Value::Null)),
        (LEGACY, None),
    ] {
        let mut client = stage.session(revision);
        expect_error(&client.ask("{"), -32700, id.clone());
        expect_error(&client.ask("{}"), -32600, id);
        client.expect_alive();
    }
    stage.close();
}

#[test]
fn notifications_and_answers_that_nobody_waits_for_get_no_answer() {
    let stage = Stage::open(options());
    let mut client = stage.session(LEGACY);
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
        client.expect_alive();
    }
    drop(client);
    let counters = stage.close();
    assert_eq!(counters.errors.total(), 0, "{counters}");
}

#[test]
fn a_method_that_nobody_knows_is_not_found() {
    let stage = Stage::open(options());
    let mut client = stage.session(LEGACY);
    let long = "m".repeat(100_000);
    for method in ["", "nope", "Ping", "tools/call ", "tools", "rpc.discover", "😀", &long] {
        expect_error(&client.ask(request(1, method, json!({}))), -32601, Some(json!(1)));
        let modern = modern(request("m", method, json!({})));
        expect_error(&client.ask(modern), -32601, Some(json!("m")));
    }
    client.expect_alive();
    drop(client);
    stage.close();
}

#[test]
fn params_that_do_not_fit_are_invalid_params() {
    let stage = Stage::open(options());
    let mut client = stage.session(LEGACY);
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
        expect_error(&client.ask(request(1, method, params)), -32602, Some(json!(1)));
        client.expect_alive();
    }
    let without = client.ask(r#"{"jsonrpc":"2.0","id":2,"method":"tools/call"}"#);
    expect_error(&without, -32602, Some(json!(2)));
    drop(client);
    stage.close();
}

#[test]
fn arguments_that_do_not_fit_fail_the_way_the_revision_has_it() {
    let stage = Stage::open(options());
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
        let refused = stage.session("2025-06-18").ask(&text);
        expect_error(&refused, -32602, Some(json!(1)));
        let failed = stage.session(LEGACY).ask(&text);
        assert_eq!(failed["result"]["isError"], true, "{failed}");
        let failed = stage.connect().ask(modern(text));
        assert_eq!(failed["result"]["isError"], true, "{failed}");
    }
    stage.close();
}

#[test]
fn members_that_the_protocol_does_not_name_are_passed_over() {
    let stage = Stage::open(options());
    let mut client = stage.session(LEGACY);
    let mut text = echo(1, "kept");
    text["extra"] = json!({"deep": [1, 2, {"method": "other"}]});
    text["params"]["extra"] = json!([null, true]);
    text["params"]["arguments"]["extra"] = json!("x");
    assert_eq!(echoed(&client.ask(text)), "kept");
    drop(client);
    stage.close();
}
