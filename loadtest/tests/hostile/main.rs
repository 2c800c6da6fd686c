//! Servers that do what no server should, over each transport: what they do is counted by its kind,
//! every request that was due is counted once, and no such run passes.
//!
//! What `drive.rs` has over lines (garbage, nothing at all, twice, an end) stands here for HTTP and
//! WebSocket, with what only these can do wrong.

#![expect(clippy::unwrap_used, reason = "what a test sets up for itself has to be there")]

use std::time::Duration;

use corelane_load::generator;
use corelane_load::measure::outcome::Failure;
use corelane_load::plan::{PhasePlan, Plan, Span};
use corelane_load::result::{Manifest, RunResult};
use corelane_load::target::{Era, Transport};
use serde_json::Value;

use self::stranger::{Asked, Deed, Stranger};

mod answers;
mod framings;
mod handshakes;
#[path = "../support/stall.rs"]
mod stall;
mod stalls;
mod stranger;

const TRANSPORTS: [Transport; 3] = [Transport::Tcp, Transport::Http, Transport::WebSocket];
/// Requests of a run.
const DUE: u64 = 40;
/// How long an answer may take where one never comes.
const SOON: Duration = Duration::from_millis(150);

/// A run of a plan against this server.
fn plan(server: &Stranger, era: Era) -> Plan {
    let mut plan = Plan {
        era,
        connections: 2,
        warm_up: Span::seconds(0),
        connect_max: Span::from(Duration::from_secs(2)),
        phases: vec![PhasePlan::constant(400.0, Span::from(Duration::from_millis(100)))],
        ..Plan::new(server.target())
    };
    plan.thresholds.errors = Some(0.0);
    plan
}

/// What came of it. Whatever the server did, each request that was due is counted once, and the
/// run has not passed.
fn run(server: &Stranger, answer_max: Option<Duration>) -> RunResult {
    let mut plan = plan(server, Era::Modern);
    plan.answer_max = answer_max.map_or(plan.answer_max, Span::from);
    let mut job = plan.job().unwrap();
    job.limits.retry_after = Duration::from_millis(1);
    let finding = generator::run(&job, (1, &[]), None, |_, _| {}).unwrap();
    let total = &finding.total;
    assert_eq!((total.due, total.outcomes.requests()), (DUE, DUE), "{:?}", total.outcomes);
    assert_eq!(total.latencies.response().len(), total.outcomes.answered);
    let result = RunResult::new(plan, Manifest::default(), &finding);
    assert!(!result.verdict.has_passed(), "{:?} {:?}", result.verdict, result.totals);
    result
}

/// Asserts that every request failed in this way.
fn assert_all(
    transport: Transport,
    failure: Failure,
    name: &str,
    answer: impl Fn(&Value) -> Deed + Send + Sync + 'static,
) {
    let server = Stranger::new(transport, move |asked: &Asked<'_>| answer(asked.call));
    let totals = run(&server, None).totals;
    let expected = [(failure.name().to_owned(), DUE)].into_iter().collect();
    assert_eq!(totals.failures, expected, "{transport:?}: {name}");
    assert_eq!(totals.answered, 0, "{transport:?}: {name}");
}
