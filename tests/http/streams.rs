//! Event streams of modern requests: what makes an answer one, what is said on it, who ends it.

use std::time::Duration;

use serde_json::json;

use crate::messages::{call, echo, modern, text, with_progress};
use crate::request::Request;
use crate::stage::{Stage, on_one_shard_and_two, options, over_each_ring};

#[test]
fn a_handler_that_speaks_before_its_result_is_heard_before_it() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let mut client = stage.connect();
        let asking = with_progress(modern(call(1, "slow", json!({"steps": 3, "step_ms": 0}))));
        client.ask_stream(&Request::modern(&asking));
        for step in 1..=3 {
            let told = client.heard_once();
            assert_eq!(told["method"], "notifications/progress", "{told}");
            assert_eq!(told["params"]["progress"].as_f64(), Some(f64::from(step)), "{told}");
        }
        assert_eq!(text(&client.heard_once()), "took 3 steps of 0 ms");
        client.expect_end_of_stream();
        client.expect_alive();
        drop(client);
        stage.close();
    });
}

#[test]
fn a_handler_that_says_nothing_first_gets_a_plain_answer_however_late() {
    let stage = Stage::open(options());
    let mut client = stage.connect();
    let asking = modern(call(1, "slow", json!({"steps": 3, "step_ms": 5})));
    assert_eq!(client.ask(&Request::modern(&asking)).status(), 200);
    drop(client);
    stage.close();
}

#[test]
fn a_word_from_another_thread_makes_a_stream_as_well() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let mut client = stage.connect();
        let asking = with_progress(modern(call(1, "hash", json!({"bytes": 100_000}))));
        let (words, answer) = client.ask_through(&Request::modern(&asking));
        assert_eq!(words.len(), 1, "{words:?}");
        assert_eq!(answer["result"]["structuredContent"]["bytes"], 100_000, "{answer}");
        drop(client);
        stage.close();
    });
}

#[test]
fn an_answer_that_takes_long_becomes_a_stream_that_shows_that_it_lives() {
    over_each_ring(|mut options| {
        options.http.answer_max = Duration::from_millis(5);
        options.http.silence_max = Duration::from_millis(5);
        let stage = Stage::open(options);
        let mut client = stage.connect();
        client.ask_stream(&Request::modern(&modern(call(1, "hold", json!({})))));
        for _ in 0..3 {
            assert!(client.event().expect("a comment").is_comment);
        }
        stage.open_gate();
        let mut event = client.event().expect("an answer");
        while event.is_comment {
            event = client.event().expect("an answer");
        }
        let answer = serde_json::from_str(event.data.as_deref().expect("a message")).expect("JSON");
        assert_eq!((text(&answer), event.id), ("held", None));
        client.expect_end_of_stream();
        client.expect_alive();
        drop(client);
        stage.close();
    });
}

#[test]
fn a_client_of_http_1_0_gets_its_stream_without_chunks_and_the_end_with_the_connection() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let mut client = stage.connect();
        let asking = with_progress(modern(call(1, "slow", json!({"steps": 2, "step_ms": 0}))));
        let head = client.ask_stream(&Request::modern(&asking).old());
        assert!(head.closes() && head.field("Transfer-Encoding").is_none(), "{head:?}");
        assert_eq!(client.rest_of_stream().len(), 3);
        drop(client);
        stage.close();
    });
}

#[test]
fn whoever_closes_after_its_answer_closes_after_its_stream() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let mut client = stage.connect();
        let asking = with_progress(modern(call(1, "slow", json!({"steps": 2, "step_ms": 0}))));
        client.ask_stream(&Request::modern(&asking).field("Connection", "close"));
        assert_eq!(client.rest_of_stream().len(), 3);
        client.expect_end();
        drop(client);
        stage.close();
    });
}

#[test]
fn a_request_behind_a_stream_is_answered_after_it() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let mut client = stage.connect();
        let first = with_progress(modern(call(1, "hold", json!({}))));
        client.ask_stream(&Request::modern(&first));
        assert_eq!(client.heard_once()["method"], "notifications/progress");
        client.send(&Request::modern(&modern(echo(2, "behind"))));
        stage.open_gate();
        assert_eq!(text(&client.heard_once()), "held");
        client.expect_end_of_stream();
        assert_eq!(text(&client.answer().message()), "behind");
        drop(client);
        stage.close();
    });
}

#[test]
fn a_client_that_goes_away_cancels_its_request() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        let asking = modern(call(1, "until-cancelled", json!({})));
        // Before anything was said, and on a stream; by an end in order, and by a reset.
        for asking in [asking.clone(), with_progress(asking)] {
            for resets in [false, true] {
                let mut client = stage.connect();
                client.send(&Request::modern(&asking));
                assert_eq!(stage.told(), "begun");
                if resets {
                    client.reset();
                } else {
                    drop(client);
                }
                assert_eq!(stage.told(), "cancelled");
            }
        }
        let counters = stage.close();
        assert_eq!(counters.requests.cancelled, 4, "{counters}");
    });
}

#[test]
fn a_client_that_says_its_last_while_it_waits_has_gone() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let mut client = stage.connect();
        client.send(&Request::modern(&modern(call(1, "until-cancelled", json!({})))));
        assert_eq!(stage.told(), "begun");
        client.finish();
        assert_eq!(stage.told(), "cancelled");
        client.expect_end_or_reset();
        let counters = stage.close();
        assert_eq!(counters.requests.cancelled, 1, "{counters}");
    });
}

#[test]
fn requests_that_were_sent_before_the_last_word_are_answered() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let mut client = stage.connect();
        for number in 0..3 {
            client.send(&Request::modern(&modern(echo(number, "in time"))));
        }
        client.finish();
        for number in 0..3 {
            assert_eq!(client.answer().message()["id"], number);
        }
        client.expect_end();
        drop(client);
        stage.close();
    });
}

#[test]
fn a_request_that_takes_too_long_is_told_so_on_its_stream() {
    over_each_ring(|mut options| {
        options.limits.request_max = Duration::from_millis(30);
        let stage = Stage::open(options);
        let mut client = stage.connect();
        let asking = with_progress(modern(call(1, "until-cancelled", json!({}))));
        client.ask_stream(&Request::modern(&asking));
        client.heard_once();
        let answer = client.heard_once();
        assert_eq!(answer["error"]["code"], -32603, "{answer}");
        client.expect_end_of_stream();
        client.expect_alive();
        drop(client);
        let counters = stage.close();
        assert_eq!(counters.requests.timed_out, 1, "{counters}");
    });
}

#[test]
fn log_messages_come_on_the_stream_of_their_request_where_it_wants_them() {
    let stage = Stage::open(options());
    let mut client = stage.connect();
    let mut asking = modern(call(1, "test_logging_tool", json!({})));
    assert_eq!(client.ask(&Request::modern(&asking)).status(), 200);
    asking["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = json!("info");
    let (words, _) = client.ask_through(&Request::modern(&asking));
    assert_eq!(words.len(), 3, "{words:?}");
    assert!(words.iter().all(|word| word["method"] == "notifications/message"), "{words:?}");
    drop(client);
    stage.close();
}
