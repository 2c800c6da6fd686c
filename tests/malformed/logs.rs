//! Log messages: to those who want them, from the level on that they named.

use corelane::protocol::era::LogLevel;
use corelane::service::Features;
use serde_json::{Value, json};

use crate::askers;
use crate::client::{Client, LEGACY, MODERN, bare, call, expect_error, modern, request};
use crate::judged::judge;
use crate::stage::{Stage, options, over_each_ring};

/// Every level, least important first.
fn levels() -> Vec<&'static str> {
    LogLevel::ALL.iter().map(|(_, name)| *name).collect()
}

/// Sends a call and collects the levels that are told before its answer.
fn told(client: &mut Client, revision: &str, call: &Value) -> Vec<String> {
    client.send(call);
    let mut told = Vec::new();
    loop {
        let message = client.answer();
        judge::judge(revision, &message, None).unwrap_or_else(|reason| panic!("{reason}"));
        if message["id"] == call["id"] {
            assert_eq!(message["result"]["content"][0]["text"], "logged", "{message}");
            return told;
        }
        assert_eq!(message["method"], "notifications/message", "{message}");
        told.push(message["params"]["level"].as_str().expect("a level").to_owned());
    }
}

#[test]
fn a_session_hears_from_info_on_until_it_says_otherwise() {
    over_each_ring(|options| {
        let stage = Stage::offering(options, askers::catalog());
        for tool in ["log", "log_blocking"] {
            let mut client = stage.session(LEGACY);
            assert_eq!(told(&mut client, LEGACY, &call(1, tool, json!({}))), levels()[1..]);
            for (from, level) in levels().into_iter().enumerate() {
                let set = client.ask(request(2, "logging/setLevel", json!({"level": level})));
                assert_eq!(set["result"], json!({}), "{set}");
                assert_eq!(told(&mut client, LEGACY, &call(3, tool, json!({}))), levels()[from..]);
            }
            // Another session is another matter.
            let mut other = stage.session("2024-11-05");
            let heard = told(&mut other, "2024-11-05", &call(1, tool, json!({})));
            assert_eq!(heard, levels()[1..]);
        }
        stage.close();
    });
}

#[test]
fn a_modern_request_hears_what_it_asked_for_and_nothing_without() {
    over_each_ring(|options| {
        let stage = Stage::offering(options, askers::catalog());
        let mut client = stage.session(LEGACY);
        client.ask(request(0, "logging/setLevel", json!({"level": "debug"})));
        for tool in ["log", "log_blocking"] {
            let silent = modern(call(1, tool, json!({})));
            assert_eq!(told(&mut client, MODERN, &silent), Vec::<String>::new());
            for (from, level) in levels().into_iter().enumerate() {
                let mut wanted = modern(call(2, tool, json!({})));
                wanted["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = json!(level);
                assert_eq!(told(&mut client, MODERN, &wanted), levels()[from..]);
            }
            assert_eq!(told(&mut client, MODERN, &silent), Vec::<String>::new());
        }
        drop(client);
        stage.close();
    });
}

#[test]
fn levels_that_there_are_not_are_refused_and_change_nothing() {
    let stage = Stage::offering(options(), askers::catalog());
    let mut client = stage.session(LEGACY);
    for params in [
        json!({"level": "loud"}),
        json!({"level": "INFO"}),
        json!({"level": 3}),
        json!({"level": null}),
        json!({}),
        json!([]),
    ] {
        let answer = client.ask(request(1, "logging/setLevel", params));
        expect_error(&answer, -32602, Some(json!(1)));
    }
    expect_error(&client.ask(bare(2, "logging/setLevel")), -32602, Some(json!(2)));
    assert_eq!(told(&mut client, LEGACY, &call(3, "log", json!({}))), levels()[1..]);
    let mut modern_call = modern(call(4, "log", json!({})));
    modern_call["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = json!("loud");
    expect_error(&client.ask(modern_call), -32602, Some(json!(4)));
    // There is no such method any more, and none where logs are withheld.
    let set = request(5, "logging/setLevel", json!({"level": "info"}));
    expect_error(&client.ask(modern(set.clone())), -32601, Some(json!(5)));
    let quiet = askers::catalog().edit().withhold(Features::LOGGING).build().expect("a catalog");
    let quiet = Stage::offering(options(), quiet);
    expect_error(&quiet.session(LEGACY).ask(set), -32601, Some(json!(5)));
    drop(client);
    stage.close();
    quiet.close();
}
