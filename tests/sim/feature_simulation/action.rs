//! Actions of a client. Which state, task or stream an action refers to is decided when it is
//! performed.

use std::time::Duration;

use corelane_base::random::Random;

use crate::feature_simulation::messages::ReplyKind;

/// One action of a client; actions unknown to its revision are skipped.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Action {
    /// Calls a tool.
    Call(&'static str),
    /// Calls a tool that runs as a task, with arguments where it needs some.
    CallAsTask(&'static str),
    /// Responds to a client request.
    Respond(ReplyKind),
    /// Responds to a request that was answered or cancelled before.
    RespondAgain,
    /// Calls again with the `requestState` of any connection and input responses.
    Retry(ReplyKind),
    /// Calls again with a `requestState` and no input responses.
    RetryWithoutResponses,
    /// Calls again with a `requestState` that was sent before.
    ReplayState,
    /// Cancels a request.
    CancelCall,
    /// `tasks/get`.
    GetTask(TaskChoice),
    /// `tasks/update` with responses to the task's input requests.
    UpdateTask(ReplyKind),
    /// `tasks/cancel`.
    CancelTask(TaskChoice),
    /// `tasks/result`.
    AwaitTaskResult,
    /// Opens a stream of all notifications, with some tasks.
    Listen,
    /// Cancels a stream.
    CancelStream,
    /// `resources/subscribe` of a legacy session.
    Subscribe,
    /// `resources/unsubscribe` of a legacy session.
    Unsubscribe,
    /// Calls a tool that reports a resource as updated.
    TouchResource,
    /// Calls a tool that changes the catalog.
    ChangeCatalog,
    /// Sends a request that is answered at once.
    Ping,
    /// Does nothing for this long.
    Wait(Duration),
    /// Reads nothing until [`Self::ResumeReading`].
    StopReading,
    ResumeReading,
    /// Waits until every response has arrived.
    AwaitResponses,
    Close,
    Reset,
}

/// Which task an action refers to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum TaskChoice {
    /// A task of any connection.
    Any,
    /// A task that only clients of the other era can access.
    OtherEra,
    /// A task that does not exist.
    Unknown,
}

/// Tools with input requests.
pub(crate) const INPUT_TOOLS: [&str; 3] = [
    "test_input_required_result_elicitation",
    "test_input_required_result_multi_round",
    "test_input_required_result_multiple_inputs",
];

/// Tools that run as tasks.
pub(crate) const TASK_TOOLS: [&str; 5] =
    ["confirm_delete", "failing_job", "multi_input", "protocol_error_job", "slow_compute"];

/// Draws the actions of a client.
pub(crate) fn draw_actions(random: &mut Random) -> Vec<Action> {
    let mut actions = Vec::new();
    // Most clients do one kind of thing, so that it is completed.
    let bent = random.below(4);
    for _ in 0..4 + random.below(20) {
        let kind = if random.chance(1, 3) { random.below(4) } else { bent };
        match kind {
            0 => add_input_action(random, &mut actions),
            1 => add_task_action(random, &mut actions),
            2 => add_subscription_action(random, &mut actions),
            _ => add_reading_action(random, &mut actions),
        }
    }
    match random.below(6) {
        0 => actions.push(Action::Close),
        1 => actions.push(Action::Reset),
        2 => actions.extend([Action::StopReading, draw_wait(random, 300_000), Action::Reset]),
        _ => actions.extend([Action::ResumeReading, Action::AwaitResponses, Action::Close]),
    }
    actions
}

fn add_input_action(random: &mut Random, actions: &mut Vec<Action>) {
    actions.push(match random.below(12) {
        0..=3 => Action::Call(INPUT_TOOLS[random.below(INPUT_TOOLS.len())]),
        4 | 5 => Action::Respond(draw_reply_kind(random)),
        6 => Action::RespondAgain,
        7 | 8 => Action::Retry(draw_reply_kind(random)),
        9 => Action::RetryWithoutResponses,
        10 => Action::ReplayState,
        _ => Action::CancelCall,
    });
    actions.push(draw_wait(random, 8_000));
    // A legacy session responds to client requests, a modern client calls again.
    actions
        .extend([Action::Respond(draw_reply_kind(random)), Action::Retry(draw_reply_kind(random))]);
}

fn add_task_action(random: &mut Random, actions: &mut Vec<Action>) {
    let whose = match random.below(10) {
        0 => TaskChoice::OtherEra,
        1 => TaskChoice::Unknown,
        _ => TaskChoice::Any,
    };
    actions.push(match random.below(10) {
        0..=2 => Action::CallAsTask(TASK_TOOLS[random.below(TASK_TOOLS.len())]),
        3 | 4 => Action::GetTask(whose),
        5 | 6 => Action::UpdateTask(draw_reply_kind(random)),
        7 => Action::CancelTask(whose),
        8 => Action::AwaitTaskResult,
        _ => Action::Respond(draw_reply_kind(random)),
    });
}

fn add_subscription_action(random: &mut Random, actions: &mut Vec<Action>) {
    actions.push(match random.below(9) {
        0 | 1 => Action::Listen,
        2 => Action::CancelStream,
        3 => Action::Subscribe,
        4 => Action::Unsubscribe,
        5 | 6 => Action::TouchResource,
        _ => Action::ChangeCatalog,
    });
}

fn add_reading_action(random: &mut Random, actions: &mut Vec<Action>) {
    actions.push(match random.below(10) {
        0 => Action::StopReading,
        1 | 2 => Action::ResumeReading,
        3 => Action::Ping,
        4 => draw_wait(random, 700_000),
        5 => Action::AwaitResponses,
        _ => draw_wait(random, 20_000),
    });
}

const fn draw_reply_kind(random: &mut Random) -> ReplyKind {
    match random.below(6) {
        0 => ReplyKind::Invalid,
        1 => ReplyKind::Decline,
        _ => ReplyKind::Accept,
    }
}

const fn draw_wait(random: &mut Random, microseconds_max: usize) -> Action {
    Action::Wait(Duration::from_micros(random.below(microseconds_max) as u64))
}
