//! HTTP scenarios written by hand: clients leave in the middle of an exchange.

use std::time::Duration;

use corelane_engine::ring::sim::Faults;

use super::plan::{self, HttpAction, HttpPlan};
use super::simulation::{self, HttpReport};

/// Clients that connect to two shards one after the other.
fn run_clients(visits: &[&[HttpAction]], drain: Option<Duration>) -> HttpReport {
    let visits = visits
        .iter()
        .enumerate()
        .map(|(index, actions)| (Duration::from_millis(15 * index as u64), actions.to_vec()));
    let plan = HttpPlan {
        seed: 1,
        shards: 2,
        options: plan::options(),
        faults: Faults::NONE,
        clients: visits.collect(),
        drain_at: drain,
        stall_chance: None,
        server_fault: None,
    };
    simulation::run(&plan).unwrap_or_else(|reason| panic!("{reason}"))
}

const WAIT_SHORT: HttpAction = HttpAction::Wait(Duration::from_millis(3));
const WORK: [HttpAction; 4] = [HttpAction::Initialize, WAIT_SHORT, HttpAction::Work, WAIT_SHORT];

#[test]
fn clients_resume_streams_after_every_connection_breaks() {
    let cuts = [
        HttpAction::Work,
        WAIT_SHORT,
        HttpAction::CutConnection,
        HttpAction::Work,
        HttpAction::CutConnection,
        HttpAction::ResumeStream,
        HttpAction::CutConnection,
    ];
    let visit = [&WORK[..], &cuts, &cuts, &[HttpAction::AwaitResponses]].concat();
    let visits = [&visit[..]; 6];
    let report = run_clients(&visits, None);
    assert!(report.released_at.is_some(), "{}", report.totals);
    assert!(
        report.totals.streams_resumed > 0 && report.totals.sessions_created == 6,
        "{}",
        report.totals
    );
}

#[test]
fn session_deleted_during_calls_leaves_nothing() {
    let visit = [
        &WORK[..],
        &[
            HttpAction::OpenGeneralStream,
            HttpAction::Work,
            HttpAction::Work,
            HttpAction::DeleteSession,
            HttpAction::AwaitResponses,
        ],
    ];
    let visit = visit.concat();
    let report = run_clients(&[&visit[..]; 6], None);
    assert!(
        report.released_at.is_some() && report.totals.sessions_created == 6,
        "{}",
        report.totals
    );
}

#[test]
fn abandoned_modern_streams_leave_nothing() {
    let goes: &[HttpAction] = &[
        HttpAction::OpenSubscription,
        HttpAction::ModernCall,
        WAIT_SHORT,
        HttpAction::CutConnection,
        HttpAction::CutConnection,
    ];
    let stops_reading: &[HttpAction] = &[
        HttpAction::OpenSubscription,
        HttpAction::ModernCall,
        HttpAction::StopReading,
        HttpAction::StopReading,
        WAIT_SHORT,
    ];
    let half: &[HttpAction] = &[
        HttpAction::ModernCall,
        HttpAction::ShutdownWrite,
        WAIT_SHORT,
        HttpAction::AwaitResponses,
    ];
    let report = run_clients(&[goes, stops_reading, half, goes, stops_reading, half], None);
    assert!(report.released_at.is_some(), "{}", report.totals);
}

#[test]
fn drain_during_session_calls_ends_them() {
    let visit = [
        &WORK[..],
        &[
            HttpAction::OpenGeneralStream,
            HttpAction::Work,
            HttpAction::Work,
            HttpAction::CutConnection,
            WAIT_SHORT,
        ],
    ]
    .concat();
    for drain_ms in [5, 12, 20, 35, 50, 70] {
        let report = run_clients(&[&visit[..]; 4], Some(Duration::from_millis(drain_ms)));
        assert!(report.released_at.is_none(), "{}", report.totals);
    }
}
