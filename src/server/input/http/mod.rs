//! HTTP requests: one after the other, from the input of a connection to what responds.
//!
//! A request is checked by its head, then by its message. Its kind decides who responds: the
//! dispatcher at once (`post`), a legacy session, possibly on another shard (`session`), the page,
//! other resources and upgrades to WebSocket (`plain`).

mod responses;

mod rate;

mod rejections;

mod authentication;
mod plain;
mod request_client;

mod admission;

mod session;

mod parity;
mod post;

use corelane_base::slab::Key;
use corelane_protocol::error::{Error, ErrorKind};
use corelane_protocol::json::PaddedText;
use corelane_protocol::revision::Revision;
use corelane_transport::http::checks::{
    self, CheckId, Rejection, RequestKind, is_card_path, is_health_path, is_metadata_path,
};
use corelane_transport::http::fields::{Challenge, ResponseFields};
use corelane_transport::http::head::{
    Field, Head, REPEATED_AUTHORIZATION, RequestError, field_values,
};
use corelane_transport::http::reader::{Assembled, RequestEvent};
use corelane_transport::http::request_id::{sent_id, sent_id_of_all};
use corelane_transport::http::response::{BodyKind, CONTINUE, Response};
use corelane_transport::http::status::Status;

use self::authentication::{Authenticated, RequestPart};
use crate::connection::restore_request;
use crate::guard::origin::RejectedHeader;
use crate::server::connection_state::{EchoedFields, ResponseFormat, Standing};
use crate::server::http::HttpTransport;
use crate::server::owner_id::SessionId;
use crate::server::shard::Shard;
use crate::server::shard_message::LargeRequest;

/// Requests of one connection that are handled before those of others.
const REQUESTS_AT_ONCE_MAX: u32 = 8;

/// One request and the bytes of its head.
#[derive(Clone, Copy, Debug)]
struct IncomingRequest<'a> {
    key: Key,
    head: &'a Head,
    bytes: &'a [u8],
    format: ResponseFormat,
    /// `X-Request-ID`, if it is taken over.
    request_id: Option<&'a [u8]>,
    /// It was counted by the rate limits.
    is_limited: bool,
}

impl<'a> IncomingRequest<'a> {
    fn origin(&self) -> Option<&'a [u8]> {
        self.head.field(self.bytes, Field::Origin)
    }

    /// Returns the fields that every response to it repeats.
    #[inline]
    fn echoed(&self) -> EchoedFields<'a> {
        EchoedFields { origin: self.origin(), request_id: self.request_id }
    }

    /// Returns the header fields of every response to it.
    fn response_fields(&self) -> ResponseFields<'a> {
        ResponseFields {
            protocol_version: self.format.protocol_version.map(Revision::as_str),
            allow_origin: self.origin(),
            request_id: self.request_id,
            ..ResponseFields::NONE
        }
    }

    /// Gives errors the status codes that sessions have for them.
    #[inline]
    const fn use_session_errors(&mut self) {
        self.format.is_modern = false;
    }

    /// Returns the request with the status codes that sessions have for errors.
    const fn for_session(&self) -> Self {
        let mut request = *self;
        request.use_session_errors();
        request
    }
}

impl Shard {
    /// Processes the requests in `input`, [`REQUESTS_AT_ONCE_MAX`] at most. Returns the number of
    /// bytes consumed before the connection must not be read any more.
    pub(in crate::server) fn read_requests(
        &mut self,
        key: Key,
        mut input: PaddedText<'_>,
    ) -> usize {
        let (mut from, length) = (0, input.as_bytes().len());
        let mut handled = 0;
        loop {
            let (limits, now) = (&self.transports.http.limits, self.now);
            match self.transports.connections.next_request(
                key,
                input.as_bytes(),
                &mut from,
                limits,
                now,
            ) {
                RequestEvent::InPlace { head, start, body } => {
                    let (before, text) = input.split(start, body.start, body.end);
                    if self.handle_request(key, &head, before, text) {
                        self.restore_request(key, None);
                        return start;
                    }
                }
                RequestEvent::Assembled => {
                    let Some(request) = self.transports.connections.table.take_request(key) else {
                        return length;
                    };
                    let is_apart = self.transports.large_messages.takes(request.body.len())
                        && self.dispatches_body(key, &request);
                    let request =
                        if is_apart { self.parse_body(key, request) } else { Some(request) };
                    let Some(request) = request else { return from };
                    let Assembled { mut bytes, head, body } = request;
                    let (before, text) = bytes.split_at_mut(body.start);
                    let text = PaddedText::with_spare(text, body.len());
                    self.transports.enlarge_output(key, body.len());
                    let is_restored = self.handle_request(key, &head, before, text);
                    self.transports.reduce_output(key, body.len());
                    if is_restored {
                        self.restore_request(key, Some(Assembled { bytes, head, body }));
                        return from;
                    }
                    self.transports.connections.shared.pool.put(bytes);
                }
                RequestEvent::HeadComplete => self.handle_head(key),
                RequestEvent::Rejected(error) => {
                    self.reject_framing(key, error);
                    return length;
                }
                RequestEvent::NeedMore => return from,
            }
            self.transports.connections.apply_backpressure(key);
            if from == length {
                return length;
            }
            handled += 1;
            if handled == REQUESTS_AT_ONCE_MAX {
                self.transports.hold_rest(key);
            }
        }
    }

