//! Requests for a legacy session, on the shard of their connection.
//!
//! Invariants: a session is reached through any connection on any shard; a request for a session of
//! another shard becomes a message, and its connection waits for the response. For a session of
//! this shard an immediate response is written in place.
//!
//! HTTP with SSE (2024-11-05) has an endpoint whose stream begins a session, and an endpoint to
//! which its messages are posted. Every message to such a client goes to its stream, and its
//! session ends with the stream, which cannot be resumed.
//!
//! Source: 2024-11-05 `basic/transports`, "HTTP with SSE"; 2025-03-26 to 2025-11-25,
//! `basic/transports`, "Session Management", "Listening for Messages from the Server",
//! "Resumability and Redelivery".

use corelane_base::slab::Key;
use corelane_protocol::json::{PaddedBuffer, PaddedText};
use corelane_transport::http::checks::{CheckId, SESSION_PARAMETER};
use corelane_transport::http::fields::ResponseFields;
use corelane_transport::http::request_id::RequestIdBuf;
use corelane_transport::http::response::{self, BodyKind};
use corelane_transport::http::sse::EventId;
use corelane_transport::http::status::Status;

use super::IncomingRequest;
use crate::connection::Connection;
use crate::server::auth::Credential;
use crate::server::connection_state::{
    HttpSession, MessageOrigin, OriginDetails, PeerState, RETRY_AFTER_SECONDS, ResponseFormat,
    ResponseOwner,
};
use crate::server::http::session_error_message;
use crate::server::owner_id::SessionId;
use crate::server::reply_to::Outcome;
use crate::server::sessions::{begin_session_message, dispatch_session_text};
use crate::server::shard::{Shard, Transports};
use crate::server::shard_message::{
    HttpOutput, LegacyOp, SessionCaller, SessionMessage, SessionOp,
};

/// Handles a message for a session; `incoming` has the errors of sessions.
#[inline]
pub(super) fn handle_post(
    shard: &mut Shard,
    incoming: &IncomingRequest<'_>,
    session: &[u8],
    text: PaddedText<'_>,
) {
    if let Some((id, key)) = find_or_forward(shard, incoming, session, false, &text) {
        dispatch_local(shard, incoming, id, key, text);
    }
}

/// Returns the session of this shard that a message was posted to, by its id and endpoint. Forwards
/// the message if another shard owns the session, and rejects it if there is none.
#[inline]
fn find_or_forward(
    shard: &mut Shard,
    incoming: &IncomingRequest<'_>,
    session: &[u8],
    is_legacy_sse: bool,
    text: &PaddedText<'_>,
) -> Option<(SessionId, Key)> {
    let id = SessionId::parse(session);
    if let Some(id) = id.filter(|id| !shard.transports.http.owns(*id)) {
        let text = PaddedBuffer::copy_of(text.as_bytes());
        send_op(shard, incoming, id, LegacyOp::HandleMessage { text, is_legacy_sse });
        return None;
    }
    let found = id.and_then(|id| Some((id, shard.transports.http.sessions.find(id)?)));
    let found = found.filter(|(_, key)| shard.is_legacy_sse(*key) == is_legacy_sse);
    let found = found.filter(|(_, key)| {
        let Shard { transports, dispatcher, .. } = &mut *shard;
        let Transports { connections, http, .. } = transports;
        !dispatcher.auth.is_active() || {
            let connection = connections.table.get(incoming.key);
            let caller = connection.and_then(|connection| connection.state.principal());
            http.sessions.get_mut(*key).is_some_and(|session| session.is_of_caller(caller))
        }
    });
    if found.is_none() {
        shard.reject_unknown_session(incoming);
    }
    found
}

