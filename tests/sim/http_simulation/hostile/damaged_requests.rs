//! Damaged HTTP requests, drawn from printed seeds, sent to a whole shard through the body of the
//! fuzz target.

#[path = "../../../../fuzz/bodies/http.rs"]
mod body;

use std::panic::{AssertUnwindSafe, catch_unwind};

use corelane::internal::demo;
use corelane_base::random::Random;
use corelane_protocol::model::Implementation;
use corelane_protocol::revision::Revision;
use corelane_test_support::damage::damage;
use serde_json::json;

use crate::feature_simulation::messages;
use crate::http_simulation::client::http_requests::{self, RequestStyle, SessionName};

/// Valid requests of every kind.
fn valid_requests() -> Vec<Vec<u8>> {
    let plain = RequestStyle::default();
    let modern = |id, method, params| messages::request(id, method, params, Revision::LATEST);
    let echo = json!({"name": "echo", "arguments": {"message": "é"}});
    let slow = json!({"name": "slow", "arguments": {"steps": 2, "step_ms": 3}});
    let (id, revision) = ("12345678-1234-4123-8123-123456789abc", Revision::LATEST_LEGACY);
    let unknown = SessionName { id, revision };
    let ping = messages::request(3, "ping", json!({}), Revision::LATEST_LEGACY);
    let origin = [("Origin", "http://localhost"), ("Access-Control-Request-Method", "POST")];
    let mut corpus = vec![
        http_requests::post_message(&modern(1, "tools/call", echo.clone()), None, plain),
        http_requests::post_message(&modern(2, "tools/call", slow), None, plain),
        http_requests::post_message(&modern(4, "server/discover", json!({})), None, plain),
        http_requests::post_message(
            &modern(5, "subscriptions/listen", json!({"notifications": {}})),
            None,
            plain,
        ),
        http_requests::post_message(&messages::initialize(6, Revision::LATEST_LEGACY), None, plain),
        http_requests::post_message(&ping, Some(unknown), plain),
        http_requests::post_message(&json!([ping]), Some(unknown), plain),
        http_requests::session_request("GET", unknown, Some((3, 17)), plain),
        http_requests::session_request("DELETE", unknown, None, plain),
        http_requests::http_request("OPTIONS", "/mcp", &origin, None, plain),
        http_requests::http_request("GET", "/healthz", &[], None, plain),
        http_requests::http_request("HEAD", "/status", &[], None, plain),
        http_requests::http_request(
            "GET",
            "/",
            &[("Origin", "https://elsewhere.example")],
            None,
            plain,
        ),
    ];
    for style in [
        RequestStyle { is_http_1_0: true, ..plain },
        RequestStyle { asks_close: true, ..plain },
        RequestStyle { is_chunked: true, ..plain },
        RequestStyle { expects_continue: true, ..plain },
    ] {
        corpus.push(http_requests::post_message(
            &modern(7, "tools/call", echo.clone()),
            None,
            style,
        ));
    }
    corpus
}

/// Bytes with a meaning in HTTP or JSON.
const INSERTIONS: &[&[u8]] = &[
    b"\r\n",
    b"\r\n\r\n",
    b"\0",
    b" ",
    b"\"",
    b"{",
    b"[",
    b"0\r\n\r\n",
    b"Content-Length: 3\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Connection: close\r\n",
    b"Expect: x\r\n",
    b"Host: b\r\n",
    b"Last-Event-ID: 0-0\r\n",
    b"Mcp-Method: ping\r\n",
    b"MCP-Protocol-Version: 2024-11-05\r\n",
    b"HTTP/1.0",
    b"\xff",
];

/// Draws several requests, some of them damaged, and the lengths at which to cut them.
fn draw_requests(random: &mut Random, corpus: &[Vec<u8>]) -> (Vec<u8>, Vec<usize>) {
    let mut stream = Vec::new();
    for _ in 0..=random.below(5) {
        let mut request = corpus[random.below(corpus.len())].clone();
        if random.chance(1, 3) {
            damage(random, &mut request, INSERTIONS);
        }
        stream.extend(request);
    }
    let widest = 1 + random.below(600);
    let lengths = (0..8).map(|_| 1 + random.below(widest)).chain([64]).collect();
    (stream, lengths)
}

#[test]
fn damaged_http_requests_leave_nothing_behind() {
    let corpus = valid_requests();
    let seeds = crate::seeds::seeds_from_environment().unwrap_or(0..600);
    let (mut requests, mut answers) = (0, 0);
    for seed in seeds {
        let (stream, lengths) = draw_requests(&mut Random::seeded(seed), &corpus);
        let catalog = demo::catalog(Implementation::new("sim", "1")).expect("valid catalog");
        let ran = catch_unwind(AssertUnwindSafe(|| body::run_http(catalog, &stream, &lengths)));
        let Ok(outcome) = ran else { panic!("seed {seed}: {}", stream.escape_ascii()) };
        requests += outcome.requests;
        answers += outcome.responses;
    }
    assert!(requests >= answers / 2 && answers > 0, "{answers} responses to {requests} requests");
}

#[test]
fn valid_http_requests_of_every_kind_are_answered() {
    for request in valid_requests() {
        let catalog = demo::catalog(Implementation::new("sim", "1")).expect("valid catalog");
        let outcome = body::run_http(catalog, &request, &[7]);
        assert_eq!((outcome.requests, outcome.responses), (1, 1), "{}", request.escape_ascii());
    }
}
