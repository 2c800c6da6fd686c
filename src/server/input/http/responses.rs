//! The responses that every kind of HTTP request uses.

use std::net::SocketAddr;
use std::sync::Arc;

use corelane_base::principal::Principal;
use corelane_base::slab::Key;
use corelane_parity::error::ParityError;
use corelane_protocol::error::{Error, ErrorKind};
use corelane_protocol::jsonrpc::Id;
use corelane_protocol::model;
use corelane_protocol::revision::Revision;
use corelane_transport::http::checks;
use corelane_transport::http::fields::ResponseFields;
use corelane_transport::http::head::{Field, HttpMethod, field_values, target_path};
use corelane_transport::http::head_template::HeadTemplate;
use corelane_transport::http::request_id::sent_id_of_all;
use corelane_transport::http::response::{self, BodyKind, Response};
use corelane_transport::http::status::Status;

use super::IncomingRequest;
use crate::connection::CloseReason;
use crate::server::acceptance::refusal_error;
use crate::server::connection_state::{
    EchoedFields, RETRY_AFTER_SECONDS, ResponseFormat, ResponseOwner,
};
use crate::server::http::HttpTransport;
use crate::server::owner_id::SessionId;
use crate::server::shard::Shard;
use crate::server::shard_message::{RefusedRequest, SessionCaller, SessionMessage, SessionOp};
use crate::telemetry::label::{RefusalReason, Transport};

/// The complete response to a refused request that names a session of another shard.
struct ForwardedRefusal<'a> {
    key: Key,
    session: SessionId,
    caller: Option<Arc<Principal>>,
    /// The response, without the session.
    response: Response<'a>,
    text: &'a [u8],
    is_head: bool,
    /// Why the connection closes after the response, if it does for what the client has sent.
    violation: Option<CloseReason>,
}

impl Shard {
    /// Ends the stream of a connection on which nothing is outstanding. The stream of HTTP with SSE
    /// (2024-11-05) ends after the last response of its session. `reason`: the last event of a
    /// stream of the parity dialect.
    pub(in crate::server) fn end_idle_stream(&mut self, key: Key, reason: &ParityError) {
        let connection = self.transports.connections.table.get(key);
        let owner = connection.and_then(|it| it.state.exchange.as_ref()).map(|it| it.owner);
        let session = match owner {
            Some(ResponseOwner::Session(id)) => self.transports.http.sessions.find(id),
            Some(ResponseOwner::Connection | ResponseOwner::Parity(_)) | None => None,
        };
        let http_session = session.and_then(|key| self.transports.http.sessions.get_mut(key));
        if http_session.is_some_and(|it| it.owes_legacy_sse_response()) {
            self.exchanges().mark_awaited_stream(key);
        } else {
            self.exchanges().end_idle_stream(key, reason);
        }
    }

    /// Responds that the limit of WebSocket connections is reached. The connection stays HTTP.
    #[cold]
    pub(super) fn refuse_upgrade(&mut self, incoming: &IncomingRequest<'_>, reason: RefusalReason) {
        let Some(connection) = self.transports.connections.table.get(incoming.key) else { return };
        let peer = connection.record.peer();
        self.record_invalid(incoming.key);
        self.respond_refused(incoming, Transport::WebSocket, peer, reason);
    }

    /// Records that a connection or its upgrade is refused, and responds with status 503.
    pub(super) fn respond_refused(
        &mut self,
        incoming: &IncomingRequest<'_>,
        transport: Transport,
        peer: Option<SocketAddr>,
        reason: RefusalReason,
    ) {
        let acceptor = &mut self.transports.acceptor;
        acceptor.record_refusal(reason, transport, peer, self.now, &mut self.outbox);
        let retry_after_seconds = Some(RETRY_AFTER_SECONDS);
        let fields = ResponseFields { retry_after_seconds, ..incoming.response_fields() };
        let text = self.error_text(incoming, None, &refusal_error(reason));
        self.respond_refusal(incoming, Status::UNAVAILABLE, fields, &text);
    }

    /// In the strict profile: returns the session that a request names, open or not.
    pub(super) fn named_session(&self, incoming: &IncomingRequest<'_>) -> Option<SessionId> {
        let profile = &self.transports.http.checks.profile;
        profile.strict?;
        let IncomingRequest { head, bytes, .. } = *incoming;
        let named = head.field(bytes, Field::McpSessionId);
        let named = named.or_else(|| checks::session_id_in_query(head, bytes, profile))?;
        SessionId::parse(named)
    }

