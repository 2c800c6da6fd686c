//! What is said about bad input is itself a message of the revision.

#[path = "../support/judge.rs"]
pub(crate) mod judge;

use serde_json::{Value, json};

use crate::client::{
    LEGACY, MODERN, bare, call, echo, endless, initialize, modern, modern_meta, request,
};
use crate::stage::{Stage, options};

/// Bad texts, each of which is answered with an error in every revision.
fn bad_texts() -> Vec<String> {
    let mut unserved = echo(1, "x");
    unserved["params"]["_meta"] = modern_meta("1900-01-01");
    let mut incomplete = echo(1, "x");
    incomplete["params"]["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": MODERN});
    vec![
        "{".to_owned(),
        "\"\\ud800\"".to_owned(),
        "7".to_owned(),
        "{}".to_owned(),
        "[".repeat(1000),
        r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":"text","method":7}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":-9223372036854775808,"method":"no/such/method"}"#.to_owned(),
        bare(1, "tools/call").to_string(),
        call("a \"quoted\" id", "nope", json!({})).to_string(),
        request(1, "tools/list", json!({"cursor": "never issued"})).to_string(),
        initialize(1, LEGACY).to_string(),
        unserved.to_string(),
        incomplete.to_string(),
    ]
}

#[test]
fn every_error_fits_the_schema_of_the_revision_it_is_said_in() {
    let stage = Stage::open(options());
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", LEGACY] {
        let mut client = stage.session(revision);
        for text in bad_texts() {
            let answer = client.ask(&text);
            assert!(answer.get("error").is_some(), "{text}: {answer}");
            judge::judge(revision, &answer, None).unwrap_or_else(|reason| panic!("{reason}"));
        }
        client.send(endless(1));
        let answer = client.ask(echo(1, "the same id"));
        judge::judge(revision, &answer, None).unwrap_or_else(|reason| panic!("{reason}"));
        client.reset();
    }
    stage.close();
}

#[test]
fn a_failure_of_a_tool_fits_the_schema_of_its_revision() {
    let stage = Stage::open(options());
    for revision in [LEGACY, MODERN] {
        let mut client = stage.session(LEGACY);
        let ask: fn(Value) -> Value = if revision == MODERN { modern } else { |legacy| legacy };
        for (tool, arguments) in [
            ("echo", json!({})),
            ("add", json!({"a": 1e308, "b": 1e308})),
            ("slow", json!({"steps": 0, "step_ms": 0})),
            ("hash", json!({"bytes": "many"})),
        ] {
            let answer = client.ask(ask(call(1, tool, arguments)));
            assert_eq!(answer["result"]["isError"], true, "{answer}");
            let verdict = judge::judge(revision, &answer, Some("tools/call"));
            verdict.unwrap_or_else(|reason| panic!("{reason}"));
        }
        let answer = client.ask(ask(request(2, "no/such/method", json!({}))));
        judge::judge(revision, &answer, None).unwrap_or_else(|reason| panic!("{reason}"));
    }
    stage.close();
}
