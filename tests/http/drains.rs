//! Drains while requests, streams and sessions are open.

use std::time::Duration;

use serde_json::json;

use crate::messages::{LEGACY, call, modern, text, with_progress};
use crate::request::Request;
use crate::session::Session;
use crate::stage::{Stage, on_one_shard_and_two, over_each_ring};

#[test]
fn what_is_in_flight_is_answered_before_the_end() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        let session = Session::begin(stage.address(), LEGACY);
        let hold = |id: &str| call(id, "hold", json!({}));
        let mut silent = stage.connect();
        silent.send(&Request::modern(&modern(hold("a"))));
        assert_eq!(stage.told(), "begun");
        let mut streaming = stage.connect();
        streaming.ask_stream(&Request::modern(&with_progress(modern(hold("b")))));
        assert_eq!(stage.told(), "begun");
        streaming.heard();
        let mut legacy: Vec<_> = (0..4).map(|_| session.connect()).collect();
        for (number, client) in legacy.iter_mut().enumerate() {
            client.send(&session.post(&hold(&format!("c{number}"))));
            assert_eq!(stage.told(), "begun");
        }
        let mut told: Vec<_> = (0..4).map(|_| session.connect()).collect();
        for (number, client) in told.iter_mut().enumerate() {
            client.ask_stream(&session.post(&with_progress(hold(&format!("d{number}")))));
            assert_eq!(stage.told(), "begun");
            client.primed();
            client.heard();
        }
        stage.drain();
        stage.open_gate();
        assert_eq!(text(&silent.answer().message()), "held");
        assert_eq!(text(&streaming.heard_once()), "held");
        streaming.expect_end_of_stream();
        for client in &mut legacy {
            assert_eq!(text(&client.answer().message()), "held");
        }
        for client in &mut told {
            assert_eq!(text(&client.heard().1), "held");
            client.expect_end_of_stream();
        }
        for client in legacy.iter_mut().chain(&mut told).chain([&mut silent, &mut streaming]) {
            client.expect_end_or_reset();
        }
        drop((silent, streaming, legacy, told));
        let counters = stage.join();
        assert_eq!(counters.requests.cancelled, 0, "{counters}");
    });
}

#[test]
fn streams_that_wait_for_nothing_end_with_a_drain() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        let sessions: Vec<_> = (0..8).map(|_| Session::begin(stage.address(), LEGACY)).collect();
        let mut listeners: Vec<_> = sessions.iter().map(Session::attend).collect();
        let mut idle = stage.connect();
        idle.expect_alive();
        stage.drain();
        for listener in &mut listeners {
            listener.expect_end_of_stream();
            listener.expect_end_or_reset();
        }
        idle.expect_end_or_reset();
        drop((listeners, idle));
        stage.join();
    });
}

#[test]
fn what_takes_longer_than_a_drain_may_is_cut() {
    on_one_shard_and_two(|mut options| {
        options.engine.drain_max = Duration::from_millis(50);
        let stage = Stage::open(options);
        let session = Session::begin(stage.address(), LEGACY);
        let mut modern_one = stage.connect();
        modern_one.send(&Request::modern(&modern(call(1, "until-cancelled", json!({})))));
        assert_eq!(stage.told(), "begun");
        let mut legacy_one = session.connect();
        legacy_one.send(&session.post(&call(1, "until-cancelled", json!({}))));
        assert_eq!(stage.told(), "begun");
        stage.close();
        for client in [&mut modern_one, &mut legacy_one] {
            // A stream may have ended before its connection was cut, and nothing was said on it.
            let rest = String::from_utf8_lossy(&client.rest()).into_owned();
            assert!(!rest.contains("jsonrpc"), "{rest}");
        }
    });
}

#[test]
fn a_question_that_a_drain_leaves_open_fails_its_call_in_time() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let session = Session::begin(stage.address(), LEGACY);
        let mut client = session.connect();
        client.ask_stream(&session.post(&call(1, "ask", json!({}))));
        client.primed();
        client.heard();
        stage.drain();
        let (_, withdrawn) = client.heard();
        assert_eq!(withdrawn["method"], "notifications/cancelled", "{withdrawn}");
        let (_, answer) = client.heard();
        assert_eq!(answer["id"], 1, "{answer}");
        client.expect_end_of_stream();
        drop(client);
        stage.join();
    });
}