    /// Writes the complete response to a request that is refused before it reaches its session. In
    /// the strict profile it names the session that the request names, if that is open to the
    /// caller: the shard that owns the session knows.
    pub(super) fn respond_refusal(
        &mut self,
        incoming: &IncomingRequest<'_>,
        status: Status,
        fields: ResponseFields<'_>,
        text: &[u8],
    ) {
        let body = BodyKind::Json;
        let Some(session) = self.named_session(incoming) else {
            return self.respond_http(incoming, status, body, fields, text);
        };
        let IncomingRequest { key, head, format, .. } = *incoming;
        let connection = self.transports.connections.table.get(key);
        let caller = connection.and_then(|it| it.state.principal().cloned());
        if self.transports.http.owns(session) {
            let is_open = self.is_session_open_to(session, caller.as_ref());
            let named = is_open.then(|| session.to_text());
            let session_id = named.as_ref().map(|text| &text[..]);
            let fields = ResponseFields { session_id, ..fields };
            return self.respond_http(incoming, status, body, fields, text);
        }
        let ResponseFormat { closes, is_chunked, .. } = format;
        let response = Response { status, body, close: closes, is_chunked, fields };
        let is_head = head.method == HttpMethod::Head;
        let violation = None;
        self.forward_refusal(ForwardedRefusal {
            key,
            session,
            caller,
            response,
            text,
            is_head,
            violation,
        });
    }

    /// Has the shard that owns its session decide whether a response names it. The connection waits
    /// for that.
    #[cold]
    fn forward_refusal(&mut self, refusal: ForwardedRefusal<'_>) {
        let ForwardedRefusal { key, session, caller, response, text, is_head, violation } = refusal;
        let (name, heads) = (session.to_text(), self.transports.http.heads(self.now));
        let [named, unnamed] = [Some(&name[..]), None].map(|session_id| {
            let mut out = Vec::new();
            let fields = ResponseFields { session_id, ..response.fields };
            append_http_response(&mut out, &Response { fields, ..response }, heads, text, is_head);
            out
        });
        let Response { close: closes, is_chunked, .. } = response;
        let format = ResponseFormat { is_chunked, closes, ..ResponseFormat::default() };
        let owner = ResponseOwner::Session(session);
        let exchange = self.exchanges().open(key, EchoedFields::default(), format, owner);
        let refused = Box::new(RefusedRequest { named, unnamed, violation });
        let op = SessionOp::RespondRefused(refused);
        let caller = Box::new(SessionCaller { principal: caller, ..SessionCaller::default() });
        let owner = self.transports.http.owner_of(session);
        let session = Some(session);
        self.outbox.forward(owner, SessionMessage::Request { session, exchange, caller, op });
    }

    /// Returns the body of an error response, which is counted.
    pub(super) fn error_text(
        &mut self,
        incoming: &IncomingRequest<'_>,
        id: Option<Id<'_>>,
        error: &Error,
    ) -> Vec<u8> {
        self.outbox.count_error(error);
        let mut text = Vec::new();
        if is_parity(&self.transports.http, incoming) {
            corelane_parity::write::error(&mut text, None, &ParityError::from(error));
        } else {
            model::write_error_response(&mut text, id, error, None);
        }
        text
    }

    /// Writes a complete response, without the body for HEAD.
    pub(super) fn respond_http(
        &mut self,
        incoming: &IncomingRequest<'_>,
        status: Status,
        body: BodyKind,
        fields: ResponseFields<'_>,
        text: &[u8],
    ) {
        let IncomingRequest { key, head, format, .. } = *incoming;
        let heads = self.transports.http.heads(self.now);
        let ResponseFormat { closes, is_chunked, .. } = format;
        let response = Response { status, body, close: closes, is_chunked, fields };
        if let Some(out) = self.transports.connections.outgoing(key) {
            append_http_response(out, &response, heads, text, head.method == HttpMethod::Head);
            if let Some(connection) = self.transports.connections.table.get_mut(key) {
                connection.record.traffic.messages_out += 1;
            }
        }
        self.close_if_requested(incoming);
    }

