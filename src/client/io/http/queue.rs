//! The messages of a session of MCP that wait for a connection.
//!
//! ```text
//!          begin_renewal: requests are parked
//! Current ───────────────────────────────────▶ Renewing ⟲ begin_renewal
//!    ▲                                             │
//!    └─────────────────────────────────────────────┘
//!          end_renewal: they wait again
//!
//!            first_stream, resumed              answered
//! Other ────────────────────────────▶ Opening ──────────▶ Other
//!    └──────────────────────────────────▶ Refused ──request_notifications──▶ Opening
//!          note_refused_stream
//! ```

use super::exchange::{ExchangeKind, McpExchange};
use super::response::{no_notifications, unresumed};
use super::waiting::{HttpExchange, WaitingExchanges};
use crate::error::ClientError;
use crate::session::{MessageSink, OutgoingKind, OutgoingMessage};
use corelane_base::time::Instant;
use corelane_protocol::revision::Revision;
use corelane_transport::http::client::event_reader::EventReader;

/// The session that requests are sent in.
#[derive(Debug, Default)]
enum SessionPhase {
    /// It is the one that the server knows, or is not begun.
    #[default]
    Current,
    /// It is begun again. The requests wait for its handshake.
    Renewing(Vec<McpExchange>),
}

/// The stream of a session.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum SessionStream {
    /// The server has answered, or none was asked for.
    #[default]
    Other,
    /// It is being opened.
    Opening,
    /// There is none, and none is tried again by itself.
    Refused,
}

/// Takes the messages of a session, in order.
#[derive(Debug, Default)]
pub struct HttpQueue {
    waiting: WaitingExchanges<McpExchange>,
    /// Requests that the session has cancelled, and streams that were resumed for a request that is
    /// answered; they may be in flight.
    ended: Vec<u64>,
    phase: SessionPhase,
    stream: SessionStream,
}

impl MessageSink for HttpQueue {
    fn send(&mut self, message: OutgoingMessage<'_>) {
        if let OutgoingKind::Cancellation { id } = message.kind {
            let is_other = |exchange: &McpExchange| match exchange.kind() {
                ExchangeKind::Request { id: other, .. } => *other != id,
                _ => true,
            };
            if self.waiting.retain(is_other) {
                return;
            }
            // Closing the response cancels a modern request; earlier ones need the notification.
            self.note_ended(id);
            if message.revision.is_modern() {
                return;
            }
        }
        self.waiting.push_back(McpExchange::of_message(&message));
    }

    fn is_full(&self) -> bool {
        self.waiting.is_full()
    }

    fn repeats_refusals(&self) -> bool {
        true
    }

    fn receives_notifications(&self) -> bool {
        self.stream != SessionStream::Opening
    }

    fn request_notifications(&mut self, revision: Revision) {
        if self.stream == SessionStream::Refused {
            self.push_back(McpExchange::first_stream(revision));
        }
    }
}

impl HttpQueue {
    pub(super) const fn waiting(&self) -> &WaitingExchanges<McpExchange> {
        &self.waiting
    }

    pub(super) const fn waiting_mut(&mut self) -> &mut WaitingExchanges<McpExchange> {
        &mut self.waiting
    }

    pub(super) fn push_back(&mut self, exchange: McpExchange) {
        self.note_queued(&exchange);
        self.waiting.push_back(exchange);
    }

    /// Adds exchanges, in order.
    pub(super) fn extend(&mut self, exchanges: impl IntoIterator<Item = McpExchange>) {
        exchanges.into_iter().for_each(|exchange| self.push_back(exchange));
    }

    /// Adds an exchange that was sent before those that wait. A request waits for the next session
    /// if there is none now.
    pub(super) fn push_front(&mut self, exchange: McpExchange) {
        match &mut self.phase {
            SessionPhase::Renewing(parked) if exchange.needs_session() => parked.push(exchange),
            SessionPhase::Renewing(_) | SessionPhase::Current => {
                self.note_queued(&exchange);
                self.waiting.push_front(exchange);
            }
        }
    }