/// Dispatches a message for a session of this shard.
fn dispatch_local(
    shard: &mut Shard,
    incoming: &IncomingRequest<'_>,
    id: SessionId,
    key: Key,
    text: PaddedText<'_>,
) {
    let format = session_format(shard, incoming.format, id);
    let echoed = incoming.echoed();
    let Shard { transports, parser, dispatcher, outbox, now, .. } = shard;
    let Transports { connections, http, .. } = transports;
    let Some(connection) = connections.table.get_mut(incoming.key) else { return };
    let Connection { outgoing, record, state, .. } = connection;
    let (heads, sessions) = (http.exchanges.heads(*now), &mut http.sessions);
    let details = &OriginDetails {
        http_head: incoming.bytes,
        request_id: echoed.request_id_or(heads),
        session_id: Some(id),
        extensions: state.extension_slot(),
        principal: state.principal(),
        traceparent: None,
        is_streamed: false,
    };
    let origin = MessageOrigin { peer_addr: record.peer_address(), details };
    let mark = format.begin_response(outgoing, Status::OK, BodyKind::Json, echoed, heads);
    let ctx = begin_session_message(sessions, key, *now);
    let Some(HttpSession { state, pending_work, .. }) = sessions.get_mut(key) else { return };
    let mut peer = PeerState::new(origin, state, pending_work, outgoing, outbox);
    let dispatched = dispatch_session_text(parser, dispatcher, ctx, &mut peer, text);
    match (dispatched.outcome, dispatched.pending_responses) {
        (Outcome::Response, 0) => response::end_response(outgoing, mark, heads),
        (Outcome::Error(kind), 0) => {
            let refusal = dispatched.refusal.as_ref();
            let mark = format.replace_head_with_error(outgoing, mark, kind, echoed, refusal, heads);
            response::end_response(outgoing, mark, heads);
        }
        (Outcome::None, 0) => {
            outgoing.truncate(mark.head());
            let id = format.session_id.map(SessionId::to_text);
            let session = id.as_ref().map(|text| &text[..]);
            let fields = ResponseFields { session_id: session, ..incoming.response_fields() };
            return shard.respond_http(incoming, Status::ACCEPTED, BodyKind::Empty, fields, &[]);
        }
        (outcome, awaited) => {
            let text = outgoing.split_off(mark.body());
            outgoing.truncate(mark.head());
            let from = shard.exchanges().open(
                incoming.key,
                incoming.echoed(),
                format,
                ResponseOwner::Session(id),
            );
            shard.begin_response_stream(key, from, awaited, outcome, &text);
            return;
        }
    }
    shard.close_if_requested(incoming);
}

/// GET: opens or resumes a stream of a session.
pub(super) fn handle_get(
    shard: &mut Shard,
    incoming: &IncomingRequest<'_>,
    session: &[u8],
    last_event: Option<&[u8]>,
) {
    let incoming = &incoming.for_session();
    let Some(id) = SessionId::parse(session) else {
        return shard.reject_unknown_session(incoming);
    };
    let after = match last_event.map(EventId::parse) {
        Some(None) => {
            let message = session_error_message(CheckId::EventIdKnown);
            return shard.reject_request(incoming, &CheckId::EventIdKnown.reject(message));
        }
        Some(after) => after,
        None => None,
    };
    send_op(shard, incoming, id, LegacyOp::OpenStream(after));
    shard.exchanges().mark_idle_stream(incoming.key);
}

/// DELETE: ends a session.
pub(super) fn handle_delete(shard: &mut Shard, incoming: &IncomingRequest<'_>, session: &[u8]) {
    let incoming = &incoming.for_session();
    match SessionId::parse(session) {
        Some(id) => send_op(shard, incoming, id, LegacyOp::End),
        None => shard.reject_unknown_session(incoming),
    }
}

/// Opens an exchange and sends the operation to the shard that owns the session.
fn send_op(shard: &mut Shard, incoming: &IncomingRequest<'_>, id: SessionId, op: LegacyOp) {
    let format = session_format(shard, incoming.format, id);
    let owner = ResponseOwner::Session(id);
    send_request(shard, incoming, format, owner, Some(id), SessionOp::Legacy(op));
}

/// Opens an exchange and sends what its request asks to the shard that owns the session `owned`, or
/// to this one.
pub(super) fn send_request(
    shard: &mut Shard,
    incoming: &IncomingRequest<'_>,
    format: ResponseFormat,
    response_owner: ResponseOwner,
    owned: Option<SessionId>,
    op: SessionOp,
) {
    let (key, echoed) = (incoming.key, incoming.echoed());
    let exchange = shard.exchanges().open(key, echoed, format, response_owner);
    let Some(connection) = shard.transports.connections.table.get(key) else { return };
    let peer_addr = connection.record.peer_address().copied();
    let caller = Box::new(SessionCaller {
        http_head: incoming.bytes.into(),
        request_id: Some(shard.transports.http.request_id(echoed).into()),
        ..connection.state.session_caller(peer_addr)
    });
    let owner = owned.map_or(exchange.shard, |id| shard.transports.http.owner_of(id));
    let session = response_owner.session();
    shard.outbox.forward(owner, SessionMessage::Request { session, exchange, caller, op });
}

