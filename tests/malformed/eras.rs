//! Modern requests: what they must say of themselves, and how they share a connection.

use serde_json::{Value, json};

use crate::client::{
    LEGACY, MODERN, bare, call, echo, echoed, expect_error, initialize, modern, modern_meta,
    notification, request,
};
use crate::stage::{Stage, options};

#[test]
fn modern_and_legacy_requests_share_one_connection() {
    let stage = Stage::open(options());
    let mut client = stage.connect();
    let is_modern = |answer: &Value| answer["result"]["resultType"] == "complete";
    // Before the handshake, in the middle of it and after it: a modern request stands alone.
    let answer = client.ask(modern(echo(1, "one")));
    assert_eq!((echoed(&answer), is_modern(&answer)), ("one", true));
    expect_error(&client.ask(echo(2, "too early")), -32600, Some(json!(2)));
    assert_eq!(client.ask(initialize(3, "2024-11-05"))["result"]["protocolVersion"], "2024-11-05");
    let answer = client.ask(modern(echo(4, "two")));
    assert_eq!((echoed(&answer), is_modern(&answer)), ("two", true));
    expect_error(&client.ask(echo(5, "too early")), -32600, Some(json!(5)));
    client.send(notification("notifications/initialized"));
    let legacy = client.ask(call(6, "add", json!({"a": 1, "b": 2})));
    assert!(!is_modern(&legacy) && legacy["result"]["structuredContent"].is_null(), "{legacy}");
    let answer = client.ask(modern(call(7, "add", json!({"a": 1, "b": 2}))));
    assert!(is_modern(&answer), "{answer}");
    assert_eq!(answer["result"]["structuredContent"], json!({"sum": 3.0}));
    let discovered = client.ask(modern(request(8, "server/discover", json!({}))));
    assert_eq!(discovered["result"]["supportedVersions"][0], MODERN, "{discovered}");
    assert!(!is_modern(&client.ask(bare(9, "tools/list"))));
    assert!(is_modern(&client.ask(modern(request(10, "tools/list", json!({}))))));
    client.expect_alive();
    drop(client);
    stage.close();
}

#[test]
fn modern_and_legacy_answers_that_come_later_keep_their_revision() {
    let stage = Stage::open(options());
    let mut client = stage.session("2024-11-05");
    let text = call(1, "hash", json!({"bytes": 1000}));
    client.send(&text);
    let legacy = client.answer();
    assert!(legacy["result"]["structuredContent"].is_null(), "{legacy}");
    client.send(modern(text));
    let later = client.answer();
    assert_eq!(later["result"]["resultType"], "complete", "{later}");
    assert_eq!(later["result"]["structuredContent"]["bytes"], 1000, "{later}");
    drop(client);
    stage.close();
}

#[test]
fn a_revision_that_is_not_served_is_named_together_with_those_that_are() {
    let stage = Stage::open(options());
    let mut client = stage.connect();
    // The legacy ones are real, but have a handshake instead of this key.
    for asked in ["", "1900-01-01", "2099-12-31", "2026-07-28 ", "draft", LEGACY, "2024-11-05"] {
        for mut text in [echo(1, "x"), request(1, "server/discover", json!({})), bare(1, "nope")] {
            text["params"]["_meta"] = modern_meta(asked);
            let answer = client.ask(text);
            expect_error(&answer, -32022, Some(json!(1)));
            let data = &answer["error"]["data"];
            assert_eq!(data["requested"], asked, "{answer}");
            let supported = data["supported"].as_array().expect("a list");
            assert!(supported.contains(&json!(MODERN)), "{answer}");
        }
    }
    client.expect_alive();
    drop(client);
    stage.close();
}

#[test]
fn a_modern_request_that_does_not_say_everything_is_invalid_params() {
    let stage = Stage::open(options());
    let mut client = stage.connect();
    let version = "io.modelcontextprotocol/protocolVersion";
    let capabilities = "io.modelcontextprotocol/clientCapabilities";
    let log_level = "io.modelcontextprotocol/logLevel";
    for meta in [
        json!({version: MODERN}),
        json!({version: MODERN, capabilities: null}),
        json!({version: MODERN, capabilities: []}),
        json!({version: MODERN, capabilities: "all"}),
        json!({version: null, capabilities: {}}),
        json!({version: 20_260_728, capabilities: {}}),
        json!({version: [MODERN], capabilities: {}}),
        json!({version: MODERN, capabilities: {}, log_level: "loud"}),
        json!({version: MODERN, capabilities: {}, log_level: 7}),
        json!({version: MODERN, capabilities: {}, "progressToken": 0.5}),
    ] {
        let mut text = echo("m", "x");
        text["params"]["_meta"] = meta;
        expect_error(&client.ask(text), -32602, Some(json!("m")));
        client.expect_alive();
    }
    let twice = modern(echo(1, "x")).to_string();
    let key = format!(r#""{capabilities}":{{}}"#);
    let twice = twice.replace(&key, &format!("{key},{key}"));
    expect_error(&client.ask(twice), -32602, Some(json!(1)));
    // Discovery needs no handshake, but it is modern.
    expect_error(&client.ask(bare(2, "server/discover")), -32602, Some(json!(2)));
    drop(client);
    stage.close();
}

#[test]
fn what_only_the_other_era_has_is_not_found() {
    let stage = Stage::open(options());
    let mut client = stage.session(LEGACY);
    expect_error(&client.ask(modern(request(1, "ping", json!({})))), -32601, Some(json!(1)));
    expect_error(&client.ask(modern(initialize(2, LEGACY))), -32601, Some(json!(2)));
    expect_error(&client.ask(bare(3, "server/discover")), -32601, Some(json!(3)));
    client.expect_alive();
    drop(client);
    stage.close();
}
