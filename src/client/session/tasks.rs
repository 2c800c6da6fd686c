//! Calls that wait for tasks of the server: they are polled at the interval of the server until
//! they end, and get the input that they require.
//!
//! Invariants: a call that waits for a task is either here, or in flight with the request that
//! polls its task. A task that no caller knows is cancelled with its call.

use std::collections::BTreeMap;
use std::time::Duration;

use super::calls::Call;
use super::context::SessionContext;
use super::errors::timeout_error;
use super::event::{MessageSink, ReceivedMessage, SessionEvent};
use super::followed_task::{FollowedTask, TaskProgress, TaskState};
use super::request::{CallRequest, TaskMode};
use super::side_requests::{self, SideRequest};
use super::{Phase, Session};
use crate::error::{ClientError, ClientErrorKind};
use corelane_base::time::Instant;
use corelane_protocol::eras::Method;
use corelane_protocol::json::{Value, write};
use corelane_protocol::revision::Revision;

/// Time that a server has to answer `tasks/result`, which waits for the end of the task.
const RESULT_TIMEOUT: Duration = Duration::from_hours(24 * 365);

/// The calls between two polls of their tasks, by the ids of their first requests.
#[derive(Debug)]
pub(super) struct TaskTable<T>(BTreeMap<u64, (Call<T>, FollowedTask)>);

impl<T> TaskTable<T> {
    pub(super) const fn new() -> Self {
        Self(BTreeMap::new())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns a call between two polls, by the id of its first request.
    pub(super) fn find(&self, call: u64) -> Option<&Call<T>> {
        self.0.get(&call).map(|(call, _)| call)
    }

    /// Returns when [`expire`] must be called next.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.0.values().map(|(_, task)| task.deadline()).min()
    }

    /// Takes all calls, in order.
    pub(super) fn take_all(&mut self) -> Vec<Call<T>> {
        std::mem::take(&mut self.0).into_values().map(|(call, _)| call).collect()
    }

    /// Takes the calls for which something is to be done.
    fn take_due(&mut self, now: Instant) -> Vec<(Call<T>, FollowedTask)> {
        let due = self.0.extract_if(.., |_, (_, task)| task.deadline() <= now);
        due.map(|(_, entry)| entry).collect()
    }

    /// Takes the calls that wait for a task.
    fn take_of_task(&mut self, id: &str) -> Vec<(Call<T>, FollowedTask)> {
        let waiting = self.0.extract_if(.., |_, (_, task)| &*task.id == id);
        waiting.map(|(_, entry)| entry).collect()
    }
}

/// Handles the result of a call that is a task, or the result of a poll.
pub(super) fn advance<T: Clone, S: MessageSink>(
    session: &mut Session<T>,
    mut call: Call<T>,
    result: Value<'_>,
    ctx: &mut SessionContext<'_, T, S>,
) {
    let revision = session.revision();
    let created = if revision.is_modern() { None } else { created_task(&call, result) };
    match TaskState::read(created.unwrap_or(result), revision) {
        Ok(state) => {
            let task = call.task.take().map_or_else(|| new_task(&call, &state, ctx.now), |it| *it);
            apply(session, call, task, state, ctx);
        }
        Err(error) => finish(session, call, Err(error), ctx),
    }
}

/// Returns the task that a legacy server has made of `call`, which waits for its result.
pub(super) fn created_task<'a, T>(call: &Call<T>, result: Value<'a>) -> Option<Value<'a>> {
    let follows = call.request.task == TaskMode::CreateAndFollow;
    result.as_object().filter(|_| follows)?.find("task")
}

/// Creates the state of a task that the client has just learned of.
fn new_task<T>(call: &Call<T>, state: &TaskState<'_>, now: Instant) -> FollowedTask {
    let is_owned = call.request.task != TaskMode::Await;
    let limit = call.request.timeout.map(|timeout| (call.deadline(), timeout));
    FollowedTask::new(state.id, is_owned, limit, now)
}

