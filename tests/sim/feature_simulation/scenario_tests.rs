//! Scenarios written by hand: a client leaves in the middle of each exchange of two steps.

use std::time::Duration;

use corelane_engine::ring::sim::Faults;
use corelane_protocol::revision::Revision;

use crate::feature_simulation::action::{Action, TaskChoice};
use crate::feature_simulation::messages::ReplyKind;
use crate::feature_simulation::simulation::{self, FeaturePlan, FeatureReport};

/// Runs clients that connect one after the other, 20 ms apart, to two shards.
fn run_clients(visits: &[(Revision, &[Action])]) -> FeatureReport {
    let visits = visits.iter().enumerate().map(|(index, (revision, actions))| {
        (Duration::from_millis(20 * index as u64), *revision, actions.to_vec())
    });
    let plan = FeaturePlan {
        seed: 1,
        shards: 2,
        options: simulation::options(),
        faults: Faults::NONE,
        is_websocket: false,
        frame_fault: None,
        clients: visits.collect(),
        drain_at: None,
        stall_chance: None,
    };
    let report = simulation::run(&plan).unwrap_or_else(|reason| panic!("{reason}"));
    assert!(report.released_at.is_some());
    report
}

const MODERN: Revision = Revision::LATEST;
const LEGACY: Revision = Revision::LATEST_LEGACY;
const CALL_INPUT_TOOL: Action = Action::Call("test_input_required_result_elicitation");
const RETRY: Action = Action::Retry(ReplyKind::Accept);
const WAIT_SHORT: Action = Action::Wait(Duration::from_millis(8));
const WAIT_MINIMAL: Action = Action::Wait(Duration::from_micros(100));
const WAIT_LONG: Action = Action::Wait(Duration::from_millis(400));
const CALL_CONFIRM_TASK: Action = Action::CallAsTask("confirm_delete");
const ACCEPT: Action = Action::UpdateTask(ReplyKind::Accept);

#[test]
fn request_state_is_used_once_across_connections() {
    let asks: &[Action] = &[CALL_INPUT_TOOL, Action::AwaitResponses, Action::Reset];
    let goes_on: &[Action] = &[RETRY, Action::ReplayState, Action::AwaitResponses];
    let report = run_clients(&[
        (MODERN, asks),
        (MODERN, goes_on),
        (MODERN, &[Action::ReplayState, WAIT_SHORT]),
    ]);
    let totals = report.totals;
    assert_eq!(
        (totals.input_required_results, totals.states_accepted, totals.states_refused_as_used),
        (1, 1, 2),
        "{totals}"
    );
}

#[test]
fn expired_request_state_is_refused() {
    let report = run_clients(&[(
        MODERN,
        &[CALL_INPUT_TOOL, Action::AwaitResponses, WAIT_LONG, RETRY, Action::AwaitResponses],
    )]);
    assert_eq!(
        (report.totals.states_expired, report.totals.states_accepted),
        (1, 0),
        "{}",
        report.totals
    );
}

#[test]
fn late_or_invalid_responses_end_each_call_once() {
    let late: &[Action] =
        &[CALL_INPUT_TOOL, WAIT_LONG, Action::Respond(ReplyKind::Accept), Action::AwaitResponses];
    let twice: &[Action] = &[
        CALL_INPUT_TOOL,
        WAIT_SHORT,
        Action::Respond(ReplyKind::Accept),
        Action::RespondAgain,
        Action::AwaitResponses,
    ];
    let badly: &[Action] =
        &[CALL_INPUT_TOOL, WAIT_SHORT, Action::Respond(ReplyKind::Invalid), Action::AwaitResponses];
    let never: &[Action] = &[CALL_INPUT_TOOL, WAIT_SHORT, Action::AwaitResponses];
    let vanishes: &[Action] = &[CALL_INPUT_TOOL, WAIT_SHORT, Action::Reset];
    let visits = [late, twice, badly, never, vanishes].map(|actions| (LEGACY, actions));
    let totals = run_clients(&visits).totals;
    // Five handshakes and four calls.
    assert_eq!(
        (totals.responses, totals.client_requests, totals.client_responses),
        (9, 5, 3),
        "{totals}"
    );
    assert_eq!((totals.client_requests_cancelled, totals.clients_vanished), (2, 1), "{totals}");
}

