//! Streams that broke and are gone on with: what is kept, for whom, and how much of it.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::Client;
use crate::messages::{LEGACY, WITH_SESSIONS, call, text, with_progress};
use crate::session::Session;
use crate::stage::{Stage, on_one_shard_and_two};

/// Begins a call that has told its progress: the connection, and the events that were seen.
fn begin(stage: &Stage, session: &Session, id: &str) -> (Client, [String; 2]) {
    let mut client = session.connect();
    client.ask_stream(&session.post(&with_progress(call(id, "hold", json!({})))));
    assert_eq!(stage.told(), "begun");
    let first = client.primed();
    let (second, told) = client.heard();
    assert_eq!(told["method"], "notifications/progress", "{told}");
    (client, [first, second.expect("a name")])
}

/// Ends a connection, and waits until the server has noticed.
fn lose(stage: &Stage, client: Client) {
    drop(client);
    stage.until_connections(0);
}

#[test]
fn a_client_that_comes_back_gets_what_it_missed_and_nothing_twice() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        for revision in WITH_SESSIONS {
            let session = Session::begin(stage.address(), revision);
            let (client, [first, second]) = begin(&stage, &session, "a");
            lose(&stage, client);
            // Before it has its answer: progress again, for who saw only the first event.
            let mut client = session.connect();
            client.ask_stream(&session.resume(&first));
            assert_eq!(client.heard().0.as_ref(), Some(&second));
            lose(&stage, client);
            stage.open_gate();
            let mut client = session.connect();
            client.ask_stream(&session.resume(&second));
            let (third, answer) = client.heard();
            assert_eq!(text(&answer), "held");
            client.expect_end_of_stream();
            client.expect_alive();
            assert_eq!(third.map(|id| id.ends_with("-3")), Some(true));
            session.connect().ask(&session.end()).expect_bare(204);
            drop(client);
            stage.until_connections(0);
            stage.close_gate();
        }
        stage.close();
    });
}

#[test]
fn an_answer_that_came_while_its_client_was_away_waits_for_it() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        let session = Session::begin(stage.address(), LEGACY);
        let (client, [_, second]) = begin(&stage, &session, "a");
        lose(&stage, client);
        stage.open_gate();
        session.until_answered("a");
        let mut client = session.connect();
        client.ask_stream(&session.resume(&second));
        assert_eq!(text(&client.heard().1), "held");
        client.expect_end_of_stream();
        drop(client);
        stage.close();
    });
}

#[test]
fn whoever_comes_back_takes_the_stream_over() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        let session = Session::begin(stage.address(), LEGACY);
        for round in 0..8 {
            let id = format!("round {round}");
            let (mut first, [_, second]) = begin(&stage, &session, &id);
            let mut other = session.connect();
            other.ask_stream(&session.resume(&second));
            first.expect_end_of_stream();
            first.expect_alive();
            stage.open_gate();
            assert_eq!(text(&other.heard().1), "held");
            other.expect_end_of_stream();
            stage.close_gate();
        }
        stage.close();
    });
}

#[test]
fn events_of_another_session_are_none_of_ours() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        let session = Session::begin(stage.address(), LEGACY);
        let (mut client, events) = begin(&stage, &session, "a");
        for _ in 0..8 {
            let foreign = Session::begin(stage.address(), LEGACY);
            let mut thief = foreign.connect();
            for event in &events {
                thief.ask(&foreign.resume(event)).expect_error(400, -32600, None);
            }
            thief.expect_alive();
        }
        stage.open_gate();
        assert_eq!(text(&client.heard().1), "held");
        client.expect_end_of_stream();
        drop(client);
        stage.close();
    });
}

#[test]
fn events_that_never_were_are_refused() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        let session = Session::begin(stage.address(), LEGACY);
        let (client, [_, second]) = begin(&stage, &session, "a");
        let stream = second.split('-').next().expect("a stream");
        let mut other = session.connect();
        for event in [
            "",
            "-",
            "x",
            "1",
            "1-",
            "-1",
            "0-1",
            "9-1",
            "1-x",
            "01-1",
            "1-01",
            "+1-1",
            "1-1-1",
            "4294967296-1",
            "1-4294967296",
            "18446744073709551617-1",
            "1 -1",
            "\u{661}-1",
        ] {
            other.ask(&session.resume(event)).expect_error(400, -32600, None);
        }
        for number in ["3", "4294967295"] {
            let event = format!("{stream}-{number}");
            other.ask(&session.resume(&event)).expect_error(400, -32600, None);
        }
        other.expect_alive();
        drop((client, other));
        stage.open_gate();
        stage.close();
    });
}

#[test]
fn what_nobody_heard_of_is_kept_for_who_listens_next_and_what_was_heard_for_who_asks() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        let session = Session::begin(stage.address(), LEGACY);
        let mut listener = session.attend();
        stage.grow("first");
        let first = listener.heard().0.expect("a name");
        lose(&stage, listener);
        stage.grow("second");
        let mut listener = session.connect();
        listener.ask_stream(&session.resume(&first));
        let second = listener.heard().0.expect("a name");
        lose(&stage, listener);
        stage.grow("third");
        // Without a word of where it stood: only what no exchange was given.
        let mut listener = session.attend();
        let third = listener.heard().0.expect("a name");
        lose(&stage, listener);
        let mut listener = session.connect();
        listener.ask_stream(&session.resume(&first));
        assert_eq!(listener.heard().0.as_ref(), Some(&second));
        assert_eq!(listener.heard().0.as_ref(), Some(&third));
        drop(listener);
        stage.close();
    });
}