/// Does what the state of a task requires.
fn apply<T: Clone, S: MessageSink>(
    session: &mut Session<T>,
    call: Call<T>,
    mut task: FollowedTask,
    state: TaskState<'_>,
    ctx: &mut SessionContext<'_, T, S>,
) {
    let is_modern = session.revision().is_modern();
    if call.request.wants_task_status {
        let message = result_message(call.first_id, state.value, session.revision());
        ctx.events.push(SessionEvent::TaskStatus { token: call.token.clone(), message });
    }
    match state.progress {
        TaskProgress::Working => {}
        TaskProgress::InputRequired(requests) if is_modern => {
            let declared = session.config.capabilities();
            let (id, known) = (call.first_id, &mut task.known_inputs);
            match session.inputs.insert_task_inputs(id, known, requests, declared) {
                Ok(inputs) => {
                    ctx.events.extend(inputs.into_iter().map(SessionEvent::InputRequired));
                }
                Err(error) => {
                    cancel_task(session, &task, ctx);
                    return finish(session, call, Err(error), ctx);
                }
            }
        }
        TaskProgress::InputRequired(_) | TaskProgress::Ended(None) if !is_modern => {
            return request_result(session, call, task, ctx);
        }
        TaskProgress::InputRequired(_) | TaskProgress::Ended(None) => {
            let text = "the task has ended with neither a result nor an error";
            let error = ClientError::new(ClientErrorKind::Protocol, text);
            return finish(session, call, Err(error), ctx);
        }
        TaskProgress::Ended(Some(Ok(result))) => {
            let message = result_message(call.first_id, result, session.revision());
            return finish(session, call, Ok(message), ctx);
        }
        TaskProgress::Ended(Some(Err(error))) => {
            return finish(session, call, Err(ClientError::from_response(error)), ctx);
        }
        TaskProgress::Cancelled => {
            let error = ClientError::new(ClientErrorKind::TaskCancelled, "the task was cancelled");
            return finish(session, call, Err(error), ctx);
        }
    }
    task.schedule_poll(state.poll_interval, ctx.now);
    session.tasks.0.insert(call.first_id, (call, task));
    session.send_waiting(ctx);
}

