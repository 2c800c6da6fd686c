//! HTTP with SSE (2024-11-05): an endpoint whose stream begins a session, and an endpoint to which
//! its messages are posted.
//!
//! Invariants: every message to such a client goes to its stream, and its session ends with the
//! stream, which cannot be resumed.
//!
//! Source: 2024-11-05 `basic/transports`, "HTTP with SSE".

use super::IncomingRequest;
use super::session_owner::dispatch_session_text;
use super::session_requests::{copy_with_capacity, legacy_format};
use crate::base::slab::Key;
use crate::base::time::Instant;
use crate::server::connection_state::HttpSession;
use crate::server::http::{
    HttpOutput, LISTENING_STREAM, RETRY_AFTER_SECONDS, ResponseFormat, ResponseOwner, SessionId,
    SessionOp,
};
use crate::server::reply_to::Outcome;
use crate::server::shard::Shard;
use crate::transport::http::checks::SESSION_PARAMETER;
use crate::transport::http::fields::ResponseFields;
use crate::transport::http::response::BodyKind;
use crate::transport::http::status::Status;

impl Shard {
    /// Opens the stream and session, and sends the `endpoint` event.
    pub(super) fn open_legacy_sse(&mut self, incoming: &IncomingRequest<'_>) {
        // This path is always a stream, whatever `Accept` contains.
        let format =
            ResponseFormat { accepts_event_stream: true, ..legacy_format(incoming.format) };
        let incoming = &IncomingRequest { format, ..*incoming };
        let http_session = HttpSession { is_legacy_sse: true, ..HttpSession::new() };
        let Ok(created) = self.http.sessions.create(http_session, incoming.now) else {
            let fields = ResponseFields {
                retry_after_seconds: Some(RETRY_AFTER_SECONDS),
                ..incoming.response_fields()
            };
            let answer = (Status::UNAVAILABLE, BodyKind::Empty, fields);
            return self.respond(incoming, answer, &[]);
        };
        let evicted = self.http.sessions.evict_idle(created.key);
        let counts = &mut self.outbox.counters.sessions;
        counts.created += 1;
        counts.evicted += u64::from(evicted.is_some());
        self.http.evicted_sessions.extend(evicted);
        let from = self.open_exchange(incoming, format, ResponseOwner::Session(created.id));
        if let Some(connection) = self.connections.table.get_mut(incoming.key) {
            connection.pending_work.complete_request();
            connection.pending_work.has_open_stream = true;
        }
        if self.http.sessions.attach_listener(created.key, from).is_ok() {
            let id = created.id.to_text();
            let id = String::from_utf8_lossy(&id);
            let uri = format!("/messages?{SESSION_PARAMETER}={id}");
            self.send_output(from, HttpOutput::Endpoint(uri.into()));
        }
    }

    /// Dispatches a posted message: accepted at once, answered on the stream.
    pub(super) fn post_legacy_sse(
        &mut self,
        incoming: &IncomingRequest<'_>,
        session: &[u8],
        (text, length): (&mut [u8], usize),
    ) {
        let format = legacy_format(incoming.format);
        let incoming = &IncomingRequest { format, ..*incoming };
        let Some(id) = SessionId::parse(session) else {
            return self.reject_unknown_session(incoming);
        };
        if id.owner_shard(self.dispatcher.shard_count) != self.id {
            let text = copy_with_capacity(text, length);
            return self.send_session_op(
                incoming,
                id,
                SessionOp::HandleMessage { text, is_legacy_sse: true },
            );
        }
        let Some(key) = self.http.sessions.find(id).filter(|key| self.is_legacy_sse(*key)) else {
            return self.reject_unknown_session(incoming);
        };
        self.dispatch_legacy_sse(key, (text, length), incoming.now);
        let fields = incoming.response_fields();
        self.respond(incoming, (Status::ACCEPTED, BodyKind::Empty, fields), &[]);
    }

    /// Returns whether a session uses HTTP with SSE.
    pub(super) fn is_legacy_sse(&mut self, key: Key) -> bool {
        self.http.sessions.get_mut(key).is_some_and(|http_session| http_session.is_legacy_sse)
    }

    /// Dispatches a message of such a session; its output goes to the stream.
    pub(super) fn dispatch_legacy_sse(&mut self, key: Key, text: (&mut [u8], usize), now: Instant) {
        let Self { parser, dispatcher, outbox, http, .. } = self;
        let Some(http_session) = http.sessions.get_mut(key) else { return };
        let mut out = Vec::new();
        let dispatched = dispatch_session_text(
            (parser, dispatcher, outbox),
            http_session,
            (key, LISTENING_STREAM),
            &mut out,
            text,
            now,
        );
        for _ in 0..dispatched.pending_responses {
            self.http.sessions.begin_request(key);
        }
        if dispatched.outcome != Outcome::None {
            self.send_on_session(key, LISTENING_STREAM, Outcome::Notification, &out);
        }
    }
}
