//! Raw messages of an in-process connection.

use corelane::testing::block_on;
use corelane::{Catalog, InProcessConnection, NoArguments, Options, Server, Tool, Transport};
use corelane_test_support::messages::{call, modern, result_text};
use serde_json::{Value, json};

use crate::in_process::tools::{add_up, builder, catalog, greet, nap};

fn connect(catalog: Catalog) -> InProcessConnection {
    Server::builder(catalog).connect().expect("the server starts")
}

fn parse(message: Option<&[u8]>) -> Value {
    serde_json::from_slice(message.expect("a message")).expect("the server sends JSON")
}

fn greet_call(id: u64, name: &str) -> String {
    modern(call(id, "greet", json!({ "name": name }))).to_string()
}

#[test]
fn inline_call_is_answered_without_waiting() {
    let mut connection = connect(catalog(greet()));
    assert_eq!(connection.try_receive(), None);
    connection.send(greet_call(1, "Ada"));
    connection.send(greet_call(2, "Grace"));
    assert_eq!(result_text(&parse(connection.try_receive())), "Hello, Ada!");
    assert_eq!(result_text(&parse(block_on(connection.receive()))), "Hello, Grace!");
    assert_eq!(connection.try_receive(), None);
    assert_eq!(connection.counters().requests.served(), 2);
}

#[test]
fn deferred_calls_wake_their_client() {
    let catalog = builder().tool(nap()).tool(add_up()).build().expect("the catalog is valid");
    let mut connection = connect(catalog);
    connection.send(modern(call(1, "nap", json!({}))).to_string());
    assert_eq!(connection.try_receive(), None);
    assert_eq!(result_text(&parse(block_on(connection.receive()))), "awake");
    connection.send(modern(call(2, "add_up", json!({ "name": "Ada" }))).to_string());
    assert_eq!(result_text(&parse(block_on(connection.receive()))), "3 bytes");
}

#[test]
fn line_breaks_between_tokens_are_allowed() {
    let mut connection = connect(catalog(greet()));
    let request = modern(call(1, "greet", json!({ "name": "A\nda" })));
    connection.send(serde_json::to_string_pretty(&request).expect("JSON"));
    assert_eq!(result_text(&parse(connection.try_receive())), "Hello, A\nda!");
}

#[test]
fn invalid_message_gets_json_rpc_error() {
    let mut connection = connect(catalog(greet()));
    for (message, code) in [(&b"{"[..], -32700), (b"\"\xff\"", -32700), (b"[1]", -32600)] {
        connection.send(message);
        assert_eq!(parse(connection.try_receive())["error"]["code"], code, "{message:?}");
    }
    connection.send(greet_call(1, "Ada"));
    assert_eq!(result_text(&parse(connection.try_receive())), "Hello, Ada!");
}

#[test]
fn message_above_limit_gets_error() {
    let mut options = Options::default();
    options.limits.message_bytes_max = 1000;
    let server = Server::builder(catalog(greet())).options(options);
    let mut connection = server.connect().expect("the server starts");
    connection.send(greet_call(1, &"x".repeat(1000)));
    assert_eq!(parse(connection.try_receive())["error"]["code"], -32012);
    connection.send(greet_call(2, "Ada"));
    assert_eq!(result_text(&parse(connection.try_receive())), "Hello, Ada!");
    assert_eq!(connection.counters().input_errors.oversize, 1);
}

#[test]
fn unread_messages_hold_back_server() {
    const CALLS: u64 = 2000;
    let mut options = Options::default();
    options.limits.outgoing_bytes_max = 10_000;
    let server = Server::builder(catalog(greet())).options(options);
    let mut connection = server.connect().expect("the server starts");
    for id in 1..=CALLS {
        connection.send(greet_call(id, "Ada"));
    }
    let served = connection.counters().requests.served();
    assert!((10..200).contains(&served), "{served}");
    for id in 1..=CALLS {
        assert_eq!(parse(block_on(connection.receive()))["id"], id);
    }
    assert_eq!(connection.counters().requests.served(), CALLS);
}

#[test]
fn handler_sees_in_process_transport() {
    let tool = Tool::new("transport").inline(|_: NoArguments, ctx| {
        assert_eq!(ctx.request().transport(), Transport::InProcess);
        ctx.request().transport().as_str()
    });
    let mut connection = connect(catalog(tool));
    connection.send(modern(call(1, "transport", json!({}))).to_string());
    assert_eq!(result_text(&parse(connection.try_receive())), "in_process");
}

#[test]
fn servers_of_one_thread_are_independent() {
    let (mut greeting, mut napping) = (connect(catalog(greet())), connect(catalog(nap())));
    napping.send(modern(call(7, "nap", json!({}))).to_string());
    greeting.send(greet_call(1, "Ada"));
    assert_eq!(parse(greeting.try_receive())["id"], 1);
    let response = parse(block_on(napping.receive()));
    assert_eq!((&response["id"], result_text(&response)), (&json!(7), "awake"));
    assert_eq!(greeting.try_receive(), None);
}
