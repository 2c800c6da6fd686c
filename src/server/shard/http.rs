//! HTTP: from requests to the dispatcher and back.
//!
//! A request is checked by its head, then by its message. Its kind decides who responds: the
//! dispatcher at once, the page and other plain resources, or a legacy session, possibly on another
//! shard. A request that is answered later opens an exchange, which pauses its connection.
//!
//! Invariants: every request gets one response, in the order of the requests; an invalid one
//! affects no other, and closes the connection only if its framing is lost.

mod exchange_output;
mod exchanges;
mod plain_requests;
mod post_request;
mod session_output;
mod session_owner;
mod session_requests;
mod websocket_upgrade;

mod legacy_sse;

use super::Shard;
use crate::base::slab::Key;
use crate::base::time::Instant;
use crate::guard::origin::RejectedHeader;
use crate::protocol::error::{Error, ErrorKind as Fault};
use crate::protocol::model;
use crate::protocol::revision::Revision;
use crate::server::connection_state::HttpSession;
use crate::server::http::{HttpFrontend, RETRY_AFTER_SECONDS, ResponseFormat};
use crate::transport::http::checks::{self, CheckId, Rejection, RequestKind};
use crate::transport::http::fields::ResponseFields;
use crate::transport::http::head::{Field, Head, HttpMethod};
use crate::transport::http::limits;
use crate::transport::http::reader::{Assembled, RequestEvent};
use crate::transport::http::response::{self, BodyKind, CONTINUE, Response};
use crate::transport::http::status::Status;

/// One request and the bytes of its head.
#[derive(Clone, Copy, Debug)]
struct IncomingRequest<'a> {
    key: Key,
    head: &'a Head,
    bytes: &'a [u8],
    format: ResponseFormat,
    now: Instant,
}

impl<'a> IncomingRequest<'a> {
    fn origin(&self) -> Option<&'a [u8]> {
        self.head.field(self.bytes, Field::Origin)
    }

    /// The header fields of every response to it.
    fn response_fields(&self) -> ResponseFields<'a> {
        ResponseFields {
            protocol_version: self.format.protocol_version,
            allow_origin: self.origin(),
            ..ResponseFields::NONE
        }
    }
}

impl Shard {
    /// Processes the requests in `bytes[..length]` (the rest is padding). Returns the number of
    /// bytes consumed before the connection must not be read any more.
    pub(super) fn read_requests(
        &mut self,
        key: Key,
        bytes: &mut [u8],
        length: usize,
        now: Instant,
    ) -> usize {
        let mut from = 0;
        self.http.begin_turn(self.dispatcher.deferred.wall_clock, now);
        loop {
            let limits = &self.http.limits;
            match self.connections.next_request(key, &bytes[..length], &mut from, limits, now) {
                RequestEvent::InPlace { head, start, body } => {
                    let (before, text) = bytes[start..].split_at_mut(body.start - start);
                    self.handle_request((key, &head), before, (text, body.len()), now);
                }
                RequestEvent::Assembled => {
                    let Some(request) = self.connections.take_request(key) else { return length };
                    let Assembled { mut bytes, head, body } = request;
                    let (before, text) = bytes.split_at_mut(body.start);
                    self.handle_request((key, &head), before, (text, body.len()), now);
                    self.connections.pool.put(bytes);
                }
                RequestEvent::HeadComplete => self.handle_head(key, now),
                RequestEvent::Rejected(refusal) => {
                    self.reject_framing(key, refusal);
                    return length;
                }
                RequestEvent::NeedMore => return from,
            }
            self.connections.apply_backpressure(key);
            if from == length {
                return length;
            }
        }
    }

    /// Checks the head of one request, then serves it.
    fn handle_request(
        &mut self,
        (key, head): (Key, &Head),
        bytes: &[u8],
        (text, length): (&mut [u8], usize),
        now: Instant,
    ) {
        let incoming =
            IncomingRequest { key, head, bytes, format: response_format(&self.http, head), now };
        let kind = match check_head(&mut self.http, &incoming) {
            Ok(kind) => kind,
            Err(refusal) => return self.reject_request(&incoming, &refusal),
        };
        match kind {
            RequestKind::Post { session_id: session, protocol_version: version } => {
                self.handle_post(&incoming, (session, version), (text, length));
            }
            RequestKind::GetStream { session_id: session, last_event_id: last_event } => {
                self.handle_session_get(&incoming, session, last_event);
            }
            RequestKind::DeleteSession { session_id: session } => {
                self.handle_session_delete(&incoming, session);
            }
            RequestKind::Upgrade => self.upgrade_to_websocket(&incoming),
            RequestKind::LegacySse => self.open_legacy_sse(&incoming),
            RequestKind::LegacyMessage { session_id: session } => {
                self.post_legacy_sse(&incoming, session, (text, length));
            }
            plain => self.respond_plain(&incoming, plain),
        }
    }

    /// Processes a head whose body is still to come: rejects the request by its head, or sends
    /// `100 Continue` if the client expects it.
    fn handle_head(&mut self, key: Key, now: Instant) {
        let Some((head, bytes)) = self.connections.pending_head(key) else { return };
        let format = ResponseFormat { closes: true, ..response_format(&self.http, head) };
        match check_head(&mut self.http, &IncomingRequest { key, head, bytes, format, now }) {
            Ok(_) if !head.expects_continue => {}
            Ok(_) => {
                if let Some(out) = self.connections.outgoing(key) {
                    out.extend_from_slice(CONTINUE);
                }
            }
            Err(refusal) => {
                let (head, bytes) = (head.clone(), bytes.to_vec());
                let incoming = IncomingRequest { key, head: &head, bytes: &bytes, format, now };
                self.reject_request(&incoming, &refusal);
            }
        }
    }