    /// Checks the head of one request, then serves it. Returns whether it has to be read again,
    /// once the authorization server has said what its token is.
    fn handle_request(
        &mut self,
        key: Key,
        head: &Head,
        bytes: &[u8],
        text: PaddedText<'_>,
    ) -> bool {
        let format = response_format(&self.transports.http, head);
        self.transports.http.exchanges.begin_request();
        let request_id = sent_id(head.field(bytes, Field::XRequestId));
        let is_limited = false;
        let mut incoming = IncomingRequest { key, head, bytes, format, request_id, is_limited };
        let standing = self.standing(key);
        request_client::identify(self, key, head, bytes);
        let kind = match check_head(&mut self.transports.http, standing, &incoming) {
            Ok(kind) => kind,
            Err(rejection) => {
                self.record_invalid(key);
                authentication::identify_refused(self, &incoming);
                self.reject_request(&incoming, &rejection);
                return false;
            }
        };
        let is_admitted = standing == Standing::Served && !kind.is_operators();
        let authenticated = if is_admitted {
            authentication::authenticate(self, &incoming, &kind, RequestPart::Whole)
        } else {
            self.admit(&incoming, &kind, RequestPart::Whole)
        };
        match authenticated {
            Authenticated::Served => {}
            Authenticated::Refused => return false,
            Authenticated::Waits => return true,
        }
        if self.dispatcher.rate.is_active() {
            match self.limit_rate(&incoming, &kind) {
                Ok(is_limited) => incoming.is_limited = is_limited,
                Err(exceeded) => {
                    self.refuse_rate(&incoming, *exceeded);
                    return false;
                }
            }
        }
        match kind {
            RequestKind::Post { session_id, protocol_version } => {
                post::handle(self, &mut incoming, session_id, protocol_version, text);
            }
            RequestKind::GetStream { session_id, last_event_id } => {
                session::handle_get(self, &incoming, session_id, last_event_id);
            }
            RequestKind::DeleteSession { session_id } => {
                session::handle_delete(self, &incoming, session_id);
            }
            RequestKind::Upgrade => plain::upgrade(self, &incoming),
            RequestKind::Parity(request) => parity::handle(self, &incoming, request, &text),
            RequestKind::LegacySse => session::open_stream(self, &incoming),
            RequestKind::LegacyMessage { session_id } => {
                session::handle_legacy_message(self, &incoming, session_id, text);
            }
            kind => plain::handle(self, &incoming, kind),
        }
        false
    }

    /// Returns whether the message in a request is dispatched on this shard: it has no session, or
    /// one of this shard. Otherwise its text is passed on.
    #[cold]
    fn dispatches_body(&mut self, key: Key, request: &Assembled) -> bool {
        let Assembled { bytes, head, body } = request;
        let bytes = &bytes[..body.start];
        let format = response_format(&self.transports.http, head);
        let (request_id, is_limited) = (None, false);
        let incoming = IncomingRequest { key, head, bytes, format, request_id, is_limited };
        let standing = self.standing(key);
        let session = match check_head(&mut self.transports.http, standing, &incoming) {
            Ok(RequestKind::Post { session_id, .. }) => session_id,
            Ok(RequestKind::LegacyMessage { session_id }) => Some(session_id),
            Ok(_) | Err(_) => return false,
        };
        session.is_none_or(|session| {
            SessionId::parse(session).is_some_and(|id| self.transports.http.owns(id))
        })
    }

    /// Handles a request whose body is parsed. Returns it if it has to be handled again, once the
    /// authorization server has said what its token is.
    #[cold]
    pub(super) fn handle_parsed_request(
        &mut self,
        key: Key,
        mut request: Box<LargeRequest>,
    ) -> Option<Box<LargeRequest>> {
        let LargeRequest { head, head_bytes, text, .. } = &mut *request;
        let bytes = text.as_bytes().len();
        // Reserves the output buffer, as input does.
        self.transports.connections.outgoing(key)?;
        self.transports.enlarge_output(key, bytes);
        self.transports.large_messages.begin_response(text);
        let waits = self.handle_request(key, head, head_bytes, text.text());
        self.transports.reduce_output(key, bytes);
        let begun = self.transports.large_messages.take_response();
        if waits {
            return Some(request);
        }
        self.finish_message(key, request.text, begun);
        self.transports.connections.apply_backpressure(key);
        None
    }

