//! Calls that are sent again after a failure, as the [`RetryPolicy`] of the client allows.
//!
//! [`RetryPolicy`]: crate::RetryPolicy

use std::time::Duration;

use super::calls::Call;
use super::context::SessionContext;
use super::event::{MessageSink, SessionEvent};
use super::{Phase, Session};
use crate::error::{ClientError, ClientErrorKind};
use crate::retry::{RetryEvent, RetryPolicy};

/// Ends a call that was sent and has failed, or sends it again later.
pub(super) fn fail_or_repeat<T, S: MessageSink>(
    session: &mut Session<T>,
    mut call: Call<T>,
    error: ClientError,
    ctx: &mut SessionContext<'_, T, S>,
) {
    let was_repeated = is_refusal(&error) && ctx.sink.repeats_refusals();
    let policy = Some(session.config.options().retry).filter(|_| !was_repeated);
    match policy.and_then(|policy| begin_repeat(&policy, &mut call, &error, ctx.events)) {
        Some(delay) => session.calls.delay(call, ctx.now.after(delay)),
        None => ctx.events.push(SessionEvent::Completed { token: call.token, result: Err(error) }),
    }
}

/// Returns whether the server has answered.
fn is_refusal(error: &ClientError) -> bool {
    matches!(
        error.kind(),
        ClientErrorKind::Rpc { .. }
            | ClientErrorKind::Unauthorized { .. }
            | ClientErrorKind::Http { .. }
    )
}

/// Notes that a call which was sent and has failed is sent again. Returns the time before it, or
/// `None` if it is not: its policy does not allow it, or a part of it has succeeded.
pub(super) fn begin_repeat<T>(
    policy: &RetryPolicy,
    call: &mut Call<T>,
    error: &ClientError,
    events: &mut Vec<SessionEvent<T>>,
) -> Option<Duration> {
    if !policy.repeats_after_error(error) || call.rounds > 0 || call.task.is_some() {
        return None;
    }
    let delay = policy.next_delay(call.repeats)?;
    let delay = error.retry_after().unwrap_or(delay);
    call.repeats += 1;
    let (method, name) = (call.request.method.as_str(), call.request.name.as_deref());
    let event = RetryEvent::new(method, name, error.clone(), delay);
    events.push(SessionEvent::Repeated(Box::new(event)));
    Some(delay)
}

/// Sends the calls again whose delays have passed. Without a session they wait for the next one.
pub(super) fn send_due<T: Clone, S: MessageSink>(
    session: &mut Session<T>,
    ctx: &mut SessionContext<'_, T, S>,
) {
    for mut call in session.calls.take_due(ctx.now) {
        session.calls.restart_timeout(&mut call, ctx.now);
        let Phase::Ready(server) = &session.phase else {
            session.calls.insert_waiting(call);
            continue;
        };
        let (revision, id) = (server.revision, session.calls.allocate_id());
        ctx.send_request(&session.config, id, &call.request, revision);
        session.calls.insert(id, call);
    }
}
