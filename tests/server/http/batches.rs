//! JSON-RPC batches, which only MCP 2025-03-26 allows.

use std::collections::HashSet;

use corelane_test_support::messages::{
    BATCHED, LEGACY, call, cancelled, echo, expect_error, notification,
};
use corelane_test_support::{TestServer, on_one_shard_and_two};
use serde_json::{Value, json};

use crate::http::http_session::HttpSession;

#[test]
fn batch_is_accepted_only_in_2025_03_26() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let session = HttpSession::initialize(server.address(), BATCHED);
        for _ in 0..8 {
            let mut client = session.connect();
            let batch = json!([echo(1, "a"), notification("notifications/none"), echo(2, "b")]);
            let response = client.exchange(&session.post(&batch)).message();
            let mut ids: Vec<_> = response_ids(&response);
            ids.sort_unstable();
            assert_eq!(ids, [1, 2], "{response}");
            let notification = json!([notification("notifications/none")]);
            client.exchange(&session.post(&notification)).expect_empty_body(202);
            client.exchange(&session.post(&json!([]))).expect_error(400, -32600, Some(Value::Null));
            client.expect_alive();
        }
        let newer = HttpSession::initialize(server.address(), LEGACY);
        let response = newer.connect().exchange(&newer.post(&json!([echo(1, "a")])));
        response.expect_error(400, -32600, None);
        server.close();
    });
}

#[test]
fn deleted_session_responds_to_each_call_of_batch() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let session = HttpSession::initialize(server.address(), BATCHED);
        let mut client = session.connect();
        let endless = |id| call(id, "until-cancelled", json!({}));
        client.send(&session.post(&json!([endless(1), endless(2)])));
        assert_eq!((server.next_signal(), server.next_signal()), ("begun", "begun"));
        session.connect().exchange(&session.delete()).expect_empty_body(204);
        client.read_stream_head();
        for id in [1, 2] {
            expect_error(&client.read_message().1, -32600, Some(json!(id)));
        }
        client.expect_end_of_stream();
        client.expect_alive();
        server.close();
    });
}

#[test]
fn batch_with_cancellation_answers_the_other_requests() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let session = HttpSession::initialize(server.address(), BATCHED);
        for _ in 0..8 {
            let mut first = session.connect();
            first.send(&session.post(&call("first", "until-cancelled", json!({}))));
            assert_eq!(server.next_signal(), "begun");
            let mut second = session.connect();
            let slow = |id| call(id, "slow", json!({"steps": 1, "step_ms": 1}));
            let batch = json!([slow("second"), cancelled("first")]);
            let (before, response) = second.exchange_to_end(&session.post(&batch));
            assert_eq!((before.len(), &response["id"]), (0, &json!("second")), "{response}");
            assert_eq!(server.next_signal(), "cancelled");
            first.read_stream_head();
            first.expect_end_of_stream();
            // Cancelled by the same batch, before the response can be awaited.
            let batch = json!([slow("third"), slow("fourth"), cancelled("third")]);
            let (before, response) = second.exchange_to_end(&session.post(&batch));
            assert_eq!((before.len(), &response["id"]), (0, &json!("fourth")), "{response}");
            let batch = json!([slow("fifth"), cancelled("fifth")]);
            second.request_stream(&session.post(&batch));
            second.expect_end_of_stream();
            second.expect_alive();
        }
        server.close();
    });
}

fn response_ids(responses: &Value) -> Vec<i64> {
    let responses = responses.as_array().unwrap_or_else(|| panic!("{responses}"));
    responses.iter().filter_map(|response| response["id"].as_i64()).collect()
}

#[test]
fn slow_batch_requests_are_answered_on_one_stream() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let session = HttpSession::initialize(server.address(), BATCHED);
        for round in 0..8 {
            let mut client = session.connect();
            let slow = |id, steps: u32| call(id, "slow", json!({"steps": steps, "step_ms": 1}));
            let batch = json!([slow("a", 2), echo("b", "at once"), slow("c", 4)]);
            client.request_stream(&session.post(&batch));
            let mut answered = HashSet::new();
            for message in client.read_stream_to_end() {
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
        server.close();
    });
}