    /// Responds to a request that is rejected before its message is dispatched.
    fn reject_request(&mut self, incoming: &IncomingRequest<'_>, refusal: &Rejection) {
        self.outbox.counters.input_errors.http += 1;
        let Rejection { status, allow, error, check: step } = refusal;
        // A page of a foreign origin must not learn that a server is here.
        let origin =
            incoming.origin().filter(|_| *step != CheckId::Origin && *step != CheckId::Host);
        let takes_identity = *step == CheckId::ContentCoding;
        let fields = ResponseFields {
            allow: *allow,
            accept_encoding_identity: takes_identity,
            allow_origin: origin,
            ..incoming.response_fields()
        };
        self.respond_error(incoming, (*status, fields), error);
    }

    /// Responds to input that is not HTTP; nothing more is read.
    fn reject_framing(&mut self, key: Key, refusal: limits::RequestError) {
        self.outbox.counters.input_errors.http += 1;
        let is_large = refusal.status == Status::CONTENT_TOO_LARGE;
        let kind = if is_large { Fault::MessageTooLarge } else { Fault::InvalidRequest };
        let error = Error::new(kind, refusal.reason);
        self.outbox.count_error(&error);
        let date = self.http.date();
        let response = Response { close: true, ..Response::new(refusal.status, BodyKind::Json) };
        if let Some(out) = self.connections.outgoing(key) {
            let mark = response::begin_response(out, &response, date);
            model::write_error_response(out, None, &error, None);
            response::end_response(out, mark);
        }
        if let Some(connection) = self.connections.table.get_mut(key) {
            connection.state.violated_limit = true;
        }
    }

    /// Sends the error for which the connection closes (connection limit, memory limit), unless a
    /// response is in progress.
    pub(super) fn send_closing_error(&mut self, key: Key, error: &Error, now: Instant) {
        self.http.begin_turn(self.dispatcher.deferred.wall_clock, now);
        let Some(connection) = self.connections.table.get(key) else { return };
        if connection.state.exchange.is_some() {
            return;
        }
        let fields = ResponseFields {
            retry_after_seconds: Some(RETRY_AFTER_SECONDS),
            ..ResponseFields::NONE
        };
        let response =
            Response { close: true, fields, ..Response::new(Status::UNAVAILABLE, BodyKind::Json) };
        let date = *self.http.date();
        if let Some(out) = self.connections.outgoing(key) {
            let mark = response::begin_response(out, &response, &date);
            model::write_error_response(out, None, error, None);
            response::end_response(out, mark);
        }
    }

    /// Responds with a JSON-RPC error without id.
    fn respond_error(
        &mut self,
        incoming: &IncomingRequest<'_>,
        (status, fields): (Status, ResponseFields<'_>),
        error: &Error,
    ) {
        self.outbox.count_error(error);
        let mut text = Vec::new();
        model::write_error_response(&mut text, None, error, None);
        self.respond(incoming, (status, BodyKind::Json, fields), &text);
    }

    /// Writes a complete response, without the body for HEAD.
    fn respond(
        &mut self,
        incoming: &IncomingRequest<'_>,
        (status, body, fields): (Status, BodyKind, ResponseFields<'_>),
        text: &[u8],
    ) {
        let IncomingRequest { key, head, format, .. } = *incoming;
        let date = self.http.date();
        let ResponseFormat { closes, is_chunked, .. } = format;
        let response = Response { status, body, close: closes, is_chunked, fields };
        if let Some(out) = self.connections.outgoing(key) {
            let mark = response::begin_response(out, &response, date);
            out.extend_from_slice(text);
            if head.method == HttpMethod::Head {
                response::end_head_response(out, mark);
            } else {
                response::end_response(out, mark);
            }
        }
        self.close_if_requested(incoming);
    }

    /// Stops reading; the connection closes at the end of the turn, once the response is sent.
    pub(super) fn close_after_response(&mut self, key: Key) {
        self.connections.suspend_reading(key);
        if let Some(connection) = self.connections.table.get_mut(key) {
            connection.state.is_closing = true;
        }
        self.http.dirty_connections.push(key);
    }

    /// Closes the connection if the client requested it (`Connection: close`, HTTP/1.0).
    fn close_if_requested(&mut self, incoming: &IncomingRequest<'_>) {
        if incoming.format.closes {
            self.close_after_response(incoming.key);
        }
    }
}

/// Returns how responses to the request are written, as far as its head decides.
fn response_format(http: &HttpFrontend<HttpSession>, head: &Head) -> ResponseFormat {
    let strict = http.profile.strict;
    ResponseFormat {
        is_chunked: head.minor_version > 0,
        closes: !head.keep_alive || head.minor_version == 0,
        accepts_event_stream: strict.is_none() && head.accept.event_stream,
        is_modern: true,
        session_id: None,
        protocol_version: strict.map(Revision::as_str),
    }
}

/// Checks `Host` and `Origin`, then the head.
fn check_head<'a>(
    http: &mut HttpFrontend<HttpSession>,
    incoming: &IncomingRequest<'a>,
) -> Result<RequestKind<'a>, Rejection> {
    let IncomingRequest { head, bytes, .. } = *incoming;
    let origin = incoming.origin();
    if let Err(blocked) = http.origin_guard.check(head.field(bytes, Field::Host), origin) {
        let step = match blocked {
            RejectedHeader::Host => CheckId::Host,
            RejectedHeader::Origin => CheckId::Origin,
        };
        return Err(step.reject(blocked.message()));
    }
    checks::check_head(head, bytes, &http.profile)
}
