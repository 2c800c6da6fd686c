//! Legacy sessions: what they carry, over which connections, and for whom.

use serde_json::json;

use crate::messages::{
    LEGACY, WITH_SESSIONS, bare, call, cancelled, echo, expect_error, notification, request, text,
};
use crate::request::Request;
use crate::session::Session;
use crate::stage::{Stage, on_one_shard_and_two};

/// Connections enough that some come to each of two shards.
const CONNECTIONS: usize = 32;

/// Requests that are sent together.
const TOGETHER: u64 = 100;

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
