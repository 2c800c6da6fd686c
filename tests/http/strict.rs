//! The strict profile: one revision, JSON answers only, and headers on every answer.

use std::time::Duration;

use corelane::protocol::revision::Revision;
use corelane::server::Options;
use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::messages::{bare, call, echo, initialize, notification, text, with_progress};
use crate::request::Request;
use crate::stage::{Stage, on_one_shard_and_two};

const PINNED: &str = "2025-06-18";

fn strict(mut options: Options) -> Options {
    options.http.strict = Some(Revision::V2025_06_18);
    options.http.answer_max = Duration::from_millis(1);
    options.http.silence_max = Duration::from_millis(1);
    options
}

/// A POST without `Accept`, which need not be there.
fn post(message: &Value) -> Request {
    Request::post(message).without("Accept").field("MCP-Protocol-Version", PINNED)
}

fn connect(stage: &Stage) -> Client {
    stage.connect().speaking(PINNED)
}

/// Begins a session and returns its name.
fn begin(stage: &Stage) -> String {
    let mut client = connect(stage);
    let answer = client.ask(&post(&initialize(0, PINNED)));
    assert_eq!(answer.message()["result"]["protocolVersion"], PINNED);
    let id = answer.head.field("Mcp-Session-Id").expect("a name").to_owned();
    expect_fields(&answer, Some(&id));
    let told = post(&notification("notifications/initialized")).field("Mcp-Session-Id", &id);
    let answer = client.ask(&told);
    answer.expect_bare(202);
    expect_fields(&answer, Some(&id));
    id
}

/// Every answer says its revision, and its session where it has one.
#[track_caller]
fn expect_fields(answer: &Answer, session: Option<&str>) {
    assert_eq!(answer.head.field("MCP-Protocol-Version"), Some(PINNED), "{answer:?}");
    assert_eq!(answer.head.field("Mcp-Session-Id"), session, "{answer:?}");
}

#[test]
fn every_answer_says_its_revision_and_its_session() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(strict(options));
        let id = begin(&stage);
        for number in 0..16 {
            let mut client = connect(&stage);
            let in_session = |message: &Value| post(message).field("Mcp-Session-Id", &id);
            let answer = client.ask(&in_session(&echo(number, "hi")));
            assert_eq!(text(&answer.message()), "hi");
            expect_fields(&answer, Some(&id));
            let answer = client.ask(&in_session(&notification("notifications/none")));
            answer.expect_bare(202);
            expect_fields(&answer, Some(&id));
            let answer = client.ask(&in_session(&bare(number, "no/such")));
            answer.expect_error(200, -32601, Some(json!(number)));
            expect_fields(&answer, Some(&id));
        }
        let mut client = connect(&stage);
        let end = Request::new("DELETE", "/mcp").field("MCP-Protocol-Version", PINNED);
        let answer = client.ask(&end.clone().field("Mcp-Session-Id", &id));
        answer.expect_bare(204);
        expect_fields(&answer, Some(&id));
        let answer = client.ask(&post(&echo(1, "hi")).field("Mcp-Session-Id", &id));
        answer.expect_error(404, -32600, None);
        assert_eq!(answer.head.field("MCP-Protocol-Version"), Some(PINNED), "{answer:?}");
        drop(client);
        stage.close();
    });
}

#[test]
fn an_answer_is_one_json_text_whatever_its_handler_says_and_however_long_it_takes() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(strict(options));
        let id = begin(&stage);
        for _ in 0..8 {
            let mut client = connect(&stage);
            let asking = with_progress(call(1, "slow", json!({"steps": 3, "step_ms": 5})));
            let asking = post(&asking).field("Mcp-Session-Id", &id);
            // Also where the client would take a stream.
            let asking = asking.field("Accept", "application/json, text/event-stream");
            let answer = client.ask(&asking);
            assert_eq!(text(&answer.message()), "took 3 steps of 5 ms");
            expect_fields(&answer, Some(&id));
            client.expect_alive();
        }
        stage.close();
    });
}

#[test]
fn what_the_profile_does_not_know_is_refused_with_its_revision() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(strict(options));
        let good = post(&initialize(1, PINNED));
        let mut client = connect(&stage);
        for (request, status) in [
            (good.clone().without("MCP-Protocol-Version"), 400),
            (good.clone().field("MCP-Protocol-Version", "2025-11-25"), 400),
            (good.clone().without("Content-Type"), 400),
            (good.clone().field("Content-Type", "text/plain"), 415),
            (good.clone().field("Accept", "text/event-stream"), 406),
            (good.clone().field("Accept", "application/json;q=0"), 406),
            (Request::new("GET", "/mcp").field("MCP-Protocol-Version", PINNED), 405),
            (Request::new("GET", "/mcp").field("Mcp-Session-Id", "x"), 405),
            (good.clone().verb("PUT"), 405),
            (post(&echo(1, "no session")), 400),
        ] {
            let answer = client.ask(&request);
            assert_eq!(answer.status(), status, "{request:?}: {answer:?}");
            expect_fields(&answer, None);
            assert!(answer.message()["error"].is_object());
        }
        client.expect_alive();
        drop(client);
        stage.close();
    });
}
