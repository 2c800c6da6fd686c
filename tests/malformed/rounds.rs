//! Round trips of 2026-07-28, and states that nobody gave out: changed, moved, kept too long or
//! brought twice.

use std::time::Duration;

use serde_json::{Value, json};

use crate::askers;
use crate::client::{Client, MODERN, call, expect_error, modern, request};
use crate::judged::judge;
use crate::stage::{Stage, options, over_each_ring};

/// What the client of most requests can do.
fn everything() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}})
}

/// A modern request of a client with these capabilities.
fn by(capabilities: Value, request: Value) -> Value {
    let mut request = modern(request);
    request["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
    request
}

/// Sends a request and waits for its answer, which must fit the schema.
fn ask(client: &mut Client, request: &Value) -> Value {
    let answer = client.ask(request);
    let method = request["method"].as_str();
    judge::judge(MODERN, &answer, method).unwrap_or_else(|reason| panic!("{reason}"));
    assert_eq!(answer["id"], request["id"], "{answer}");
    answer
}

/// The same request once more, with the state of `asked` and these answers.
fn retry(request: &Value, asked: &Value, answers: Value) -> Value {
    let mut request = request.clone();
    request["id"] = json!(request["id"].as_u64().expect("a number") + 1);
    request["params"]["requestState"] = asked["result"]["requestState"].clone();
    request["params"]["inputResponses"] = answers;
    request
}

fn named(name: &str) -> Value {
    json!({"action": "accept", "content": {"name": name}})
}

fn ask_name(id: u64) -> Value {
    by(everything(), call(id, "ask_name", json!({"word": "", "other": [1, {"b": 2, "a": 1}]})))
}

fn expect_questions(answer: &Value, keys: &[&str]) {
    let result = &answer["result"];
    assert_eq!(result["resultType"], "input_required", "{answer}");
    assert!(result["requestState"].is_string(), "{answer}");
    let asked = result["inputRequests"].as_object().expect("questions");
    assert_eq!(asked.keys().collect::<Vec<_>>(), keys, "{answer}");
}

fn expect_text(answer: &Value, text: &str) {
    assert_eq!(answer["result"]["content"][0]["text"], text, "{answer}");
    assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
}

#[test]
fn a_question_ends_its_round_and_the_retry_goes_on_with_the_answer() {
    over_each_ring(|options| {
        let stage = Stage::offering(options, askers::catalog());
        let mut client = stage.connect();
        let first = ask_name(1);
        let asked = ask(&mut client, &first);
        expect_questions(&asked, &["user_name"]);
        let answers = json!({"user_name": named("Ada"), "nobody asked": {"action": "cancel"}});
        // Another connection will do, and a map may be written in any order.
        let mut other = stage.connect();
        let mut second = retry(&first, &asked, answers);
        second["params"]["arguments"] = json!({"other": [1, {"a": 1, "b": 2}], "word": ""});
        expect_text(&ask(&mut other, &second), "Hello, Ada!");
        drop((client, other));
        let counters = stage.close();
        assert_eq!((counters.questions.rounds, counters.questions.unasked), (1, 1), "{counters}");
        assert_eq!(counters.questions.asked, 0, "{counters}");
    });
}

#[test]
fn each_round_adds_its_answers_to_those_before() {
    let stage = Stage::offering(options(), askers::catalog());
    let mut client = stage.connect();
    let first = by(everything(), call(1, "ask_twice", json!({})));
    let asked = ask(&mut client, &first);
    expect_questions(&asked, &["first"]);
    let second = retry(&first, &asked, json!({"first": named("Ada")}));
    let asked_again = ask(&mut client, &second);
    expect_questions(&asked_again, &["second"]);
    let message = &asked_again["result"]["inputRequests"]["second"]["params"]["message"];
    assert_eq!(*message, "And your friend's, Ada?");
    assert_ne!(asked["result"]["requestState"], asked_again["result"]["requestState"]);
    let third = retry(&second, &asked_again, json!({"second": named("Grace")}));
    expect_text(&ask(&mut client, &third), "Ada and Grace");
    drop(client);
    stage.close();
}

#[test]
fn what_is_missing_is_asked_for_again() {
    let stage = Stage::offering(options(), askers::catalog());
    let mut client = stage.connect();
    let first = by(everything(), call(1, "ask_both", json!({})));
    let asked = ask(&mut client, &first);
    expect_questions(&asked, &["name", "roots"]);
    let none = retry(&first, &asked, json!({}));
    let asked = ask(&mut client, &none);
    expect_questions(&asked, &["name", "roots"]);
    let half = retry(&none, &asked, json!({"roots": {"roots": [{"uri": "file:///a"}]}}));
    let asked = ask(&mut client, &half);
    expect_questions(&asked, &["name"]);
    let whole = retry(&half, &asked, json!({"name": named("Ada")}));
    expect_text(&ask(&mut client, &whole), "Ada works in 1 roots");
    // A client that knows what it will be asked may answer at once.
    let mut foreseen = ask_name(9);
    foreseen["params"]["inputResponses"] = json!({"user_name": named("Eve"), "nobody": {}});
    assert_eq!(ask(&mut client, &foreseen)["result"]["resultType"], "complete");
    drop(client);
    assert_eq!(stage.close().questions.unasked, 0);
}

#[test]
fn prompts_and_resources_ask_as_tools_do() {
    let stage = Stage::offering(options(), askers::catalog());
    let mut client = stage.connect();
    let prompt = by(everything(), request(1, "prompts/get", json!({"name": "letter"})));
    let asked = ask(&mut client, &prompt);
    expect_questions(&asked, &["context"]);
    let answer = ask(&mut client, &retry(&prompt, &asked, json!({"context": named("Ada")})));
    let text = &answer["result"]["messages"][0]["content"]["text"];
    assert_eq!(*text, "Write to Ada.", "{answer}");
    let resource = by(everything(), request(3, "resources/read", json!({"uri": "test://diary"})));
    let asked = ask(&mut client, &resource);
    expect_questions(&asked, &["who"]);
    let answer = ask(&mut client, &retry(&resource, &asked, json!({"who": named("Eve")})));
    assert_eq!(answer["result"]["contents"][0]["text"], "Not for Eve.", "{answer}");
    drop(client);
    stage.close();
}

#[test]
fn a_client_is_asked_only_for_what_it_declared_with_the_request() {
    let stage = Stage::offering(options(), askers::catalog());
    let mut client = stage.connect();
    for (tool, capabilities, needed) in [
        ("ask_name", json!({}), json!({"elicitation": {"form": {}}})),
        ("ask_name", json!({"sampling": {}}), json!({"elicitation": {"form": {}}})),
        ("open_page", json!({"elicitation": {}}), json!({"elicitation": {"url": {}}})),
        ("ask_model", json!({"elicitation": {}}), json!({"sampling": {}})),
    ] {
        let answer = ask(&mut client, &by(capabilities, call(1, tool, json!({}))));
        expect_error(&answer, -32021, Some(json!(1)));
        assert_eq!(answer["error"]["data"]["requiredCapabilities"], needed, "{answer}");
    }
    let model = by(json!({"sampling": {}}), call(2, "ask_model", json!({})));
    let asked = ask(&mut client, &model);
    expect_questions(&asked, &["capital"]);
    let said = json!({"role": "assistant", "content": {"type": "text", "text": "Paris"},
                      "model": "m", "stopReason": "endTurn"});
    expect_text(&ask(&mut client, &retry(&model, &asked, json!({"capital": said}))), "Paris");
    drop(client);
    stage.close();
}

#[test]
fn an_answer_that_is_none_is_refused() {
    let stage = Stage::offering(options(), askers::catalog());
    let mut client = stage.connect();
    for answer in [
        json!(7),
        json!(null),
        json!([]),
        json!({}),
        json!({"action": "perhaps"}),
        json!({"action": "accept"}),
        json!({"action": "accept", "content": {}}),
        json!({"action": "accept", "content": {"name": 7}}),
        json!({"action": "accept", "content": "Ada"}),
    ] {
        let first = ask_name(1);
        let asked = ask(&mut client, &first);
        let refused = ask(&mut client, &retry(&first, &asked, json!({"user_name": answer})));
        expect_error(&refused, -32602, Some(json!(2)));
    }
    // And so are params that are not what they should be.
    for (key, value) in [
        ("requestState", json!(7)),
        ("requestState", json!({})),
        ("inputResponses", json!([])),
        ("inputResponses", json!("Ada")),
    ] {
        let mut wrong = ask_name(3);
        wrong["params"][key] = value;
        expect_error(&ask(&mut client, &wrong), -32602, Some(json!(3)));
    }
    drop(client);
    stage.close();
}

#[test]
fn a_state_that_was_changed_or_shortened_is_refused() {
    over_each_ring(|options| {
        let stage = Stage::offering(options, askers::catalog());
        let mut client = stage.connect();
        let first = ask_name(1);
        let asked = ask(&mut client, &first);
        let sealed = asked["result"]["requestState"].as_str().expect("a state").to_owned();
        let mut last = sealed.clone();
        let flipped = if last.pop() == Some('A') { "Q" } else { "A" };
        let changed = [
            String::new(),
            "x".to_owned(),
            "é\u{0}".to_owned(),
            sealed[1..].to_owned(),
            sealed[..sealed.len() / 2].to_owned(),
            sealed[..sealed.len() - 1].to_owned(),
            format!("{sealed}A"),
            format!("{last}{flipped}"),
            format!("A{}", &sealed[1..]).replace(&sealed, "never"),
            "A".repeat(100_000),
        ];
        let mut refused = 0;
        for text in changed.iter().filter(|text| **text != sealed) {
            let mut forged = retry(&first, &asked, json!({"user_name": named("Eve")}));
            forged["params"]["requestState"] = json!(text);
            expect_error(&ask(&mut client, &forged), -32602, Some(json!(2)));
            refused += 1;
        }
        // None of this has spent the state itself.
        let honest = retry(&first, &asked, json!({"user_name": named("Ada")}));
        expect_text(&ask(&mut client, &honest), "Hello, Ada!");
        drop(client);
        assert_eq!(stage.close().questions.states_refused, refused);
    });
}

#[test]
fn a_state_is_good_once_whichever_connection_brings_it() {
    over_each_ring(|mut options| {
        options.engine.shards = Some(2);
        let stage = Stage::offering(options, askers::catalog());
        let mut clients: Vec<Client> = (0..4).map(|_| stage.connect()).collect();
        let first = ask_name(1);
        let asked = ask(&mut clients[0], &first);
        let again = retry(&first, &asked, json!({"user_name": named("Ada")}));
        let answers: Vec<Value> = clients.iter_mut().map(|client| ask(client, &again)).collect();
        expect_text(&answers[0], "Hello, Ada!");
        for answer in &answers[1..] {
            expect_error(answer, -32602, Some(json!(2)));
            let message = answer["error"]["message"].as_str().expect("a message");
            assert!(message.contains("used before"), "{answer}");
        }
        drop(clients);
        assert_eq!(stage.close().questions.states_refused, 3);
    });
}

#[test]
fn a_state_counts_for_the_request_it_was_given_out_for() {
    let stage = Stage::offering(options(), askers::catalog());
    let mut client = stage.connect();
    let first = ask_name(1);
    let asked = ask(&mut client, &first);
    let answers = json!({"user_name": named("Eve"), "first": named("Eve")});
    let swapped = [
        call(1, "ask_name", json!({"word": "Ha! "})),
        call(1, "ask_name", json!({"word": "", "other": [1, {"b": 2, "a": 2}]})),
        call(1, "ask_name", json!({})),
        call(1, "ask_twice", json!({})),
        // One that never asks has never given out a state.
        call(1, "echo", json!({"message": "x"})),
        request(1, "prompts/get", json!({"name": "ask_name"})),
        request(1, "prompts/get", json!({"name": "letter"})),
        request(1, "resources/read", json!({"uri": "test://diary"})),
    ];
    for other in swapped {
        let moved = retry(&by(everything(), other), &asked, answers.clone());
        expect_error(&ask(&mut client, &moved), -32602, Some(json!(2)));
    }
    let honest = retry(&first, &asked, json!({"user_name": named("Ada")}));
    expect_text(&ask(&mut client, &honest), "Hello, Ada!");
    drop(client);
    assert_eq!(stage.close().questions.states_refused, 8);
}

#[test]
fn a_state_of_another_process_is_refused() {
    let (one, two) = (
        Stage::offering(options(), askers::catalog()),
        Stage::offering(options(), askers::catalog()),
    );
    let first = ask_name(1);
    let asked = ask(&mut one.connect(), &first);
    let moved = retry(&first, &asked, json!({"user_name": named("Eve")}));
    expect_error(&ask(&mut two.connect(), &moved), -32602, Some(json!(2)));
    one.close();
    two.close();
}

#[test]
fn a_state_expires() {
    over_each_ring(|mut options| {
        options.limits.round_max = Duration::ZERO;
        let stage = Stage::offering(options, askers::catalog());
        let mut client = stage.connect();
        let first = ask_name(1);
        let asked = ask(&mut client, &first);
        let late = ask(&mut client, &retry(&first, &asked, json!({"user_name": named("Ada")})));
        expect_error(&late, -32602, Some(json!(2)));
        assert!(late["error"]["message"].as_str().is_some_and(|it| it.contains("too late")));
        drop(client);
        stage.close();
    });
}

#[test]
fn a_legacy_request_that_brings_a_state_is_served_as_if_it_had_none() {
    let stage = Stage::offering(options(), askers::catalog());
    let mut client = stage.session("2025-11-25");
    let mut odd = call(1, "echo", json!({"message": "x"}));
    odd["params"]["requestState"] = json!("made up");
    let answer = client.ask(odd);
    assert_eq!(answer["result"]["content"][0]["text"], "x", "{answer}");
    drop(client);
    stage.close();
}
