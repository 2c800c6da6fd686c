//! Hostile bytes over HTTP: requests that are damaged and cut by chance, drawn from printed seeds,
//! through the fuzz body over a whole shard.

use std::panic::{AssertUnwindSafe, catch_unwind};

use corelane::base::random::Random;
use corelane::protocol::message::ServerInfo;
use corelane::protocol::revision::Revision;
use corelane::server::fuzz;
use corelane::service::demo;
use serde_json::json;

use crate::damage::damage;
use crate::meeting::phrase;
use crate::web::client::speech::{self, Style};

/// Requests of every kind, whole.
fn corpus() -> Vec<Vec<u8>> {
    let plain = Style::default();
    let modern = |id, method, params| phrase::request(id, method, params, Revision::LATEST);
    let echo = json!({"name": "echo", "arguments": {"message": "é"}});
    let slow = json!({"name": "slow", "arguments": {"steps": 2, "step_ms": 3}});
    let nobody = ("12345678-1234-4123-8123-123456789abc", Revision::LATEST_LEGACY);
    let ping = phrase::request(3, "ping", json!({}), Revision::LATEST_LEGACY);
    let origin = [("Origin", "http://localhost"), ("Access-Control-Request-Method", "POST")];
    let mut corpus = vec![
        speech::post(&modern(1, "tools/call", echo.clone()), None, plain),
        speech::post(&modern(2, "tools/call", slow), None, plain),
        speech::post(&modern(4, "server/discover", json!({})), None, plain),
        speech::post(&modern(5, "subscriptions/listen", json!({"notifications": {}})), None, plain),
        speech::post(&phrase::initialize(6, Revision::LATEST_LEGACY), None, plain),
        speech::post(&ping, Some(nobody), plain),
        speech::post(&json!([ping]), Some(nobody), plain),
        speech::of_session("GET", nobody, Some((3, 17)), plain),
        speech::of_session("DELETE", nobody, None, plain),
        speech::request(("OPTIONS", "/mcp"), &origin, None, plain),
        speech::request(("GET", "/healthz"), &[], None, plain),
        speech::request(("HEAD", "/status"), &[], None, plain),
        speech::request(("GET", "/"), &[("Origin", "https://elsewhere.example")], None, plain),
    ];
    for style in [
        Style { is_old: true, ..plain },
        Style { closes: true, ..plain },
        Style { is_chunked: true, ..plain },
        Style { expects: true, ..plain },
    ] {
        corpus.push(speech::post(&modern(7, "tools/call", echo.clone()), None, style));
    }
    corpus
}

/// Pieces that mean something to somebody.
const PIECES: &[&[u8]] = &[
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

/// A stream of some requests, some of them damaged, and where to cut it.
fn draw(random: &mut Random, corpus: &[Vec<u8>]) -> (Vec<u8>, Vec<usize>) {
    let mut stream = Vec::new();
    for _ in 0..=random.below(5) {
        let mut request = corpus[random.below(corpus.len())].clone();
        if random.chance(1, 3) {
            damage(random, &mut request, PIECES);
        }
        stream.extend(request);
    }
    let widest = 1 + random.below(600);
    let lengths = (0..8).map(|_| 1 + random.below(widest)).chain([64]).collect();
    (stream, lengths)
}

#[test]
fn damaged_requests_over_http_are_answered_or_ended_and_leave_nothing() {
    let corpus = corpus();
    let seeds = crate::seeds::named_seeds().unwrap_or(0..600);
    let (mut requests, mut answers) = (0, 0);
    for seed in seeds {
        let (stream, lengths) = draw(&mut Random::seeded(seed), &corpus);
        let catalog = demo::catalog(ServerInfo::new("sim", "1")).expect("a catalog");
        let ran = catch_unwind(AssertUnwindSafe(|| fuzz::http(catalog, &stream, &lengths)));
        let Ok(outcome) = ran else { panic!("seed {seed}: {}", stream.escape_ascii()) };
        requests += outcome.requests;
        answers += outcome.answers;
    }
    assert!(requests >= answers / 2 && answers > 0, "{answers} answers to {requests} requests");
}

#[test]
fn whole_requests_of_every_kind_are_answered() {
    for request in corpus() {
        let catalog = demo::catalog(ServerInfo::new("sim", "1")).expect("a catalog");
        let outcome = fuzz::http(catalog, &request, &[7]);
        assert_eq!((outcome.requests, outcome.answers), (1, 1), "{}", request.escape_ascii());
    }
}
