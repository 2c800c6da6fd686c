//! Tests of the HTTP checkers: a run must fail if a proxy simulates one fault of the server, and
//! pass without.

use std::time::Duration;

use corelane_engine::ring::sim::Faults;

use super::fault_proxy::ServerFault;
use crate::http_simulation::plan::{self, HttpAction, HttpPlan};
use crate::http_simulation::simulation;

const SHORT_WAIT: HttpAction = HttpAction::Wait(Duration::from_millis(3));
const LONG_WAIT: HttpAction = HttpAction::Wait(Duration::from_millis(130));

/// Actions of a client with a session that loses connections and resumes streams.
fn session_actions() -> Vec<HttpAction> {
    let work = [
        HttpAction::Work,
        HttpAction::Work,
        SHORT_WAIT,
        HttpAction::TouchResource,
        HttpAction::Discover,
        SHORT_WAIT,
        HttpAction::Work,
    ];
    let mut session = vec![
        HttpAction::Initialize,
        SHORT_WAIT,
        SHORT_WAIT,
        HttpAction::SubscribeResource,
        HttpAction::OpenGeneralStream,
        SHORT_WAIT,
    ];
    session.extend(work);
    session.extend([
        HttpAction::ChangeCatalog,
        HttpAction::Discover,
        HttpAction::Work,
        HttpAction::CutConnection,
        HttpAction::Work,
        HttpAction::CutConnection,
        SHORT_WAIT,
    ]);
    for _ in 0..3 {
        session.extend([
            HttpAction::Work,
            SHORT_WAIT,
            HttpAction::Work,
            SHORT_WAIT,
            HttpAction::CutConnection,
            HttpAction::CutConnection,
            HttpAction::ResumeStream,
        ]);
    }
    session.extend([
        HttpAction::AwaitResponses,
        HttpAction::OpenGeneralStream,
        HttpAction::ChangeCatalog,
        HttpAction::AwaitResponses,
        HttpAction::Discover,
    ]);
    session.extend(work);
    session.extend([LONG_WAIT, HttpAction::AwaitResponses]);
    session
}

/// Actions of a client without a session.
fn modern_actions() -> Vec<HttpAction> {
    let mut modern = vec![
        HttpAction::OpenSubscription,
        SHORT_WAIT,
        HttpAction::ModernCall,
        HttpAction::ChangeCatalog,
        HttpAction::Discover,
        SHORT_WAIT,
    ];
    modern.extend([
        HttpAction::ModernCall,
        HttpAction::Discover,
        HttpAction::ModernCall,
        HttpAction::ChangeCatalog,
        HttpAction::AwaitResponses,
        HttpAction::Discover,
    ]);
    modern.extend([
        LONG_WAIT,
        HttpAction::AwaitResponses,
        LONG_WAIT,
        HttpAction::Discover,
        HttpAction::AwaitResponses,
    ]);
    modern
}

/// Clients with sessions that lose connections and resume streams, and some without sessions.
fn fault_plan(seed: u64, breaks: Option<ServerFault>) -> HttpPlan {
    let (session, modern) = (session_actions(), modern_actions());
    let visits = [&session, &modern, &session, &modern].into_iter().enumerate();
    let visits =
        visits.map(|(index, actions)| (Duration::from_millis(2 * index as u64), actions.clone()));
    HttpPlan {
        seed,
        shards: 2,
        options: plan::options(),
        faults: Faults::NONE,
        clients: visits.collect(),
        drain_at: None,
        stall_chance: None,
        server_fault: breaks,
    }
}

/// Requires that some run with this fault fails, and each with one of the `complaints`.
#[track_caller]
fn assert_detected(breaks: ServerFault, complaints: &[&str]) {
    let mut caught = 0;
    for seed in 0..SEEDS {
        let Err(reason) = simulation::run(&fault_plan(seed, Some(breaks))) else { continue };
        let is_known = complaints.iter().any(|complaint| reason.contains(complaint));
        assert!(is_known, "seed {seed} with {breaks:?}: {reason}");
        caught += 1;
    }
    assert!(caught > 0, "{breaks:?} was never caught");
}

#[test]
fn runs_without_server_fault_pass() {
    for seed in 0..SEEDS {
        simulation::run(&fault_plan(seed, None))
            .unwrap_or_else(|reason| panic!("seed {seed}: {reason}"));
    }
}