#[test]
fn task_survives_its_client_and_another_completes_it() {
    let begins: &[Action] = &[CALL_CONFIRM_TASK, Action::AwaitResponses, Action::Reset];
    let get = Action::GetTask(TaskChoice::Any);
    let answers: &[Action] = &[
        Action::Listen,
        get,
        Action::AwaitResponses,
        ACCEPT,
        Action::AwaitResponses,
        get,
        WAIT_SHORT,
    ];
    let totals = run_clients(&[(MODERN, begins), (MODERN, answers)]).totals;
    assert_eq!((totals.tasks_created, totals.tasks_finished), (1, 1), "{totals}");
}

#[test]
fn task_continues_when_its_session_vanishes() {
    let begins: &[Action] = &[CALL_CONFIRM_TASK, WAIT_SHORT, Action::Reset];
    let looks: &[Action] =
        &[Action::AwaitTaskResult, Action::GetTask(TaskChoice::Any), Action::AwaitResponses];
    let totals = run_clients(&[(LEGACY, begins), (LEGACY, looks)]).totals;
    assert_eq!(
        (totals.tasks_created, totals.tasks_finished, totals.client_requests),
        (1, 1, 1),
        "{totals}"
    );
}

#[test]
fn unclaimed_task_expires_after_its_ttl() {
    let begins: &[Action] =
        &[Action::CallAsTask("multi_input"), Action::AwaitResponses, Action::Close];
    let late =
        [WAIT_LONG, WAIT_LONG, WAIT_LONG, Action::GetTask(TaskChoice::Any), Action::AwaitResponses];
    let totals = run_clients(&[(MODERN, begins), (MODERN, &late)]).totals;
    assert_eq!(
        (totals.tasks_created, totals.tasks_expired, totals.tasks_finished),
        (1, 1, 0),
        "{totals}"
    );
}

#[test]
fn vanished_or_unread_subscribers_leave_no_stream() {
    let reset: &[Action] = &[Action::Listen, Action::AwaitResponses, WAIT_LONG, Action::Reset];
    let stops_reading: &[Action] =
        &[Action::Listen, Action::AwaitResponses, Action::StopReading, WAIT_LONG, Action::Reset];
    let ends: &[Action] = &[
        Action::Listen,
        Action::CancelStream,
        Action::TouchResource,
        Action::Ping,
        Action::AwaitResponses,
    ];
    let session: &[Action] = &[Action::Subscribe, Action::AwaitResponses, WAIT_LONG, Action::Reset];
    let changes: &[Action] = &[
        Action::TouchResource,
        Action::ChangeCatalog,
        Action::TouchResource,
        Action::AwaitResponses,
    ];
    let visits = [
        (MODERN, reset),
        (MODERN, stops_reading),
        (MODERN, ends),
        (LEGACY, session),
        (MODERN, changes),
    ];
    let totals = run_clients(&visits).totals;
    assert!(totals.streams_opened >= 1, "{totals}");
    assert_eq!(totals.catalog_updates, 1, "{totals}");
}

#[test]
fn catalog_update_survives_its_vanished_client() {
    let vanishes: &[Action] =
        &[Action::AwaitResponses, Action::ChangeCatalog, WAIT_MINIMAL, Action::Reset];
    let changes: &[Action] =
        &[Action::ChangeCatalog, Action::ChangeCatalog, Action::Ping, Action::AwaitResponses];
    let listens: &[Action] =
        &[Action::Listen, Action::AwaitResponses, Action::ChangeCatalog, Action::AwaitResponses];
    let (session, stays) = (
        [Action::ChangeCatalog, Action::AwaitResponses],
        [WAIT_LONG, Action::Ping, Action::AwaitResponses],
    );
    let visits: [(Revision, &[Action]); 5] = [
        (MODERN, &stays),
        (MODERN, vanishes),
        (MODERN, changes),
        (MODERN, listens),
        (LEGACY, &session),
    ];
    let totals = run_clients(&visits).totals;
    assert_eq!(totals.catalog_updates, 5, "{totals}");
    assert_eq!(totals.clients_vanished, 1, "{totals}");
}
