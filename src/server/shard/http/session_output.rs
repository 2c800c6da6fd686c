//! Output of a session, on the shard that owns it.
//!
//! Invariants: a request that is answered before anything else is sent for it gets one JSON
//! response; otherwise its output is events of its stream, numbered and kept for replay until the
//! client has received them or the stream has expired.
//!
//! Source: 2025-11-25 `basic/transports`, "Sending Messages to the Server", "Resumability and
//! Redelivery".

use bytes::Bytes;

use crate::base::slab::Key;
use crate::server::http::{ExchangeAddress, HttpOutput, LISTENING_STREAM, SessionId};
use crate::server::reply_to::{Outcome, PeerId, ReplyTo};
use crate::server::shard::Shard;
use crate::transport::http::sse::EventId;

impl Shard {
    /// Sends a message on a stream of a session.
    pub(in crate::server::shard) fn send_on_session(
        &mut self,
        key: Key,
        stream: u32,
        outcome: Outcome,
        text: &[u8],
    ) {
        let Some(http_session) = self.http.sessions.get_mut(key) else { return };
        if http_session.is_legacy_sse {
            return self.send_legacy_sse(key, text);
        }
        let has_more =
            stream == LISTENING_STREAM || http_session.track_batch_response(stream, outcome);
        let outcome = if has_more { Outcome::Notification } else { outcome };
        let now = self.http.now();
        let sessions = &mut self.http.sessions;
        if outcome.is_response() && !sessions.has_events(key, stream) {
            // No event was sent, so the stream cannot be resumed: no replay is needed.
            let exchange = sessions.finish_stream(key, stream, now);
            if let Some(to) = exchange {
                self.http.sessions.detach_stream(key, stream, to, true, now);
                self.send_output(to, HttpOutput::Response { outcome, text: text.to_vec() });
            }
            return;
        }
        if stream != LISTENING_STREAM && !sessions.has_events(key, stream) {
            self.push_event(key, stream, Outcome::Notification, Bytes::new());
        }
        self.push_event(key, stream, outcome, Bytes::copy_from_slice(text));
        if outcome.is_response() {
            self.http.sessions.finish_stream(key, stream, now);
        }
    }

    /// Ends the stream of a cancelled request.
    pub(in crate::server::shard) fn end_stream_without_response(&mut self, key: Key, stream: u32) {
        let Some(http_session) = self.http.sessions.get_mut(key) else { return };
        if stream == LISTENING_STREAM
            || http_session.track_batch_response(stream, Outcome::Response)
        {
            return;
        }
        let now = self.http.now();
        if let Some(to) = self.http.sessions.finish_stream(key, stream, now) {
            self.http.sessions.detach_stream(key, stream, to, true, now);
            self.send_output(to, HttpOutput::EndStream { retry_ms: None });
        }
    }

    /// Begins the stream of a request that takes long. Any other exchange has its response on the
    /// way already.
    pub(super) fn begin_event_stream(&mut self, session: SessionId, exchange: ExchangeAddress) {
        let Some(key) = self.http.sessions.find(session) else { return };
        let stream = self.http.sessions.stream_of_exchange(key, exchange);
        let stream = stream.filter(|stream| *stream != LISTENING_STREAM);
        if let Some(stream) = stream.filter(|stream| !self.http.sessions.has_events(key, *stream)) {
            self.push_event(key, stream, Outcome::Notification, Bytes::new());
        }
    }

    /// Sends a message on the one stream of an HTTP with SSE session (2024-11-05). Without event id
    /// and replay: the stream cannot be resumed.
    fn send_legacy_sse(&mut self, key: Key, text: &[u8]) {
        if let Some(to) = self.http.sessions.exchange_of_stream(key, LISTENING_STREAM) {
            self.send_output(to, HttpOutput::UnnumberedEvent(Bytes::copy_from_slice(text)));
        }
    }

    fn push_event(&mut self, key: Key, stream: u32, outcome: Outcome, text: Bytes) {
        let Some(pushed) = self.http.sessions.push_event(key, stream, text.clone()) else { return };
        let is_lost = pushed.exchange.is_none() && !pushed.is_stored;
        self.outbox.counters.sessions.events_dropped += u64::from(is_lost);
        if let Some(to) = pushed.exchange {
            let id = EventId { stream, number: pushed.number };
            self.send_output(to, HttpOutput::Event { id, outcome, text });
        }
    }

    /// Closes the exchange of a stream; the client reconnects to resume it.
    ///
    /// Source: 2025-11-25 `basic/transports`, "Sending Messages to the Server" (SEP-1699).
    pub(in crate::server::shard) fn close_stream(&mut self, reply_to: ReplyTo) {
        let (PeerId::HttpSession(key), stream) = (reply_to.peer_id, reply_to.stream) else {
            return;
        };
        // The strict profile has no GET, so the client could not resume.
        if stream == LISTENING_STREAM || self.http.profile.strict.is_some() {
            return;
        }
        if !self.http.sessions.has_events(key, stream) {
            self.push_event(key, stream, Outcome::Notification, Bytes::new());
        }
        let Some(to) = self.http.sessions.exchange_of_stream(key, stream) else { return };
        let now = self.http.now();
        self.http.sessions.detach_stream(key, stream, to, true, now);
        let retry_ms = Some(self.http.timeouts.sse_retry_ms);
        self.send_output(to, HttpOutput::EndStream { retry_ms });
    }
}
