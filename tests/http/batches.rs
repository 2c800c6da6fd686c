//! Batches, which only sessions of 2025-03-26 know.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::messages::{BATCHED, LEGACY, call, cancelled, echo, notification};
use crate::session::Session;
use crate::stage::{Stage, on_one_shard_and_two};

#[test]
fn batches_belong_to_sessions_of_2025_03_26() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        let session = Session::begin(stage.address(), BATCHED);
        for _ in 0..8 {
            let mut client = session.connect();
            let batch = json!([echo(1, "a"), notification("notifications/none"), echo(2, "b")]);
            let answer = client.ask(&session.post(&batch)).message();
            let mut ids: Vec<_> = ids(&answer);
            ids.sort_unstable();
            assert_eq!(ids, [1, 2], "{answer}");
            let told = json!([notification("notifications/none")]);
            client.ask(&session.post(&told)).expect_bare(202);
            client.ask(&session.post(&json!([]))).expect_error(400, -32600, Some(Value::Null));
            client.expect_alive();
        }
        let newer = Session::begin(stage.address(), LEGACY);
        let answer = newer.connect().ask(&newer.post(&json!([echo(1, "a")])));
        answer.expect_error(400, -32600, None);
        stage.close();
    });
}

#[test]
fn a_batch_that_cancels_a_request_is_answered_for_the_others() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        let session = Session::begin(stage.address(), BATCHED);
        for _ in 0..8 {
            let mut first = session.connect();
            first.send(&session.post(&call("first", "until-cancelled", json!({}))));
            assert_eq!(stage.told(), "begun");
            let mut second = session.connect();
            let slow = |id| call(id, "slow", json!({"steps": 1, "step_ms": 1}));
            let batch = json!([slow("second"), cancelled("first")]);
            let (before, answer) = second.ask_through(&session.post(&batch));
            assert_eq!((before.len(), &answer["id"]), (0, &json!("second")), "{answer}");
            assert_eq!(stage.told(), "cancelled");
            first.begin_stream();
            first.expect_end_of_stream();
            // Taken back before it could begin to be waited for.
            let batch = json!([slow("third"), slow("fourth"), cancelled("third")]);
            let (before, answer) = second.ask_through(&session.post(&batch));
            assert_eq!((before.len(), &answer["id"]), (0, &json!("fourth")), "{answer}");
            let batch = json!([slow("fifth"), cancelled("fifth")]);
            second.ask_stream(&session.post(&batch));
            second.expect_end_of_stream();
            second.expect_alive();
        }
        stage.close();
    });
}

fn ids(answers: &Value) -> Vec<i64> {
    let answers = answers.as_array().unwrap_or_else(|| panic!("{answers}"));
    answers.iter().filter_map(|answer| answer["id"].as_i64()).collect()
}

#[test]
fn requests_of_a_batch_that_take_their_time_are_all_answered_on_its_stream() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        let session = Session::begin(stage.address(), BATCHED);
        for round in 0..8 {
            let mut client = session.connect();
            let slow = |id, steps: u32| call(id, "slow", json!({"steps": steps, "step_ms": 1}));
            let batch = json!([slow("a", 2), echo("b", "at once"), slow("c", 4)]);
            client.ask_stream(&session.post(&batch));
            client.primed();
            let mut answered = HashSet::new();
            for message in client.rest_of_stream() {
                let messages = match message {
                    Value::Array(messages) => messages,
                    message => vec![message],
                };
                for message in messages {
                    assert!(message["result"].is_object(), "{message}");
                    assert!(answered.insert(message["id"].to_string()), "{message}");
                }
            }
            assert_eq!(answered.len(), 3, "round {round}: {answered:?}");
            client.expect_alive();
        }
        stage.close();
    });
}
