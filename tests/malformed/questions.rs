//! Questions to legacy clients, and what comes back of them: nothing, too late, twice, from
//! somebody else, or no answer at all.

use std::time::Duration;

use serde_json::{Value, json};

use crate::askers;
use crate::client::{
    Client, LEGACY, call, cancelled, echo, echoed, endless, expect_error, lines, notification,
    request,
};
use crate::judged::judge;
use crate::stage::{Stage, options, over_each_ring};

/// A session whose client can answer everything that `revision` asks.
fn session(stage: &Stage, revision: &str) -> Client {
    let mut client = stage.connect();
    let elicitation = if revision == LEGACY { json!({"form": {}, "url": {}}) } else { json!({}) };
    let mut capabilities = json!({"sampling": {}, "roots": {"listChanged": true}});
    if revision >= "2025-06-18" {
        capabilities["elicitation"] = elicitation;
    }
    let about = json!({"name": "malformed", "version": "1"});
    let params = json!({
        "protocolVersion": revision, "capabilities": capabilities, "clientInfo": about,
    });
    let answer = client.ask(request(0, "initialize", params));
    assert_eq!(answer["result"]["protocolVersion"], revision, "{answer}");
    client.send(notification("notifications/initialized"));
    client
}

/// The next message, which must fit the schema.
fn hear(client: &mut Client, revision: &str) -> Value {
    let message = client.answer();
    judge::judge(revision, &message, None).unwrap_or_else(|reason| panic!("{reason}"));
    message
}

/// The next message, which must be a question.
fn question(client: &mut Client, method: &str) -> Value {
    let message = hear(client, LEGACY);
    assert_eq!(message["method"], method, "{message}");
    assert!(message["id"].is_string(), "{message}");
    message
}

#[expect(clippy::needless_pass_by_value, reason = "a literal stands in most calls")]
fn reply(question: &Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": question["id"], "result": result})
}

fn named(name: &str) -> Value {
    json!({"action": "accept", "content": {"name": name}})
}

fn ask_name(id: u64) -> Value {
    call(id, "ask_name", json!({"word": ""}))
}

#[test]
fn a_question_is_a_request_and_its_answer_lets_the_handler_go_on() {
    over_each_ring(|options| {
        let stage = Stage::offering(options, askers::catalog());
        for revision in ["2025-06-18", LEGACY] {
            let mut client = session(&stage, revision);
            client.send(ask_name(1));
            let asked = hear(&mut client, revision);
            assert_eq!(asked["method"], "elicitation/create", "{asked}");
            // The client is served while it is asked.
            assert_eq!(echoed(&client.ask(echo(2, "meanwhile"))), "meanwhile");
            let answer = client.ask(reply(&asked, named("Ada")));
            assert_eq!(echoed(&answer), "Hello, Ada!", "{answer}");
        }
        for revision in ["2024-11-05", "2025-03-26", "2025-06-18", LEGACY] {
            let mut client = session(&stage, revision);
            client.send(call(1, "ask_model", json!({})));
            let asked = hear(&mut client, revision);
            assert_eq!(asked["method"], "sampling/createMessage", "{asked}");
            let said = json!({"role": "assistant", "content": {"type": "text", "text": "Paris"},
                              "model": "m"});
            assert_eq!(echoed(&client.ask(reply(&asked, said))), "Paris");
        }
        let counters = stage.close();
        assert_eq!((counters.questions.asked, counters.questions.answered), (6, 6), "{counters}");
    });
}

#[test]
fn questions_are_answered_in_any_order() {
    let stage = Stage::offering(options(), askers::catalog());
    let mut client = session(&stage, LEGACY);
    client.send(call(1, "ask_both", json!({})));
    let name = question(&mut client, "elicitation/create");
    let roots = question(&mut client, "roots/list");
    client.send(reply(&roots, json!({"roots": [{"uri": "file:///a"}, {"uri": "file:///b"}]})));
    let answer = client.ask(reply(&name, named("Ada")));
    assert_eq!(echoed(&answer), "Ada works in 2 roots");
    drop(client);
    stage.close();
}

