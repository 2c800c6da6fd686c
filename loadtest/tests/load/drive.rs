//! Tests of the load generator against real servers: its counts match the requests.

#![expect(clippy::unwrap_used, reason = "test setup")]

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use corelane_load::generator::{
    self, ConnectConfig, ConnectionRoles, Endpoint, LoadMode, Measurements, Period, RunConfig,
    RunError, RunLimits, StopRequest,
};
use corelane_load::mcp::{Expectation, RequestSettings, RequestTemplate, ResultCheck};
use corelane_load::metrics::outcome::Failure;
use corelane_load::schedule::{ArrivalPattern, RateProfile};
use corelane_load::target::{Era, Transport};
use corelane_test_support::TestServer;
use serde_json::json;

const SPAN: Duration = Duration::from_millis(400);

fn on(test_server: &TestServer, transport: Transport, era: Era, drive: LoadMode) -> RunConfig {
    let address = if transport == Transport::Tcp { test_server.tcp() } else { test_server.http() };
    job(address, transport, era, drive)
}

fn job(address: SocketAddr, transport: Transport, era: Era, drive: LoadMode) -> RunConfig {
    let path = match (transport, era) {
        (Transport::WebSocket, _) => "/mcp/ws",
        (_, Era::Parity) => "/parity",
        _ => "/mcp",
    };
    let (authority, path) = (&*address.to_string(), path);
    let settings = RequestSettings::new(transport, era, authority, path, Vec::new()).unwrap();
    RunConfig {
        calls: vec![(RequestTemplate::echo(&settings, 32), 1)],
        request_settings: settings,
        tls: None,
        endpoint: Endpoint::Addresses(vec![address]),
        connect: ConnectConfig::default(),
        connections: 4,
        users: None,
        depth: 2,
        mode: drive,
        warm_up: Duration::ZERO,
        seed: 1,
        limits: RunLimits { connect_timeout: Duration::from_secs(5), ..RunLimits::default() },
        roles: ConnectionRoles::default(),
        stop: StopRequest::default(),
    }
}

fn open_loop() -> LoadMode {
    LoadMode::Open {
        profile: RateProfile::constant(1_000.0, SPAN),
        pattern: ArrivalPattern::Constant,
    }
}

fn run(job: &RunConfig) -> Measurements {
    generator::run(job, 2, &[], None, |_, _| {}).unwrap()
}

/// Starts a server that responds to each line with the result of `answer`, on a single connection.
fn start_line_server(answer: impl Fn(&str) -> Option<String> + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut writer = stream.try_clone().unwrap();
        for line in BufReader::new(stream).lines() {
            let Ok(line) = line else { return };
            match answer(&line) {
                Some(answer) => drop(writer.write_all(answer.as_bytes())),
                None => return,
            }
        }
    });
    address
}

#[test]
fn open_loop_completes_requests_over_all_transports() {
    let test_server = TestServer::for_load();
    for transport in [Transport::Tcp, Transport::Http, Transport::WebSocket] {
        for era in [Era::Modern, Era::Legacy, Era::Parity] {
            let finding = run(&on(&test_server, transport, era, open_loop()));
            let total = &finding.total;
            let counts =
                (total.due, total.sent, total.outcomes.answered, total.outcomes.failures());
            assert_eq!(counts, (400, 400, 400, 0), "{transport:?} {era:?} {:?}", total.outcomes);
            assert_eq!(total.latencies.response().len(), 400);
            // A modern connection over these transports has no handshake of messages.
            let server = finding.setup.server.map(|server| server.name);
            assert_eq!(server.is_some(), era != Era::Modern, "{transport:?} {era:?} {server:?}");
            assert_eq!(
                (finding.opened, total.connects.lost, total.outcomes.unsolicited),
                (4, 0, 0)
            );
        }
    }
}

#[test]
fn streamed_calls_count_their_chunks() {
    let test_server = TestServer::for_load();
    for transport in [Transport::Tcp, Transport::Http, Transport::WebSocket] {
        let closed = LoadMode::Closed { span: SPAN, requests: None };
        let mut job = on(&test_server, transport, Era::Parity, closed);
        let params = json!({ "name": "slow", "arguments": { "steps": 2, "step_ms": 1 } });
        let check = ResultCheck::new(vec![Expectation::contains("2 steps")]);
        job.calls = vec![(
            RequestTemplate::stream(&job.request_settings, "tools/call", params.as_object())
                .with_check(check),
            1,
        )];
        let outcomes = run(&job).total.outcomes;
        assert!(outcomes.answered > 0, "{transport:?} {outcomes:?}");
        assert_eq!((outcomes.failures(), outcomes.unsolicited), (0, 0), "{outcomes:?}");
        // The result and the end; those of the last calls arrive after the measured time.
        assert!(outcomes.chunks + 2 * 8 >= 2 * outcomes.answered, "{outcomes:?}");
    }
}

#[test]
fn keepalives_of_parity_server_are_answered() {
    let (answered_tx, answered_rx) = std::sync::mpsc::channel();
    let address = start_line_server(move |line| {
        let message: serde_json::Value = serde_json::from_str(line).unwrap();
        if message["type"] == "keepalive" {
            answered_tx.send(message["timeoutHintSec"].as_u64()).unwrap();
            return Some(String::new());
        }
        let ack = json!({ "type": "handshakeAck", "protocolVersion": "1.0", "sessionId": "s",
            "capabilities": message["capabilities"] });
        Some(format!("{ack}\n{}\n", json!({ "type": "keepalive", "timeoutHintSec": 7 })))
    });
    let mut job = job(address, Transport::Tcp, Era::Parity, LoadMode::Hold { span: SPAN });
    job.connections = 1;
    let finding = run(&job);
    assert_eq!((finding.opened, answered_rx.recv()), (1, Ok(Some(7))));
}

