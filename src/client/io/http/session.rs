//! The session over HTTP: what the server keeps under `Mcp-Session-Id`, its end, which the server
//! is notified of, and how the responses of the server reach it.

use std::time::Duration;

use super::exchange::McpExchange;
use super::queue::HttpQueue;
use super::response::no_notifications;
use crate::error::ClientError;
use crate::io::call_slot::CallToken;
use crate::io::workspace::Workspace;
use crate::retry::RetryEvent;
use crate::session::{MessageSink, Session, SessionContext, SessionEvent};
use corelane_base::time::Instant;
use corelane_protocol::json::PaddedText;
use corelane_transport::http::client::response_head::ResponseHead;

/// The session of a server, up to 2025-11-25.
#[derive(Debug, Default)]
pub(super) struct HttpSession {
    /// `Mcp-Session-Id`.
    id: Option<Box<str>>,
    /// Number of sessions that the server has lost.
    number: u32,
    /// The server lacks a message without which it may refuse requests.
    is_broken: bool,
    /// The session before was left because the server did not know it when its stream was to be
    /// opened; no stream was opened since.
    follows_refused_stream: bool,
}

impl HttpSession {
    /// Begins the session whose id the response to `initialize` has, or one without an id.
    pub(super) fn note(&mut self, exchange: &McpExchange, head: &ResponseHead) {
        if exchange.is_initialize() && matches!(head.status, 200..300) {
            self.id.clone_from(&head.session_id);
        }
        if exchange.is_session_stream() && head.is_event_stream() {
            self.follows_refused_stream = false;
        }
    }

    /// Returns whether a stream that is refused with status 404 may be one of a session that the
    /// server has ended: not twice in turn, since a server without a stream may answer so, too.
    pub(super) const fn may_end_with_stream(&self) -> bool {
        !self.follows_refused_stream
    }

    /// Returns the id, and the number of the session.
    pub(super) fn current(&self) -> Option<(&str, u32)> {
        self.id.as_deref().map(|id| (id, self.number))
    }

    /// Notes whether a message was lost that must precede the requests of the session.
    pub(super) const fn note_loss(&mut self, is_ordered: bool) {
        self.is_broken |= is_ordered;
    }

    pub(super) const fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Ends session `number`, which the server did not know for `exchange`. Returns `false` if it
    /// has ended before.
    pub(super) fn lose(&mut self, number: u32, exchange: &McpExchange) -> bool {
        let is_current = number == self.number;
        if is_current {
            let follows_refused_stream = exchange.is_session_stream() && !exchange.was_open();
            let number = number + 1;
            *self = Self { id: None, number, is_broken: false, follows_refused_stream };
        }
        is_current
    }
}

/// Time that the server has to end a session.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Whether the client is ending the session.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Closing {
    #[default]
    No,
    /// Until the server answers, at most until this.
    Until(Instant),
    Done,
}

impl Closing {
    /// Begins to end a session, which the server has [`CLOSE_TIMEOUT`] for.
    pub(super) fn begin(&mut self, now: Instant) {
        *self = Self::Until(now.after(CLOSE_TIMEOUT));
    }

    /// Ends the wait for the server.
    pub(super) fn end(&mut self) {
        if *self != Self::No {
            *self = Self::Done;
        }
    }

    /// Ends the wait for a server that has had its time.
    pub(super) fn expire(&mut self, now: Instant) {
        if self.deadline().is_some_and(|deadline| deadline <= now) {
            *self = Self::Done;
        }
    }

    pub(super) const fn deadline(self) -> Option<Instant> {
        match self {
            Self::Until(deadline) => Some(deadline),
            Self::No | Self::Done => None,
        }
    }
}

/// A session with what its methods are passed, except the sink.
#[derive(Debug)]
pub struct SessionAccess<'a, S> {
    pub session: &'a mut S,
    pub workspace: &'a mut Workspace,
    pub now: Instant,
}

/// A session of MCP.
pub(super) type McpAccess<'a> = SessionAccess<'a, Session<CallToken>>;

impl McpAccess<'_> {
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
        exchange: &McpExchange,
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