    /// Notes that `exchange` is to be sent.
    const fn note_queued(&mut self, exchange: &McpExchange) {
        if exchange.is_session_stream() {
            self.stream = SessionStream::Opening;
        }
    }

    /// Notes that the session has no stream, until notifications are asked for again.
    pub(super) const fn note_refused_stream(&mut self) {
        self.stream = SessionStream::Refused;
    }

    /// Lets requests wait for the next session, first `exchange`. What else waits belongs to the
    /// last one and is removed; the next one opens a stream of its own.
    pub(super) fn begin_renewal(&mut self, exchange: McpExchange) {
        self.stream = SessionStream::Opening;
        let mut parked = self.take_parked();
        let waiting = std::iter::once(exchange).chain(self.waiting.take());
        parked.extend(waiting.filter(McpExchange::needs_session));
        self.phase = SessionPhase::Renewing(parked);
    }

    /// Lets the requests that wait for a session be sent.
    pub(super) fn end_renewal(&mut self) {
        let parked = self.take_parked();
        self.waiting.extend(parked);
    }

    fn take_parked(&mut self) -> Vec<McpExchange> {
        match std::mem::take(&mut self.phase) {
            SessionPhase::Current => Vec::new(),
            SessionPhase::Renewing(parked) => parked,
        }
    }

    /// Notes the end of an exchange.
    pub(super) fn finish(&mut self, exchange: &McpExchange) {
        self.waiting.finish(exchange);
        self.note_head(exchange);
    }

    /// Notes that the server has answered an exchange, or will not.
    pub(super) fn note_head(&mut self, exchange: &McpExchange) {
        if self.stream == SessionStream::Opening && exchange.is_session_stream() {
            self.stream = SessionStream::Other;
        }
    }

    /// Takes the exchanges that wait and match, in order.
    pub(super) fn take_if(&mut self, matches: impl Fn(&McpExchange) -> bool) -> Vec<McpExchange> {
        let (taken, waiting): (Vec<_>, Vec<_>) =
            self.waiting.take().into_iter().partition(|exchange| matches(exchange));
        self.waiting.extend(waiting);
        taken
    }

    /// Returns whether a message waits that must precede others.
    pub(super) fn has_ordered_waiting(&self) -> bool {
        self.waiting.iter().any(McpExchange::is_ordered)
    }

    /// Handles that no connection can be opened because of `error`. Returns the requests that fail,
    /// and `None` for the stream of the session, with their errors; streams are opened again later,
    /// a few times.
    pub(super) fn take_unconnected(
        &mut self,
        error: &ClientError,
        now: Instant,
    ) -> Vec<(Option<u64>, ClientError)> {
        let mut failed = Vec::new();
        for exchange in self.waiting.take() {
            let (call, revision) = (exchange.call(), exchange.revision());
            let ExchangeKind::Stream(cursor) = exchange.into_kind() else {
                failed.extend(call.map(|id| (Some(id), error.clone())));
                continue;
            };
            match cursor.after(&EventReader::new()) {
                Some(next) => self.waiting.push_back(McpExchange::of_stream(next, revision, now)),
                // The request has run.
                None if call.is_some() => failed.push((call, unresumed(error))),
                None => failed.push((None, no_notifications(error))),
            }
        }
        failed
    }

    /// Notes a request whose exchange is of no use any more.
    pub(super) fn note_ended(&mut self, id: u64) {
        self.ended.push(id);
    }

