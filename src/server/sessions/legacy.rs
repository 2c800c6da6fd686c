//! Legacy HTTP sessions on the shard that owns them: operations from any shard, and their end.
//!
//! Invariants: a request for an unknown session gets an error; calls, streams and client requests
//! end with their session.
//!
//! Source: 2025-03-26 to 2025-11-25, `basic/transports`, "Session Management", "Listening for
//! Messages from the Server".

use std::sync::Arc;

use bytes::Bytes;
use corelane_base::principal::Principal;
use corelane_base::slab::Key;
use corelane_base::time::Instant;
use corelane_protocol::error::Error;
use corelane_protocol::in_flight::CallId;
use corelane_protocol::json::{PaddedBuffer, PaddedText, Parser};
use corelane_protocol::message_head::MessageHead;
use corelane_protocol::model;
use corelane_transport::http::checks::CheckId;
use corelane_transport::http::sse::EventId;
use corelane_transport::http::status::Status;

use crate::guard::rate::limiter::Caller;
use crate::guard::rate::rules::OtherRequest;
use crate::server::calls::Call;
use crate::server::connection_state::{HttpSession, MessageOrigin, OriginDetails, PeerState};
use crate::server::dispatch::{Dispatcher, MessageContext};
use crate::server::http::end_session;
use crate::server::outbox::Effect;
use crate::server::owner_id::SessionId;
use crate::server::reply_to::{Outcome, PeerId, RefusalFields, ReplyTo};
use crate::server::session_store::{LISTENING_STREAM, RemovedSession, SessionError, SessionStore};
use crate::server::shard::Shard;
use crate::server::shard_message::{
    ExchangeAddress, HttpOutput, LegacyOp, RefusedRequest, SessionCaller,
};

/// The result of dispatching a text of a session.
pub struct Dispatched {
    pub outcome: Outcome,
    /// Number of its requests that are answered later.
    pub pending_responses: u32,
    /// Header fields of the response, if it is refused for lack of a scope or by a limit.
    pub refusal: Option<RefusalFields>,
}

impl Shard {
    /// Runs an operation on a session of this shard.
    pub(super) fn handle_legacy_op(
        &mut self,
        session: Option<SessionId>,
        caller: &SessionCaller,
        from: ExchangeAddress,
        op: LegacyOp,
    ) {
        let principal = caller.principal.as_ref();
        // Each session is bound to the endpoint that it began at.
        let is_legacy_sse = matches!(op, LegacyOp::HandleMessage { is_legacy_sse: true, .. });
        let found = session.and_then(|id| Some((id, self.transports.http.sessions.find(id)?)));
        let found = found.filter(|(_, key)| {
            self.transports
                .http
                .sessions
                .get_mut(*key)
                .is_some_and(|session| session.is_of_caller(principal))
        });
        let found = found.filter(|(_, key)| self.is_legacy_sse(*key) == is_legacy_sse);
        let Some((id, key)) = found else {
            let is_message = matches!(op, LegacyOp::HandleMessage { .. });
            return self.respond_unknown_session(is_message, caller, from);
        };
        match op {
            LegacyOp::HandleMessage { mut text, is_legacy_sse: true } => {
                let details = &OriginDetails::of_caller(caller, id);
                let origin = MessageOrigin { peer_addr: caller.peer_addr.as_ref(), details };
                self.dispatch_legacy_sse(key, origin, text.text());
                self.outbox.write_exchange(from, HttpOutput::Status(Status::ACCEPTED));
            }
            LegacyOp::HandleMessage { text, .. } => {
                let details = &OriginDetails::of_caller(caller, id);
                let origin = MessageOrigin { peer_addr: caller.peer_addr.as_ref(), details };
                self.dispatch_forwarded(key, from, origin, text);
            }
            LegacyOp::End => {
                self.fail_session_calls(key);
                // First, so that this response is not among the exchanges that end.
                if let Some(removed) = self.transports.http.sessions.remove(key) {
                    self.end_session(removed);
                }
                self.outbox.write_exchange(from, HttpOutput::Status(Status::NO_CONTENT));
            }
            LegacyOp::OpenStream(after) => self.open_session_stream(key, from, after),
        }
    }

