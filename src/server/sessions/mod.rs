//! Sessions on the shard that owns them: messages of other shards, deadlines, the end. Output of
//! legacy sessions.
//!
//! Invariants: a request that is answered before anything else is sent for it gets one JSON
//! response; otherwise its output is events of its stream, numbered and kept for replay until the
//! client has received them or the stream has expired. Since 2025-11-25 such a stream begins with
//! an event without data; clients of earlier revisions fail on one and get none.
//!
//! Source: 2025-11-25 `basic/transports`, "Sending Messages to the Server", "Resumability and
//! Redelivery".

mod legacy;

use bytes::Bytes;
use corelane_base::slab::Key;
use corelane_protocol::json::PaddedBuffer;
use corelane_transport::http::sse::EventId;

pub(super) use self::legacy::{begin_session_message, dispatch_session_text};
use super::owner_id::SessionId;
use super::reply_to::Outcome;
use super::session_store::{LISTENING_STREAM, SessionStreams};
use super::shard::{Shard, Transports};
use super::shard_message::{
    CarrierAddress, ExchangeAddress, HttpOutput, LargeMessage, SessionCaller, SessionMessage,
    SessionOp,
};

impl Shard {
    /// Has a thread parse the large message that a request for a session is for. Returns what is to
    /// be handled now.
    #[inline]
    fn parse_posted(&mut self, mut message: SessionMessage) -> Option<SessionMessage> {
        let large_messages = &mut self.transports.large_messages;
        let is_large = |text: &mut PaddedBuffer| {
            !text.is_parsed() && large_messages.takes(text.as_bytes().len())
        };
        if !message.posted_text().is_some_and(is_large) {
            return Some(message);
        }
        let message = LargeMessage::Session(Box::new(message));
        match large_messages.spawn(message.client_of_session(), message) {
            Err(LargeMessage::Session(message)) => Some(*message),
            Err(_) | Ok(()) => None,
        }
    }

    /// Handles the deadlines of exchanges and of sessions.
    pub(super) fn expire_sessions(&mut self) {
        if self.transports.http.is_active() {
            self.exchanges().expire();
            self.expire_legacy_sessions();
        }
        self.parity_path().expire();
    }

    /// Ends all sessions; returns whether there were any.
    pub(super) fn end_all_sessions(&mut self) -> bool {
        let has_ended = self.end_legacy_sessions();
        self.parity_path().end_sessions() || has_ended
    }

    /// Continues the paused streams of the parity dialect that have room.
    #[inline]
    pub(super) fn continue_streams(&mut self) {
        let Self { transports, dispatcher, outbox, .. } = self;
        let Transports { parity, connections, .. } = transports;
        if parity.flow.is_active() {
            parity.end_turn(connections, dispatcher.shard_count, outbox);
        }
    }

    /// Handles a message of another shard, or of this one.
    pub(super) fn handle_session_message(&mut self, message: SessionMessage) {
        let Some(message) = self.parse_posted(message) else { return };
        match message {
            SessionMessage::Request { session, exchange, caller, op } => {
                self.handle_session_request(session, exchange, &caller, op);
            }
            SessionMessage::ResponseDelayed { session, exchange } => {
                self.begin_session_stream(session, exchange);
            }
            SessionMessage::Sent { session, carrier, bytes } => {
                self.transports.parity.confirm_sent(session, carrier, bytes);
            }
            SessionMessage::Expired { session, carrier } => {
                self.parity_path().expire_carrier(session, carrier);
            }
            SessionMessage::Closed { session, carrier, is_sent } => {
                if let CarrierAddress::Exchange(exchange) = carrier {
                    self.detach_exchange(session, exchange, is_sent);
                }
                self.parity_path().close_carrier(session, carrier);
            }
            SessionMessage::Resume(request) => self.parity_path().resume_relayed(*request),
            SessionMessage::Relay { session, front, text, bytes } => {
                let Self { transports, parser, dispatcher, outbox, now, .. } = self;
                let mut parity = transports.parity_path(dispatcher, outbox, *now);
                parity.receive_relayed(parser, session, front, text, bytes);
            }
            SessionMessage::Output { exchange, output } => {
                let chunk_bytes = output.chunk_bytes();
                self.exchanges().apply_output(exchange, output);
                if chunk_bytes > 0 {
                    let Transports { parity, connections, .. } = &mut self.transports;
                    parity.flow.add_exchange(exchange, chunk_bytes, connections);
                }
            }
            SessionMessage::Resumed(front, resumed) => {
                self.parity_path().handle_resumed(front, resumed);
            }
            SessionMessage::RelayOutput { front, texts, is_handled, pending } => {
                self.parity_path().write_front_output(front, &texts, is_handled, pending);
            }
            SessionMessage::CloseFront { front, code, reason } => {
                self.parity_path().close_front(front, code, reason);
            }
        }
    }

