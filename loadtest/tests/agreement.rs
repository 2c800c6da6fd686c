//! Three count the same: the server what it was asked, this tool and wrk what they asked it.
//!
//! What does not depend on speed has to agree to the last one. How fast both find the same server
//! is a matter of a quiet machine: `benches/agreement.rs` measures it.

#![expect(clippy::unwrap_used, reason = "what a test sets up for itself has to be there")]

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use corelane::observe::Counters;
use corelane::protocol::message::ServerInfo;
use corelane::server::{Options, Running, Server};
use corelane::service::demo;
use corelane_load::generator;
use corelane_load::plan::{PhasePlan, Plan, Span};

use self::wrk::{Order, Told};

#[expect(dead_code, reason = "the bench wants to know how long it took")]
#[path = "support/wrk.rs"]
mod wrk;

/// Answers after which wrk stops: far fewer than it gets in its time.
const ANSWERS: u64 = 200;
/// How long wrk takes, whatever it has to do.
const SECONDS: u64 = 2;

/// A server that says at its end what it has counted.
struct Counted {
    running: Running,
    address: SocketAddr,
}

impl Counted {
    fn new() -> Self {
        let mut options = Options::default();
        options.http.address = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        options.tcp.address = None;
        options.engine.shards = Some(1);
        let catalog = demo::catalog(ServerInfo::new("counted", "1")).unwrap();
        let running = Server::new(catalog).options(options).start().unwrap();
        let address = running.addresses()[0].1;
        Self { running, address }
    }

    fn end(self) -> Counters {
        self.running.handle().drain();
        self.running.join().unwrap()
    }
}

/// A file of this test alone.
fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

#[test]
fn every_request_of_wrk_is_counted_by_the_server_to_the_byte() {
    let server = Counted::new();
    let request = wrk::request(server.address, None);
    let order = Order { connections: 1, seconds: SECONDS, answers: Some(ANSWERS) };
    let told = wrk::run(server.address, &request, &script("one.lua"), order).unwrap();
    let counters = server.end();
    let Told { answers, right, errors, .. } = told;
    assert_eq!((answers, right, errors), (ANSWERS, ANSWERS, 0));
    assert_eq!(counters.requests.tools_call, ANSWERS);
    assert_eq!(counters.traffic.bytes_in, ANSWERS * request.len() as u64);
}

#[test]
fn every_request_of_ours_is_counted_by_the_server_to_the_byte() {
    let server = Counted::new();
    let request = wrk::request(server.address, None);
    let plan = Plan {
        connections: 8,
        depth: 4,
        warm_up: Span::seconds(0),
        phases: vec![PhasePlan::constant(2_000.0, Span::seconds(1))],
        ..Plan::new(format!("http://{}", server.address))
    };
    let finding = generator::run(&plan.job().unwrap(), (2, &[]), None, |_, _| {}).unwrap();
    let counters = server.end();
    let total = &finding.total;
    assert_eq!((total.due, total.sent, total.outcomes.answered), (2_000, 2_000, 2_000));
    assert_eq!((total.outcomes.failures(), total.outcomes.unasked), (0, 0));
    assert_eq!(counters.requests.tools_call, 2_000);
    assert_eq!(counters.traffic.bytes_in, 2_000 * request.len() as u64);
    assert_eq!(counters.connections.accepted, 8);
}

#[test]
fn closed_loops_of_many_connections_are_counted_alike() {
    let connections: u16 = 64;
    let server = Counted::new();
    let plan = Plan {
        connections: connections.into(),
        closed: true,
        warm_up: Span::seconds(0),
        phases: vec![PhasePlan::constant(1.0, Span::from(Duration::from_millis(500)))],
        ..Plan::new(format!("http://{}", server.address))
    };
    let finding = generator::run(&plan.job().unwrap(), (1, &[]), None, |_, _| {}).unwrap();
    let outcomes = finding.total.outcomes;
    // Ours waits for what is in flight when its time is over.
    assert_eq!(server.end().requests.tools_call, outcomes.answered);
    assert_eq!((finding.total.sent, outcomes.failures()), (outcomes.answered, 0));

    let server = Counted::new();
    let request = wrk::request(server.address, None);
    let order = Order { connections: connections.into(), seconds: 1, answers: None };
    let told = wrk::run(server.address, &request, &script("many.lua"), order).unwrap();
    let counted = server.end().requests.tools_call;
    // wrk does not: one request a connection may have been asked and not been heard of.
    assert!(told.answers > 0 && told.errors == 0, "{told:?}");
    let possible = told.answers..=told.answers + u64::from(connections);
    assert!(possible.contains(&counted), "{counted}: {told:?}");
}
