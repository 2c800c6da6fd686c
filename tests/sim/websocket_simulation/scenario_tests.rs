//! WebSocket scenarios written by hand: clients that violate the protocol, stop reading or are
//! connected when the server drains.

use std::time::Duration;

use corelane_engine::ring::sim::{Fault, Faults};
use corelane_protocol::revision::Revision;

use super::plan;
use crate::feature_simulation::action::Action;
use crate::feature_simulation::messages::ReplyKind;
use crate::feature_simulation::simulation::{self, FeaturePlan, FeatureReport};
use crate::totals::Totals;

const MODERN: Revision = Revision::LATEST;
const LEGACY: Revision = Revision::LATEST_LEGACY;
const CALL_INPUT_TOOL: Action = Action::Call("test_input_required_result_elicitation");
const WAIT_SHORT: Action = Action::Wait(Duration::from_millis(8));
const WAIT_LONG: Action = Action::Wait(Duration::from_millis(400));

fn run(plan: &FeaturePlan) -> FeatureReport {
    simulation::run(plan)
        .unwrap_or_else(|reason| panic!("seed {}: {reason}\n{:?}", plan.seed, plan.faults))
}

#[test]
fn clients_closing_in_any_way_leave_others_undisturbed() {
    let leaves: &[Action] = &[Action::Ping, CALL_INPUT_TOOL, WAIT_SHORT, Action::Close];
    let stays: &[Action] = &[
        Action::Listen,
        CALL_INPUT_TOOL,
        WAIT_SHORT,
        Action::Respond(ReplyKind::Accept),
        WAIT_LONG,
        Action::Ping,
        Action::AwaitResponses,
    ];
    let visits = [(LEGACY, stays), (MODERN, stays), (LEGACY, leaves), (MODERN, leaves)];
    let visits = [visits, visits].concat();
    let mut totals = Totals::default();
    for seed in 0..12 {
        let report = run(&plan::plan_clients(seed, &visits));
        assert!(report.released_at.is_some(), "seed {seed}");
        totals = totals.plus(report.totals);
    }
    let ends = [totals.closes_answered, totals.faults_closed, totals.incomplete_messages_closed];
    assert!(ends.iter().all(|count| *count > 0), "{totals}");
    assert_eq!((totals.upgrades, totals.slow_readers_closed), (12 * 8, 0), "{totals}");
}

#[test]
fn client_that_stops_reading_is_closed_alone() {
    let stops_reading =
        [&[Action::StopReading][..], &[Action::Ping; 60], &[WAIT_LONG, WAIT_LONG, Action::Close]];
    let stops_reading = stops_reading.concat();
    let reads = [&[Action::Ping; 60][..], &[Action::AwaitResponses, Action::Close]].concat();
    let mut given_up = 0;
    for seed in 0..8 {
        let mut plan = plan::plan_clients(
            seed,
            &[(MODERN, &reads), (MODERN, &stops_reading), (LEGACY, &reads)],
        );
        // Some small windows.
        plan.faults = Faults::NONE.with(Fault::SlowReader);
        plan.options.websocket.outgoing_bytes_max = 4096;
        plan.options.websocket.send_timeout = Duration::from_millis(50);
        let totals = run(&plan).totals;
        assert!(totals.slow_readers_closed <= 1, "{totals}");
        given_up += totals.slow_readers_closed;
    }
    assert!(given_up > 0);
}

#[test]
fn drain_answers_pending_requests_and_sends_going_away() {
    let asked: &[Action] =
        &[CALL_INPUT_TOOL, Action::Ping, Action::Listen, WAIT_LONG, Action::AwaitResponses];
    let mut closes = 0;
    for seed in 0..8 {
        let mut plan =
            plan::plan_clients(seed, &[(LEGACY, asked), (MODERN, asked), (LEGACY, asked)]);
        plan.drain_at = Some(Duration::from_millis(60 + seed));
        let totals = run(&plan).totals;
        assert_eq!(totals.clients_vanished, 0, "{totals}");
        closes += totals.going_away_closes;
    }
    assert_eq!(closes, 8 * 3);
}
