//! Requests for a legacy session, on the shard of their connection.
//!
//! Invariants: a session is reached through any connection on any shard; a request for a session of
//! another shard becomes a message, and its connection waits for the response. For a session of
//! this shard an immediate response is written in place.
//!
//! Source: 2025-03-26 to 2025-11-25, `basic/transports`, "Session Management", "Listening for
//! Messages from the Server", "Resumability and Redelivery".

use super::IncomingRequest;
use super::exchange_output::session_error_message;
use super::session_owner::dispatch_session_text;
use crate::base::slab::Key;
use crate::connection::Connection;
use crate::protocol::json;
use crate::server::http::{HttpMessage, ResponseFormat, ResponseOwner, SessionId, SessionOp};
use crate::server::reply_to::{Outcome, ReplyTo};
use crate::server::shard::Shard;
use crate::server::shard_message::ShardMessage;
use crate::transport::http::checks::CheckId;
use crate::transport::http::fields::ResponseFields;
use crate::transport::http::response::{self, BodyKind};
use crate::transport::http::sse::EventId;
use crate::transport::http::status::Status;

impl Shard {
    /// Handles a message for a session.
    #[inline]
    pub(super) fn handle_session_post(
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
                SessionOp::HandleMessage { text, is_legacy_sse: false },
            );
        }
        let Some(key) = self.http.sessions.find(id) else {
            return self.reject_unknown_session(incoming);
        };
        self.dispatch_local(incoming, (id, key), (text, length));
    }

    /// Dispatches a message for a session of this shard.
    fn dispatch_local(
        &mut self,
        incoming: &IncomingRequest<'_>,
        (id, key): (SessionId, Key),
        (text, length): (&mut [u8], usize),
    ) {
        let IncomingRequest { now, .. } = *incoming;
        let format = self.session_format(incoming.format, id);
        let (origin, date) = (incoming.origin(), *self.http.date());
        self.http.sessions.touch(key, now);
        let stream = self.http.sessions.next_stream_number(key).unwrap_or(ReplyTo::NO_STREAM);
        let Self { parser, connections, dispatcher, outbox, http, .. } = self;
        let (Some(connection), Some(http_session)) =
            (connections.table.get_mut(incoming.key), http.sessions.get_mut(key))
        else {
            return;
        };
        if http_session.is_legacy_sse {
            return self.reject_unknown_session(incoming);
        }
        let Connection { outgoing, .. } = connection;
        let mark = format.begin_response(outgoing, (Status::OK, BodyKind::Json), origin, &date);
        let dispatched = dispatch_session_text(
            (parser, dispatcher, outbox),
            http_session,
            (key, stream),
            outgoing,
            (text, length),
            now,
        );
        match (dispatched.outcome, dispatched.pending_responses) {
            (Outcome::Response, 0) => response::end_response(outgoing, mark),
            (Outcome::Error(kind), 0) => {
                let mark = format.replace_head_with_error(outgoing, (mark, kind), origin, &date);
                response::end_response(outgoing, mark);
            }
            (Outcome::None, 0) => {
                outgoing.truncate(mark.head());
                let id = format.session_id.map(SessionId::to_text);
                let session = id.as_ref().map(|text| &text[..]);
                let fields = ResponseFields { session_id: session, ..incoming.response_fields() };
                return self.respond(incoming, (Status::ACCEPTED, BodyKind::Empty, fields), &[]);
            }
            (outcome, awaited) => {
                let text = outgoing.split_off(mark.body());
                outgoing.truncate(mark.head());
                let from = self.open_exchange(incoming, format, ResponseOwner::Session(id));
                self.begin_response_stream(key, from, awaited, (outcome, text));
                return;
            }
        }
        self.close_if_requested(incoming);
    }

    /// GET: opens or resumes a stream of a session.
    pub(super) fn handle_session_get(
        &mut self,
        incoming: &IncomingRequest<'_>,
        session: &[u8],
        last_event: Option<&[u8]>,
    ) {
        let format = legacy_format(incoming.format);
        let incoming = &IncomingRequest { format, ..*incoming };
        let Some(id) = SessionId::parse(session) else {
            return self.reject_unknown_session(incoming);
        };
        let after = match last_event.map(EventId::parse) {
            Some(None) => {
                let refusal =
                    CheckId::EventIdKnown.reject(session_error_message(CheckId::EventIdKnown));
                return self.reject_request(incoming, &refusal);
            }
            Some(after) => after,
            None => None,
        };
        self.send_session_op(incoming, id, SessionOp::OpenStream(after));
        // Nothing is outstanding on it: it neither delays a drain nor is subject to a timeout.
        if let Some(connection) = self.connections.table.get_mut(incoming.key)
            && connection.state.exchange.is_some()
        {
            connection.pending_work.complete_request();
            connection.pending_work.has_open_stream = true;
        }
    }

    /// DELETE: ends a session.
    pub(super) fn handle_session_delete(&mut self, incoming: &IncomingRequest<'_>, session: &[u8]) {
        let format = legacy_format(incoming.format);
        let incoming = &IncomingRequest { format, ..*incoming };
        match SessionId::parse(session) {
            Some(id) => self.send_session_op(incoming, id, SessionOp::End),
            None => self.reject_unknown_session(incoming),
        }
    }

    pub(super) fn send_session_op(
        &mut self,
        incoming: &IncomingRequest<'_>,
        id: SessionId,
        op: SessionOp,
    ) {
        let format = self.session_format(incoming.format, id);
        let from = self.open_exchange(incoming, format, ResponseOwner::Session(id));
        let owner = id.owner_shard(self.dispatcher.shard_count);
        if owner == self.id {
            return self.handle_session_op(id, from, op, incoming.now);
        }
        let message = HttpMessage::SessionRequest { session: id, exchange: from, op };
        self.outbox.forward(owner, ShardMessage::Http(Box::new(message)));
    }

    /// In the strict profile every response carries `Mcp-Session-Id`.
    fn session_format(&self, format: ResponseFormat, id: SessionId) -> ResponseFormat {
        let session = self.http.profile.strict.map(|_| id);
        ResponseFormat { session_id: session, ..format }
    }

    pub(super) fn reject_unknown_session(&mut self, incoming: &IncomingRequest<'_>) {
        let refusal = CheckId::SessionExists.reject(session_error_message(CheckId::SessionExists));
        self.reject_request(incoming, &refusal);
    }
}

/// Copies a message for another shard, with capacity for the padding of its parser.
pub(super) fn copy_with_capacity(text: &[u8], length: usize) -> Vec<u8> {
    let mut dispatched = Vec::with_capacity(length + json::PADDING_BYTES);
    dispatched.extend_from_slice(&text[..length]);
    dispatched
}

/// The response format for sessions: legacy status codes for errors.
pub(super) const fn legacy_format(format: ResponseFormat) -> ResponseFormat {
    ResponseFormat { is_modern: false, ..format }
}
