//! Streams whose end was lost on the way: what a client that comes back for it still gets.

use serde_json::json;

use crate::client::Client;
use crate::messages::{LEGACY, call, text, with_progress};
use crate::session::Session;
use crate::stage::{LONG_BYTES, Stage, on_one_shard_and_two};

/// Begins a call of a tool that waits for the gate: the connection, and the last event it saw.
fn begin(stage: &Stage, session: &Session, tool: &str) -> (Client, String) {
    let mut client = session.connect();
    client.ask_stream(&session.post(&with_progress(call(tool, tool, json!({})))));
    assert_eq!(stage.told(), "begun");
    client.primed();
    let (seen, told) = client.heard();
    assert_eq!(told["method"], "notifications/progress", "{told}");
    (client, seen.expect("a name"))
}

/// Begins a call of the tool with a long answer, and leaves before that; the session, and the last
/// event that was seen.
fn miss_a_long_answer(stage: &Stage) -> (Session, String) {
    let session = Session::begin(stage.address(), LEGACY);
    let (client, seen) = begin(stage, &session, "long");
    drop(client);
    stage.until_connections(0);
    stage.open_gate();
    session.until_answered("long");
    (session, seen)
}

#[test]
fn a_long_answer_waits_for_a_client_that_is_away() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        let (session, seen) = miss_a_long_answer(&stage);
        let mut client = session.connect();
        client.ask_stream(&session.resume(&seen));
        let answer = client.heard().1;
        assert_eq!((&answer["id"], text(&answer).len()), (&json!("long"), LONG_BYTES));
        client.expect_end_of_stream();
        drop(client);
        stage.close();
    });
}

#[test]
fn an_end_that_was_sent_and_not_received_is_sent_again() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        let session = Session::begin(stage.address(), LEGACY);
        let (client, seen) = begin(&stage, &session, "hold");
        stage.open_gate();
        session.until_answered("hold");
        // The kernel has all of it, and the server is done with it.
        stage.until(|status| status["streams"] == 0);
        client.reset();
        // As often as it takes.
        for _ in 0..3 {
            let mut client = session.connect();
            client.ask_stream(&session.resume(&seen));
            assert_eq!(text(&client.heard().1), "held");
            client.reset();
        }
        let counters = stage.close();
        assert_eq!(counters.sessions.resumed, 3, "{counters}");
    });
}

#[test]
fn an_answer_that_finds_no_room_to_wait_is_lost_and_counted() {
    on_one_shard_and_two(|mut options| {
        options.http.event_bytes_max = LONG_BYTES;
        let stage = Stage::open(options);
        let (session, seen) = miss_a_long_answer(&stage);
        let mut client = session.connect();
        client.ask_stream(&session.resume(&seen));
        client.expect_end_of_stream();
        client.expect_alive();
        drop(client);
        let counters = stage.close();
        assert_eq!(counters.sessions.events_lost, 1, "{counters}");
    });
}

#[test]
fn streams_that_were_sent_are_kept_for_a_while_and_only_the_newest() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        let session = Session::begin(stage.address(), LEGACY);
        stage.open_gate();
        let mut sent = Vec::new();
        for _ in 0..20 {
            let (mut client, seen) = begin(&stage, &session, "hold");
            assert_eq!(text(&client.heard().1), "held");
            client.expect_end_of_stream();
            sent.push(seen);
        }
        stage.until(|status| status["streams"] == 0);
        let mut client = session.connect();
        for seen in &sent[..4] {
            client.ask(&session.resume(seen)).expect_error(400, -32600, None);
        }
        for seen in &sent[4..] {
            client.ask_stream(&session.resume(seen));
            assert_eq!(text(&client.heard().1), "held");
            client.expect_end_of_stream();
        }
        drop(client);
        let counted = stage.close().sessions;
        assert_eq!((counted.resumed, counted.not_resumed), (16, 4), "{counted:?}");
    });
}
