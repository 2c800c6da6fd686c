//! Legacy sessions: how they begin, what they carry, over which connections, and how they end.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::Client;
use crate::messages::{
    BATCHED, LEGACY, WITH_SESSIONS, bare, call, cancelled, echo, expect_error, initialize,
    notification, request, text, with_progress,
};
use crate::request::Request;
use crate::session::Session;
use crate::stage::{Stage, on_one_shard_and_two, options, over_each_ring};

/// Connections enough that some come to each of two shards.
const CONNECTIONS: usize = 32;

#[test]
fn a_session_is_carried_by_as_many_connections_as_its_client_opens() {
    on_one_shard_and_two(|options| {
        let shards = options.engine.shards;
        let stage = Stage::open(options);
        for revision in WITH_SESSIONS {
            let session = Session::begin(stage.address(), revision);
            for number in 0..CONNECTIONS {
                let mut client = session.connect();
                let answer = client.ask(&session.post(&echo(number, "carried")));
                assert_eq!((answer.status(), text(&answer.message())), (200, "carried"));
                client.ask(&session.post(&notification("notifications/none"))).expect_bare(202);
                let listed = client.ask(&session.post(&bare("list", "tools/list"))).message();
                assert!(listed["result"]["tools"].is_array(), "{listed}");
            }
        }
        let counters = stage.close();
        assert_eq!(counters.requests.initialize, 3, "{counters}");
        if shards == Some(2) {
            assert!(counters.shard.letters_out > 0, "no request hopped: {counters}");
        }
    });
}

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
fn requests_of_a_session_that_come_together_are_answered_in_order() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        let session = Session::begin(stage.address(), LEGACY);
        let mut clients: Vec<_> = (0..CONNECTIONS).map(|_| session.connect()).collect();
        for client in &mut clients {
            let mut together = Vec::new();
            for number in 0..5 {
                let asking = session.post(&echo(number, "hi"));
                client.expect_answer_to(&asking);
                together.extend(asking.bytes());
            }
            together.extend(session.post(&notification("notifications/none")).bytes());
            together.extend(Request::new("GET", "/healthz").bytes());
            client.send_bytes(&together);
        }
        for client in &mut clients {
            for number in 0..5 {
                assert_eq!(client.answer().message()["id"], number);
            }
            client.answer().expect_bare(202);
            assert_eq!(client.answer().status(), 200);
        }
        drop(clients);
        stage.close();
    });
}

#[test]
fn a_session_knows_only_its_own_requests() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        let sessions: Vec<_> = (0..8).map(|_| Session::begin(stage.address(), LEGACY)).collect();
        // The same id at the same time, in every session.
        let mut clients: Vec<_> = sessions.iter().map(Session::connect).collect();
        for (session, client) in sessions.iter().zip(&mut clients) {
            client.send(&session.post(&call(1, "hold", json!({}))));
            assert_eq!(stage.told(), "begun");
        }
        // A second one in the same session, over another connection.
        let answer = sessions[0].connect().ask(&sessions[0].post(&echo(1, "taken")));
        expect_error(&answer.message(), -32600, Some(json!(1)));
        stage.open_gate();
        for client in &mut clients {
            assert_eq!(text(&client.answer().message()), "held");
        }
        drop(clients);
        stage.close();
    });
}

#[test]
fn errors_of_legacy_requests_are_answers_as_any_other() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        let session = Session::begin(stage.address(), LEGACY);
        for _ in 0..CONNECTIONS {
            let mut client = session.connect();
            for (message, code) in [
                (request(1, "no/such", json!({})), -32601),
                (call(1, "no-such", json!({})), -32602),
                (request(1, "resources/read", json!({"uri": "test://none"})), -32002),
            ] {
                let answer = client.ask(&session.post(&message));
                answer.expect_error(200, code, Some(json!(1)));
            }
            let broken = session.post(&json!({})).body("{");
            client.ask(&broken).expect_error(400, -32700, None);
            client.ask(&session.post(&json!([]))).expect_error(400, -32600, None);
            client.expect_alive();
        }
        stage.close();
    });
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

#[test]
fn sessions_that_never_were_are_not_found_and_requests_without_one_are_refused() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        let mut client = stage.connect().speaking(LEGACY);
        for id in ["x", "6f0d5c1e-2b3a-4c4d-8e5f-60718293a4b5", "6F0D5C1E2B3A4C4D8E5F60718293A4B5"]
        {
            let session = Session::named(stage.address(), id, LEGACY);
            for asking in [session.post(&echo(1, "hi")), session.listen(), session.end()] {
                client.ask(&asking).expect_error(404, -32600, None);
            }
        }
        let asking = Request::post(echo(1, "hi"));
        client.ask(&asking).expect_error(400, -32600, Some(json!(1)));
        let told = Request::post(notification("notifications/initialized"));
        client.ask(&told).expect_error(400, -32600, None);
        let answered = Request::post(json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
        client.ask(&answered).expect_error(400, -32600, None);
        client.expect_alive();
        drop(client);
        stage.close();
    });
}

#[test]
fn a_revision_that_nobody_speaks_is_refused_in_a_session_as_well() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        let session = Session::begin(stage.address(), LEGACY);
        let mut client = session.connect();
        for asking in [session.post(&echo(1, "hi")), session.listen(), session.end()] {
            let asking = asking.field("MCP-Protocol-Version", "1999-01-01");
            client.ask(&asking).expect_error(400, -32022, None);
        }
        // The first revision with sessions does not know the field.
        let asking = session.post(&echo(1, "hi")).without("MCP-Protocol-Version");
        assert_eq!(text(&client.ask(&asking).message()), "hi");
        drop(client);
        stage.close();
    });
}

#[test]
fn ten_thousand_guesses_find_no_session_and_cost_nothing() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        let session = Session::begin(stage.address(), LEGACY);
        let mut client = session.connect();
        const TOGETHER: u64 = 100;
        for round in 0..10_000 / TOGETHER {
            let mut together = Vec::new();
            for guess in 0..TOGETHER {
                let number = (round * TOGETHER + guess).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let id =
                    format!("{:08x}-2b3a-4c4d-8e5f-{:012x}", number >> 32, number & 0xffff_ffff);
                let guessed = Session::named(stage.address(), &id, LEGACY);
                together.extend(guessed.post(&echo(1, "hi")).bytes());
            }
            client.send_bytes(&together);
            for _ in 0..TOGETHER {
                client.answer().expect_error(404, -32600, None);
            }
        }
        assert_eq!(text(&client.ask(&session.post(&echo(1, "mine"))).message()), "mine");
        drop(client);
        let counters = stage.close();
        assert_eq!(counters.faults.http, 10_000, "{counters}");
        assert_eq!(counters.requests.tools_call, 1, "{counters}");
    });
}

#[test]
fn a_client_that_goes_away_cancels_nothing_of_its_session() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        let session = Session::begin(stage.address(), LEGACY);
        for resets in [false, true] {
            let mut client = session.connect();
            client.send(&session.post(&call(1, "hold", json!({}))));
            assert_eq!(stage.told(), "begun");
            if resets {
                client.reset();
            } else {
                drop(client);
            }
            stage.until_connections(0);
            // It runs: its id is taken.
            let answer = session.connect().ask(&session.post(&echo(1, "taken")));
            expect_error(&answer.message(), -32600, Some(json!(1)));
            stage.until_connections(0);
            session.connect().ask(&session.post(&cancelled(1))).expect_bare(202);
        }
        let counters = stage.close();
        assert_eq!(counters.requests.cancelled, 2, "both by their client: {counters}");
    });
}

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