#[test]
fn a_log_keeps_the_newest_events_and_no_more_than_it_may() {
    on_one_shard_and_two(|mut options| {
        options.http.events_max = 4;
        let stage = Stage::open(options);
        let session = Session::begin(stage.address(), LEGACY);
        let mut client = session.connect();
        let slow = call("a", "slow", json!({"steps": 50, "step_ms": 0}));
        client.ask_stream(&session.post(&with_progress(slow)));
        let first = client.primed();
        let mut all = vec![first.clone()];
        // Read only so far that nothing is known to have arrived.
        all.push(client.heard().0.expect("a name"));
        let stream = first.split('-').next().expect("a stream").to_owned();
        let mut seen = HashSet::new();
        let answer = loop {
            let (id, message) = client.heard();
            assert!(seen.insert(id));
            if message.get("result").is_some() {
                break message;
            }
        };
        assert_eq!(text(&answer), "took 50 steps of 0 ms");
        client.expect_end_of_stream();
        // It was sent to its end, which nobody but its client knows to have arrived.
        let mut other = session.connect();
        other.ask_stream(&session.resume(&format!("{stream}-1")));
        let kept = other.rest_of_stream();
        assert_eq!((kept.len(), kept.last()), (4, Some(&answer)), "no more than is kept");
        drop((client, other));
        stage.close();
    });
}

#[test]
fn streams_that_ended_and_were_not_heard_are_bounded() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        let session = Session::begin(stage.address(), LEGACY);
        let mut lost = Vec::new();
        for number in 0..20 {
            let (client, [_, second]) = begin(&stage, &session, &format!("call {number}"));
            lose(&stage, client);
            lost.push(second);
        }
        stage.open_gate();
        for number in 0..20 {
            session.until_answered(&format!("call {number}"));
        }
        let mut kept = 0;
        for event in &lost {
            let mut client = session.connect();
            client.send(&session.resume(event));
            let head = client.head();
            if head.status == 200 {
                client.follow(&head);
                assert_eq!(text(&client.heard().1), "held");
                client.expect_end_of_stream();
                kept += 1;
            } else {
                assert_eq!(head.status, 400);
                client.rest_of(head);
            }
            client.expect_alive();
        }
        assert_eq!(kept, 16, "the newest are kept");
        stage.close();
    });
}

#[test]
fn what_waits_for_a_client_that_is_away_is_bounded_in_bytes() {
    on_one_shard_and_two(|mut options| {
        options.http.event_bytes_max = 2 * 4_000;
        let stage = Stage::open(options);
        let session = Session::begin(stage.address(), LEGACY);
        let mut client = session.connect();
        let long = call("a", "test_tool_with_progress", json!({}));
        client.ask_stream(&session.post(&with_progress(long)));
        let first = client.primed();
        lose(&stage, client);
        let mut client = session.connect();
        client.ask_stream(&session.resume(&first));
        let messages: Vec<Value> = client.rest_of_stream();
        assert!(messages.last().is_some_and(|last| last.get("result").is_some()), "{messages:?}");
        drop(client);
        stage.close();
    });
}

#[test]
fn an_answer_that_takes_long_becomes_a_stream_that_can_be_resumed() {
    on_one_shard_and_two(|mut options| {
        options.http.answer_max = Duration::from_millis(5);
        options.http.silence_max = Duration::from_millis(5);
        let stage = Stage::open(options);
        let session = Session::begin(stage.address(), LEGACY);
        for round in 0..8 {
            let mut client = session.connect();
            client.ask_stream(&session.post(&call(round, "hold", json!({}))));
            assert_eq!(stage.told(), "begun");
            let first = client.primed();
            assert!(client.event().expect("a comment").is_comment);
            drop(client);
            let mut client = session.connect();
            client.ask_stream(&session.resume(&first));
            assert!(client.event().expect("a comment").is_comment);
            stage.open_gate();
            let answers = client.rest_of_stream();
            assert_eq!((answers.len(), text(&answers[0])), (1, "held"));
            stage.close_gate();
        }
        stage.close();
    });
}

#[test]
fn a_handler_that_sends_its_client_away_is_heard_when_that_comes_back() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        let session = Session::begin(stage.address(), LEGACY);
        for round in 0..4 {
            let mut client = session.connect();
            client.ask_stream(&session.post(&call(round, "test_reconnection", json!({}))));
            let first = client.primed();
            let event = client.event().expect("when to come back");
            assert_eq!((event.retry_ms, event.data), (Some(1_000), None));
            client.expect_end_of_stream();
            client.expect_alive();
            client.ask_stream(&session.resume(&first));
            let (_, answer) = client.heard();
            assert_eq!(answer["id"], round, "{answer}");
            client.expect_end_of_stream();
        }
        stage.close();
    });
}
