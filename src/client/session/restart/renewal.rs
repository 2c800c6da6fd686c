//! What HTTP adds to a session: it is begun again once the server has forgotten it, it is paused
//! while requests wait for authorization, and requests are refused for now. Its calls stay.

use std::time::Duration;

use crate::error::ClientError;
use crate::session::context::SessionContext;
use crate::session::event::MessageSink;
use crate::session::{Phase, Session, refusal};
use corelane_base::time::Instant;

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