    /// Processes a head whose body is still to come: rejects the request by its head, or sends
    /// `100 Continue` if the client expects it.
    fn handle_head(&mut self, key: Key) {
        request_client::identify_by_head(self, key);
        let Some((head, bytes)) = self.transports.connections.table.pending_head(key) else {
            return;
        };
        let format =
            ResponseFormat { closes: true, ..response_format(&self.transports.http, head) };
        let (standing, request_id, is_limited) = (self.standing(key), None, false);
        let is_open = standing == Standing::Served && !self.dispatcher.auth.verifies_tokens();
        let incoming = IncomingRequest { key, head, bytes, format, request_id, is_limited };
        match check_head(&mut self.transports.http, standing, &incoming) {
            Ok(_) if is_open && !head.expects_continue => {}
            Ok(_) if is_open => {
                if let Some(out) = self.transports.connections.outgoing(key) {
                    out.extend_from_slice(CONTINUE);
                }
            }
            _ => {
                // Copied, because the response is written to the connection that holds it.
                let (head, bytes) = (head.clone(), bytes.to_vec());
                self.transports.http.exchanges.begin_request();
                let request_id = sent_id(head.field(&bytes, Field::XRequestId));
                let (head, bytes) = (&head, &bytes);
                let incoming = IncomingRequest { key, head, bytes, format, request_id, is_limited };
                match check_head(&mut self.transports.http, standing, &incoming) {
                    Ok(kind) => {
                        // One that waits for the authorization server may send its body meanwhile.
                        let authenticated = self.admit(&incoming, &kind, RequestPart::Head);
                        let is_served = authenticated != Authenticated::Refused;
                        if is_served
                            && head.expects_continue
                            && let Some(out) = self.transports.connections.outgoing(key)
                        {
                            out.extend_from_slice(CONTINUE);
                        }
                    }
                    Err(rejection) => {
                        authentication::identify_refused(self, &incoming);
                        self.reject_request(&incoming, &rejection);
                    }
                }
            }
        }
    }

    /// Has a request read again.
    #[cold]
    fn restore_request(&mut self, key: Key, assembled: Option<Assembled>) {
        if let Some(connection) = self.transports.connections.table.get_mut(key) {
            restore_request(connection, assembled);
        }
    }

    /// Records that a request does not satisfy the timeout of the first message.
    #[cold]
    fn record_invalid(&mut self, key: Key) {
        if let Some(connection) = self.transports.connections.table.get_mut(key) {
            connection.record_invalid_message();
        }
    }

    /// Returns how the connection is counted.
    #[inline]
    fn standing(&self, key: Key) -> Standing {
        let connection = self.transports.connections.table.get(key);
        connection.map_or(Standing::Rejected, |connection| connection.state.standing)
    }

    /// Responds to input that is not HTTP; nothing more is read.
    fn reject_framing(&mut self, key: Key, rejected: RequestError) {
        self.outbox.counters.input_errors.http += 1;
        let is_large = rejected.status == Status::CONTENT_TOO_LARGE;
        let kind = if is_large { ErrorKind::MessageTooLarge } else { ErrorKind::InvalidRequest };
        let error = Error::new(kind, rejected.reason);
        self.outbox.count_error(&error);
        let mut response =
            Response { close: true, ..Response::new(rejected.status, BodyKind::Json) };
        let head = self.transports.connections.table.take_rejected_head(key);
        self.transports.http.exchanges.begin_request();
        response.fields.request_id = sent_id_of_all(field_values(&head, b"x-request-id"));
        response.fields.allow_origin =
            self.transports.http.allowed_origin(&head, self.standing(key));
        if rejected.reason == REPEATED_AUTHORIZATION && self.dispatcher.auth.verifies_tokens() {
            let challenge = Challenge::new("Bearer error=\"invalid_request\"");
            response.fields.www_authenticate = Some(challenge);
        }
        self.write_framing_error(key, &response, &head, &error);
    }
}

/// Returns how responses to the request are written, as far as its head decides.
fn response_format(http: &HttpTransport, head: &Head) -> ResponseFormat {
    let strict = http.checks.profile.strict;
    ResponseFormat {
        is_chunked: head.minor_version > 0,
        closes: !head.keep_alive || head.minor_version == 0,
        accepts_event_stream: strict.is_none() && head.accept.event_stream,
        is_modern: true,
        session_id: None,
        protocol_version: strict,
    }
}

/// Checks `Host` and `Origin`, then the head, by the rules of the listener.
#[inline]
fn check_head<'a>(
    http: &mut HttpTransport,
    standing: Standing,
    incoming: &IncomingRequest<'a>,
) -> Result<RequestKind<'a>, Rejection> {
    let IncomingRequest { head, bytes, .. } = *incoming;
    let checks = http.checks_of(standing);
    let host = head.field(bytes, Field::Host);
    let checked = checks.origin_guard.check(host, incoming.origin());
    // The metadata is for clients of every origin.
    let is_metadata = || {
        let (path, profile) = (head.path(bytes), &checks.profile);
        (profile.resource_metadata && is_metadata_path(path, profile))
            || is_card_path(path, profile)
    };
    let is_health = || is_health_path(head.path(bytes), &checks.profile);
    if let Err(blocked) = checked
        && !(if blocked == RejectedHeader::Host { is_health() } else { is_metadata() })
    {
        let check = match blocked {
            RejectedHeader::Host => CheckId::Host,
            RejectedHeader::Origin => CheckId::Origin,
        };
        return Err(check.reject(blocked.message()));
    }
    checks::check_head(head, bytes, &checks.profile)
}