/// In the strict profile every response carries `Mcp-Session-Id`.
fn session_format(shard: &Shard, format: ResponseFormat, id: SessionId) -> ResponseFormat {
    ResponseFormat { session_id: shard.transports.http.checks.profile.strict.map(|_| id), ..format }
}

/// Opens the stream and session, and sends the `endpoint` event.
pub(super) fn open_stream(shard: &mut Shard, incoming: &IncomingRequest<'_>) {
    let incoming = &incoming.for_session();
    // This path is always a stream, whatever `Accept` contains.
    let format = ResponseFormat { accepts_event_stream: true, ..incoming.format };
    let incoming = &IncomingRequest { format, ..*incoming };
    let client =
        shard.transports.connections.table.get(incoming.key).and_then(|it| it.state.client);
    let mut http_session = HttpSession::new(client, shard.now);
    http_session.is_legacy_sse = true;
    let Some(created) =
        shard.transports.http.create_session(http_session, &mut shard.outbox, shard.now)
    else {
        let retry_after_seconds = Some(RETRY_AFTER_SECONDS);
        let fields = ResponseFields { retry_after_seconds, ..incoming.response_fields() };
        return shard.respond_http(incoming, Status::UNAVAILABLE, BodyKind::Empty, fields, &[]);
    };
    let Shard { transports, dispatcher, outbox, now, .. } = shard;
    let Transports { connections, http, .. } = transports;
    let principal = connections.table.get(incoming.key).and_then(|it| it.state.principal());
    if let (Some(principal), Some(session)) = (principal, http.sessions.get_mut(created.key)) {
        let credential = Some(Credential::of_session(principal));
        dispatcher.facts.keep_credential(&mut session.state, credential);
    }
    http.confirm_session(&created, dispatcher, outbox, *now);
    let owner = ResponseOwner::Session(created.id);
    let from = shard.exchanges().open(incoming.key, incoming.echoed(), format, owner);
    shard.exchanges().mark_idle_stream(incoming.key);
    if shard.transports.http.sessions.streams_mut(created.key).listen(from).is_ok() {
        let id = created.id.to_text();
        let id = String::from_utf8_lossy(&id);
        let messages = shard.transports.http.checks.profile.paths.legacy_messages();
        let uri = format!("{messages}?{SESSION_PARAMETER}={id}");
        shard.outbox.write_exchange(from, HttpOutput::Endpoint(uri.into()));
    }
}

/// Dispatches a posted message: accepted at once, answered on the stream.
pub(super) fn handle_legacy_message(
    shard: &mut Shard,
    incoming: &IncomingRequest<'_>,
    session: &[u8],
    text: PaddedText<'_>,
) {
    let incoming = &incoming.for_session();
    let Some((id, key)) = find_or_forward(shard, incoming, session, true, &text) else { return };
    let connection = shard.transports.connections.table.get(incoming.key);
    let extensions = connection.and_then(|it| it.state.extension_slot().cloned());
    let peer_addr = connection.and_then(|it| it.record.peer_address().copied());
    let principal = connection.and_then(|it| it.state.principal().cloned());
    let request_id = RequestIdBuf::from(shard.transports.http.request_id(incoming.echoed()));
    let details = &OriginDetails {
        http_head: incoming.bytes,
        request_id: request_id.as_bytes(),
        session_id: Some(id),
        extensions: extensions.as_ref(),
        principal: principal.as_ref(),
        traceparent: None,
        is_streamed: false,
    };
    let origin = MessageOrigin { peer_addr: peer_addr.as_ref(), details };
    shard.dispatch_legacy_sse(key, origin, text);
    let fields = incoming.response_fields();
    shard.respond_http(incoming, Status::ACCEPTED, BodyKind::Empty, fields, &[]);
}
