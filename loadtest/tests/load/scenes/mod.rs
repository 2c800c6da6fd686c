//! Tests of churn, storms, slow readers and event streams against real servers.

#![expect(clippy::unwrap_used, reason = "test setup")]

mod ended_sessions;
mod session_server;

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use corelane_load::generator::{self, Measurements, RunConfig};
use corelane_load::metrics::outcome::Failure;
use corelane_load::plan::Plan;
use corelane_load::report::table::table;
use corelane_load::result::{Manifest, RunOrigin, RunResult};
use corelane_test_support::stall::stall;
use corelane_test_support::{ExitResult, TestServer};

use self::session_server::{AfterAnswer, SessionServer};
use crate::load;

/// Returns a plan with four connections and no warm-up.
fn plan(target: &str, rest: &str) -> Plan {
    let text = format!("target = \"{target}\"\nconnections = 4\nwarm_up = \"0s\"\n{rest}");
    toml::from_str(&text).unwrap()
}

fn job(target: &str, rest: &str) -> RunConfig {
    plan(target, rest).run_config().unwrap()
}

fn run(job: &RunConfig) -> Measurements {
    generator::run(job, 2, &[], None, |_, _| {}).unwrap()
}

/// 400 requests.
const PHASE: &str = "[[phase]]\nrate = 1000\nduration = \"400ms\"\n";
/// Idle connections.
const HOLD: &str = "[[phase]]\nrate = 0\nduration = \"400ms\"\n";

/// Starts a server that responds to each line with the result of `answer`; `None` closes the
/// connection. It runs until the end of the test.
fn start_line_server(
    answer: impl Fn(&str) -> Option<String> + Clone + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let answer = answer.clone();
            std::thread::spawn(move || {
                let mut writer = stream.try_clone().unwrap();
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    let Some(answer) = answer(&line) else { return };
                    writer.write_all(answer.as_bytes()).unwrap_or(());
                }
            });
        }
    });
    address
}

/// Returns the correct response to a call of the tool `echo`, or to any other request.
fn echo(line: &str) -> String {
    let call: serde_json::Value = serde_json::from_str(line).unwrap();
    let text = &call["params"]["arguments"]["message"];
    let Some(id) = call.get("id") else { return String::new() };
    format!("{{\"id\":{id},\"result\":{{\"content\":[{{\"text\":{text}}}]}}}}\n")
}

#[test]
fn connect_time_is_measured_in_every_run() {
    let test_server = TestServer::for_load();
    let openings = run(&job(&format!("ws://{}", test_server.http()), HOLD)).total.connects;
    assert_eq!((openings.opened, openings.connect.len()), (4, 4));
    assert!(openings.connect.min() > 0 && openings.churn.is_empty());
}

#[test]
fn churn_loses_no_request_over_any_transport() {
    let test_server = TestServer::for_load();
    for (scheme, address) in
        [("tcp", test_server.tcp()), ("http", test_server.http()), ("ws", test_server.http())]
    {
        for era in ["modern", "legacy"] {
            let rest = format!("era = \"{era}\"\n{PHASE}[churn]\nrate = 50\n");
            let total = run(&job(&format!("{scheme}://{address}"), &rest)).total;
            let (outcomes, openings) = (total.outcomes, total.connects);
            let counts = (total.sent, outcomes.answered, outcomes.failures(), openings.lost);
            assert_eq!(counts, (400, 400, 0, 0), "{scheme} {era} {outcomes:?}");
            assert_eq!((openings.opened, openings.churn.len()), (24, 20), "{scheme} {era}");
            assert_eq!(
                (openings.not_reopened, openings.sessions_not_deleted, total.open),
                (0, 0, 4)
            );
        }
    }
}

#[test]
fn churn_deletes_sessions_unless_configured_to_leave() {
    for (how, deleted) in [("delete", 20), ("leave", 0)] {
        let (address, sessions) = SessionServer::serve();
        let churn = format!("[churn]\nrate = 50\nsessions = \"{how}\"\n");
        let rest = format!("era = \"legacy\"\n{PHASE}{churn}[[call]]\nmethod = \"ping\"\n");
        let total = run(&job(&format!("http://{address}"), &rest)).total;
        assert_eq!((total.outcomes.answered, total.connects.lost), (400, 0), "{how}");
        assert_eq!((sessions.initialized(), sessions.deleted()), (24, deleted), "{how}");
        assert_eq!(total.connects.sessions_not_deleted, 0);
    }
}

