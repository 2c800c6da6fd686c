//! HTTP with SSE (2024-11-05): an endpoint whose stream begins a session, and an endpoint to which
//! its messages are posted.
//!
//! Invariants: every message to such a client goes to its stream, and its session ends with the
//! stream, which cannot be resumed.
//!
//! Source: 2024-11-05 `basic/transports`, "HTTP with SSE".

use corelane_protocol::json::PaddedText;
use corelane_transport::http::checks::SESSION_PARAMETER;
use corelane_transport::http::fields::ResponseFields;
use corelane_transport::http::request_id::RequestIdBuf;
use corelane_transport::http::response::BodyKind;
use corelane_transport::http::status::Status;

use super::IncomingRequest;
use super::session::find_or_forward;
use crate::server::auth::Credential;
use crate::server::connection_state::{
    HttpSession, MessageOrigin, OriginDetails, RETRY_AFTER_SECONDS, ResponseFormat, ResponseOwner,
};
use crate::server::shard::{Shard, Transports};
use crate::server::shard_message::HttpOutput;

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
        return shard.respond(incoming, Status::UNAVAILABLE, BodyKind::Empty, fields, &[]);
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
pub(super) fn handle_post(
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
    shard.respond(incoming, Status::ACCEPTED, BodyKind::Empty, fields, &[]);
}
