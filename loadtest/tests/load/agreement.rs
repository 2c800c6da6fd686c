//! Tests that the request counts of the server, of `corelane-load` and of wrk agree.
//!
//! Counts have to be equal. Measured rates are compared in `benches/agreement.rs`, on a quiet
//! machine.

use std::net::SocketAddr;
use std::time::Duration;

use corelane_load::generator;
use corelane_load::mcp::request_template::ID_FIRST;
use corelane_load::mcp::{RequestSettings, RequestTemplate};
use corelane_load::plan::{HumanDuration, PhasePlan, Plan};
use corelane_load::target::{Era, Transport};
use corelane_test_support::wrk::{self, MESSAGE_BYTES, WrkCounts, WrkSettings};
use corelane_test_support::{TestServer, http_options};

use crate::file_path;

/// Responses after which wrk stops: far fewer than it gets in its time.
const ANSWERS: u64 = 200;
/// Run time of wrk, which is independent of the work.
const SECONDS: u64 = 2;

/// Starts a server with the demo tools.
fn start_server() -> TestServer {
    TestServer::start(http_options())
}

/// Returns the bytes of a call of `echo` as `corelane-load` sends it.
fn request(address: SocketAddr) -> Vec<u8> {
    let (authority, fields) = (address.to_string(), Vec::new());
    let (authority, path) = (&*authority, "/mcp");
    let settings = RequestSettings::new(Transport::Http, Era::Modern, authority, path, fields)
        .expect("a valid target");
    let mut bytes = Vec::new();
    RequestTemplate::echo(&settings, MESSAGE_BYTES).write_request(&mut bytes, ID_FIRST, None);
    bytes
}

#[ignore = "needs wrk: ./test.sh installs it and runs the test"]
#[test]
fn server_counts_every_wrk_request_and_byte() {
    let server = start_server();
    let request = request(server.address());
    let order = WrkSettings { connections: 1, seconds: SECONDS, responses: Some(ANSWERS) };
    let counts =
        wrk::run(server.address(), std::slice::from_ref(&request), &file_path("one.lua"), order)
            .unwrap();
    let counters = server.close();
    let WrkCounts { responses: answers, correct: right, errors, .. } = counts;
    assert_eq!((answers, right, errors), (ANSWERS, ANSWERS, 0));
    assert_eq!(counters.requests.tools_call, ANSWERS);
    assert_eq!(counters.traffic.bytes_in, ANSWERS * request.len() as u64);
}

#[ignore = "needs wrk: ./test.sh installs it and runs the test"]
#[test]
fn server_counts_every_request_and_byte() {
    let server = start_server();
    let request = request(server.address());
    let plan = Plan {
        connections: 8,
        depth: 4,
        warm_up: HumanDuration::from_secs(0),
        phases: vec![PhasePlan::constant(2_000.0, HumanDuration::from_secs(1))],
        ..Plan::new(format!("http://{}", server.address()))
    };
    let finding = generator::run(&plan.run_config().unwrap(), 2, &[], None, |_, _| {}).unwrap();
    let counters = server.close();
    let total = &finding.total;
    assert_eq!((total.due, total.sent, total.outcomes.answered), (2_000, 2_000, 2_000));
    assert_eq!((total.outcomes.failures(), total.outcomes.unsolicited), (0, 0));
    assert_eq!(counters.requests.tools_call, 2_000);
    assert_eq!(counters.traffic.bytes_in, 2_000 * request.len() as u64);
    assert_eq!(counters.connections.accepted, 8);
}

#[ignore = "needs wrk: ./test.sh installs it and runs the test"]
#[test]
fn closed_loop_counts_agree_with_wrk() {
    let connections: u16 = 64;
    let server = start_server();
    let plan = Plan {
        connections: connections.into(),
        closed: true,
        warm_up: HumanDuration::from_secs(0),
        phases: vec![PhasePlan::constant(1.0, HumanDuration::from(Duration::from_millis(500)))],
        ..Plan::new(format!("http://{}", server.address()))
    };
    let finding = generator::run(&plan.run_config().unwrap(), 1, &[], None, |_, _| {}).unwrap();
    let outcomes = finding.total.outcomes;
    // corelane-load awaits requests in flight at the end.
    assert_eq!(server.close().requests.tools_call, outcomes.answered);
    assert_eq!((finding.total.sent, outcomes.failures()), (outcomes.answered, 0));

    let server = start_server();
    let request = request(server.address());
    let order = WrkSettings { connections: connections.into(), seconds: 1, responses: None };
    let counts = wrk::run(server.address(), &[request], &file_path("many.lua"), order).unwrap();
    let counted = server.close().requests.tools_call;
    // wrk does not: up to one request on each connection may be unanswered.
    assert!(counts.responses > 0 && counts.errors == 0, "{counts:?}");
    let possible = counts.responses..=counts.responses + u64::from(connections);
    assert!(possible.contains(&counted), "{counted}: {counts:?}");
}