#[test]
fn session_goes_on_over_next_connection() {
    let (address, sessions) = SessionServer::serve_and(AfterAnswer::Closes);
    let rest = format!("era = \"legacy\"\n{PHASE}[[call]]\nmethod = \"ping\"\n");
    let total = run(&job(&format!("http://{address}"), &rest)).total;
    assert_eq!((total.outcomes.answered, total.connects.lost), (400, 0));
    assert_eq!(sessions.initialized(), 4);
}

#[test]
fn ended_session_is_followed_by_new_one() {
    let (address, sessions) = SessionServer::serve_and(AfterAnswer::EndsSession);
    let rest = format!("era = \"legacy\"\n{PHASE}[[call]]\nmethod = \"ping\"\n");
    let outcomes = run(&job(&format!("http://{address}"), &rest)).total.outcomes;
    let (answered, unknown) = (outcomes.answered, outcomes.failed(Failure::Http4xx));
    assert!(answered > 4 && unknown > 0, "{outcomes:?}");
    // Each session answers one request.
    assert!(sessions.initialized() >= answered, "{outcomes:?}");
}

#[test]
fn storm_replaces_configured_number_of_connections() {
    let test_server = TestServer::for_load();
    let target = format!("tcp://{}", test_server.tcp());
    for (storm, count) in [
        ("at = \"100ms\"", 4),
        ("at = \"100ms\"\nevery = \"100ms\"", 12),
        ("at = \"0s\"\nconnections = 3", 3),
    ] {
        let rest = format!("era = \"legacy\"\n{HOLD}[churn.storm]\n{storm}\n");
        let openings = run(&job(&target, &rest)).total.connects;
        assert_eq!((openings.storm.len(), openings.opened), (count, 4 + count), "{storm}");
        assert_eq!((openings.not_reopened, openings.churn.len()), (0, 0));
    }
}

#[test]
fn rejected_replacement_is_counted_by_reason() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        drop(listener);
        // Closes the connection after the client has closed it.
        BufReader::new(stream).lines().for_each(drop);
    });
    let mut job = job(&format!("tcp://{address}"), &format!("{HOLD}[churn]\nrate = 50\n"));
    job.connections = 1;
    job.limits.response_timeout = Duration::from_millis(200);
    let openings = run(&job).total.connects;
    assert_eq!((openings.opened, openings.not_reopened), (1, 20));
    assert!(openings.failures(Failure::Connect) >= 1);
}

#[test]
fn late_replacement_counts_from_intended_time() {
    // Each handshake takes 30 ms, and a new one is due every 10 ms.
    let address = start_line_server(|line| {
        if line.contains("\"initialize\"") {
            stall(Duration::from_millis(30));
            let call: serde_json::Value = serde_json::from_str(line).unwrap();
            let result = r#"{"protocolVersion":"2025-11-25","capabilities":{}}"#;
            let id = &call["id"];
            return Some(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}\n"));
        }
        Some(echo(line))
    });
    let rest = format!("era = \"legacy\"\n{HOLD}[churn]\nrate = 100\n");
    let mut job = job(&format!("tcp://{address}"), &rest);
    job.connections = 1;
    let openings = run(&job).total.connects;
    assert_eq!(openings.churn.len(), 40);
    // The last was due after 390 ms and came after 40 × 30 ms.
    assert!(openings.churn.max() > 800_000_000, "{}", openings.churn.max());
    assert!(openings.connect.max() < openings.churn.max());
}

#[test]
fn replacement_waits_until_requests_time_out() {
    let address = start_line_server(|_| Some(String::new()));
    let rest = format!("{PHASE}[churn.storm]\nat = \"200ms\"\n");
    let mut job = job(&format!("tcp://{address}"), &rest);
    job.limits.response_timeout = Duration::from_millis(300);
    let total = run(&job).total;
    assert_eq!(total.connects.storm.len() + total.connects.not_reopened, 4);
    assert_eq!((total.outcomes.answered, total.connects.lost), (0, 0));
    assert!(total.outcomes.failed(Failure::Timeout) >= 4, "{:?}", total.outcomes);
}

#[test]
fn slow_readers_are_counted_separately() {
    let test_server = TestServer::for_load();
    for (scheme, address) in
        [("tcp", test_server.tcp()), ("http", test_server.http()), ("ws", test_server.http())]
    {
        for speed in [0, 1_000] {
            let readers =
                format!("[slow_readers]\nconnections = 2\nbytes_per_second = {speed}\ndepth = 8\n");
            let rest = format!("{PHASE}{readers}bytes = 2000\n");
            let total = run(&job(&format!("{scheme}://{address}"), &rest)).total;
            let slow = total.slow_readers;
            // A connection that never reads sends no more than its depth.
            let is_bounded = if speed == 0 { slow.sent == 16 } else { slow.sent >= 16 };
            assert!(is_bounded, "{scheme} {speed} {slow:?}");
            assert_eq!((slow.answered, slow.failed, slow.closed), (slow.sent, 0, 0), "{scheme}");
            let others = (total.sent, total.outcomes.answered, total.outcomes.failures());
            assert_eq!(others, (400, 400, 0), "{scheme} {speed}");
        }
    }
}

