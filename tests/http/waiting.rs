//! Requests of sessions that have to wait: for another shard, or for room.

use std::io::ErrorKind;
use std::time::Duration;

use corelane::server::Options;
use serde_json::json;

use crate::client::{Client, PATIENCE};
use crate::messages::{LEGACY, bare, call, modern, notification, text, with_progress};
use crate::request::Request;
use crate::session::Session;
use crate::stage::{Stage, on_one_shard_and_two, over_each_ring};

/// Connections enough that some come to each of two shards.
const CONNECTIONS: usize = 32;

/// Runs a test on two shards, where answers that take long soon become streams.
fn on_two_shards(test: impl Fn(Options)) {
    over_each_ring(|mut options| {
        options.engine.shards = Some(2);
        options.http.answer_max = Duration::from_millis(5);
        options.http.silence_max = Duration::from_millis(5);
        test(options);
    });
}

/// A session whose shard does nothing, and connections of the other one.
struct Stalled {
    session: Session,
    /// The connection whose request stalls the shard.
    stalling: Client,
    /// Connections of the other shard.
    free: Vec<Client>,
}

impl Stalled {
    /// Stalls the shard of a session until the gate opens.
    fn begin(stage: &Stage) -> Self {
        let session = Session::begin(stage.address(), LEGACY);
        let mut stalling = session.connect();
        stalling.send(&session.post(&call("stall", "stall", json!({}))));
        assert_eq!(stage.told(), "begun");
        let mut waiting: Vec<_> = (0..CONNECTIONS).map(|_| session.connect()).collect();
        for client in &mut waiting {
            client.send(&Request::new("GET", "/healthz"));
        }
        let mut free = Vec::new();
        while free.len() < 4 {
            let (answered, rest) = waiting.into_iter().partition(has_an_answer);
            waiting = rest;
            free.extend::<Vec<Client>>(answered);
        }
        for client in &mut free {
            assert_eq!(client.answer().status(), 200);
        }
        Self { session, stalling, free }
    }

    /// Waits until answers that were asked for before this are late.
    fn until_late(&mut self, stage: &Stage) {
        let mut witness = self.free.pop().expect("a connection").speaking("2026-07-28");
        witness.ask_stream(&Request::modern(&modern(call("witness", "hold", json!({})))));
        assert_eq!(stage.told(), "begun");
        for _ in 0..2 {
            assert!(witness.event().expect("a comment").is_comment);
        }
    }
}

/// Whether something has come to a connection.
fn has_an_answer(client: &Client) -> bool {
    let socket = client.socket();
    socket.set_read_timeout(Some(Duration::from_millis(1))).expect("an option of sockets");
    let peeked = socket.peek(&mut [0]);
    socket.set_read_timeout(Some(PATIENCE)).expect("an option of sockets");
    match peeked {
        Ok(bytes) => bytes > 0,
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => false,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_request_that_waits_for_another_shard_gets_the_status_that_its_session_gives_it() {
    on_two_shards(|options| {
        let stage = Stage::open(options);
        let mut stalled = Stalled::begin(&stage);
        let session = stalled.session.clone();
        let mut asked = [(); 3].map(|()| stalled.free.pop().expect("a connection"));
        asked[0].send(&session.post(&notification("notifications/none")));
        asked[1].send(&session.resume("9-9"));
        let unknown = Session::named(stage.address(), &unknown(session.id()), LEGACY);
        asked[2].send(&unknown.post(&bare(1, "ping")));
        stalled.until_late(&stage);
        stage.open_gate();
        assert_eq!(stalled.stalling.answer().status(), 200);
        asked[0].answer().expect_bare(202);
        asked[1].answer().expect_error(400, -32600, None);
        asked[2].answer().expect_error(404, -32600, None);
        asked.iter_mut().for_each(Client::expect_alive);
        drop((stalled, asked));
        stage.close();
    });
}

#[test]
fn of_two_that_wait_to_listen_one_is_told_that_it_may_not() {
    on_two_shards(|options| {
        let stage = Stage::open(options);
        let mut stalled = Stalled::begin(&stage);
        let mut asked = [(); 2].map(|()| stalled.free.pop().expect("a connection"));
        for client in &mut asked {
            client.send(&stalled.session.listen());
        }
        stalled.until_late(&stage);
        stage.open_gate();
        let mut heads = asked.each_mut().map(Client::head);
        heads.sort_by_key(|head| head.status);
        assert_eq!(heads.map(|head| head.status), [200, 409]);
        drop((stalled, asked));
        stage.close();
    });
}

#[test]
fn a_session_that_waits_to_be_ended_is_ended_and_what_waits_to_be_answered_is_answered() {
    on_two_shards(|options| {
        let stage = Stage::open(options);
        let mut stalled = Stalled::begin(&stage);
        let session = stalled.session.clone();
        let mut asked = [(); 2].map(|()| stalled.free.pop().expect("a connection"));
        asked[0].send(&session.post(&bare("ping", "ping")));
        stalled.until_late(&stage);
        asked[1].send(&session.end());
        stalled.until_late(&stage);
        stage.open_gate();
        let answer = asked[0].answer();
        assert_eq!((answer.status(), &answer.message()["id"]), (200, &json!("ping")));
        asked[1].answer().expect_bare(204);
        drop((stalled, asked));
        stage.close();
    });
}

/// The name of another session, which there never was.
fn unknown(id: &str) -> String {
    let last = if id.ends_with('0') { "1" } else { "0" };
    format!("{}{last}", &id[..id.len() - 1])
}

#[test]
fn a_call_for_whose_answer_there_is_no_room_does_not_begin() {
    on_one_shard_and_two(|mut options| {
        let stage = Stage::open(options.clone());
        let session = Session::begin(stage.address(), LEGACY);
        let mut client = session.connect();
        client.expect_alive();
        stage.open_gate();
        // Two streams are over whose clients have yet to take their ends.
        let mut slow = ["a", "b"].map(|id| {
            let mut slow = Client::connect_narrow(stage.address(), 4_096).speaking(LEGACY);
            slow.ask_stream(&session.post(&with_progress(call(id, "long", json!({})))));
            assert_eq!(stage.told(), "begun");
            slow
        });
        for id in ["a", "b"] {
            session.until_answered(id);
        }
        stage.close_gate();
        options.limits.requests_in_flight_max = 1;
        options.http.connections_max = 1;
        stage.handle().keep_to(&options);
        // What the shard of the session was told before a request it knows in the turn after it.
        for id in ["first", "second"] {
            assert_eq!(client.ask(&session.post(&bare(id, "ping"))).status(), 200);
        }
        let hold = session.post(&call("hold", "hold", json!({})));
        let answer = client.ask(&hold);
        answer.expect_error(503, -32603, Some(json!("hold")));
        assert!(answer.head.field("Retry-After").is_some(), "{answer:?}");
        stage.expect_nothing_told();
        for slow in &mut slow {
            let answers = slow.rest_of_stream();
            assert!(answers.last().is_some_and(|last| last.get("result").is_some()));
        }
        stage.open_gate();
        // There is room when the server has noticed.
        let answer = loop {
            let answer = client.ask(&hold);
            if answer.status() != 503 {
                break answer;
            }
        };
        assert_eq!(text(&answer.message()), "held");
        drop((client, slow));
        stage.close();
    });
}
