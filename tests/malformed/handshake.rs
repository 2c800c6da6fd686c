//! The legacy handshake out of order.

use serde_json::json;

use crate::client::{
    LEGACY, bare, call, echo, echoed, expect_error, initialize, notification, request,
};
use crate::stage::{Stage, options};

#[test]
fn nothing_but_ping_is_served_before_the_handshake_is_complete() {
    let stage = Stage::open(options());
    let mut client = stage.connect();
    let too_early = [
        bare(1, "tools/list"),
        echo(1, "x"),
        call(1, "slow", json!({"steps": 1, "step_ms": 0})),
        bare(1, "nope"),
    ];
    for request in &too_early {
        let answer = client.ask(request);
        expect_error(&answer, -32600, Some(json!(1)));
        let remedy = answer["error"]["message"].as_str().expect("a message");
        assert!(remedy.contains("initialize"), "{remedy}");
    }
    client.expect_alive();
    // Out of turn: it confirms nothing.
    client.send(notification("notifications/initialized"));
    expect_error(&client.ask(&too_early[0]), -32600, Some(json!(1)));

    assert_eq!(client.ask(initialize(2, LEGACY))["result"]["protocolVersion"], LEGACY);
    for request in &too_early[..3] {
        let answer = client.ask(request);
        expect_error(&answer, -32600, Some(json!(1)));
        let remedy = answer["error"]["message"].as_str().expect("a message");
        assert!(remedy.contains("notifications/initialized"), "{remedy}");
    }
    client.expect_alive();
    client.send(notification("notifications/initialized"));
    assert_eq!(echoed(&client.ask(echo(3, "ready"))), "ready");
    drop(client);
    stage.close();
}

#[test]
fn a_second_initialize_is_refused_and_changes_nothing() {
    let stage = Stage::open(options());
    let mut client = stage.connect();
    client.ask(initialize(1, "2025-06-18"));
    expect_error(&client.ask(initialize(2, LEGACY)), -32600, Some(json!(2)));
    client.send(notification("notifications/initialized"));
    expect_error(&client.ask(initialize(3, LEGACY)), -32600, Some(json!(3)));
    client.send(notification("notifications/initialized"));
    // Still the revision that was agreed on: arguments that do not fit are an error of the call.
    expect_error(&client.ask(call(4, "echo", json!({}))), -32602, Some(json!(4)));
    assert_eq!(echoed(&client.ask(echo(5, "same"))), "same");
    drop(client);
    stage.close();
}

#[test]
fn an_initialize_that_does_not_fit_can_be_said_again() {
    let stage = Stage::open(options());
    let mut client = stage.connect();
    let client_info = json!({"name": "x", "version": "1"});
    for params in [
        json!([]),
        json!({}),
        json!({"protocolVersion": 1, "capabilities": {}, "clientInfo": client_info}),
        json!({"capabilities": {}, "clientInfo": client_info}),
        json!({"protocolVersion": LEGACY, "clientInfo": client_info}),
        json!({"protocolVersion": LEGACY, "capabilities": [], "clientInfo": client_info}),
        json!({"protocolVersion": LEGACY, "capabilities": {}}),
        json!({"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "x"}}),
        json!({"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": "x"}),
    ] {
        expect_error(&client.ask(request(1, "initialize", params)), -32602, Some(json!(1)));
        expect_error(&client.ask(bare(2, "tools/list")), -32600, Some(json!(2)));
    }
    expect_error(&client.ask(bare(3, "initialize")), -32602, Some(json!(3)));
    client.handshake(LEGACY);
    assert_eq!(echoed(&client.ask(echo(4, "at last"))), "at last");
    drop(client);
    stage.close();
}

#[test]
fn a_revision_nobody_knows_is_answered_with_the_newest_that_has_a_handshake() {
    let stage = Stage::open(options());
    let long = "9".repeat(10_000);
    for revision in ["", "1.0", "2024-10-07", "2099-01-01", "2026-07-28", "2025-11-25 ", &long] {
        let mut client = stage.connect();
        let answer = client.ask(initialize(1, revision));
        assert_eq!(answer["result"]["protocolVersion"], LEGACY, "{answer}");
    }
    stage.close();
}