    /// Takes a request whose exchange is to be closed, and removes what waits for it.
    pub(super) fn take_ended(&mut self) -> Option<u64> {
        let id = self.ended.pop()?;
        self.waiting.retain(|exchange| exchange.call() != Some(id));
        if let SessionPhase::Renewing(parked) = &mut self.phase {
            parked.retain(|exchange| exchange.call() != Some(id));
        }
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ClientErrorKind;
    use crate::io::http::exchange::StreamCursor;
    use crate::io::http::waiting::MESSAGES_MAX;
    use corelane_protocol::eras::Method;

    fn resumed(call: Option<u64>) -> McpExchange {
        let mut events = EventReader::new();
        let event = b"id: 1\ndata: a\n\n";
        assert_eq!(events.next(event, &mut 0, 64), Ok(true));
        let mut cursor = StreamCursor::of_call(call.unwrap_or_default(), &events).unwrap();
        cursor.call = call;
        McpExchange::of_stream(cursor, Revision::LATEST_LEGACY, Instant::ORIGIN)
    }

    fn request(id: u64, method: Method) -> OutgoingKind<'static> {
        OutgoingKind::Request {
            id,
            method,
            name: None,
            parameters: &[],
            fields: None,
            is_idempotent: false,
        }
    }

    fn send_request(queue: &mut HttpQueue, id: u64, method: Method) {
        let kind = request(id, method);
        let revision = Revision::LATEST_LEGACY;
        queue.send(OutgoingMessage { kind, revision, text: b"{}" });
    }

    #[test]
    fn requests_wait_for_the_next_session() {
        let mut queue = HttpQueue::default();
        send_request(&mut queue, 1, Method::ToolsCall);
        send_request(&mut queue, 2, Method::ToolsCall);
        let next = |queue: &mut HttpQueue| queue.waiting.begin_next(Instant::ORIGIN);
        let lost = next(&mut queue).unwrap();
        queue.finish(&lost);
        queue.begin_renewal(lost);
        send_request(&mut queue, 3, Method::Initialize);
        let initialize = next(&mut queue).unwrap();
        assert!(initialize.is_initialize() && next(&mut queue).is_none());
        queue.finish(&initialize);
        queue.end_renewal();
        let sent = std::iter::from_fn(|| next(&mut queue)).map(|exchange| exchange.call());
        assert!(sent.eq([Some(1), Some(2)]));
    }

    #[test]
    fn ordered_message_without_room_is_not_overtaken() {
        let mut queue = HttpQueue::default();
        let revision = Revision::LATEST_LEGACY;
        let send = |queue: &mut HttpQueue, kind| {
            queue.send(OutgoingMessage { kind, revision, text: b"{}" });
        };
        for id in 0..MESSAGES_MAX as u64 {
            send(&mut queue, OutgoingKind::Cancellation { id });
        }
        let next = |queue: &mut HttpQueue| queue.waiting.begin_next(Instant::ORIGIN);
        let cancellations: Vec<_> = std::iter::from_fn(|| next(&mut queue)).collect();
        assert_eq!(cancellations.len(), MESSAGES_MAX);
        send(&mut queue, OutgoingKind::Notification);
        send_request(&mut queue, 9, Method::ToolsCall);
        assert_eq!(queue.waiting().startable(Instant::ORIGIN), 0);
        assert!(next(&mut queue).is_none());
        queue.finish(&cancellations[0]);
        assert_eq!(queue.waiting().startable(Instant::ORIGIN), 1);
        assert!(next(&mut queue).is_some_and(|exchange| exchange.is_ordered()));
    }

    #[test]
    fn streams_outlive_failed_connects_a_few_times() {
        let mut queue = HttpQueue::default();
        queue.extend([resumed(Some(7)), resumed(None)]);
        let kind = request(8, Method::ToolsCall);
        let revision = Revision::LATEST_LEGACY;
        queue.send(OutgoingMessage { kind, revision, text: b"{}" });
        let error = ClientError::new(ClientErrorKind::Connect, "a test");
        let mut fail = || queue.take_unconnected(&error, Instant::ORIGIN);
        let failed = fail();
        assert_eq!((failed.len(), failed[0].0), (1, Some(8)));
        assert_eq!(failed[0].1.kind(), ClientErrorKind::Connect);
        // A request that has run does not fail as one that has not.
        let failed = std::iter::repeat_with(fail).take(10).flatten().collect::<Vec<_>>();
        assert_eq!((failed.len(), failed[0].0, failed[1].0), (2, Some(7), None));
        assert_eq!(failed[0].1.kind(), ClientErrorKind::Closed);
        assert!(queue.waiting().is_empty());
    }
}