#[test]
fn a_client_that_cannot_be_asked_gets_a_failed_result() {
    let stage = Stage::offering(options(), askers::catalog());
    let mut client = stage.session(LEGACY);
    for tool in ["ask_name", "ask_model", "ask_both", "open_page"] {
        let answer = client.ask(call(1, tool, json!({})));
        assert_eq!(answer["result"]["isError"], true, "{answer}");
    }
    // One that takes no for an answer.
    let answer = client.ask(request(2, "resources/read", json!({"uri": "test://diary"})));
    assert_eq!(answer["result"]["contents"][0]["text"], "Not for a stranger.", "{answer}");
    let answer = client.ask(request(3, "prompts/get", json!({"name": "letter"})));
    expect_error(&answer, -32603, Some(json!(3)));
    drop(client);
    assert_eq!(stage.close().questions.asked, 0);
}

#[test]
fn answers_to_nothing_are_passed_over_and_counted() {
    over_each_ring(|options| {
        let stage = Stage::offering(options, askers::catalog());
        let mut client = session(&stage, LEGACY);
        let mut stranger = session(&stage, LEGACY);
        let never = |id: Value| json!({"jsonrpc": "2.0", "id": id, "result": named("Eve")});
        for id in [json!(0), json!("0"), json!("corelane-0-0"), json!(""), json!("-")] {
            client.send(never(id));
        }
        client.send(ask_name(1));
        let asked = question(&mut client, "elicitation/create");
        // Not by another connection, not under a name that only reads the same.
        stranger.send(reply(&asked, named("Eve")));
        stranger.expect_alive();
        let id = asked["id"].as_str().expect("a text");
        let (head, number) = id.rsplit_once('-').expect("a number at the end");
        client.send(never(json!(format!("{head}-0{number}"))));
        client.send(never(json!(format!("x-{number}"))));
        client.send(json!({"jsonrpc": "2.0", "id": null, "error": {"code": 1, "message": "?"}}));
        client.expect_alive();
        let answer = client.ask(reply(&asked, named("Ada")));
        assert_eq!(echoed(&answer), "Hello, Ada!");
        // A second answer.
        client.send(reply(&asked, named("Eve")));
        client.expect_alive();
        drop((client, stranger));
        let counters = stage.close();
        assert_eq!((counters.questions.answered, counters.questions.unasked), (1, 10));
    });
}

#[test]
fn an_answer_that_is_none_fails_the_call_and_a_refusal_reaches_the_handler() {
    let stage = Stage::offering(options(), askers::catalog());
    let mut client = session(&stage, LEGACY);
    let malformed = [
        json!({}),
        json!(7),
        json!(null),
        json!({"action": "perhaps"}),
        json!({"action": "accept", "content": {"name": 7}}),
        json!({"action": "accept"}),
    ];
    for (id, result) in (1..).zip(malformed) {
        client.send(ask_name(id));
        let asked = question(&mut client, "elicitation/create");
        expect_error(&client.ask(reply(&asked, result)), -32602, Some(json!(id)));
    }
    client.send(ask_name(10));
    let asked = question(&mut client, "elicitation/create");
    let error = json!({"code": -1, "message": "x".repeat(10_000)});
    let answer = client.ask(json!({"jsonrpc": "2.0", "id": asked["id"], "error": error}));
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert!(answer.to_string().len() < 1000, "{answer}");
    client.send(ask_name(11));
    let asked = question(&mut client, "elicitation/create");
    let answer = client.ask(reply(&asked, json!({"action": "decline"})));
    assert_eq!(echoed(&answer), "Hello, nobody!");
    drop(client);
    let counters = stage.close();
    assert_eq!((counters.questions.answered, counters.questions.malformed), (8, 6), "{counters}");
}

