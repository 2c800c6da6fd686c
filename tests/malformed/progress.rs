//! `notifications/progress`: only to those who asked, and only forwards.

use serde_json::{Value, json};

use crate::client::{Client, LEGACY, call, modern};
use crate::stage::{Stage, over_each_ring};

/// Sends a call and collects what comes until its answer.
fn watch(client: &mut Client, request: &Value) -> (Vec<Value>, Value) {
    client.send(request);
    let mut told = Vec::new();
    loop {
        let message = client.answer();
        if message["id"] == request["id"] {
            return (told, message);
        }
        told.push(message);
    }
}

#[test]
fn without_a_token_there_is_no_progress() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let mut client = stage.session(LEGACY);
        let plain = call(1, "slow", json!({"steps": 5, "step_ms": 1}));
        let mut null = plain.clone();
        null["params"]["_meta"] = json!({"progressToken": null});
        for request in [plain.clone(), null, modern(plain)] {
            let (told, answer) = watch(&mut client, &request);
            assert_eq!(told, Vec::<Value>::new());
            assert!(answer.get("result").is_some(), "{answer}");
        }
        drop(client);
        assert_eq!(stage.close().requests.progress, 0);
    });
}

#[test]
fn progress_names_its_token_and_only_grows() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let mut client = stage.session(LEGACY);
        for token in [json!(7), json!("seven"), json!(""), json!(u64::MAX), json!(i64::MIN)] {
            let legacy = call(1, "slow", json!({"steps": 5, "step_ms": 1}));
            for mut request in [legacy.clone(), modern(legacy)] {
                request["params"]["_meta"]["progressToken"] = token.clone();
                let (told, answer) = watch(&mut client, &request);
                assert!(answer.get("result").is_some(), "{answer}");
                let steps: Vec<f64> = told
                    .iter()
                    .inspect(|message| assert_eq!(message["params"]["progressToken"], token))
                    .inspect(|message| assert_eq!(message["params"]["total"], 5))
                    .filter_map(|message| message["params"]["progress"].as_f64())
                    .collect();
                assert_eq!(steps, [1.0, 2.0, 3.0, 4.0, 5.0]);
            }
        }
        client.expect_alive();
        drop(client);
        assert_eq!(stage.close().requests.progress, 50);
    });
}

#[test]
fn a_blocking_handler_tells_progress_before_its_answer_too() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let mut client = stage.session(LEGACY);
        let mut request = call(1, "hash", json!({"bytes": 1000}));
        request["params"]["_meta"] = json!({"progressToken": "hash"});
        let (told, answer) = watch(&mut client, &request);
        assert!(answer.get("result").is_some(), "{answer}");
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(told[0]["params"]["progress"], 1000);
        drop(client);
        stage.close();
    });
}