    /// Writes the error for input that is not HTTP, for which the connection closes. In the strict
    /// profile it names the session that `head` names, as far as it arrived, if that is open to
    /// callers without a token: a token in it is not read.
    pub(super) fn write_framing_error(
        &mut self,
        key: Key,
        response: &Response<'_>,
        head: &[u8],
        error: &Error,
    ) {
        let strict = self.transports.http.checks.profile.strict;
        let mut names = field_values(head, b"mcp-session-id");
        let name = names.next().filter(|first| names.all(|other| other == *first));
        let session = name.filter(|_| strict.is_some()).and_then(SessionId::parse);
        let violation = Some(CloseReason::ProtocolViolation);
        if let Some(session) = session.filter(|session| !self.transports.http.owns(*session)) {
            let protocol_version = strict.map(Revision::as_str);
            let fields = ResponseFields { protocol_version, ..response.fields };
            let response = Response { fields, ..*response };
            let text = self.unread_error_text(head, error);
            let (text, caller, is_head) = (&text[..], None, false);
            let refusal =
                ForwardedRefusal { key, session, caller, response, text, is_head, violation };
            return self.forward_refusal(refusal);
        }
        let open = session.filter(|session| self.is_session_open_to(*session, None));
        let open = open.map(SessionId::to_text);
        let session_id = open.as_ref().map(|text| &text[..]);
        let fields = ResponseFields { session_id, ..response.fields };
        let text = self.unread_error_text(head, error);
        self.write_unsolicited_error(key, &Response { fields, ..*response }, &text);
        if let Some(connection) = self.transports.connections.table.get_mut(key) {
            connection.state.violation = violation;
        }
    }

    /// Writes an error to a connection whose requests have no exchange.
    fn write_unsolicited_error(&mut self, key: Key, response: &Response<'_>, text: &[u8]) {
        let protocol_version = self.transports.http.checks.profile.strict.map(Revision::as_str);
        let fields = ResponseFields { protocol_version, ..response.fields };
        let response = Response { fields, ..*response };
        let heads = self.transports.http.heads(self.now);
        if let Some(out) = self.transports.connections.outgoing(key) {
            let mark = response::begin_response(out, &response, heads);
            out.extend_from_slice(text);
            response::end_response(out, mark, heads);
        }
    }

    /// Returns the body of an error for a request of which `head` was read.
    #[cold]
    fn unread_error_text(&self, head: &[u8], error: &Error) -> Vec<u8> {
        let mut text = Vec::new();
        let bytes_max = self.transports.http.limits.body_bytes_max as u64;
        if checks::is_parity_path(target_path(head), &self.transports.http.checks.profile) {
            let error = match error.kind {
                ErrorKind::MessageTooLarge => ParityError::payload_too_large(bytes_max),
                _ => ParityError::from(error),
            };
            corelane_parity::write::error(&mut text, None, &error);
        } else {
            model::write_error_response(&mut text, None, error, None);
        }
        text
    }

    /// Sends the error for which the connection closes (connection limit, memory limit), unless a
    /// response is in progress.
    pub(in crate::server) fn send_closing_error(&mut self, key: Key, error: &Error) {
        let Some(connection) = self.transports.connections.table.get(key) else { return };
        if connection.state.exchange.is_some() {
            return;
        }
        let standing = connection.state.standing;
        let pending = self.transports.connections.table.pending_head(key);
        let head = pending.and_then(|(head, bytes)| bytes.get(..head.bytes as usize));
        let head = head.unwrap_or_default().to_vec();
        self.transports.http.exchanges.begin_request();
        let fields = ResponseFields {
            request_id: sent_id_of_all(field_values(&head, b"x-request-id")),
            retry_after_seconds: Some(RETRY_AFTER_SECONDS),
            allow_origin: self.transports.http.allowed_origin(&head, standing),
            ..ResponseFields::NONE
        };
        let status = Status::from(error.kind.properties().http_modern);
        let response = Response { close: true, fields, ..Response::new(status, BodyKind::Json) };
        let text = self.unread_error_text(&head, error);
        self.write_unsolicited_error(key, &response, &text);
    }

    /// Closes the connection once its response is sent, if the client requested it (`Connection:
    /// close`, HTTP/1.0).
    #[inline]
    pub(super) fn close_if_requested(&mut self, incoming: &IncomingRequest<'_>) {
        if incoming.format.closes {
            self.close_after_response(incoming.key);
        }
    }
}

/// Appends a complete response, without the body for HEAD.
fn append_http_response(
    out: &mut Vec<u8>,
    response: &Response<'_>,
    heads: &mut HeadTemplate,
    text: &[u8],
    is_head: bool,
) {
    let mark = response::begin_response(out, response, heads);
    out.extend_from_slice(text);
    if is_head {
        response::end_head_response(out, mark, heads);
    } else {
        response::end_response(out, mark, heads);
    }
}

/// Returns whether a request is for an endpoint of the parity dialect.
#[cold]
pub(super) fn is_parity(http: &HttpTransport, incoming: &IncomingRequest<'_>) -> bool {
    checks::is_parity_path(incoming.head.path(incoming.bytes), &http.checks.profile)
}