#[test]
fn closed_slow_reader_is_not_a_lost_connection() {
    // The request of nine bytes is that of the slow reader.
    let address =
        start_line_server(
            |line| if line.contains("abcdefghi\"") { None } else { Some(echo(line)) },
        );
    let readers = "[slow_readers]\nconnections = 1\nbytes_per_second = 0\nbytes = 9\n";
    let total = run(&job(&format!("tcp://{address}"), &format!("{PHASE}{readers}"))).total;
    assert!(total.slow_readers.closed >= 1, "{:?}", total.slow_readers);
    assert_eq!(
        (total.outcomes.answered, total.slow_readers.answered, total.connects.lost),
        (400, 0, 0)
    );
}

#[test]
fn progress_responses_count_streams_and_notifications() {
    let test_server = TestServer::for_load();
    let call = "[[call]]\ntool = \"slow\"\narguments = { steps = 3, step_ms = 1 }\n\
                progress = true\nexpect = \"took 3 steps of 1 ms\"\n";
    for (scheme, address, streams) in [
        ("tcp", test_server.tcp(), 0),
        ("http", test_server.http(), 40),
        ("ws", test_server.http(), 0),
    ] {
        for era in ["modern", "legacy"] {
            let phase = "[[phase]]\nrate = 100\nduration = \"400ms\"\n";
            let rest = format!("era = \"{era}\"\n{phase}{call}");
            let total = run(&job(&format!("{scheme}://{address}"), &rest)).total;
            let (outcomes, latencies) = (total.outcomes, &total.latencies);
            for first in [latencies.first_event(), latencies.first_progress()] {
                assert_eq!(first.unwrap().len(), 40, "{scheme} {era}");
                let medians = [first.unwrap(), latencies.response()];
                let medians = medians.map(|times| times.value_at_percentile(50.0));
                assert!(medians[0] < medians[1], "{scheme} {era} {medians:?}");
            }
            let counts = (outcomes.answered, outcomes.streamed, outcomes.notifications);
            assert_eq!(counts, (40, streams, 120), "{scheme} {era} {outcomes:?}");
        }
    }
}

#[test]
fn scenario_results_are_shown_and_optional_in_json() {
    let test_server = TestServer::for_load();
    let readers = "[slow_readers]\nconnections = 1\nat = \"100ms\"\n";
    let rest = format!("{PHASE}[churn]\nrate = 50\n{readers}");
    let plan = plan(&format!("http://{}", test_server.http()), &rest);
    let finding = run(&plan.run_config().unwrap());
    let result = RunResult::new(plan, Manifest::of(&finding, 0, &RunOrigin::default()), &finding);
    let shown = table(&result);
    for row in ["connect ", "churn ", "opened   24 connections", "slow "] {
        assert!(shown.lines().any(|line| line.starts_with(row)), "{row} is not in: {shown}");
    }
    let mut written = serde_json::to_value(&result).unwrap();
    assert_eq!(written["connections"]["churn"]["count"], 20);
    // Results of earlier versions lack these members and are still readable.
    let members = written.as_object_mut().unwrap();
    for member in ["connections", "slow_readers", "drift"] {
        assert!(members.remove(member).is_some(), "{member}");
    }
    let read: RunResult = serde_json::from_value(written).unwrap();
    assert_eq!(read.connections.opened, 0);
}

#[test]
fn churn_flags_replace_connections() {
    let (address, sessions) = SessionServer::serve();
    let target = format!("http://{address}");
    let churn = |flags: &[&str]| {
        let brief = ["--era=legacy", "--connections=2", "--warm-up=0s", "--duration=300ms"];
        load(["run", target.as_str(), "--rate=0"].iter().chain(&brief).chain(flags).copied())
    };
    let ExitResult { stdout, .. } = churn(&["--churn=100", "--leave-sessions"]);
    assert!(stdout.contains("\nopened   32 connections\n"), "{stdout}");
    assert_eq!((sessions.initialized(), sessions.deleted()), (32, 0));
    for (flags, part) in [(&["--leave-sessions"], "--churn 100"), (&["--churn=-1"], "from 0 to")] {
        let ExitResult { status, stderr, .. } = churn(flags);
        assert_eq!((status, stderr.lines().count()), (2, 1), "{stderr}");
        assert!(stderr.contains(part), "{stderr}");
    }
}
