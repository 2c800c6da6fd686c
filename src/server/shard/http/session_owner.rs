//! Legacy HTTP sessions on the shard that owns them: operations from any shard, and their end.
//!
//! Invariants: a request for an unknown session gets an error; calls, streams and client requests
//! end with their session.
//!
//! Source: 2025-03-26 to 2025-11-25, `basic/transports`, "Session Management", "Listening for
//! Messages from the Server".

use bytes::Bytes;

use crate::base::slab::Key;
use crate::base::time::Instant;
use crate::protocol::json::{self, Parser};
use crate::server::connection_state::{HttpSession, PeerState};
use crate::server::dispatch::{Dispatcher, MessageContext, reject_text};
use crate::server::http::{
    ExchangeAddress, HttpMessage, HttpOutput, LISTENING_STREAM, RemovedSession, SessionError,
    SessionId, SessionOp,
};
use crate::server::outbox::Outbox;
use crate::server::reply_to::{Outcome, PeerId, ReplyTo};
use crate::server::shard::{Shard, ShardPhase};
use crate::transport::http::checks::CheckId;
use crate::transport::http::sse::EventId;
use crate::transport::http::status::Status;

impl Shard {
    /// Handles an HTTP message of another shard.
    pub(in crate::server::shard) fn handle_http_message(
        &mut self,
        message: HttpMessage,
        now: Instant,
    ) {
        self.http.begin_turn(self.dispatcher.deferred.wall_clock, now);
        match message {
            HttpMessage::SessionRequest { session, exchange: from, op } => {
                self.handle_session_op(session, from, op, now);
            }
            HttpMessage::ExchangeClosed { session, exchange, is_sent } => {
                self.detach_exchange(session, exchange, is_sent);
            }
            HttpMessage::Output { exchange: to, output } => self.write_output(to, output),
            HttpMessage::ResponseDelayed { session, exchange } => {
                self.begin_event_stream(session, exchange);
            }
        }
    }

    /// Runs an operation on a session of this shard.
    pub(super) fn handle_session_op(
        &mut self,
        id: SessionId,
        from: ExchangeAddress,
        op: SessionOp,
        now: Instant,
    ) {
        // Each session is bound to the endpoint that it began at.
        let is_pair = matches!(op, SessionOp::HandleMessage { is_legacy_sse: true, .. });
        let found = self.http.sessions.find(id).filter(|key| self.is_legacy_sse(*key) == is_pair);
        let Some(key) = found else {
            return self.send_output(from, HttpOutput::CheckFailed(CheckId::SessionExists));
        };
        match op {
            SessionOp::HandleMessage { mut text, is_legacy_sse: true } => {
                let length = add_padding(&mut text);
                self.dispatch_legacy_sse(key, (&mut text, length), now);
                self.send_output(from, HttpOutput::Status(Status::ACCEPTED));
            }
            SessionOp::HandleMessage { text, .. } => self.dispatch_remote(key, from, text, now),
            SessionOp::End => {
                // First, so that this response is not among the exchanges that end.
                if let Some(removed) = self.http.sessions.remove(key) {
                    self.clean_up_session(removed, now);
                }
                self.send_output(from, HttpOutput::Status(Status::NO_CONTENT));
            }
            SessionOp::OpenStream(after) => self.open_session_stream(key, from, after),
        }
    }

    /// Dispatches a message that came through another shard.
    fn dispatch_remote(
        &mut self,
        key: Key,
        from: ExchangeAddress,
        mut text: Vec<u8>,
        now: Instant,
    ) {
        self.http.sessions.touch(key, now);
        let stream = self.http.sessions.next_stream_number(key).unwrap_or(ReplyTo::NO_STREAM);
        let Self { parser, dispatcher, outbox, http, .. } = self;
        let Some(http_session) = http.sessions.get_mut(key) else { return };
        let length = add_padding(&mut text);
        let mut out = Vec::new();
        let text = (&mut text[..], length);
        let dispatched = dispatch_session_text(
            (parser, dispatcher, outbox),
            http_session,
            (key, stream),
            &mut out,
            text,
            now,
        );
        match (dispatched.outcome, dispatched.pending_responses) {
            (Outcome::None, 0) => self.send_output(from, HttpOutput::Status(Status::ACCEPTED)),
            (outcome @ (Outcome::Response | Outcome::Error(_)), 0) => {
                self.send_output(from, HttpOutput::Response { outcome, text: out });
            }
            (outcome, awaited) => self.begin_response_stream(key, from, awaited, (outcome, out)),
        }
    }