    /// Rejects a request for a session that does not exist. A message is counted by the rate
    /// limits, as every other request was by the shard of its connection.
    fn respond_unknown_session(
        &mut self,
        is_message: bool,
        caller: &SessionCaller,
        from: ExchangeAddress,
    ) {
        let mut output = HttpOutput::CheckFailed(CheckId::SessionExists);
        if is_message && self.dispatcher.rate.is_active() {
            let limited = Caller {
                principal: caller.principal.as_ref(),
                address: caller.client,
                session: from.connection.to_bits(),
            };
            let counters = &mut self.outbox.counters;
            let request = OtherRequest::Refused;
            let admitted = self.dispatcher.rate.admit_other(&limited, request, self.now, counters);
            output = admitted.map_or_else(|it| HttpOutput::RateExceeded(Box::new(it)), |()| output);
        }
        self.outbox.write_exchange(from, output);
    }

    /// Sends the response to a request for a session that another shard has refused.
    pub(super) fn respond_refused_request(
        &mut self,
        session: Option<SessionId>,
        caller: &SessionCaller,
        from: ExchangeAddress,
        refused: RefusedRequest,
    ) {
        let RefusedRequest { named, unnamed, violation } = refused;
        let is_open =
            session.is_some_and(|id| self.is_session_open_to(id, caller.principal.as_ref()));
        let response = if is_open { named } else { unnamed };
        self.outbox.write_exchange(from, HttpOutput::Complete { response, violation });
    }

    /// Returns whether a session of this shard is open, and was begun by `caller` at the endpoint
    /// of MCP.
    pub(in crate::server) fn is_session_open_to(
        &mut self,
        id: SessionId,
        caller: Option<&Arc<Principal>>,
    ) -> bool {
        let session = self
            .transports
            .http
            .sessions
            .find(id)
            .and_then(|key| self.transports.http.sessions.get_mut(key));
        session.is_some_and(|session| !session.is_legacy_sse && session.is_of_caller(caller))
    }

    /// Dispatches a message that came through another shard.
    fn dispatch_forwarded(
        &mut self,
        key: Key,
        from: ExchangeAddress,
        origin: MessageOrigin<'_>,
        mut text: PaddedBuffer,
    ) {
        let mut out = Vec::new();
        let ctx = begin_session_message(&mut self.transports.http.sessions, key, self.now);
        let Some(dispatched) = self.dispatch_apart(ctx, origin, &mut out, text.text()) else {
            return;
        };
        if let (Outcome::Error(kind), Some(fields)) = (dispatched.outcome, dispatched.refusal) {
            return self
                .outbox
                .write_exchange(from, HttpOutput::Refused { kind, fields, text: out });
        }
        match (dispatched.outcome, dispatched.pending_responses) {
            (Outcome::None, 0) => {
                self.outbox.write_exchange(from, HttpOutput::Status(Status::ACCEPTED));
            }
            (outcome @ (Outcome::Response | Outcome::Error(_)), 0) => {
                self.outbox.write_exchange(from, HttpOutput::Response { outcome, text: out });
            }
            (outcome, awaited) => self.begin_response_stream(key, from, awaited, outcome, &out),
        }
    }

    /// Dispatches one text of a session. Its output has no place yet and is written to `outgoing`.
    /// Returns `None` if the session has ended.
    fn dispatch_apart(
        &mut self,
        ctx: MessageContext,
        origin: MessageOrigin<'_>,
        outgoing: &mut Vec<u8>,
        text: PaddedText<'_>,
    ) -> Option<Dispatched> {
        let Self { transports, parser, dispatcher, outbox, .. } = self;
        let PeerId::HttpSession(key) = ctx.reply_to.peer_id else { return None };
        let HttpSession { state, pending_work, .. } = transports.http.sessions.get_mut(key)?;
        let mut peer = PeerState::new(origin, state, pending_work, outgoing, outbox);
        Some(dispatch_session_text(parser, dispatcher, ctx, &mut peer, text))
    }

    /// Opens a stream for the outstanding responses of a message, with the output so far.
    pub(in crate::server) fn begin_response_stream(
        &mut self,
        key: Key,
        from: ExchangeAddress,
        awaited: u32,
        outcome: Outcome,
        text: &[u8],
    ) {
        let Ok(stream) = self.transports.http.sessions.streams_mut(key).open(from) else {
            // The stream limit was checked before: the session has ended.
            return self
                .outbox
                .write_exchange(from, HttpOutput::CheckFailed(CheckId::SessionExists));
        };
        for _ in 0..awaited {
            self.transports.http.sessions.begin_request(key);
        }
        if awaited != 1
            && let Some(http_session) = self.transports.http.sessions.get_mut(key)
        {
            http_session.add_batch(stream, awaited);
        }
        if outcome != Outcome::None {
            self.send_on_stream(key, stream, Outcome::Notification, text);
        }
    }

