//! Sessions that are begun again: what outlives a connection, a session of the server, a login.

use std::time::Duration;

use corelane_base::time::Instant;
use corelane_protocol::eras::Method;

use crate::error::ClientError;
use crate::session::context::SessionContext;
use crate::session::event::{MessageSink, SessionEvent};
use crate::session::refusal::{closed, explain_end};
use crate::session::repeats::begin_repeat;
use crate::session::side_requests::SideRequests;
use crate::session::{Phase, Session, refusal};

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
        refusal::timeout_error(timeout, self.invalid_text.as_deref().filter(|_| is_ready))
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
        self.calls.waiting() + self.calls.delayed() > 0
    }

    /// Returns whether nothing is in flight, and nothing is subscribed to.
    pub(crate) fn is_idle(&self) -> bool {
        self.calls.waiting() + self.calls.in_flight() + self.calls.delayed() == 0
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