    fn handle_session_request(
        &mut self,
        session: Option<SessionId>,
        exchange: ExchangeAddress,
        caller: &SessionCaller,
        op: SessionOp,
    ) {
        match op {
            SessionOp::Legacy(op) => self.handle_legacy_op(session, caller, exchange, op),
            SessionOp::RespondRefused(refused) => {
                self.respond_refused_request(session, caller, exchange, *refused);
            }
            SessionOp::Parity(op) => {
                let Self { transports, parser, dispatcher, outbox, now, .. } = self;
                let mut parity = transports.parity_path(dispatcher, outbox, *now);
                parity.handle_request(parser, session, exchange, caller, op);
            }
        }
    }
}

impl Shard {
    /// Sends a message on a stream of a session. While the server drains, the stream of HTTP with
    /// SSE (2024-11-05) ends after the last response.
    pub(super) fn send_to_session(&mut self, key: Key, stream: u32, outcome: Outcome, text: &[u8]) {
        self.send_on_stream(key, stream, outcome, text);
        let http = &mut self.transports.http;
        if http.is_draining
            && outcome.is_response()
            && let Some(http_session) = http.sessions.get_mut(key)
            && http_session.is_legacy_sse
            && !http_session.owes_legacy_sse_response()
        {
            self.end_listening_streams(key);
        }
    }

    /// Sends a message on a stream of a session.
    fn send_on_stream(&mut self, key: Key, stream: u32, outcome: Outcome, text: &[u8]) {
        let Some(http_session) = self.transports.http.sessions.get_mut(key) else { return };
        if http_session.is_legacy_sse {
            return self.send_legacy_sse(key, text);
        }
        let has_more =
            stream == LISTENING_STREAM || http_session.track_batch_response(stream, outcome);
        let outcome = if has_more { Outcome::Notification } else { outcome };
        if outcome.is_response() && !self.has_events(key, stream) {
            // No event was sent, so the stream cannot be resumed: no replay is needed.
            if let Some(to) = self.finish_stream(key, stream) {
                self.outbox
                    .write_exchange(to, HttpOutput::Response { outcome, text: text.to_vec() });
            }
            return;
        }
        if stream != LISTENING_STREAM {
            self.prime(key, stream);
        }
        self.push_event(key, stream, outcome, Bytes::copy_from_slice(text));
        if outcome.is_response() {
            self.transports.http.sessions.streams_mut(key).finish(stream, self.now);
        }
    }

    /// Ends the stream of a cancelled request.
    pub(super) fn end_session_stream(&mut self, key: Key, stream: u32) {
        self.transports.http.sessions.end_request(key, self.now);
        let Some(http_session) = self.transports.http.sessions.get_mut(key) else { return };
        if stream == LISTENING_STREAM
            || http_session.track_batch_response(stream, Outcome::Response)
        {
            return;
        }
        if let Some(to) = self.finish_stream(key, stream) {
            self.outbox.write_exchange(to, HttpOutput::EndStream { sends_retry: false });
        }
    }

    /// Finishes a stream. Returns its exchange, which is detached: its end is on the way.
    fn finish_stream(&mut self, key: Key, stream: u32) -> Option<ExchangeAddress> {
        let to = self.transports.http.sessions.streams_mut(key).finish(stream, self.now)?;
        self.transports.http.sessions.streams_mut(key).detach(stream, to, true, self.now);
        Some(to)
    }

    /// Begins the stream of a request that takes long: with an event without data, or a comment
    /// where the revision has no such event. Any other exchange has its response on the way
    /// already.
    fn begin_session_stream(&mut self, session: SessionId, exchange: ExchangeAddress) {
        let Some(key) = self.transports.http.sessions.find(session) else { return };
        let Some(streams) = self.transports.http.sessions.streams(key) else { return };
        let stream = streams.stream_of_exchange(exchange);
        let stream = stream.filter(|stream| !streams.is_listening(*stream));
        let Some(stream) = stream.filter(|stream| !self.has_events(key, *stream)) else { return };
        if self.has_priming_events(key) {
            self.prime(key, stream);
        } else {
            self.outbox.write_exchange(exchange, HttpOutput::BeginStream);
        }
    }

