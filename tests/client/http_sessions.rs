//! Sessions over HTTP that end, and connections that fail, while many calls are made.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use corelane::Client;
use corelane::client::{ClientErrorKind, EraPreference};
use corelane::model::Revision;
use corelane::testing::block_on;
use corelane_base::random::Random;
use corelane_test_support::{TestServer, http_options};
use serde_json::{Value, json};

use super::http_peer::{HttpPeer, HttpRequest, http_response, initialize_response, text_result};
use super::http_responder::{HttpResponder, Reply};

const LEGACY: EraPreference = EraPreference::Legacy(Revision::V2025_11_25);
const JSON: &str = "Content-Type: application/json\r\n";

/// Calls of a test at most.
const CALLS_MAX: usize = 400;

/// How often each call was run, by the argument `n`.
struct Runs(Vec<AtomicUsize>);

impl Runs {
    fn new() -> Arc<Self> {
        Arc::new(Self((0..CALLS_MAX).map(|_| AtomicUsize::new(0)).collect()))
    }

    /// Runs a call; its result is its argument.
    fn run(&self, request: &HttpRequest) -> Value {
        let argument = request.body["params"]["arguments"]["n"].as_u64();
        let argument = argument.and_then(|argument| usize::try_from(argument).ok());
        let argument = argument.expect("an argument");
        self.0[argument].fetch_add(1, Ordering::SeqCst);
        text_result(request, &argument.to_string())
    }

    fn of(&self, argument: usize) -> usize {
        self.0[argument].load(Ordering::SeqCst)
    }
}

/// Answers what is not a call.
fn respond_to_others(request: &HttpRequest, session: &str) -> Reply {
    Reply::Send(match request.body["method"].as_str() {
        Some("initialize") => initialize_response(request, session),
        Some(_) => http_response("202 Accepted", "", ""),
        None if request.line() == "GET /mcp" => http_response("405 A", "", ""),
        None => http_response("204 No Content", "", ""),
    })
}

#[test]
fn concurrent_calls_share_one_new_session() {
    const CALLS: usize = 100;
    let (runs, sessions) = (Runs::new(), Arc::new(AtomicUsize::new(0)));
    let (server_runs, server_sessions) = (Arc::clone(&runs), Arc::clone(&sessions));
    let served = AtomicUsize::new(0);
    let server = HttpResponder::start(move |request| {
        if request.body["method"] == "initialize" {
            server_sessions.fetch_add(1, Ordering::SeqCst);
        }
        let session =
            format!("session {}", server_sessions.load(Ordering::SeqCst)).replace(' ', "-");
        if request.body["method"] != "tools/call" {
            return respond_to_others(request, &session);
        }
        // The first session ends after 30 calls.
        let is_first = request.header("Mcp-Session-Id") == Some("session-1");
        if is_first && served.fetch_add(1, Ordering::SeqCst) >= 30 {
            return Reply::Send(http_response("404 Not Found", "", "gone"));
        }
        Reply::Send(http_response("200 OK", JSON, &server_runs.run(request).to_string()))
    });
    let client = server.client().era(LEGACY).connect_blocking().unwrap();
    let call = |n: usize| (n, client.call_tool("a", &json!({ "n": n })).into_future());
    let calls: Vec<_> = (0..CALLS).map(call).collect();
    for (n, call) in calls {
        assert_eq!(block_on(call).unwrap().text(), n.to_string());
        assert_eq!(runs.of(n), 1);
    }
    assert_eq!(sessions.load(Ordering::SeqCst), 2);
    block_on(client.close());
    server.stop();
}

/// Answers a call in one of the ways of good and bad servers and proxies.
fn respond_by_chance(request: &HttpRequest, runs: &Runs, chance: usize) -> Reply {
    let stream = "Content-Type: text/event-stream\r\n";
    match chance {
        0..4 => Reply::Send(http_response("200 OK", JSON, &runs.run(request).to_string())),
        4 => {
            let events = format!(": comment\n\ndata: {}\n\n", runs.run(request));
            Reply::Send(http_response("200 OK", stream, &events))
        }
        5 => Reply::SendAndClose(format!(
            "HTTP/1.1 200 OK\r\n{stream}\r\ndata: {}\n\n",
            runs.run(request)
        )),
        6 => Reply::Send(http_response("429 A", "Retry-After: 0\r\n", "later")),
        7 => Reply::SendAndClose(http_response("503 A", "Retry-After: 0\r\n", "later")),
        8 => Reply::SendAndClose(String::new()),
        9 => Reply::SendAndClose(format!("HTTP/1.1 200 OK\r\n{stream}\r\ndata: {{")),
        10 => Reply::Send(http_response("500 A", "", "oops")),
        11 => Reply::Send(http_response("404 A", "", "gone")),
        12 => Reply::SendAndClose(format!("HTTP/1.1 200 OK\r\n{JSON}Content-Length: 9\r\n\r\n{{")),
        _ => Reply::SendAndClose("SSH-2.0-OpenSSH\r\n\r\n".to_owned()),
    }
}