#[test]
fn closed_loop_sends_when_answered() {
    let test_server = TestServer::for_load();
    // Eight are in flight at a time.
    let closed = LoadMode::Closed { span: Duration::from_mins(1), requests: Some(400) };
    let finding = run(&on(&test_server, Transport::Tcp, Era::Legacy, closed));
    let outcomes = finding.total.outcomes;
    assert_eq!((outcomes.answered, outcomes.failures()), (400, 0), "{outcomes:?}");
    assert_eq!(finding.total.sent, outcomes.answered);
}

#[test]
fn zero_rate_holds_connections_idle() {
    let test_server = TestServer::for_load();
    let mut job = on(&test_server, Transport::Tcp, Era::Legacy, LoadMode::Hold { span: SPAN });
    job.connections = 100;
    let finding = run(&job);
    assert_eq!((finding.opened, finding.total.open, finding.total.sent), (100, 100, 0));
}

#[test]
fn warm_up_requests_are_not_measured() {
    let test_server = TestServer::for_load();
    let mut job = on(&test_server, Transport::Tcp, Era::Modern, open_loop());
    job.warm_up = SPAN / 2;
    assert_eq!(run(&job).total.outcomes.answered, 200);
}

#[test]
fn garbage_and_errors_are_failures() {
    for (answer, failure) in [
        ("nonsense\n".to_owned(), Failure::Garbage),
        ("{\"id\":null,\"error\":{\"code\":-32000}}\n".to_owned(), Failure::Rpc),
    ] {
        let address = start_line_server(move |_| Some(answer.clone()));
        let mut job = job(address, Transport::Tcp, Era::Modern, open_loop());
        job.connections = 1;
        let outcomes = run(&job).total.outcomes;
        assert_eq!((outcomes.answered, outcomes.failed(failure)), (0, 400), "{outcomes:?}");
    }
}

#[test]
fn duplicate_responses_count_as_unsolicited() {
    let address = start_line_server(|line| {
        let call: serde_json::Value = serde_json::from_str(line).unwrap();
        let text = &call["params"]["arguments"]["message"];
        let id = &call["id"];
        let answer = format!("{{\"id\":{id},\"result\":{{\"content\":[{{\"text\":{text}}}]}}}}\n");
        Some(answer.repeat(2))
    });
    let mut job = job(address, Transport::Tcp, Era::Modern, open_loop());
    job.connections = 1;
    let outcomes = run(&job).total.outcomes;
    assert_eq!((outcomes.answered, outcomes.unsolicited), (400, 400));
}

#[test]
fn silent_server_times_out_requests() {
    let address = start_line_server(|_| Some(String::new()));
    let mut job = job(address, Transport::Tcp, Era::Modern, open_loop());
    job.connections = 1;
    job.limits.response_timeout = Duration::from_millis(200);
    job.limits.queued_max = 10;
    let finding = run(&job);
    let outcomes = finding.total.outcomes;
    assert_eq!((outcomes.answered, finding.total.due), (0, 400));
    // The places of the first two requests are free after their timeout.
    assert!((4..=8).contains(&finding.total.sent), "{}", finding.total.sent);
    assert_eq!(outcomes.failed(Failure::Timeout), finding.total.sent);
    assert_eq!(outcomes.failures(), 400, "{outcomes:?}");
}

#[test]
fn excessive_rate_counts_every_due_request() {
    let test_server = TestServer::for_load();
    let profile = RateProfile::constant(1e7, Duration::from_millis(100));
    let drive = LoadMode::Open { profile, pattern: ArrivalPattern::Constant };
    let mut job = on(&test_server, Transport::Tcp, Era::Modern, drive);
    job.limits.response_timeout = Duration::from_millis(100);
    let Period { outcomes, due, sent, .. } = run(&job).total;
    assert_eq!((due, outcomes.requests()), (1_000_000, 1_000_000), "{outcomes:?}");
    assert!(sent < due && outcomes.failed(Failure::Unsent) == due - sent, "{outcomes:?}");
}

#[test]
fn closed_connection_fails_requests_in_flight() {
    let address = start_line_server(|_| None);
    let mut job = job(address, Transport::Tcp, Era::Modern, open_loop());
    job.connections = 1;
    job.limits.response_timeout = Duration::from_millis(200);
    let finding = run(&job);
    assert!(finding.total.outcomes.failed(Failure::Closed) >= 1);
    assert!(finding.total.connects.lost >= 1);
    assert_eq!(finding.total.outcomes.answered, 0);
}

#[test]
fn unreachable_server_error_names_reason() {
    let address = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let mut job = job(address, Transport::Tcp, Era::Modern, open_loop());
    job.limits.connect_timeout = Duration::from_millis(100);
    let error = generator::run(&job, 1, &[], None, |_, _| {}).unwrap_err();
    let RunError::Unreachable(why) = error else { panic!("{error}") };
    assert!(why.contains("refused"), "{why}");
}
