//! How sessions begin and how they end: by their client, by time, for want of room.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::json;

use crate::client::Client;
use crate::messages::{LEGACY, bare, call, echo, initialize, notification, text, with_progress};
use crate::request::Request;
use crate::session::Session;
use crate::stage::{Stage, on_one_shard_and_two, options, over_each_ring};

/// Connections enough that some come to each of two shards.
const CONNECTIONS: usize = 32;

#[test]
fn names_of_sessions_are_random_and_of_version_four() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        let mut seen = HashSet::new();
        for _ in 0..CONNECTIONS {
            let session = Session::begin(stage.address(), LEGACY);
            let bytes = session.id().as_bytes();
            assert_eq!((bytes.len(), bytes[14]), (36, b'4'), "{}", session.id());
            assert!(b"89ab".contains(&bytes[19]), "{}", session.id());
            assert!(seen.insert(session.id().to_owned()));
        }
        stage.close();
    });
}

#[test]
fn a_session_that_was_idle_for_too_long_is_gone() {
    over_each_ring(|mut options| {
        let stage = Stage::open(options.clone());
        let session = Session::begin(stage.address(), LEGACY);
        options.http.session_idle_max = Duration::from_millis(1);
        stage.handle().keep_to(&options);
        stage.until(|status| status["sessions"] == 0);
        let mut client = session.connect();
        client.ask(&session.post(&echo(1, "late"))).expect_error(404, -32600, None);
        drop(client);
        stage.close();
    });
}

#[test]
fn whoever_waits_or_listens_is_not_idle() {
    on_one_shard_and_two(|mut options| {
        let stage = Stage::open(options.clone());
        let listening = Session::begin(stage.address(), LEGACY);
        let mut listener = listening.attend();
        let waiting = Session::begin(stage.address(), LEGACY);
        let mut waiter = waiting.connect();
        waiter.send(&waiting.post(&call(1, "hold", json!({}))));
        assert_eq!(stage.told(), "begun");
        // Another that is neither shows that the time has come.
        let idle = Session::begin(stage.address(), LEGACY);
        let mut client = idle.connect();
        options.http.session_idle_max = Duration::from_millis(1);
        stage.handle().keep_to(&options);
        // A slow call takes the time, and the session that asks is not idle meanwhile.
        let mut asking = call(1, "slow", json!({"steps": 1, "step_ms": 300}));
        asking["id"] = json!("slow");
        let answer = waiting.connect().ask(&waiting.post(&asking));
        assert_eq!(answer.status(), 200);
        client.ask(&idle.post(&echo(1, "late"))).expect_error(404, -32600, None);
        stage.open_gate();
        assert_eq!(text(&waiter.answer().message()), "held");
        stage.grow("told");
        listener.heard();
        drop((listener, waiter, client));
        stage.close();
    });
}

#[test]
fn the_longest_idle_session_makes_room_and_one_that_is_not_idle_does_not() {
    over_each_ring(|mut options| {
        options.http.sessions_max = 3;
        let stage = Stage::open(options);
        let active = Session::begin(stage.address(), LEGACY);
        let mut listener = active.attend();
        let oldest = Session::begin(stage.address(), LEGACY);
        let newest = Session::begin(stage.address(), LEGACY);
        let another = Session::begin(stage.address(), LEGACY);
        let is_there = |session: &Session| {
            let answer = session.connect().ask(&session.post(&bare(1, "ping")));
            answer.status() == 200
        };
        assert!(!is_there(&oldest) && is_there(&newest) && is_there(&another));
        let (mut second, mut third) = (newest.attend(), another.attend());
        // Nobody is idle: one more finds no room.
        let mut client = stage.connect().speaking(LEGACY);
        let answer = client.ask(&Request::post(initialize(1, LEGACY)));
        assert_eq!(answer.status(), 503, "{answer:?}");
        assert!(answer.head.field("Retry-After").is_some(), "{answer:?}");
        assert!(answer.head.field("Mcp-Session-Id").is_none(), "{answer:?}");
        client.expect_alive();
        // The three of them are as they were.
        stage.grow("told");
        for listener in [&mut listener, &mut second, &mut third] {
            listener.heard();
        }
        drop((listener, second, third, client));
        stage.close();
    });
}

#[test]
fn a_handshake_that_fails_begins_no_session() {
    let stage = Stage::open(options());
    let mut client = stage.connect().speaking(LEGACY);
    let mut broken = initialize(1, LEGACY);
    broken["params"]["capabilities"] = json!(7);
    let answer = client.ask(&Request::post(&broken));
    assert!(answer.message()["error"].is_object(), "{answer:?}");
    assert!(answer.head.field("Mcp-Session-Id").is_none(), "{answer:?}");
    let status = client.ask(&Request::new("GET", "/status")).message();
    assert_eq!(status["sessions"], 0, "{status}");
    drop(client);
    stage.close();
}