#[test]
fn a_question_that_nobody_answers_times_out_and_is_taken_back() {
    over_each_ring(|mut options| {
        options.limits.question_max = Duration::from_millis(30);
        let stage = Stage::offering(options, askers::catalog());
        let mut client = session(&stage, LEGACY);
        client.send(ask_name(1));
        let asked = question(&mut client, "elicitation/create");
        let taken_back = hear(&mut client, LEGACY);
        assert_eq!(taken_back["method"], "notifications/cancelled", "{taken_back}");
        assert_eq!(taken_back["params"]["requestId"], asked["id"], "{taken_back}");
        let answer = hear(&mut client, LEGACY);
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        // Too late.
        client.send(reply(&asked, named("Ada")));
        client.expect_alive();
        drop(client);
        let counters = stage.close();
        assert_eq!((counters.questions.timed_out, counters.questions.unasked), (1, 1));
        assert_eq!(counters.requests.timed_out, 0, "{counters}");
    });
}

#[test]
fn a_call_does_not_age_while_its_user_thinks() {
    over_each_ring(|mut options| {
        options.limits.request_max = Duration::from_millis(30);
        let stage = Stage::offering(options, askers::catalog());
        let mut client = session(&stage, LEGACY);
        client.send(ask_name(1));
        let asked = question(&mut client, "elicitation/create");
        // Another call shows that its time has passed.
        expect_error(&client.ask(endless(2)), -32603, Some(json!(2)));
        assert_eq!(echoed(&client.ask(reply(&asked, named("Ada")))), "Hello, Ada!");
        drop(client);
        assert_eq!(stage.close().requests.timed_out, 1);
    });
}

#[test]
fn progress_of_a_client_gives_it_time_and_of_nothing_is_passed_over() {
    over_each_ring(|options| {
        let stage = Stage::offering(options, askers::catalog());
        let mut client = session(&stage, LEGACY);
        client.send(ask_name(1));
        let asked = question(&mut client, "elicitation/create");
        let token = &asked["params"]["_meta"]["progressToken"];
        for token in [token, &json!(7), &json!("corelane-0-999"), &json!(null)] {
            let params = json!({"progressToken": token, "progress": 1});
            let method = "notifications/progress";
            client.send(json!({"jsonrpc": "2.0", "method": method, "params": params}));
        }
        client.send(notification("notifications/progress"));
        client.send(notification("notifications/roots/list_changed"));
        client.expect_alive();
        assert_eq!(echoed(&client.ask(reply(&asked, named("Ada")))), "Hello, Ada!");
        drop(client);
        let counters = stage.close();
        assert_eq!((counters.questions.progress, counters.questions.unknown_progress), (1, 4));
    });
}

#[test]
fn a_call_that_is_cancelled_takes_its_question_back() {
    over_each_ring(|options| {
        let stage = Stage::offering(options, askers::catalog());
        let mut client = session(&stage, LEGACY);
        client.send(ask_name(1));
        let asked = question(&mut client, "elicitation/create");
        let taken_back = client.ask(cancelled(1));
        assert_eq!(taken_back["method"], "notifications/cancelled", "{taken_back}");
        assert_eq!(taken_back["params"]["requestId"], asked["id"], "{taken_back}");
        client.send(reply(&asked, named("Ada")));
        client.expect_alive();
        drop(client);
        let counters = stage.close();
        assert_eq!((counters.questions.withdrawn, counters.questions.unasked), (1, 1));
    });
}

#[test]
fn a_cancellation_in_a_batch_leaves_the_batch_whole() {
    let stage = Stage::offering(options(), askers::catalog());
    let mut client = session(&stage, "2025-03-26");
    client.send(call(1, "ask_model", json!({})));
    let asked = client.answer();
    assert_eq!(asked["method"], "sampling/createMessage", "{asked}");
    let batch = client.ask(json!([echo(2, "a"), cancelled(1), echo(3, "b")]));
    assert_eq!(batch.as_array().map(Vec::len), Some(2), "{batch}");
    assert_eq!(client.answer()["method"], "notifications/cancelled");
    // And an answer may come in one.
    client.send(call(4, "ask_model", json!({})));
    let asked = client.answer();
    let said = json!({"role": "assistant", "content": {"type": "text", "text": "Paris"},
                      "model": "m"});
    let echoes = client.ask(json!([reply(&asked, said), echo(5, "c")]));
    assert_eq!(echoes.as_array().map(Vec::len), Some(1), "{echoes}");
    assert_eq!(echoed(&client.answer()), "Paris");
    drop(client);
    stage.close();
}