    /// Closes the exchange of a stream; the client reconnects to resume it. Does nothing where the
    /// revision lets no server end a stream before the response, and in the strict profile, which
    /// has no GET.
    ///
    /// Source: 2025-11-25 `basic/transports`, "Sending Messages to the Server" (SEP-1699).
    pub(super) fn close_session_stream(&mut self, key: Key, stream: u32) {
        let is_strict = self.transports.http.checks.profile.strict.is_some();
        if is_strict || stream == LISTENING_STREAM || !self.has_priming_events(key) {
            return;
        }
        self.prime(key, stream);
        let Some(to) = self.exchange_of_stream(key, stream) else { return };
        self.transports.http.sessions.streams_mut(key).detach(stream, to, true, self.now);
        self.outbox.write_exchange(to, HttpOutput::EndStream { sends_retry: true });
    }

    /// Ends the GET streams of all sessions, because the server drains; requests in flight are
    /// completed.
    pub(super) fn end_get_streams(&mut self) {
        self.transports.http.is_draining = true;
        let sessions = self.transports.http.sessions.iter_mut();
        let ended = sessions.filter(|(_, http_session)| !http_session.owes_legacy_sse_response());
        let keys: Vec<Key> = ended.map(|(key, _)| key).collect();
        for key in keys {
            self.end_listening_streams(key);
        }
    }

    /// Ends the GET streams of a session.
    fn end_listening_streams(&mut self, key: Key) {
        // Once the current one is detached, another attached one is current.
        while let Some(to) = self.exchange_of_stream(key, LISTENING_STREAM) {
            let stream = self.stream_number(key, LISTENING_STREAM);
            self.transports.http.sessions.streams_mut(key).detach(stream, to, true, self.now);
            self.outbox.write_exchange(to, HttpOutput::EndStream { sends_retry: false });
        }
    }

    /// Sends a message on the one stream of an HTTP with SSE session (2024-11-05). Without event id
    /// and replay: the stream cannot be resumed.
    fn send_legacy_sse(&mut self, key: Key, text: &[u8]) {
        if let Some(to) = self.exchange_of_stream(key, LISTENING_STREAM) {
            self.outbox
                .write_exchange(to, HttpOutput::UnnumberedEvent(Bytes::copy_from_slice(text)));
        }
    }

    /// Begins a stream on which no event was ever pushed with one without data, from which its
    /// client resumes. Does nothing where the revision has no such event.
    fn prime(&mut self, key: Key, stream: u32) {
        if !self.has_events(key, stream) && self.has_priming_events(key) {
            self.push_event(key, stream, Outcome::Notification, Bytes::new());
        }
    }

    /// Returns whether streams of the session may carry events without data, and may end early.
    fn has_priming_events(&mut self, key: Key) -> bool {
        self.transports
            .http
            .sessions
            .get_mut(key)
            .is_some_and(|session| session.has_priming_events())
    }

    /// Returns whether an event was ever pushed on a stream.
    fn has_events(&self, key: Key, stream: u32) -> bool {
        self.transports.http.sessions.streams(key).is_some_and(|streams| streams.has_events(stream))
    }

    fn exchange_of_stream(&self, key: Key, stream: u32) -> Option<ExchangeAddress> {
        self.transports.http.sessions.streams(key)?.exchange(self.stream_number(key, stream))
    }

    /// Returns the number of the stream that a message for `stream` is sent on.
    fn stream_number(&self, key: Key, stream: u32) -> u32 {
        let listening =
            || self.transports.http.sessions.streams(key).map(SessionStreams::listening);
        if stream == LISTENING_STREAM { listening().unwrap_or(stream) } else { stream }
    }

    fn push_event(&mut self, key: Key, stream: u32, outcome: Outcome, text: Bytes) {
        let stream = self.stream_number(key, stream);
        let Some(pushed) =
            self.transports.http.sessions.streams_mut(key).push(stream, text.clone())
        else {
            return;
        };
        let is_lost = pushed.exchange.is_none() && !pushed.is_stored;
        self.outbox.counters.sessions.events_dropped += u64::from(is_lost);
        if let Some(to) = pushed.exchange {
            let id = EventId { stream, number: pushed.number };
            let is_stored = pushed.is_stored;
            self.outbox.write_exchange(to, HttpOutput::Event { id, outcome, text, is_stored });
        }
    }
}