#[test]
fn lost_response_is_detected() {
    assert_detected(
        ServerFault::ResponseLost,
        &["has no response", "does not answer", "was not subscribed to", "does not belong to"],
    );
}

#[test]
fn duplicated_response_is_detected() {
    assert_detected(
        ServerFault::ResponseDuplicated,
        &["unexpected", "does not answer", "bytes after"],
    );
}

#[test]
fn response_on_wrong_connection_is_detected() {
    assert_detected(
        ServerFault::ResponseMisrouted,
        // The client that it was for has lost it.
        &[
            "unexpected",
            "does not answer",
            "has no response",
            "is not for",
            "was not subscribed to",
        ],
    );
}

#[test]
fn lost_bytes_are_detected() {
    assert_detected(
        ServerFault::BytesLost,
        &["no response", "is not JSON", "is not a status line", "of a response"],
    );
}

#[test]
fn duplicated_bytes_are_detected() {
    assert_detected(
        ServerFault::BytesDuplicated,
        &["is not JSON", "is not a status line", "no response", "of a response"],
    );
}

#[test]
fn reordered_bytes_are_detected() {
    assert_detected(
        ServerFault::BytesReordered,
        &["is not a status line", "no response", "is not JSON", "of a response"],
    );
}

#[test]
fn lost_event_is_detected() {
    assert_detected(
        ServerFault::EventLost,
        &["expected number", "does not belong to", "ends", "no notification of"],
    );
}

#[test]
fn duplicated_event_is_detected() {
    assert_detected(
        ServerFault::EventDuplicated,
        &[
            "expected number",
            "does not belong to",
            "follows progress",
            "change notifications for",
            "no notification of",
        ],
    );
}

#[test]
fn reordered_events_are_detected() {
    assert_detected(
        ServerFault::EventsReordered,
        &[
            "expected number",
            "does not belong to",
            "ends",
            "change notifications for",
            "no notification of",
        ],
    );
}

#[test]
fn misnumbered_event_is_detected() {
    assert_detected(ServerFault::EventRenumbered, &["expected number"]);
}

#[test]
fn event_on_wrong_stream_is_detected() {
    assert_detected(
        ServerFault::EventMisrouted,
        &[
            "continues on another",
            "outside of a session",
            "is not for",
            "does not belong to",
            "change notifications for",
            "no notification of",
            "does not answer",
            "has no id",
        ],
    );
}

#[test]
fn stream_ended_early_is_detected() {
    assert_detected(ServerFault::StreamEnded, &["the stream of"]);
}

#[test]
fn stream_resumed_at_wrong_event_is_detected() {
    let complaints = ["expected number", "has no response", "continues on another", "status 4"];
    assert_detected(ServerFault::ResumedFromStart, &complaints);
    assert_detected(ServerFault::ResumedTooLate, &complaints);
    assert_detected(ServerFault::ResumptionForgotten, &complaints);
}

#[test]
fn forgotten_session_is_detected() {
    assert_detected(ServerFault::SessionForgotten, &["expired early", "status 404"]);
}

#[test]
fn swapped_sessions_are_detected() {
    assert_detected(
        ServerFault::SessionsSwapped,
        &[
            "status 400",
            "is not for",
            "status 409",
            "no notification of",
            "change notifications for",
            "expected number",
            "continues on another",
            "belong",
            "changed from",
            "the stream of",
            "has no response",
        ],
    );
}

#[test]
fn reused_session_id_is_detected() {
    assert_detected(ServerFault::SessionIdReused, &["two sessions have the id"]);
}

#[test]
fn duplicated_list_change_is_detected() {
    assert_detected(
        ServerFault::ListChangeDuplicated,
        &["change notifications for", "expected number"],
    );
}

#[test]
fn lost_list_change_is_detected() {
    assert_detected(
        ServerFault::ListChangeLost,
        &["no notification of catalog version", "expected number"],
    );
}

#[test]
fn old_catalog_version_after_newer_is_detected() {
    assert_detected(ServerFault::CatalogVersionOld, &["is seen after"]);
}

/// Runs with each fault.
const SEEDS: u64 = 8;
