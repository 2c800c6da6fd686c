//! Legacy HTTP sessions on the shard that owns them: operations from any shard, and their end.
//!
//! Invariants: a request for an unknown session gets an error; calls, streams and client requests
//! end with their session.
//!
//! Source: 2025-03-26 to 2025-11-25, `basic/transports`, "Session Management", "Listening for
//! Messages from the Server".

use std::sync::Arc;

use bytes::Bytes;

use super::output::SessionOutput;
use super::store::{RemovedSession, SessionStore};
use super::streams::{LISTENING_STREAM, SessionError};
use crate::base::principal::Principal;
use crate::base::slab::Key;
use crate::base::time::Instant;
use crate::protocol::error::Error;
use crate::protocol::in_flight::CallId;
use crate::protocol::json::{PaddedBuffer, PaddedText, Parser};
use crate::protocol::message_head::MessageHead;
use crate::protocol::model;
use crate::server::calls::Call;
use crate::server::connection_state::{HttpSession, MessageOrigin, PeerState};
use crate::server::dispatch::{Dispatcher, MessageContext};
use crate::server::outbox::{Effect, Outbox};
use crate::server::owner_id::SessionId;
use crate::server::refusal_fields::RefusalFields;
use crate::server::reply_to::{Outcome, PeerId, ReplyTo};
use crate::server::shard_message::{
    ExchangeAddress, HttpOutput, LegacyOp, RefusedRequest, SessionCaller,
};
use crate::transport::http::checks::CheckId;
use crate::transport::http::sse::EventId;
use crate::transport::http::status::Status;

/// The sessions of this shard together with what their messages are dispatched by.
pub(in crate::server) struct SessionOwner<'a> {
    pub(in crate::server) sessions: &'a mut SessionStore<HttpSession>,
    pub(in crate::server) parser: &'a mut Parser,
    pub(in crate::server) dispatcher: &'a mut Dispatcher,
    pub(in crate::server) outbox: &'a mut Outbox,
    pub(in crate::server) now: Instant,
}

/// The result of dispatching a text of a session.
pub(in crate::server) struct Dispatched {
    pub(in crate::server) outcome: Outcome,
    /// Number of its requests that are answered later.
    pub(in crate::server) pending_responses: u32,
    /// Header fields of the response, if it is refused for lack of a scope or by a limit.
    pub(in crate::server) refusal: Option<RefusalFields>,
}