#[test]
fn a_handshake_that_fails_costs_nobody_a_session() {
    over_each_ring(|mut options| {
        options.http.sessions_max = 1;
        let stage = Stage::open(options);
        let session = Session::begin(stage.address(), LEGACY);
        let mut client = stage.connect().speaking(LEGACY);
        let mut broken = initialize(1, LEGACY);
        broken["params"]["capabilities"] = json!(7);
        for _ in 0..4 {
            let answer = client.ask(&Request::post(&broken));
            assert!(answer.message()["error"].is_object(), "{answer:?}");
        }
        assert_eq!(client.ask(&session.post(&bare(2, "ping"))).status(), 200);
        // One that does not fail takes its place.
        let next = Session::begin(stage.address(), LEGACY);
        client.ask(&session.post(&bare(3, "ping"))).expect_error(404, -32600, None);
        assert_eq!(client.ask(&next.post(&bare(4, "ping"))).status(), 200);
        drop(client);
        let counted = stage.close().sessions;
        assert_eq!((counted.begun, counted.evicted), (2, 1), "{counted:?}");
    });
}

#[test]
fn a_revision_that_has_no_sessions_is_answered_with_one_that_has() {
    let stage = Stage::open(options());
    let mut client: Client = stage.connect().speaking(LEGACY);
    for asked in ["2026-07-28", "1999-01-01"] {
        let answer = client.ask(&Request::post(initialize(1, asked)));
        assert_eq!(answer.message()["result"]["protocolVersion"], LEGACY, "{answer:?}");
        assert!(answer.head.field("Mcp-Session-Id").is_some(), "{answer:?}");
    }
    drop(client);
    stage.close();
}

#[test]
fn two_sessions_may_begin_on_one_connection() {
    let stage = Stage::open(options());
    let mut client = stage.connect().speaking(LEGACY);
    let mut begin = || {
        let answer = client.ask(&Request::post(initialize(1, LEGACY)));
        answer.head.field("Mcp-Session-Id").expect("a name").to_owned()
    };
    let (one, other) = (begin(), begin());
    assert_ne!(one, other);
    for id in [one, other] {
        let session = Session::named(stage.address(), &id, LEGACY);
        client.ask(&session.post(&notification("notifications/initialized"))).expect_bare(202);
        assert_eq!(text(&client.ask(&session.post(&echo(1, &id))).message()), id);
    }
    drop(client);
    stage.close();
}

#[test]
fn a_session_that_is_deleted_is_gone_on_every_connection() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        for _ in 0..CONNECTIONS {
            let session = Session::begin(stage.address(), LEGACY);
            let mut other = session.connect();
            assert_eq!(text(&other.ask(&session.post(&echo(1, "here"))).message()), "here");
            session.connect().ask(&session.end()).expect_bare(204);
            for request in [
                session.post(&echo(1, "gone")),
                session.post(&notification("notifications/none")),
                session.listen(),
                session.resume("0-1"),
                session.end(),
            ] {
                other.ask(&request).expect_error(404, -32600, None);
            }
            other.expect_alive();
        }
        stage.close();
    });
}

#[test]
fn what_a_deleted_session_still_did_ends_with_it() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        let session = Session::begin(stage.address(), LEGACY);
        let mut listener = session.attend();
        let mut silent = session.connect();
        silent.send(&session.post(&call(1, "until-cancelled", json!({}))));
        assert_eq!(stage.told(), "begun");
        let mut streaming = session.connect();
        streaming.ask_stream(&session.post(&with_progress(call(2, "until-cancelled", json!({})))));
        assert_eq!(stage.told(), "begun");
        streaming.primed();
        streaming.heard();
        session.connect().ask(&session.end()).expect_bare(204);
        assert_eq!((stage.told(), stage.told()), ("cancelled", "cancelled"));
        listener.expect_end_of_stream();
        streaming.expect_end_of_stream();
        // Nothing was said of this one: its stream begins and ends.
        silent.begin_stream();
        silent.expect_end_of_stream();
        for client in [&mut listener, &mut streaming, &mut silent] {
            client.expect_alive();
        }
        drop((listener, streaming, silent));
        let counters = stage.close();
        assert_eq!(counters.requests.cancelled, 2, "{counters}");
    });
}
