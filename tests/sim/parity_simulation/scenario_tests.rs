//! Scenarios of the parity dialect written by hand.

use std::time::Duration;

use corelane::options::CapabilitiesTimeoutPolicy;
use corelane_engine::ring::sim::{Fault, Faults};

use super::link::Carrier;
use super::plan::{Action, CancelTarget, Ending, Opening, ParityPlan, Visit};
use super::resumption::ResumeKind;
use super::simulation::ParityReport;
use super::totals::ParityTotals;
use super::work::Work;

const HANDSHAKE: Opening = Opening::Handshake { exchanges: false };
const RESUME: Opening = Opening::Resume(ResumeKind::Right);
const CARRIERS: [Carrier; 3] = [Carrier::Tcp, Carrier::WebSocket, Carrier::Http];

/// A stream of ten steps, a millisecond each.
const STREAM: Action = Action::Request {
    work: Work::Emit { count: 10, log_every: 3, pause_us: 1_000 },
    streams: true,
    key: None,
};
/// A stream that ends when it is cancelled.
const WAIT: Action = Action::Request { work: Work::Wait, streams: true, key: None };
const PAUSE: Action = Action::Wait(Duration::from_millis(3));

#[track_caller]
fn run(plan: &ParityPlan) -> ParityReport {
    super::run(plan).unwrap_or_else(|reason| panic!("seed {}: {reason}", plan.seed))
}

/// A connection that ends in this way.
fn visit(carrier: Carrier, opening: Opening, actions: &[Action], ending: Ending) -> Visit {
    Visit { ending, ..Visit::new(carrier, opening, actions) }
}

#[test]
fn parity_streams_continue_over_every_transport() {
    let pairs = CARRIERS.iter().flat_map(|first| CARRIERS.iter().map(move |next| (*first, *next)));
    let peers = pairs.map(|(first, next)| {
        let actions = [Action::OpenEvents, STREAM, STREAM, PAUSE];
        vec![
            visit(first, HANDSHAKE, &actions, Ending::Reset),
            visit(next, RESUME, &[Action::Await], Ending::Finish),
        ]
    });
    let totals = run(&ParityPlan::calm(1, peers.collect())).totals;
    assert_eq!((totals.sessions_resumed, totals.streams_completed), (9, 18), "{totals:?}");
}

#[test]
fn parity_storm_loses_no_chunk() {
    let begun = [Action::OpenEvents, STREAM, STREAM, Action::Wait(Duration::from_secs(1))];
    let peers =
        (0..60).map(|index| vec![visit(CARRIERS[index % 3], HANDSHAKE, &begun, Ending::Close)]);
    let mut plan = ParityPlan::calm(2, peers.collect());
    for peer in &mut plan.peers {
        peer.0 = Duration::ZERO;
    }
    plan.storm_at = Some(Duration::from_millis(5));
    let totals = run(&plan).totals;
    assert_eq!((totals.storms, totals.sessions_resumed), (60, 60), "{totals:?}");
    assert_eq!(totals.streams_completed, 120, "{totals:?}");
}

#[test]
fn parity_disconnect_in_any_state_leaves_nothing() {
    let cancel = Action::Cancel(CancelTarget::Stream);
    let peers = CARRIERS.map(|carrier| {
        vec![
            visit(carrier, Opening::Silent, &[], Ending::AtOnce),
            visit(carrier, HANDSHAKE, &[], Ending::AtOnce),
            visit(carrier, Opening::Handshake { exchanges: true }, &[], Ending::Reset),
            visit(carrier, Opening::WrongVersion, &[], Ending::AtOnce),
            visit(carrier, HANDSHAKE, &[WAIT, STREAM, PAUSE, cancel], Ending::Reset),
            visit(carrier, RESUME, &[], Ending::AtOnce),
            visit(carrier, HANDSHAKE, &[WAIT, PAUSE], Ending::Close),
        ]
    });
    let mut plan = ParityPlan::calm(3, peers.to_vec());
    plan.options.parity.timeouts.capabilities_policy = CapabilitiesTimeoutPolicy::Fail;
    let totals = run(&plan).totals;
    assert!(totals.cut_in_resuming > 0 && totals.cut_in_handshake_sent > 0, "{totals:?}");
}

#[test]
fn parity_token_is_accepted_once_of_two() {
    let begun = [Action::OpenEvents, STREAM, PAUSE];
    let peers = CARRIERS.map(|carrier| {
        vec![
            visit(carrier, HANDSHAKE, &begun, Ending::Close),
            visit(carrier, Opening::Resume(ResumeKind::Twin), &[Action::Await], Ending::Finish),
        ]
    });
    let totals = run(&ParityPlan::calm(4, peers.to_vec())).totals;
    assert_eq!((totals.sessions_resumed, totals.twins_restarted), (3, 3), "{totals:?}");
    assert_eq!(totals.streams_completed, 3, "{totals:?}");
}