impl SessionOwner<'_> {
    const fn output(&mut self) -> SessionOutput<'_> {
        let Self { sessions, outbox, now, .. } = self;
        SessionOutput { sessions, outbox, now: *now }
    }

    fn write(&mut self, to: ExchangeAddress, output: HttpOutput) {
        self.output().write(to, output);
    }

    /// Runs an operation on a session of this shard.
    pub(in crate::server) fn handle_op(
        &mut self,
        session: Option<SessionId>,
        caller: &SessionCaller,
        from: ExchangeAddress,
        op: LegacyOp,
    ) {
        let principal = caller.principal.as_ref();
        // Each session is bound to the endpoint that it began at.
        let is_legacy_sse = matches!(op, LegacyOp::HandleMessage { is_legacy_sse: true, .. });
        let found = session.and_then(|id| Some((id, self.sessions.find(id)?)));
        let found = found.filter(|(_, key)| {
            self.sessions.get_mut(*key).is_some_and(|session| session.is_of_caller(principal))
        });
        let found = found.filter(|(_, key)| self.is_legacy_sse(*key) == is_legacy_sse);
        let Some((id, key)) = found else {
            return self.write(from, HttpOutput::CheckFailed(CheckId::SessionExists));
        };
        match op {
            LegacyOp::HandleMessage { mut text, is_legacy_sse: true } => {
                self.dispatch_legacy_sse(key, MessageOrigin::of_caller(caller, id), text.text());
                self.write(from, HttpOutput::Status(Status::ACCEPTED));
            }
            LegacyOp::HandleMessage { text, .. } => {
                self.dispatch_remote(key, from, MessageOrigin::of_caller(caller, id), text);
            }
            LegacyOp::End => {
                self.fail_calls(key);
                // First, so that this response is not among the exchanges that end.
                if let Some(removed) = self.sessions.remove(key) {
                    self.clean_up(removed);
                }
                self.write(from, HttpOutput::Status(Status::NO_CONTENT));
            }
            LegacyOp::OpenStream(after) => self.open_stream(key, from, after),
        }
    }

    /// Sends the response to a request for a session that another shard has refused.
    pub(in crate::server) fn respond_refused(
        &mut self,
        session: Option<SessionId>,
        caller: &SessionCaller,
        from: ExchangeAddress,
        refused: RefusedRequest,
    ) {
        let RefusedRequest { named, unnamed, violation } = refused;
        let is_open = session.is_some_and(|id| self.is_open_to(id, caller.principal.as_ref()));
        let response = if is_open { named } else { unnamed };
        self.write(from, HttpOutput::Complete { response, violation });
    }

    /// Returns whether a session of this shard is open, and was begun by `caller` at the endpoint
    /// of MCP.
    pub(in crate::server) fn is_open_to(
        &mut self,
        id: SessionId,
        caller: Option<&Arc<Principal>>,
    ) -> bool {
        let session = self.sessions.find(id).and_then(|key| self.sessions.get_mut(key));
        session.is_some_and(|session| !session.is_legacy_sse && session.is_of_caller(caller))
    }

    /// Dispatches a message that came through another shard.
    fn dispatch_remote(
        &mut self,
        key: Key,
        from: ExchangeAddress,
        origin: MessageOrigin<'_>,
        mut text: PaddedBuffer,
    ) {
        let mut out = Vec::new();
        let Some(dispatched) = self.dispatch_post(key, origin, &mut out, text.text()) else {
            return;
        };
        if let (Outcome::Error(kind), Some(fields)) = (dispatched.outcome, dispatched.refusal) {
            return self.write(from, HttpOutput::Refused { kind, fields, text: out });
        }
        match (dispatched.outcome, dispatched.pending_responses) {
            (Outcome::None, 0) => self.write(from, HttpOutput::Status(Status::ACCEPTED)),
            (outcome @ (Outcome::Response | Outcome::Error(_)), 0) => {
                self.write(from, HttpOutput::Response { outcome, text: out });
            }
            (outcome, awaited) => self.begin_response_stream(key, from, awaited, outcome, &out),
        }
    }

    /// Dispatches a posted message. Its responses, if they come later, are sent on the next stream.
    #[inline]
    pub(in crate::server) fn dispatch_post(
        &mut self,
        key: Key,
        origin: MessageOrigin<'_>,
        outgoing: &mut Vec<u8>,
        text: PaddedText<'_>,
    ) -> Option<Dispatched> {
        self.sessions.touch(key, self.now);
        let stream = self.sessions.next_stream_number(key).unwrap_or(ReplyTo::NO_STREAM);
        self.dispatch(key, stream, origin, outgoing, text)
    }

    /// Dispatches one text of a session; `None` if the session has ended.
    #[inline]
    fn dispatch(
        &mut self,
        key: Key,
        stream: u32,
        origin: MessageOrigin<'_>,
        outgoing: &mut Vec<u8>,
        mut text: PaddedText<'_>,
    ) -> Option<Dispatched> {
        let Self { sessions, parser, dispatcher, outbox, now } = self;
        let HttpSession { state, pending_work, .. } = sessions.get_mut(key)?;
        let before = pending_work.pending_responses;
        let cancelled = outbox.counters.requests.cancelled;
        let (refusal, failure) = (None, None);
        let mut peer =
            PeerState { origin, state, pending_work, outgoing, outbox, refusal, failure };
        let reply_to = ReplyTo { peer_id: PeerId::HttpSession(key), stream };
        let ctx = MessageContext { reply_to, now: *now, in_batch: false, is_modern: false };
        let dispatched =
            parser.read(&mut text, |document| dispatcher.dispatch(ctx, &mut peer, document.root()));
        let outcome = dispatched.unwrap_or_else(|error| {
            let head = MessageHead::read(text.as_bytes());
            dispatcher.reject_text(ctx, &mut peer, &head, &error.into())
        });
        let refusal = peer.refusal.take();
        // A cancellation removes requests that were outstanding before or are among these; their
        // streams are ended by an effect.
        let taken_back = outbox.counters.requests.cancelled - cancelled;
        let outstanding = u64::from(pending_work.pending_responses) + taken_back;
        let pending_responses = outstanding.saturating_sub(before.into());
        let pending_responses = u32::try_from(pending_responses).unwrap_or(u32::MAX);
        Some(Dispatched { outcome, pending_responses, refusal })
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
        let Ok(stream) = self.sessions.streams_mut(key).open(from) else {
            // The stream limit was checked before: the session has ended.
            return self.write(from, HttpOutput::CheckFailed(CheckId::SessionExists));
        };
        for _ in 0..awaited {
            self.sessions.begin_request(key);
        }
        if awaited != 1
            && let Some(http_session) = self.sessions.get_mut(key)
        {
            http_session.add_batch(stream, awaited);
        }
        if outcome != Outcome::None {
            self.output().send(key, stream, Outcome::Notification, text);
        }
    }

    /// Opens a GET stream of a session, or resumes a broken stream.
    fn open_stream(&mut self, key: Key, from: ExchangeAddress, after: Option<EventId>) {
        let mut streams = self.sessions.streams_mut(key);
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
            Err(error) => return self.write(from, HttpOutput::CheckFailed(failed_check(error))),
        };
        self.write(from, HttpOutput::BeginStream);
        let streams = self.sessions.streams(key);
        let events = streams.into_iter().flat_map(|streams| streams.replay(stream, after));
        let events: Vec<(u32, Bytes)> = events.map(|(n, text)| (n, text.clone())).collect();
        for (number, text) in events {
            let id = EventId { stream, number };
            let outcome = Outcome::Notification;
            self.write(from, HttpOutput::Event { id, outcome, text, is_stored: true });
        }
        if self.sessions.streams(key).is_some_and(|streams| streams.is_listening(stream)) {
            self.outbox.push(Effect::SendMissedLists(key));
        }
        if is_finished {
            self.write(from, HttpOutput::EndStream { sends_retry: false });
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
            self.write(exchange, HttpOutput::EndStream { sends_retry: false });
        }
        if let Some(listener) = listener {
            let sends_retry = self.output().has_priming_events(key);
            self.write(listener, HttpOutput::EndStream { sends_retry });
        }
    }

    /// Detaches a closed exchange from its session.
    pub(in crate::server) fn detach_exchange(
        &mut self,
        session: SessionId,
        exchange: ExchangeAddress,
        is_sent: bool,
    ) {
        let Some(key) = self.sessions.find(session) else { return };
        self.sessions.streams_mut(key).detach_exchange(exchange, is_sent, self.now);
        // With HTTP with SSE (2024-11-05) the session ends with its one stream.
        if self.is_legacy_sse(key)
            && !self.sessions.has_listener(key)
            && let Some(removed) = self.sessions.remove(key)
        {
            self.clean_up(removed);
        }
    }

    /// Ends idle sessions and drops ended streams that were not resumed.
    pub(in crate::server) fn expire(&mut self) {
        self.sessions.expire_lingering(self.now);
        while let Some(removed) = self.sessions.expire_idle(self.now) {
            self.clean_up(removed);
        }
    }

    /// Ends all sessions. Returns whether there were any.
    pub(in crate::server) fn end_all(&mut self) -> bool {
        let keys: Vec<Key> = self.sessions.iter_mut().map(|(key, _)| key).collect();
        for &key in &keys {
            if let Some(removed) = self.sessions.remove(key) {
                self.clean_up(removed);
            }
        }
        !keys.is_empty()
    }

    /// Responds with an error to the calls of a session that its client deletes. What it cleans up
    /// cancels them.
    fn fail_calls(&mut self, key: Key) {
        let Some(http_session) = self.sessions.get_mut(key) else { return };
        let call_ids: Vec<CallId> = http_session.state.in_flight.calls().collect();
        let error = Error::session_deleted();
        for call_id in call_ids {
            let call = self.dispatcher.deferred.calls.find_awaited(call_id);
            let Some(Call { reply_to, id, revision, .. }) = call else { continue };
            let (stream, mut text) = (reply_to.stream, Vec::new());
            model::write_error_response(&mut text, Some(id.as_id()), &error, Some(*revision));
            self.outbox.count_error(&error);
            self.output().send(key, stream, Outcome::Error(error.kind), &text);
        }
    }

    fn clean_up(&mut self, removed: RemovedSession<HttpSession>) {
        for exchange in &removed.exchanges {
            self.write(*exchange, HttpOutput::EndStream { sends_retry: false });
        }
        clean_up(removed, self.dispatcher, self.outbox, self.now);
    }

    /// Returns whether a session uses HTTP with SSE (2024-11-05).
    pub(in crate::server) fn is_legacy_sse(&mut self, key: Key) -> bool {
        self.sessions.get_mut(key).is_some_and(|http_session| http_session.is_legacy_sse)
    }

    /// Dispatches a message of an HTTP with SSE session; its output goes to the stream.
    pub(in crate::server) fn dispatch_legacy_sse(
        &mut self,
        key: Key,
        origin: MessageOrigin<'_>,
        text: PaddedText<'_>,
    ) {
        let mut out = Vec::new();
        let Some(dispatched) = self.dispatch(key, LISTENING_STREAM, origin, &mut out, text) else {
            return;
        };
        for _ in 0..dispatched.pending_responses {
            self.sessions.begin_request(key);
        }
        if dispatched.outcome != Outcome::None {
            self.output().send(key, LISTENING_STREAM, Outcome::Notification, &out);
        }
    }
}

/// Cleans up after an ended session: its calls, streams and client requests, and the owner of its
/// tasks.
pub(in crate::server) fn clean_up(
    removed: RemovedSession<HttpSession>,
    dispatcher: &mut Dispatcher,
    outbox: &mut Outbox,
    now: Instant,
) {
    let RemovedSession { key, mut session, .. } = removed;
    let HttpSession { state, pending_work, .. } = &mut session;
    dispatcher.facts.release(state);
    dispatcher.remove_streams(&mut state.subscriptions, outbox);
    dispatcher.deferred.cancel_calls(&mut state.in_flight, pending_work, outbox);
    let peer = Some((PeerId::HttpSession(key), None));
    dispatcher.deferred.fail_client_requests(peer, now, outbox);
    dispatcher.deferred.tasks.table.remove_owner(PeerId::HttpSession(key));
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