    /// Opens a stream for the outstanding responses of a message, with the output so far.
    pub(super) fn begin_response_stream(
        &mut self,
        key: Key,
        from: ExchangeAddress,
        awaited: u32,
        (outcome, text): (Outcome, Vec<u8>),
    ) {
        let Ok(stream) = self.http.sessions.open_stream(key, from) else {
            // The stream limit was checked before: the session has ended.
            return self.send_output(from, HttpOutput::CheckFailed(CheckId::SessionExists));
        };
        for _ in 0..awaited {
            self.http.sessions.begin_request(key);
        }
        if awaited != 1
            && let Some(http_session) = self.http.sessions.get_mut(key)
        {
            http_session.batches.push((stream, awaited));
        }
        if outcome != Outcome::None {
            self.send_on_session(key, stream, Outcome::Notification, &text);
        }
    }

    /// Opens the GET stream of a session, or resumes a broken stream.
    fn open_session_stream(&mut self, key: Key, from: ExchangeAddress, after: Option<EventId>) {
        let sessions = &mut self.http.sessions;
        let attached = match after {
            None => sessions
                .attach_listener(key, from)
                .map(|after| (LISTENING_STREAM, after, None, false)),
            Some(EventId { stream, number }) => {
                let resumed = sessions.resume_stream(key, stream, number, from);
                resumed.map(|it| (stream, number, it.replaced_exchange, it.is_finished))
            }
        };
        let counts = &mut self.outbox.counters.sessions;
        counts.streams_resumed += u64::from(after.is_some() && attached.is_ok());
        counts.resumes_failed += u64::from(after.is_some() && attached.is_err());
        let (stream, after, replaced, is_finished) = match attached {
            Ok(attached) => attached,
            Err(refusal) => {
                return self.send_output(from, HttpOutput::CheckFailed(failed_check(refusal)));
            }
        };
        if let Some(replaced) = replaced {
            self.send_output(replaced, HttpOutput::EndStream { retry_ms: None });
        }
        self.send_output(from, HttpOutput::BeginStream);
        let events = self.http.sessions.replay(key, stream, after);
        let events: Vec<(u32, Bytes)> = events.map(|(n, text)| (n, text.clone())).collect();
        for (number, text) in events {
            let id = EventId { stream, number };
            self.send_output(from, HttpOutput::Event { id, outcome: Outcome::Notification, text });
        }
        if stream == LISTENING_STREAM {
            self.send_missed_lists(key);
        }
        if is_finished {
            self.send_output(from, HttpOutput::EndStream { retry_ms: None });
        }
    }

    /// Detaches a closed exchange from its session.
    pub(super) fn detach_exchange(
        &mut self,
        session: SessionId,
        exchange: ExchangeAddress,
        is_sent: bool,
    ) {
        let now = self.http.now();
        let Some(key) = self.http.sessions.find(session) else { return };
        self.http.sessions.detach_exchange(key, exchange, is_sent, now);
        // With HTTP with SSE (2024-11-05) the session ends with its one stream.
        if self.http.sessions.get_mut(key).is_some_and(|http_session| http_session.is_legacy_sse)
            && !self.http.sessions.has_listener(key)
            && let Some(removed) = self.http.sessions.remove(key)
        {
            self.clean_up_session(removed, now);
        }
    }

    /// Ends idle sessions and drops ended streams that were not resumed.
    pub(in crate::server::shard) fn expire_sessions(&mut self, now: Instant) {
        self.http.sessions.expire_lingering(now);
        while let Some(removed) = self.http.sessions.expire_idle(now) {
            self.clean_up_session(removed, now);
        }
    }

