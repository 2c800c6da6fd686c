//! Visits over WebSocket written by hand: whoever breaks the protocol, reads no more or is there
//! when the server drains.

use std::time::Duration;

use corelane::engine::ring::sim::{Fault, Faults};
use corelane::protocol::revision::Revision;

use super::plan;
use crate::meeting::deed::Deed;
use crate::meeting::gathering::{self, Outing, Plan};
use crate::meeting::phrase::Manner;
use crate::tally::Tally;

const MODERN: Revision = Revision::LATEST;
const LEGACY: Revision = Revision::LATEST_LEGACY;
const ASK: Deed = Deed::Call("test_input_required_result_elicitation");
const SOON: Deed = Deed::Wait(Duration::from_millis(8));
const LATER: Deed = Deed::Wait(Duration::from_millis(400));

fn run(plan: &Plan) -> Outing {
    gathering::run(plan)
        .unwrap_or_else(|reason| panic!("seed {}: {reason}\n{:?}", plan.seed, plan.faults))
}

#[test]
fn clients_that_leave_in_every_way_disturb_nobody_who_stays() {
    let leaves: &[Deed] = &[Deed::Greet, ASK, SOON, Deed::Close];
    let stays: &[Deed] =
        &[Deed::Listen, ASK, SOON, Deed::Reply(Manner::Well), LATER, Deed::Greet, Deed::Settle];
    let visits = [(LEGACY, stays), (MODERN, stays), (LEGACY, leaves), (MODERN, leaves)];
    let visits = [visits, visits].concat();
    let mut tally = Tally::default();
    for seed in 0..12 {
        let outing = run(&plan::play(seed, &visits));
        assert!(outing.rested.is_some(), "seed {seed}");
        tally = tally.plus(outing.tally);
    }
    let ends = [tally.closes_answered, tally.faults_closed, tally.unfinished];
    assert!(ends.iter().all(|count| *count > 0), "{tally}");
    assert_eq!((tally.upgrades, tally.given_up), (12 * 8, 0), "{tally}");
}

#[test]
fn a_client_that_reads_no_more_is_given_up_and_no_other() {
    let deaf = [&[Deed::StopReading][..], &[Deed::Greet; 60], &[LATER, LATER, Deed::Close]];
    let deaf = deaf.concat();
    let reads = [&[Deed::Greet; 60][..], &[Deed::Settle, Deed::Close]].concat();
    let mut given_up = 0;
    for seed in 0..8 {
        let mut plan = plan::play(seed, &[(MODERN, &reads), (MODERN, &deaf), (LEGACY, &reads)]);
        // Small windows, here and there.
        plan.faults = Faults::NONE.with(Fault::SlowReader);
        plan.options.websocket.frame_buffer_bytes_max = 4096;
        plan.options.websocket.drain_max = Duration::from_millis(50);
        let tally = run(&plan).tally;
        assert!(tally.given_up <= 1, "{tally}");
        given_up += tally.given_up;
    }
    assert!(given_up > 0);
}

#[test]
fn a_drain_answers_what_is_owed_and_tells_everybody() {
    let asked: &[Deed] = &[ASK, Deed::Greet, Deed::Listen, LATER, Deed::Settle];
    let mut told = 0;
    for seed in 0..8 {
        let mut plan = plan::play(seed, &[(LEGACY, asked), (MODERN, asked), (LEGACY, asked)]);
        plan.drain = Some(Duration::from_millis(60 + seed));
        let tally = run(&plan).tally;
        assert_eq!(tally.vanished, 0, "{tally}");
        told += tally.drains_told;
    }
    assert_eq!(told, 8 * 3);
}
