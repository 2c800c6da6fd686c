//! What is said in a session besides answers: on the stream of a request, and on the one that its
//! client opens for the rest.

use serde_json::json;

use crate::client::Client;
use crate::messages::{LEGACY, WITH_SESSIONS, call, cancelled, request, text, with_progress};
use crate::session::Session;
use crate::stage::{Stage, on_one_shard_and_two};

#[test]
fn a_handler_that_speaks_before_its_result_is_heard_on_the_stream_of_its_request() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        for revision in WITH_SESSIONS {
            let session = Session::begin(stage.address(), revision);
            let mut listener = session.attend();
            for _ in 0..8 {
                let mut client = session.connect();
                let asking = call(1, "slow", json!({"steps": 2, "step_ms": 0}));
                client.ask_stream(&session.post(&with_progress(asking)));
                let first = client.primed();
                let stream = first.split('-').next().expect("a stream").to_owned();
                for number in 2..=3 {
                    let (id, told) = client.heard();
                    assert_eq!(told["method"], "notifications/progress", "{told}");
                    assert_eq!(id, Some(format!("{stream}-{number}")));
                }
                let (id, answer) = client.heard();
                assert_eq!(text(&answer), "took 2 steps of 0 ms");
                assert_eq!(id, Some(format!("{stream}-4")));
                client.expect_end_of_stream();
                client.expect_alive();
            }
            // What belongs to a request is said nowhere else.
            session.connect().ask(&session.end()).expect_bare(204);
            listener.expect_end_of_stream();
        }
        stage.close();
    });
}

#[test]
fn a_question_is_asked_on_the_stream_of_its_request_and_answered_over_another_connection() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        for revision in ["2025-06-18", "2025-11-25"] {
            let session = Session::begin(stage.address(), revision);
            let mut listener = session.attend();
            for _ in 0..8 {
                let mut client = session.connect();
                client.ask_stream(&session.post(&call(1, "ask", json!({}))));
                client.primed();
                let (_, question) = client.heard();
                assert_eq!(question["method"], "elicitation/create", "{question}");
                let result = json!({"action": "accept", "content": {"name": "Ada"}});
                let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": result});
                session.connect().ask(&session.post(&answer)).expect_bare(202);
                let (_, answer) = client.heard();
                assert_eq!(text(&answer), "Hello, Ada!");
                client.expect_end_of_stream();
            }
            session.connect().ask(&session.end()).expect_bare(204);
            listener.expect_end_of_stream();
        }
        let counters = stage.close();
        assert_eq!((counters.questions.asked, counters.questions.answered), (16, 16), "{counters}");
    });
}

#[test]
fn an_answer_of_another_session_answers_nothing() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        let session = Session::begin(stage.address(), LEGACY);
        let mut client = session.connect();
        client.ask_stream(&session.post(&call(1, "ask", json!({}))));
        client.primed();
        let (_, question) = client.heard();
        let answer = |name: &str| {
            let result = json!({"action": "accept", "content": {"name": name}});
            json!({"jsonrpc": "2.0", "id": question["id"], "result": result})
        };
        for _ in 0..8 {
            let foreign = Session::begin(stage.address(), LEGACY);
            foreign.connect().ask(&foreign.post(&answer("Eve"))).expect_bare(202);
        }
        session.connect().ask(&session.post(&answer("Ada"))).expect_bare(202);
        let (_, answer) = client.heard();
        assert_eq!(text(&answer), "Hello, Ada!");
        client.expect_end_of_stream();
        drop(client);
        let counters = stage.close();
        assert_eq!(counters.questions.unasked, 8, "{counters}");
    });
}

#[test]
fn what_belongs_to_no_request_comes_on_the_stream_that_a_client_opens_for_it() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        for revision in WITH_SESSIONS {
            let sessions: Vec<_> =
                (0..8).map(|_| Session::begin(stage.address(), revision)).collect();
            let mut listeners: Vec<_> = sessions.iter().map(Session::attend).collect();
            stage.grow(&format!("of-{revision}"));
            for listener in &mut listeners {
                let (id, told) = listener.heard();
                assert_eq!(told["method"], "notifications/tools/list_changed", "{told}");
                assert!(id.is_some_and(|id| id.starts_with("0-")));
            }
            for session in &sessions {
                let uri = json!({"uri": "test://one"});
                let asking = session.post(&request(1, "resources/subscribe", uri));
                assert_eq!(session.connect().ask(&asking).status(), 200);
            }
            stage.handle().updated("test://one");
            for (session, listener) in sessions.iter().zip(&mut listeners) {
                let (_, told) = listener.heard();
                assert_eq!(told["method"], "notifications/resources/updated", "{told}");
                session.connect().ask(&session.end()).expect_bare(204);
                listener.expect_end_of_stream();
            }
        }
        stage.close();
    });
}

#[test]
fn a_second_listener_is_refused_while_the_first_is_there() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        let session = Session::begin(stage.address(), LEGACY);
        for _ in 0..8 {
            let first = attend_when_free(&session);
            let mut second = session.connect();
            second.ask(&session.listen()).expect_error(409, -32600, None);
            second.expect_alive();
            drop(first);
            attend_when_free(&session);
        }
        stage.close();
    });
}

/// Listens to a session as soon as nobody else does: the word of that may be on its way yet.
fn attend_when_free(session: &Session) -> Client {
    for _ in 0..ATTEMPTS_MAX {
        let mut client = session.connect();
        client.send(&session.listen());
        if client.head().status == 200 {
            return client;
        }
    }
    panic!("somebody listens for ever");
}

/// Attempts that take longer than any word takes from shard to shard.
const ATTEMPTS_MAX: usize = 10_000;

#[test]
fn what_is_cancelled_ends_its_stream_without_an_answer() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        let session = Session::begin(stage.address(), LEGACY);
        for _ in 0..8 {
            let asking = call(1, "until-cancelled", json!({}));
            let mut silent = session.connect();
            silent.send(&session.post(&asking));
            assert_eq!(stage.told(), "begun");
            session.connect().ask(&session.post(&cancelled(1))).expect_bare(202);
            assert_eq!(stage.told(), "cancelled");
            silent.begin_stream();
            silent.expect_end_of_stream();
            silent.expect_alive();
            let mut streaming = session.connect();
            streaming.ask_stream(&session.post(&with_progress(asking)));
            assert_eq!(stage.told(), "begun");
            streaming.primed();
            streaming.heard();
            session.connect().ask(&session.post(&cancelled(1))).expect_bare(202);
            assert_eq!(stage.told(), "cancelled");
            streaming.expect_end_of_stream();
            streaming.expect_alive();
        }
        let counters = stage.close();
        assert_eq!(counters.requests.cancelled, 16, "{counters}");
    });
}
