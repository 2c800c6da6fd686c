//! The session as the responses of its server reach it.

use super::exchange::Exchange;
use super::queue::HttpQueue;
use super::response::no_notifications;
use crate::error::ClientError;
use crate::io::call_slot::CallToken;
use crate::io::workspace::Workspace;
use crate::retry::RetryEvent;
use crate::session::{MessageSink, Session, SessionContext, SessionEvent};
use corelane_base::time::Instant;
use corelane_protocol::json::PaddedText;

/// A session with what its methods are passed, except the sink.
#[derive(Debug)]
pub struct SessionInput<'a, S> {
    pub session: &'a mut S,
    pub workspace: &'a mut Workspace,
    pub now: Instant,
}

/// A session of MCP.
pub(super) type McpInput<'a> = SessionInput<'a, Session<CallToken>>;

impl McpInput<'_> {
    /// Handles one message of the server.
    pub(super) fn receive<S: MessageSink>(&mut self, text: PaddedText<'_>, sink: &mut S) {
        let Workspace { parser, buffers, events, .. } = &mut *self.workspace;
        let mut ctx = SessionContext { now: self.now, sink, events, buffers };
        self.session.receive(text, parser, &mut ctx);
    }

    /// Fails a request, if there is one, for which no response will come.
    pub(super) fn fail<S: MessageSink>(
        &mut self,
        id: Option<u64>,
        error: &ClientError,
        sink: &mut S,
    ) {
        if let Some(id) = id {
            self.session.fail_request(
                id,
                error.clone(),
                &mut self.workspace.context(sink, self.now),
            );
        }
    }

    /// Fails the request whose response an exchange was to bring, or the subscriptions whose
    /// notifications the stream of the session was to bring.
    pub(super) fn fail_exchange(
        &mut self,
        exchange: &Exchange,
        error: &ClientError,
        queue: &mut HttpQueue,
    ) {
        if exchange.is_session_stream() {
            self.refuse_stream(&no_notifications(error), queue);
        } else {
            self.fail(exchange.call(), error, queue);
        }
    }

    /// Fails the subscriptions of a session that has no stream.
    pub(super) fn refuse_stream(&mut self, error: &ClientError, queue: &mut HttpQueue) {
        tracing::debug!(%error, "no notifications can arrive");
        queue.note_refused_stream();
        self.session.fail_subscriptions(error, &mut self.workspace.context(queue, self.now));
    }

    /// Notes that the server has refused a request for now, if there is one.
    pub(super) fn note_refusal(&mut self, id: Option<u64>, error: ClientError) {
        if let Some(id) = id {
            self.session.note_refusal(id, error);
        }
    }

    /// Reports that a request is sent again.
    pub(super) fn report_retry(&mut self, event: RetryEvent) {
        self.workspace.events.push(SessionEvent::Repeated(Box::new(event)));
    }

    /// Sends the calls that wait, as far as the sink is not full.
    pub(super) fn send_waiting<S: MessageSink>(&mut self, sink: &mut S) {
        self.session.send_waiting(&mut self.workspace.context(sink, self.now));
    }

    /// Begins the handshake again.
    pub(super) fn renew<S: MessageSink>(&mut self, sink: &mut S) {
        self.session.renew(&mut self.workspace.context(sink, self.now));
    }
}