#[test]
fn every_call_ends_once_on_bad_servers() {
    for (seed, era) in [(1, LEGACY), (2, EraPreference::Modern), (3, LEGACY)] {
        let runs = Runs::new();
        let (server_runs, chances) = (Arc::clone(&runs), AtomicU64::new(seed << 32));
        let server = HttpResponder::start(move |request| {
            match request.body["method"].as_str() {
                Some("tools/call") => {}
                Some("server/discover") => {
                    let result = super::discover_result(&request.body).to_string();
                    return Reply::Send(http_response("200 OK", JSON, &result));
                }
                _ => return respond_to_others(request, "s"),
            }
            let chance = Random::seeded(chances.fetch_add(1, Ordering::SeqCst)).below(14);
            respond_by_chance(request, &server_runs, chance)
        });
        let client = server.client().era(era).connect_blocking().unwrap();
        let call = |n: usize| (n, client.call_tool("a", &json!({ "n": n })).into_future());
        let calls: Vec<_> = (0..CALLS_MAX).map(call).collect();
        let mut succeeded = 0;
        for (n, call) in calls {
            match block_on(call) {
                Ok(result) => {
                    assert_eq!(result.text(), n.to_string());
                    succeeded += 1;
                }
                Err(error) => assert!(
                    matches!(
                        error.kind(),
                        ClientErrorKind::Closed
                            | ClientErrorKind::Protocol
                            | ClientErrorKind::Http { .. }
                    ),
                    "{error}"
                ),
            }
            assert!(runs.of(n) <= 1, "call {n} ran {} times", runs.of(n));
        }
        assert!(succeeded > CALLS_MAX / 4, "only {succeeded} calls succeeded");
        block_on(client.close());
        server.stop();
    }
}

#[test]
fn server_of_http_with_sse_is_found() {
    let mut options = http_options();
    options.http.legacy_sse = true;
    let server = TestServer::with_test_tools(options);
    let url = format!("http://{}/sse", server.http());
    let client = Client::builder(url.as_str()).connect_blocking().unwrap();
    let call = |n: usize| client.call_tool("echo", &json!({ "message": n.to_string() }));
    let calls: Vec<_> = (0..1_000).map(|n| (n, call(n).into_future())).collect();
    for (n, call) in calls {
        assert_eq!(block_on(call).unwrap().text(), n.to_string());
    }
    let slow = client.call_tool("until-cancelled", &json!({})).into_future();
    assert_eq!(server.next_signal(), "begun");
    drop(slow);
    assert_eq!(server.next_signal(), "cancelled");
    block_on(client.close());
}

#[test]
fn end_of_sse_stream_fails_calls() {
    let server = HttpResponder::start(|request| match request.line() {
        "GET /mcp" => {
            let stream = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
            Reply::SendAndClose(format!("{stream}event: endpoint\ndata: /post?s=1\n\n"))
        }
        "POST /post?s=1" => Reply::Send(http_response("202 Accepted", "", "")),
        _ => Reply::Send(http_response("405 Method Not Allowed", "", "")),
    });
    let error = server.client().connect_blocking().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Closed, "{error}");
    server.stop();
}

#[test]
fn server_without_mcp_names_first_status() {
    let server =
        HttpResponder::start(|_| Reply::Send(http_response("404 Not Found", "", "no such page")));
    let error = server.client().connect_blocking().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Handshake, "{error}");
    assert!(error.to_string().contains("HTTP status 404: no such page"), "{error}");
    server.stop();
}

#[test]
fn ping_of_server_is_answered_with_post() {
    let (answered_tx, answered_rx) = mpsc::channel();
    let (client, peer) = HttpPeer::legacy(move |peer, mut stream| {
        let ping = json!({ "jsonrpc": "2.0", "id": "p", "method": "ping" });
        stream.send(&format!("id: 1\ndata: {ping}\n\n"));
        let mut connection = peer.accept();
        let answer = connection.receive();
        assert_eq!(answer.line(), "POST /mcp");
        assert_eq!(answer.header("Mcp-Session-Id"), Some("first"));
        assert_eq!(answer.body, json!({ "jsonrpc": "2.0", "id": "p", "result": {} }));
        connection.accept_message();
        answered_tx.send(()).unwrap();
        stream.expect_end();
    });
    answered_rx.recv_timeout(Duration::from_secs(20)).unwrap();
    drop(client);
    peer.join().unwrap();
}
