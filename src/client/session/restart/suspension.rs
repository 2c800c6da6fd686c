//! A session outlives its connection: calls wait for the next one.

use crate::error::ClientError;
use crate::session::Phase;
use crate::session::Session;
use crate::session::event::SessionEvent;
use crate::session::refusal::{closed, explain_end};
use crate::session::repeats::begin_repeat;
use crate::session::side_requests::SideRequests;
use corelane_base::time::Instant;
use corelane_protocol::eras::Method;

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
