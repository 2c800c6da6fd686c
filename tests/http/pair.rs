//! The two endpoints of 2024-11-05: a stream that begins a session, and one to post to. What comes
//! on the stream has no name: nobody could come back for it.

use corelane::server::Options;
use serde_json::json;

use crate::client::Client;
use crate::messages::{bare, call, cancelled, echo, initialize, notification, text, with_progress};
use crate::request::Request;
use crate::session::Session;
use crate::stage::{Stage, on_one_shard_and_two, options};

const FIRST: &str = "2024-11-05";

/// The stream of a client, and where it posts.
struct Pair {
    stream: Client,
    endpoint: String,
}

impl Pair {
    /// Opens the stream and makes the handshake, each message over a connection of its own.
    fn begin(stage: &Stage) -> Self {
        let mut stream = stage.connect().speaking(FIRST);
        stream.ask_stream(&Request::new("GET", "/sse"));
        let event = stream.event().expect("an endpoint");
        assert_eq!((event.kind.as_deref(), event.id), (Some("endpoint"), None));
        let endpoint = event.data.expect("a URI");
        assert!(endpoint.starts_with("/messages?sessionId="), "{endpoint}");
        let mut pair = Self { stream, endpoint };
        let initialize = initialize(0, FIRST);
        pair.stream.expect_answer_to(&Request::post(&initialize));
        pair.post(stage, &initialize).expect_bare(202);
        let answer = pair.stream.heard_once();
        assert_eq!(answer["result"]["protocolVersion"], FIRST, "{answer}");
        pair.post(stage, &notification("notifications/initialized")).expect_bare(202);
        pair
    }

    fn request(&self, message: &serde_json::Value) -> Request {
        Request::post(message).target(&self.endpoint).without("Accept")
    }

    fn post(&self, stage: &Stage, message: &serde_json::Value) -> crate::client::Answer {
        stage.connect().speaking(FIRST).ask(&self.request(message))
    }

    fn id(&self) -> &str {
        self.endpoint.rsplit('=').next().expect("a name")
    }
}

fn with_pair(mut options: Options) -> Options {
    options.http.sse_pair = true;
    options
}

#[test]
fn whatever_is_said_to_a_client_of_the_first_revision_comes_on_its_stream() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(with_pair(options));
        let mut pair = Pair::begin(&stage);
        for number in 0..16 {
            pair.post(&stage, &echo(number, "posted")).expect_bare(202);
            let answer = pair.stream.heard_once();
            assert_eq!((&answer["id"], text(&answer)), (&json!(number), "posted"));
            let slow = with_progress(call("slow", "slow", json!({"steps": 1, "step_ms": 0})));
            pair.post(&stage, &slow).expect_bare(202);
            assert_eq!(pair.stream.heard_once()["method"], "notifications/progress");
            assert_eq!(pair.stream.heard_once()["id"], "slow");
        }
        stage.grow("more");
        assert_eq!(pair.stream.heard_once()["method"], "notifications/tools/list_changed");
        drop(pair);
        stage.close();
    });
}

#[test]
fn calls_of_such_a_client_run_side_by_side_and_can_be_cancelled() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(with_pair(options));
        let mut pair = Pair::begin(&stage);
        for id in 1..=4 {
            pair.post(&stage, &call(id, "until-cancelled", json!({}))).expect_bare(202);
            assert_eq!(stage.told(), "begun");
        }
        pair.post(&stage, &bare("ping", "ping")).expect_bare(202);
        assert_eq!(pair.stream.heard_once()["id"], "ping");
        for id in 1..=4 {
            pair.post(&stage, &cancelled(id)).expect_bare(202);
            assert_eq!(stage.told(), "cancelled");
        }
        pair.post(&stage, &bare("ping", "ping")).expect_bare(202);
        assert_eq!(pair.stream.heard_once()["id"], "ping");
        drop(pair);
        stage.close();
    });
}

#[test]
fn the_session_of_such_a_client_ends_with_its_stream() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(with_pair(options));
        for _ in 0..8 {
            let pair = Pair::begin(&stage);
            pair.post(&stage, &call(1, "until-cancelled", json!({}))).expect_bare(202);
            assert_eq!(stage.told(), "begun");
            let Pair { stream, endpoint } = pair;
            drop(stream);
            assert_eq!(stage.told(), "cancelled");
            let late = Request::post(echo(1, "late")).target(&endpoint);
            let mut client = stage.connect().speaking(FIRST);
            client.ask(&late).expect_error(404, -32600, None);
            client.expect_alive();
        }
        stage.close();
    });
}

#[test]
fn a_session_is_reached_by_the_endpoint_that_it_began_at() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(with_pair(options));
        let mut pair = Pair::begin(&stage);
        let newer = Session::begin(stage.address(), "2025-11-25");
        let mut listener = newer.attend();
        let disguised = Session::named(stage.address(), pair.id(), "2025-11-25");
        for _ in 0..16 {
            let mut client = disguised.connect();
            for asking in [
                disguised.post(&echo(1, "hi")),
                disguised.listen(),
                disguised.resume("0-1"),
                disguised.end(),
                Request::post(echo(1, "hi")).target(&format!("/messages?sessionId={}", newer.id())),
            ] {
                client.ask(&asking).expect_error(404, -32600, None);
            }
            client.expect_alive();
        }
        pair.post(&stage, &echo(1, "still there")).expect_bare(202);
        assert_eq!(text(&pair.stream.heard_once()), "still there");
        newer.connect().ask(&newer.end()).expect_bare(204);
        listener.expect_end_of_stream();
        drop((pair, listener));
        stage.close();
    });
}

#[test]
fn what_is_posted_is_taken_whatever_it_is_and_told_on_the_stream() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(with_pair(options));
        let mut pair = Pair::begin(&stage);
        for _ in 0..8 {
            let mut client = stage.connect().speaking(FIRST);
            client.ask(&pair.request(&json!(0)).body("{")).expect_bare(202);
            assert_eq!(pair.stream.heard_once()["error"]["code"], -32700);
            let asking = pair.request(&json!(0)).field("Content-Type", "text/plain");
            client.ask(&asking).expect_error(415, -32600, None);
            client.ask(&pair.request(&json!(0)).verb("GET")).expect_error(405, -32600, None);
            for target in ["/messages", "/messages?sessionId=x", "/messages?sessionid=1"] {
                let answer = client.ask(&pair.request(&echo(1, "hi")).target(target));
                assert!(matches!(answer.status(), 400 | 404), "{answer:?}");
            }
            client.expect_alive();
        }
        drop(pair);
        stage.close();
    });
}

#[test]
fn the_endpoints_are_not_there_unless_somebody_wants_them() {
    let stage = Stage::open(options());
    let mut client = stage.connect();
    client.ask(&Request::new("GET", "/sse")).expect_error(404, -32600, None);
    let asking = Request::post(echo(1, "hi")).target("/messages?sessionId=x");
    client.ask(&asking).expect_error(404, -32600, None);
    drop(client);
    stage.close();
}

#[test]
fn a_drain_ends_the_stream_after_what_is_owed() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(with_pair(options));
        let mut pair = Pair::begin(&stage);
        pair.post(&stage, &call(1, "hold", json!({}))).expect_bare(202);
        assert_eq!(stage.told(), "begun");
        stage.open_gate();
        assert_eq!(text(&pair.stream.heard_once()), "held");
        stage.drain();
        pair.stream.expect_end_of_stream();
        pair.stream.expect_end_or_reset();
        drop(pair);
        stage.join();
    });
}