/// Returns a response to the first request of a call.
fn result_message(id: u64, result: Value<'_>, revision: Revision) -> ReceivedMessage {
    let mut text = br#"{"jsonrpc":"2.0","id":"#.to_vec();
    write::unsigned(&mut text, id);
    text.extend_from_slice(br#","result":"#);
    result.write(&mut text);
    text.push(b'}');
    ReceivedMessage::new(text, revision, true)
}

/// Ends a call; its inputs are not required any more.
fn finish<T: Clone, S: MessageSink>(
    session: &mut Session<T>,
    call: Call<T>,
    result: Result<ReceivedMessage, ClientError>,
    ctx: &mut SessionContext<'_, T, S>,
) {
    let keys = session.inputs.remove_inputs(call.first_id);
    ctx.events.extend(keys.into_iter().map(SessionEvent::InputCancelled));
    ctx.events.push(SessionEvent::Completed { token: call.token, result });
    session.send_waiting(ctx);
}

/// Asks a legacy server for the result, which may wait for the input that it requires.
fn request_result<T: Clone, S: MessageSink>(
    session: &mut Session<T>,
    mut call: Call<T>,
    task: FollowedTask,
    ctx: &mut SessionContext<'_, T, S>,
) {
    let left = task.limit.map(|(limit, _)| limit.since(ctx.now));
    call.timeout = left.unwrap_or(RESULT_TIMEOUT);
    *call.request = task.request(Method::TasksResult);
    send(session, call, task, ctx);
}

/// Sends the request of a call about its task.
fn send<T: Clone, S: MessageSink>(
    session: &mut Session<T>,
    mut call: Call<T>,
    task: FollowedTask,
    ctx: &mut SessionContext<'_, T, S>,
) {
    let (id, revision) = (session.calls.allocate_id(), session.revision());
    call.task = Some(Box::new(task));
    session.calls.restart_timeout(&mut call, ctx.now);
    ctx.send_request(&session.config, id, &call.request, revision);
    session.calls.insert(id, call);
}

/// Polls the tasks that are due, and ends the calls that have no time left.
pub(super) fn expire<T: Clone, S: MessageSink>(
    session: &mut Session<T>,
    ctx: &mut SessionContext<'_, T, S>,
) {
    let is_ready = matches!(session.phase, Phase::Ready(_));
    for (mut call, mut task) in session.tasks.take_due(ctx.now) {
        match task.limit {
            Some((limit, timeout)) if limit <= ctx.now => {
                cancel_task(session, &task, ctx);
                finish(session, call, Err(timeout_error(timeout, None)), ctx);
            }
            _ if is_ready => {
                let time = session.config.options().request_timeout;
                let left = task.limit.map_or(time, |(limit, _)| limit.since(ctx.now));
                call.timeout = time.min(left);
                let wants_task_status = call.request.wants_task_status;
                let request = task.request(Method::TasksGet);
                *call.request = CallRequest { task: TaskMode::Await, wants_task_status, ..request };
                send(session, call, task, ctx);
            }
            _ => {
                task.schedule_poll(None, ctx.now);
                session.tasks.0.insert(call.first_id, (call, task));
            }
        }
    }
}

/// Handles a notification of the state of a task.
pub(super) fn handle_notification<T: Clone, S: MessageSink>(
    session: &mut Session<T>,
    params: Option<Value<'_>>,
    ctx: &mut SessionContext<'_, T, S>,
) {
    let revision = session.revision();
    let state = params.map(|params| TaskState::read(params, revision));
    let Some(Ok(state)) = state else { return };
    for (call, task) in session.tasks.take_of_task(state.id) {
        apply(session, call, task, state, ctx);
    }
}

/// Sends an input of a task.
pub(super) fn provide_input<T: Clone, S: MessageSink>(
    session: &mut Session<T>,
    call: u64,
    name: &str,
    result: Result<&[u8], ClientError>,
    ctx: &mut SessionContext<'_, T, S>,
) {
    let response = match result {
        Ok(response) => response,
        Err(error) => return fail(session, call, error, ctx),
    };
    let waiting = session.tasks.0.get(&call).map(|(_, task)| task);
    let in_flight = || session.calls.find(call)?.task.as_deref();
    let Some(task) = waiting.or_else(in_flight) else { return };
    let request = task.update_request(name, response);
    side_requests::send(session, &request, SideRequest::TaskUpdate { call }, ctx);
}

/// Ends a call that waits for a task, and the task if no caller knows it.
pub(super) fn fail<T: Clone, S: MessageSink>(
    session: &mut Session<T>,
    call: u64,
    error: ClientError,
    ctx: &mut SessionContext<'_, T, S>,
) {
    if let Some(call) = take(session, call, ctx) {
        finish(session, call, Err(error), ctx);
    }
}

/// Takes a call that waits for a task and cancels the task if no caller knows it.
pub(super) fn take<T: Clone, S: MessageSink>(
    session: &mut Session<T>,
    call: u64,
    ctx: &mut SessionContext<'_, T, S>,
) -> Option<Call<T>> {
    if let Some((call, task)) = session.tasks.0.remove(&call) {
        cancel_task(session, &task, ctx);
        return Some(call);
    }
    session.calls.find(call)?.task.as_ref()?;
    let (id, mut call) = session.calls.remove_call(call)?;
    if let Some(id) = id {
        ctx.send_cancellation(session.revision(), id, None);
    }
    abandon(session, &mut call, ctx);
    Some(call)
}

/// Cancels the task of a call that has ended early, if no caller knows it.
pub(super) fn abandon<T, S: MessageSink>(
    session: &mut Session<T>,
    call: &mut Call<T>,
    ctx: &mut SessionContext<'_, T, S>,
) {
    if let Some(task) = call.task.take() {
        cancel_task(session, &task, ctx);
    }
}

fn cancel_task<T, S: MessageSink>(
    session: &mut Session<T>,
    task: &FollowedTask,
    ctx: &mut SessionContext<'_, T, S>,
) {
    if task.is_owned {
        side_requests::send(session, &task.request(Method::TasksCancel), SideRequest::Ignored, ctx);
    }
}