    /// Cleans up after an ended session: its calls, streams and client requests.
    pub(in crate::server::shard) fn clean_up_session(
        &mut self,
        removed: RemovedSession<HttpSession>,
        now: Instant,
    ) {
        let RemovedSession { key, session: mut http_session, exchanges, .. } = removed;
        for exchange in exchanges {
            self.send_output(exchange, HttpOutput::EndStream { retry_ms: None });
        }
        self.remove_streams(&mut http_session.state.subscriptions);
        let HttpSession { state, pending_work, .. } = &mut http_session;
        self.dispatcher.deferred.cancel_calls(&mut state.in_flight, pending_work, &mut self.outbox);
        self.fail_client_requests(PeerId::HttpSession(key), now);
    }

    /// Ends all sessions once the server drains and no connection is left. Returns whether there
    /// were any.
    pub(in crate::server::shard) fn end_all_sessions(&mut self, now: Instant) -> bool {
        let is_owing =
            self.phase != ShardPhase::Aborted && self.http.sessions.attached_streams() > 0;
        if self.phase == ShardPhase::Serving || is_owing || !self.connections.table.is_empty() {
            return false;
        }
        let keys: Vec<Key> = self.http.sessions.iter_mut().map(|(key, _)| key).collect();
        for &key in &keys {
            if let Some(removed) = self.http.sessions.remove(key) {
                self.clean_up_session(removed, now);
            }
        }
        !keys.is_empty()
    }

    /// Ends the GET streams of all sessions, because the server drains; requests in flight are
    /// completed.
    pub(in crate::server::shard) fn drain_sessions(&mut self) {
        let keys: Vec<Key> = self.http.sessions.iter_mut().map(|(key, _)| key).collect();
        for key in keys {
            if let Some(to) = self.http.sessions.exchange_of_stream(key, LISTENING_STREAM) {
                let now = self.http.now();
                self.http.sessions.detach_stream(key, LISTENING_STREAM, to, true, now);
                self.send_output(to, HttpOutput::EndStream { retry_ms: None });
            }
        }
    }
}

/// Appends the padding that the parser needs. Returns the length of the message.
fn add_padding(text: &mut Vec<u8>) -> usize {
    let length = text.len();
    text.resize(length + json::PADDING_BYTES, 0);
    length
}

/// The result of dispatching a text of a session.
pub(super) struct Dispatched {
    pub(super) outcome: Outcome,
    /// Number of its requests that are answered later.
    pub(super) pending_responses: u32,
}

/// Dispatches one text of a session.
#[inline]
pub(super) fn dispatch_session_text(
    (parser, dispatcher, outbox): (&mut Parser, &mut Dispatcher, &mut Outbox),
    http_session: &mut HttpSession,
    (key, stream): (Key, u32),
    outgoing: &mut Vec<u8>,
    (text, length): (&mut [u8], usize),
    now: Instant,
) -> Dispatched {
    let HttpSession { state, pending_work, .. } = http_session;
    let (before, cancelled) = (pending_work.pending_responses, outbox.counters.requests.cancelled);
    let mut peer = PeerState { state, pending_work, outgoing, outbox };
    let outcome = match parser.parse(text, length) {
        Ok(document) => {
            let reply_to = ReplyTo { peer_id: PeerId::HttpSession(key), stream };
            let ctx = MessageContext { reply_to, now, in_batch: false, is_modern: false };
            dispatcher.dispatch(ctx, &mut peer, document.root())
        }
        Err(error) => reject_text(&mut peer, None, &error.into()),
    };
    // A cancellation removes requests that were outstanding before or are among these; their
    // streams are ended at the end of the turn.
    let taken_back = outbox.counters.requests.cancelled - cancelled;
    let outstanding = u64::from(pending_work.pending_responses) + taken_back;
    Dispatched {
        outcome,
        pending_responses: u32::try_from(outstanding.saturating_sub(before.into()))
            .unwrap_or(u32::MAX),
    }
}

fn failed_check(refusal: SessionError) -> CheckId {
    match refusal {
        SessionError::Conflict => CheckId::StreamAvailable,
        SessionError::UnknownEvent => CheckId::EventIdKnown,
        SessionError::NoEntropy
        | SessionError::SessionLimit
        | SessionError::UnknownSession
        | SessionError::StreamLimit(_) => CheckId::SessionExists,
    }
}
