//! Visits written by hand: each leaves in the middle of something else.

use std::time::Duration;

use corelane::engine::ring::sim::Faults;

use super::evening::{self, Report};
use super::plan::{self, Deed, Plan};

/// Clients that come to two shards one after the other.
fn play(visits: &[&[Deed]], drain: Option<Duration>) -> Report {
    let visits = visits
        .iter()
        .enumerate()
        .map(|(index, deeds)| (Duration::from_millis(15 * index as u64), deeds.to_vec()));
    let plan = Plan {
        seed: 1,
        shards: 2,
        options: plan::options(),
        faults: Faults::NONE,
        visits: visits.collect(),
        drain,
        naps: None,
        breaks: None,
    };
    evening::run(&plan).unwrap_or_else(|reason| panic!("{reason}"))
}

const SOON: Deed = Deed::Wait(Duration::from_millis(3));
const WORK: [Deed; 4] = [Deed::Begin, SOON, Deed::Work, SOON];

#[test]
fn clients_that_break_every_connection_come_back_for_all_that_is_left() {
    let cuts = [Deed::Work, SOON, Deed::Cut, Deed::Work, Deed::Cut, Deed::Resume, Deed::Cut];
    let visit = [&WORK[..], &cuts, &cuts, &[Deed::Settle]].concat();
    let visits = [&visit[..]; 6];
    let report = play(&visits, None);
    assert!(report.rested.is_some(), "{}", report.tally);
    assert!(report.tally.resumed > 0 && report.tally.sessions == 6, "{}", report.tally);
}

#[test]
fn a_session_that_ends_while_its_calls_run_leaves_nothing() {
    let visit = [&WORK[..], &[Deed::Listen, Deed::Work, Deed::Work, Deed::Delete, Deed::Settle]];
    let visit = visit.concat();
    let report = play(&[&visit[..]; 6], None);
    assert!(report.rested.is_some() && report.tally.sessions == 6, "{}", report.tally);
}

#[test]
fn streams_of_modern_clients_that_go_away_or_read_no_more_leave_nothing() {
    let goes: &[Deed] = &[Deed::Subscribe, Deed::Modern, SOON, Deed::Cut, Deed::Cut];
    let deaf: &[Deed] = &[Deed::Subscribe, Deed::Modern, Deed::Deafen, Deed::Deafen, SOON];
    let half: &[Deed] = &[Deed::Modern, Deed::Finish, SOON, Deed::Settle];
    let report = play(&[goes, deaf, half, goes, deaf, half], None);
    assert!(report.rested.is_some(), "{}", report.tally);
}

#[test]
fn a_drain_in_the_middle_of_calls_of_sessions_ends_them_all() {
    let visit = [&WORK[..], &[Deed::Listen, Deed::Work, Deed::Work, Deed::Cut, SOON]].concat();
    for drain_ms in [5, 12, 20, 35, 50, 70] {
        let report = play(&[&visit[..]; 4], Some(Duration::from_millis(drain_ms)));
        assert!(report.rested.is_none(), "{}", report.tally);
    }
}
