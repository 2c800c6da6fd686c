//! Tests against misbehaving servers over each transport: failures are counted by kind, every due
//! request is counted once, and no such run passes.
//!
//! `drive.rs` has the simple cases over TCP lines; this has HTTP and WebSocket, with their own
//! faults.

#![expect(clippy::unwrap_used, reason = "test setup")]

use std::time::Duration;

use corelane_load::generator;
use corelane_load::metrics::outcome::Failure;
use corelane_load::plan::{HumanDuration, PhasePlan, Plan, Thresholds};
use corelane_load::result::{Manifest, RunResult, RunStatus};
use corelane_load::target::{Era, Transport};
use serde_json::Value;

use self::scripted_server::{Reaction, ReceivedRequest, ScriptedServer};

mod discovery;
mod framings;
mod handshakes;
mod parity;
mod reasons;
mod responses;
pub(crate) mod scripted_server;
mod stalls;

const TRANSPORTS: [Transport; 3] = [Transport::Tcp, Transport::Http, Transport::WebSocket];
/// Requests of a run.
const DUE: u64 = 40;
/// Response timeout for servers that never respond.
const RESPONSE_TIMEOUT: Duration = Duration::from_millis(150);

/// Returns a plan against this server.
fn plan(server: &ScriptedServer, era: Era) -> Plan {
    let mut plan = Plan {
        era: Some(era),
        connections: 2,
        warm_up: HumanDuration::from_secs(0),
        connect_timeout: HumanDuration::from(Duration::from_secs(2)),
        phases: vec![PhasePlan::constant(400.0, HumanDuration::from(Duration::from_millis(100)))],
        ..Plan::new(server.target())
    };
    plan.thresholds.errors = Some(0.0);
    plan
}

/// Performs the run. Asserts that each due request is counted once, and that the run has not
/// passed.
fn run(server: &ScriptedServer, answer_max: Option<Duration>) -> RunResult {
    run_plan(plan(server, Era::Modern), answer_max)
}

/// Performs the run of a plan; see [`run`].
fn run_plan(mut plan: Plan, answer_max: Option<Duration>) -> RunResult {
    plan.response_timeout = answer_max.map_or(plan.response_timeout, HumanDuration::from);
    let mut job = plan.run_config().unwrap();
    job.limits.retry_after = Duration::from_millis(1);
    let finding = generator::run(&job, 1, &[], None, |_, _| {}).unwrap();
    let total = &finding.total;
    assert_eq!((total.due, total.outcomes.requests()), (DUE, DUE), "{:?}", total.outcomes);
    assert_eq!(total.latencies.response().len(), total.outcomes.answered);
    if total.outcomes.answered == 0 {
        let thresholds = Thresholds::default();
        let plan = Plan { thresholds, ..plan.clone() };
        let result = RunResult::new(plan, Manifest::default(), &finding);
        assert_eq!(result.status(), RunStatus::Failed, "{:?}", result.totals);
    }
    let result = RunResult::new(plan, Manifest::default(), &finding);
    assert!(!result.verdict.has_passed(), "{:?} {:?}", result.verdict, result.totals);
    result
}

/// Asserts that every request failed with this kind.
fn assert_all(
    transport: Transport,
    failure: Failure,
    name: &str,
    answer: impl Fn(&Value) -> Reaction + Send + Sync + 'static,
) {
    let server =
        ScriptedServer::new(transport, move |request: &ReceivedRequest<'_>| answer(request.call));
    let totals = run(&server, None).totals;
    let expected = [(failure.name().to_owned(), DUE)].into_iter().collect();
    assert_eq!(totals.failures, expected, "{transport:?}: {name}");
    assert_eq!(totals.answered, 0, "{transport:?}: {name}");
}