#[test]
fn a_question_that_its_handler_gives_up_is_taken_back() {
    let stage = Stage::offering(options(), askers::catalog());
    let mut client = session(&stage, LEGACY);
    client.send(call(1, "ask_in_vain", json!({})));
    let asked = question(&mut client, "elicitation/create");
    let taken_back = hear(&mut client, LEGACY);
    assert_eq!(taken_back["params"]["requestId"], asked["id"], "{taken_back}");
    assert_eq!(echoed(&client.answer()), "never mind");
    drop(client);
    stage.close();
}

#[test]
fn answers_come_through_when_no_more_calls_may_be_in_flight() {
    over_each_ring(|mut options| {
        options.limits.requests_in_flight_max = 2;
        let stage = Stage::offering(options, askers::catalog());
        let mut client = session(&stage, LEGACY);
        client.send_bytes(lines([1, 2].map(ask_name)).as_bytes());
        let asked = [(); 2].map(|()| question(&mut client, "elicitation/create"));
        expect_error(&client.ask(ask_name(3)), -32603, Some(json!(3)));
        for (asked, name) in asked.iter().zip(["Ada", "Grace"]) {
            let answer = client.ask(reply(asked, named(name)));
            assert_eq!(echoed(&answer), format!("Hello, {name}!"));
        }
        drop(client);
        stage.close();
    });
}

#[test]
fn clients_that_vanish_in_the_middle_of_a_question_leave_nothing_behind() {
    over_each_ring(|options| {
        let stage = Stage::offering(options, askers::catalog());
        for round in 0..10 {
            let mut client = session(&stage, LEGACY);
            client.send(ask_name(1));
            question(&mut client, "elicitation/create");
            if round % 2 == 0 {
                client.reset();
            } else {
                // It has said its last: nobody will answer, and the call ends with that.
                client.finish();
                assert_eq!(hear(&mut client, LEGACY)["method"], "notifications/cancelled");
                assert!(client.answer()["result"]["isError"] == true);
                client.expect_end();
            }
        }
        let counters = stage.close();
        assert_eq!(counters.questions.asked, 10, "{counters}");
        assert_eq!(counters.questions.withdrawn, 10, "{counters}");
    });
}

#[test]
fn a_drain_does_not_wait_for_users() {
    over_each_ring(|options| {
        let stage = Stage::offering(options, askers::catalog());
        let mut client = session(&stage, LEGACY);
        client.send(ask_name(1));
        question(&mut client, "elicitation/create");
        stage.drain();
        assert_eq!(hear(&mut client, LEGACY)["method"], "notifications/cancelled");
        assert_eq!(client.answer()["result"]["isError"], true);
        client.expect_end();
        drop(client);
        stage.close();
    });
}

#[test]
fn an_address_that_was_opened_is_told_to_be_done() {
    let stage = Stage::offering(options(), askers::catalog());
    let mut client = session(&stage, LEGACY);
    for (id, action) in [(1, "accept"), (2, "decline"), (3, "cancel")] {
        client.send(call(id, "open_page", json!({})));
        let asked = question(&mut client, "elicitation/create");
        assert_eq!(asked["params"]["mode"], "url", "{asked}");
        let address = asked["params"]["elicitationId"].clone();
        assert!(address.is_string(), "{asked}");
        client.send(reply(&asked, json!({"action": action})));
        if action == "accept" {
            let done = hear(&mut client, LEGACY);
            assert_eq!(done["method"], "notifications/elicitation/complete", "{done}");
            assert_eq!(done["params"]["elicitationId"], address, "{done}");
        }
        assert_eq!(echoed(&client.answer()), action);
    }
    // Before 2025-11-25 there are no addresses.
    let mut older = session(&stage, "2025-06-18");
    let answer = older.ask(call(4, "open_page", json!({})));
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    drop((client, older));
    stage.close();
}