    /// Opens a GET stream of a session, or resumes a broken stream.
    fn open_session_stream(&mut self, key: Key, from: ExchangeAddress, after: Option<EventId>) {
        let mut streams = self.transports.http.sessions.streams_mut(key);
        let attached = match after {
            None => streams.listen(from).map(|it| {
                self.end_replaced(key, None, it.replaced_listener);
                (it.number, it.after, false)
            }),
            Some(EventId { stream, number }) => {
                streams.resume(stream, number, from, self.now).map(|it| {
                    self.end_replaced(key, it.replaced_exchange, it.replaced_listener);
                    (stream, number, it.is_finished)
                })
            }
        };
        let counts = &mut self.outbox.counters.sessions;
        counts.streams_resumed += u64::from(after.is_some() && attached.is_ok());
        counts.resumes_failed += u64::from(after.is_some() && attached.is_err());
        let (stream, after, is_finished) = match attached {
            Ok(attached) => attached,
            Err(error) => {
                return self
                    .outbox
                    .write_exchange(from, HttpOutput::CheckFailed(failed_check(error)));
            }
        };
        self.outbox.write_exchange(from, HttpOutput::BeginStream);
        let streams = self.transports.http.sessions.streams(key);
        let events = streams.into_iter().flat_map(|streams| streams.replay(stream, after));
        let events: Vec<(u32, Bytes)> = events.map(|(n, text)| (n, text.clone())).collect();
        for (number, text) in events {
            let id = EventId { stream, number };
            let outcome = Outcome::Notification;
            self.outbox
                .write_exchange(from, HttpOutput::Event { id, outcome, text, is_stored: true });
        }
        if self
            .transports
            .http
            .sessions
            .streams(key)
            .is_some_and(|streams| streams.is_listening(stream))
        {
            self.outbox.push(Effect::SendMissedLists(key));
        }
        if is_finished {
            self.outbox.write_exchange(from, HttpOutput::EndStream { sends_retry: false });
        }
    }

    /// Ends the exchange from which a stream of a session was taken over, and that of another
    /// listening stream, whose client may resume it after a time that its revision knows.
    fn end_replaced(
        &mut self,
        key: Key,
        exchange: Option<ExchangeAddress>,
        listener: Option<ExchangeAddress>,
    ) {
        if let Some(exchange) = exchange {
            self.outbox.write_exchange(exchange, HttpOutput::EndStream { sends_retry: false });
        }
        if let Some(listener) = listener {
            let sends_retry = self.has_priming_events(key);
            self.outbox.write_exchange(listener, HttpOutput::EndStream { sends_retry });
        }
    }

    /// Detaches a closed exchange from its session.
    pub(super) fn detach_exchange(
        &mut self,
        session: SessionId,
        exchange: ExchangeAddress,
        is_sent: bool,
    ) {
        let Some(key) = self.transports.http.sessions.find(session) else { return };
        self.transports.http.sessions.streams_mut(key).detach_exchange(exchange, is_sent, self.now);
        // With HTTP with SSE (2024-11-05) the session ends with its one stream.
        if self.is_legacy_sse(key)
            && !self.transports.http.sessions.has_listener(key)
            && let Some(removed) = self.transports.http.sessions.remove(key)
        {
            self.end_session(removed);
        }
    }

    /// Ends idle sessions and drops ended streams that were not resumed.
    pub(super) fn expire_legacy_sessions(&mut self) {
        self.transports.http.sessions.expire_lingering(self.now);
        while let Some(removed) = self.transports.http.sessions.expire_idle(self.now) {
            self.end_session(removed);
        }
    }

    /// Ends all sessions. Returns whether there were any.
    pub(super) fn end_legacy_sessions(&mut self) -> bool {
        let keys: Vec<Key> = self.transports.http.sessions.iter_mut().map(|(key, _)| key).collect();
        for &key in &keys {
            if let Some(removed) = self.transports.http.sessions.remove(key) {
                self.end_session(removed);
            }
        }
        !keys.is_empty()
    }