#[test]
fn parity_resumption_ends_earlier_connection() {
    let pairs = CARRIERS.iter().flat_map(|first| CARRIERS.iter().map(move |next| (*first, *next)));
    let call = Action::Request { work: Work::Wait, streams: false, key: None };
    let peers = pairs.map(|(first, next)| {
        let actions = [Action::OpenEvents, STREAM, call, PAUSE];
        vec![
            visit(first, HANDSHAKE, &actions, Ending::TakenOver),
            visit(next, RESUME, &[Action::Await], Ending::Finish),
        ]
    });
    let totals = run(&ParityPlan::calm(6, peers.collect())).totals;
    assert_eq!((totals.taken_over, totals.sessions_resumed), (9, 9), "{totals:?}");
}

#[test]
fn parity_streams_ended_while_away_all_continue() {
    let streams = [STREAM; 40];
    let peers = CARRIERS.map(|carrier| {
        let resumed = Visit {
            after: Duration::from_millis(100),
            ..visit(carrier, RESUME, &[Action::Await], Ending::Finish)
        };
        vec![visit(carrier, HANDSHAKE, &[&streams[..], &[PAUSE]].concat(), Ending::Reset), resumed]
    });
    let totals = run(&ParityPlan::calm(8, peers.to_vec())).totals;
    assert_eq!((totals.sessions_resumed, totals.streams_completed), (3, 120), "{totals:?}");
}

#[test]
fn parity_lost_acknowledgement_leaves_token_valid() {
    let peers = [Carrier::Tcp, Carrier::WebSocket].map(|carrier| {
        let resumed = Visit {
            after: Duration::from_millis(50),
            ..visit(carrier, RESUME, &[Action::Await], Ending::Finish)
        };
        vec![
            visit(carrier, HANDSHAKE, &[STREAM, PAUSE], Ending::Close),
            visit(carrier, RESUME, &[], Ending::AtOnce),
            resumed,
        ]
    });
    for shards in 1..=3 {
        let mut plan = ParityPlan::calm(9, peers.to_vec());
        plan.shards = shards;
        let totals = run(&plan).totals;
        assert_eq!((totals.sessions_resumed, totals.streams_completed), (2, 2), "{totals:?}");
        assert_eq!((totals.cut_in_resuming, totals.restarts_taken_over), (2, 0), "{totals:?}");
    }
}

/// Most clients refine their capabilities at once; those that have not must continue, or must not.
#[test]
fn parity_session_continues_without_announced_capabilities() {
    let exchange = Opening::Handshake { exchanges: true };
    let peers = (0..60).map(|index| {
        let carrier = CARRIERS[index % 3];
        vec![
            visit(carrier, exchange, &[PAUSE], Ending::Close),
            visit(carrier, RESUME, &[], Ending::Finish),
        ]
    });
    let mut plan = ParityPlan::calm(10, peers.collect());
    let totals = run(&plan).totals;
    let unrefined = totals.cut_in_handshake_acked;
    assert!(unrefined > 0 && totals.sessions_resumed >= unrefined, "{totals:?}");
    plan.options.parity.timeouts.capabilities_policy = CapabilitiesTimeoutPolicy::Fail;
    let totals = run(&plan).totals;
    let unrefined = totals.cut_in_handshake_acked;
    assert!(unrefined > 0 && totals.restarts_expired >= unrefined, "{totals:?}");
}

/// A request for the event stream names no resumption: one of an earlier connection that is read
/// late takes the stream, and its client loses nothing.
#[test]
fn parity_late_event_request_loses_no_chunk() {
    let begun = [STREAM, PAUSE, Action::OpenEvents];
    let continued = [Action::OpenEvents, STREAM, Action::Await];
    let peers = [Ending::TakenOver, Ending::Close].map(|ending| {
        vec![
            visit(Carrier::Http, HANDSHAKE, &begun, ending),
            visit(Carrier::Http, RESUME, &continued, Ending::Finish),
        ]
    });
    let runs = (0..60).map(|seed| {
        let mut plan = ParityPlan::calm(seed, peers.to_vec());
        (plan.faults, plan.shards) = (Faults::NONE.with(Fault::Delay), 2);
        run(&plan).totals
    });
    let totals = runs.reduce(ParityTotals::plus).unwrap_or_default();
    assert!(totals.events_taken_late > 0, "{totals:?}");
    // Streams whose opening response was lost complete, too.
    assert!(totals.streams_completed >= totals.streams_opened, "{totals:?}");
}

/// The calls of a session without connection end with the server.
#[test]
fn parity_drain_ends_sessions_without_connection() {
    let peers =
        CARRIERS.map(|carrier| vec![visit(carrier, HANDSHAKE, &[WAIT, PAUSE], Ending::Reset)]);
    let mut plan = ParityPlan::calm(5, peers.to_vec());
    plan.drain_at = Some(Duration::from_millis(20));
    assert_eq!(run(&plan).totals.drains, 1);
}
