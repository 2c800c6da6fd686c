//! Batches: arrays of messages, which revision 2025-03-26 has and no other.

use serde_json::{Value, json};

use crate::client::{
    LEGACY, bare, call, cancelled, echo, endless, expect_error, initialize, modern, notification,
    request,
};
use crate::stage::{Stage, options};

const BATCHING: &str = "2025-03-26";

#[test]
fn a_batch_is_answered_by_one_array_in_order() {
    let stage = Stage::open(options());
    let mut client = stage.session(BATCHING);
    let batch = json!([
        echo(1, "a"),
        notification("notifications/whatever"),
        bare("two", "ping"),
        7,
        bare(3, "nope"),
        {"jsonrpc": "2.0", "id": 4},
        [bare(5, "ping")],
        {"jsonrpc": "2.0", "id": 9, "result": {}},
        bare(6, "tools/list"),
    ]);
    let answers = client.ask(batch);
    let answers = answers.as_array().expect("an array");
    let shapes: Vec<(Value, Value)> = answers
        .iter()
        .map(|answer| (answer["id"].clone(), answer["error"]["code"].clone()))
        .collect();
    let expected = [
        (json!(1), Value::Null),
        (json!("two"), Value::Null),
        (Value::Null, json!(-32600)),
        (json!(3), json!(-32601)),
        (json!(4), json!(-32600)),
        (Value::Null, json!(-32600)),
        (json!(6), Value::Null),
    ];
    assert_eq!(shapes, expected);
    client.expect_alive();
    drop(client);
    assert_eq!(stage.close().requests.batches, 1);
}

#[test]
fn an_empty_batch_is_an_invalid_request() {
    let stage = Stage::open(options());
    let mut client = stage.session(BATCHING);
    expect_error(&client.ask("[]"), -32600, Some(Value::Null));
    expect_error(&client.ask(" [ ] "), -32600, Some(Value::Null));
    client.expect_alive();
    drop(client);
    stage.close();
}

#[test]
fn a_batch_that_asks_nothing_is_not_answered() {
    let stage = Stage::open(options());
    let mut client = stage.session(BATCHING);
    client.send(json!([notification("a"), notification("b"), cancelled(7)]));
    client.send(json!([{"jsonrpc": "2.0", "id": 9, "result": {}}]));
    client.expect_alive();
    drop(client);
    stage.close();
}

#[test]
fn a_batch_of_another_revision_is_one_invalid_request() {
    let stage = Stage::open(options());
    let batch = json!([bare(1, "ping"), bare(2, "ping")]);
    for (revision, id) in
        [("2024-11-05", Some(Value::Null)), ("2025-06-18", Some(Value::Null)), (LEGACY, None)]
    {
        let mut client = stage.session(revision);
        expect_error(&client.ask(&batch), -32600, id);
        expect_error(&client.ask("[]"), -32600, client_id(revision));
        client.expect_alive();
    }
    // Nothing was agreed on, or the messages are modern.
    let mut client = stage.connect();
    expect_error(&client.ask(&batch), -32600, None);
    expect_error(&client.ask(json!([initialize(1, BATCHING)])), -32600, None);
    expect_error(&client.ask(json!([modern(echo(1, "x"))])), -32600, None);
    client.expect_alive();
    drop(client);
    stage.close();
}

/// The id of an answer to what has none.
fn client_id(revision: &str) -> Option<Value> {
    (revision != LEGACY).then_some(Value::Null)
}

#[test]
fn calls_of_a_batch_that_take_time_are_answered_one_by_one() {
    let stage = Stage::open(options());
    let mut client = stage.session(BATCHING);
    client.send(json!([
        call(1, "slow", json!({"steps": 1, "step_ms": 1})),
        echo(2, "now"),
        call(3, "hash", json!({"bytes": 10})),
    ]));
    let now = client.answer();
    assert_eq!(now.as_array().expect("an array").len(), 1, "{now}");
    assert_eq!(now[0]["id"], 2, "{now}");
    let mut later = [client.answer()["id"].clone(), client.answer()["id"].clone()];
    later.sort_by_key(Value::as_i64);
    assert_eq!(later, [json!(1), json!(3)]);
    client.send(json!([endless(4), endless(4), cancelled(4)]));
    let refused = client.answer();
    expect_error(&refused[0], -32600, Some(json!(4)));
    client.expect_alive();
    drop(client);
    stage.close();
}

#[test]
fn a_batch_longer_than_what_may_be_in_flight_is_refused_as_a_whole() {
    let mut options = options();
    options.limits.requests_in_flight_max = 16;
    let stage = Stage::open(options);
    let mut client = stage.session(BATCHING);
    let batch = |length: u64| -> Value { (0..length).map(|id| bare(id, "tools/list")).collect() };
    assert_eq!(client.ask(batch(16)).as_array().map(Vec::len), Some(16));
    expect_error(&client.ask(batch(17)), -32600, Some(Value::Null));
    expect_error(&client.ask(batch(100_000)), -32600, Some(Value::Null));
    client.expect_alive();
    drop(client);
    let counters = stage.close();
    assert_eq!(counters.requests.tools_list, 16, "{counters}");
}

#[test]
fn a_modern_request_of_a_batch_is_refused_and_the_others_are_answered() {
    let stage = Stage::open(options());
    let mut client = stage.session(BATCHING);
    let listen = request("s", "subscriptions/listen", json!({"notifications": {}}));
    let batch = json!([
        bare(1, "ping"),
        modern(listen.clone()),
        modern(endless(2)),
        modern(echo(3, "x")),
        bare(4, "ping"),
    ]);
    let answers = client.ask(batch);
    let answers = answers.as_array().expect("an array");
    assert_eq!(answers.len(), 5, "{answers:?}");
    for (answer, id) in answers[1..4].iter().zip([json!("s"), json!(2), json!(3)]) {
        expect_error(answer, -32600, Some(id));
    }
    assert_eq!((&answers[0]["id"], &answers[4]["id"]), (&json!(1), &json!(4)), "{answers:?}");
    // Alone each of them is served.
    let acknowledged = client.ask(modern(listen));
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    client.expect_alive();
    drop(client);
    assert_eq!(stage.close().subscriptions.opened, 1);
}