    /// Responds with an error to the calls of a session that its client deletes. What it cleans up
    /// cancels them.
    fn fail_session_calls(&mut self, key: Key) {
        let Some(http_session) = self.transports.http.sessions.get_mut(key) else { return };
        let call_ids: Vec<CallId> = http_session.state.in_flight.calls().collect();
        let error = Error::session_deleted();
        for call_id in call_ids {
            let call = self.dispatcher.deferred.calls.find_awaited(call_id);
            let Some(Call { reply_to, id, revision, .. }) = call else { continue };
            let (stream, mut text) = (reply_to.stream, Vec::new());
            model::write_error_response(&mut text, Some(id.as_id()), &error, Some(*revision));
            self.outbox.count_error(&error);
            self.send_on_stream(key, stream, Outcome::Error(error.kind), &text);
        }
    }

    /// Ends the streams and calls of a removed session.
    fn end_session(&mut self, removed: RemovedSession<HttpSession>) {
        for exchange in &removed.exchanges {
            self.outbox.write_exchange(*exchange, HttpOutput::EndStream { sends_retry: false });
        }
        end_session(removed, &mut self.dispatcher, &mut self.outbox, self.now);
    }

    /// Returns whether a session uses HTTP with SSE (2024-11-05).
    pub(in crate::server) fn is_legacy_sse(&mut self, key: Key) -> bool {
        self.transports
            .http
            .sessions
            .get_mut(key)
            .is_some_and(|http_session| http_session.is_legacy_sse)
    }

    /// Dispatches a message of an HTTP with SSE session; its output goes to the stream.
    pub(in crate::server) fn dispatch_legacy_sse(
        &mut self,
        key: Key,
        origin: MessageOrigin<'_>,
        text: PaddedText<'_>,
    ) {
        let mut out = Vec::new();
        let ctx = context(key, LISTENING_STREAM, self.now);
        let Some(dispatched) = self.dispatch_apart(ctx, origin, &mut out, text) else { return };
        for _ in 0..dispatched.pending_responses {
            self.transports.http.sessions.begin_request(key);
        }
        if dispatched.outcome != Outcome::None {
            self.send_on_stream(key, LISTENING_STREAM, Outcome::Notification, &out);
        }
    }
}

/// Begins the dispatch of a message of a session, whose responses, if they come later, are sent on
/// the next stream.
#[inline]
pub fn begin_session_message(
    sessions: &mut SessionStore<HttpSession>,
    key: Key,
    now: Instant,
) -> MessageContext {
    sessions.touch(key, now);
    let stream = sessions.next_stream_number(key).unwrap_or(ReplyTo::NO_STREAM);
    context(key, stream, now)
}

#[inline]
const fn context(key: Key, stream: u32, now: Instant) -> MessageContext {
    let reply_to = ReplyTo { peer_id: PeerId::HttpSession(key), stream };
    MessageContext { reply_to, now, in_batch: false, is_modern: false }
}

/// Dispatches one text of the session that is `peer`.
#[inline]
pub fn dispatch_session_text(
    parser: &mut Parser,
    dispatcher: &mut Dispatcher,
    ctx: MessageContext,
    peer: &mut PeerState<'_>,
    mut text: PaddedText<'_>,
) -> Dispatched {
    let before = peer.pending_work.pending_responses;
    let cancelled = peer.outbox.counters.requests.cancelled;
    let dispatched =
        parser.read(&mut text, |document| dispatcher.dispatch(ctx, peer, document.root()));
    let outcome = dispatched.unwrap_or_else(|error| {
        let head = MessageHead::read(text.as_bytes());
        dispatcher.reject_text(ctx, peer, &head, &error.into())
    });
    // A cancellation removes requests that were outstanding before or are among these; their
    // streams are ended by an effect.
    let taken_back = peer.outbox.counters.requests.cancelled - cancelled;
    let outstanding = u64::from(peer.pending_work.pending_responses) + taken_back;
    let pending_responses = outstanding.saturating_sub(before.into());
    let pending_responses = u32::try_from(pending_responses).unwrap_or(u32::MAX);
    Dispatched { outcome, pending_responses, refusal: peer.refusal.take() }
}

const fn failed_check(error: SessionError) -> CheckId {
    match error {
        SessionError::Conflict | SessionError::StreamLimit(_) => CheckId::StreamAvailable,
        SessionError::UnknownEvent => CheckId::EventIdKnown,
        SessionError::NoEntropy | SessionError::SessionLimit | SessionError::UnknownSession => {
            CheckId::SessionExists
        }
    }
}
