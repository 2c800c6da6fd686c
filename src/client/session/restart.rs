//! What is begun again: sessions, after the loss of a connection, of the session of the server or
//! after a login; and calls that have failed, as the [`RetryPolicy`] of the client allows.

use std::time::Duration;

use super::calls::Call;
use super::context::SessionContext;
use super::errors::{closed, explain_end};
use super::event::{MessageSink, SessionEvent};
use super::side_requests::SideRequests;
use super::{Phase, Session, errors};
use crate::error::{ClientError, ClientErrorKind};
use crate::retry::{RetryEvent, RetryPolicy};
use corelane_base::time::Instant;
use corelane_protocol::eras::Method;

impl<T: Clone> Session<T> {
    /// Begins the handshake of a legacy session again. Calls in flight still wait for their
    /// responses; new calls wait for the handshake.
    pub(crate) fn renew<S: MessageSink>(&mut self, ctx: &mut SessionContext<'_, T, S>) {
        if let Phase::Ready(server) = &self.phase
            && !server.revision.is_modern()
        {
            self.send_initialize(server.revision, ctx);
        }
    }

    /// Returns whether the request `id` waits for its response.
    pub(crate) fn is_waiting_for(&self, id: u64) -> bool {
        match &self.phase {
            Phase::Handshake(request) if request.id == id => true,
            _ => self.calls.get(id).is_some() || self.side_requests.contains(id),
        }
    }

    /// Notes that the server has refused the request `id` for now because of `error`; it is sent
    /// again.
    pub(crate) fn note_refusal(&mut self, id: u64, error: ClientError) {
        let mut refusals = std::mem::take(&mut self.refusals);
        refusals.insert(id, error);
        // Those of requests that have ended meanwhile are of no use.
        refusals.retain(|id, _| self.is_waiting_for(*id));
        self.refusals = refusals;
    }

    /// Returns why the request `id` fails that has no response within `timeout`: the last refusal
    /// of the server, if it has refused it.
    pub(crate) fn timeout_error(&mut self, id: Option<u64>, timeout: Duration) -> ClientError {
        if let Some(refusal) = id.and_then(|id| self.refusals.remove(&id)) {
            return refusal.after_refusals(timeout);
        }
        // The failure of a handshake has the text itself.
        let is_ready = matches!(self.phase, Phase::Ready(_));
        errors::timeout_error(timeout, self.invalid_text.as_deref().filter(|_| is_ready))
    }

    /// Lets nothing of the session expire until [`resume`].
    pub(crate) fn pause(&mut self, now: Instant) {
        self.paused_at.get_or_insert(now);
    }

    /// Ends a pause, which does not count for the handshake and the calls.
    pub(crate) fn resume(&mut self, now: Instant) {
        let Some(paused_at) = self.paused_at.take() else { return };
        let pause = now.since(paused_at);
        if let Phase::Handshake(request) = &mut self.phase {
            request.deadline = request.deadline.after(pause);
        }
        self.calls.postpone(pause);
    }
}

impl<T: Clone> Session<T> {
    /// Handles the loss of the connection; [`Session::start`] begins the handshake on the next one.
    /// Calls that were not sent wait for it, and so do subscriptions. Calls that were sent may have
    /// run; they fail with [`Closed`](crate::ClientErrorKind::Closed), except idempotent
    /// ones if `resends`, and those that the policy of the client sends again.
    pub(crate) fn suspend(
        &mut self,
        error: ClientError,
        resends: bool,
        now: Instant,
        events: &mut Vec<SessionEvent<T>>,
    ) {
        let error = explain_end(self.server_error.take(), error);
        if let Phase::Handshake(_) | Phase::New = self.phase {
            events.push(SessionEvent::HandshakeFailed(error.clone()));
        }
        let (mut failed, keys) = self.inputs.take_all();
        events.extend(keys.into_iter().map(SessionEvent::InputCancelled));
        failed.extend(self.tasks.take_all());
        self.side_requests = SideRequests::default();
        self.calls.resume_unless(false, now);
        let mut repeated = self.subscriptions.take_all();
        let policy = self.config.options().retry;
        repeated.extend(self.calls.take_delayed());
        for mut call in self.calls.take_in_flight() {
            let method = call.request.method;
            let may_run_twice = call.request.is_idempotent || is_idempotent(method);
            let is_repeated = method == Method::SubscriptionsListen
                || resends && policy.repeats_idempotent() && may_run_twice
                || begin_repeat(&policy, &mut call, &closed(&error), events).is_some();
            if is_repeated { repeated.push(call) } else { failed.push(call) }
        }
        self.calls.push_waiting_first(repeated);
        for call in failed {
            let result = Err(closed(&error));
            events.push(SessionEvent::Completed { token: call.token, result });
        }
        self.phase = Phase::New;
        self.suspended = Some(error);
    }

    /// Returns whether a call waits to be sent.
    pub(crate) fn has_waiting(&self) -> bool {
        self.calls.waiting_count() + self.calls.delayed_count() > 0
    }

    /// Returns whether nothing is in flight, and nothing is subscribed to.
    pub(crate) fn is_idle(&self) -> bool {
        self.calls.waiting_count() + self.calls.in_flight_count() + self.calls.delayed_count() == 0
            && self.tasks.is_empty()
            && self.subscriptions.is_empty()
            && self.inputs.is_empty()
    }
}

/// Returns whether a request may be sent again that the server may have run.
const fn is_idempotent(method: Method) -> bool {
    matches!(
        method,
        Method::Ping
            | Method::Discover
            | Method::ToolsList
            | Method::PromptsList
            | Method::PromptsGet
            | Method::ResourcesList
            | Method::ResourcesTemplatesList
            | Method::ResourcesRead
            | Method::CompletionComplete
    )
}

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
fn begin_repeat<T>(
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
