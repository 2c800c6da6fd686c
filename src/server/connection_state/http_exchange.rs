//! One HTTP request and its response, on the shard of its connection.
//!
//! ```text
//!          notification, or the response is delayed
//!   waiting ─────────────────────────────────────────▶ streaming
//!      │ response: one JSON text                            │ response: the last event
//!      ▼                                                    ▼
//!   complete ◀───────────────────────────────────────────────
//! ```
//!
//! Invariants: a response is one JSON text unless something was written before it, and the last
//! event of a stream otherwise. Each output is appended to one buffer in one piece.
//!
//! Source: MCP 2026-07-28 and 2025-11-25, basic/transports, "Streamable HTTP".

use corelane_base::heap_bytes;
use corelane_base::time::Instant;
use corelane_protocol::error::ErrorKind;
use corelane_protocol::revision::Revision;
use corelane_transport::http::fields::ResponseFields;
use corelane_transport::http::head_template::HeadTemplate;
use corelane_transport::http::request_id::RequestIdBuf;
use corelane_transport::http::response::{self, BodyKind, Response, ResponseMark};
use corelane_transport::http::sse::{self, EventId, StreamFraming};
use corelane_transport::http::status::Status;

use crate::server::owner_id::SessionId;
use crate::server::reply_to::{Outcome, RefusalFields};

/// Format of the response to one request.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent property")]
pub struct ResponseFormat {
    /// Whether streams use chunked transfer coding (HTTP/1.1).
    pub is_chunked: bool,
    /// Whether the connection closes after the response.
    pub closes: bool,
    /// Whether the client accepts an event stream.
    pub accepts_event_stream: bool,
    /// Whether errors have the HTTP status of the modern era.
    pub is_modern: bool,
    /// Value of `Mcp-Session-Id`.
    pub session_id: Option<SessionId>,
    /// Value of `MCP-Protocol-Version`.
    pub protocol_version: Option<Revision>,
}

/// Fields of a request that its response repeats.
#[derive(Clone, Copy, Debug, Default)]
pub struct EchoedFields<'a> {
    /// `Origin`, if it is allowed.
    pub origin: Option<&'a [u8]>,
    /// `X-Request-ID`, if it is taken over.
    pub request_id: Option<&'a [u8]>,
}

impl<'a> EchoedFields<'a> {
    /// Returns the id of the request, which is the last one that has begun.
    #[inline]
    pub fn request_id_or(self, heads: &'a HeadTemplate) -> &'a [u8] {
        self.request_id.unwrap_or_else(|| heads.request_id())
    }
}

/// What the head of a response is written with that comes later.
#[derive(Debug)]
pub struct ResponseHead {
    pub format: ResponseFormat,
    origin: Option<Box<[u8]>>,
    request_id: Box<[u8]>,
}

impl ResponseHead {
    /// Returns the head of the response to the request that has begun last.
    pub fn new(format: ResponseFormat, echoed: EchoedFields<'_>, heads: &HeadTemplate) -> Self {
        let request_id = echoed.request_id_or(heads).into();
        Self { format, origin: echoed.origin.map(Box::from), request_id }
    }

    /// Returns the fields that the response repeats.
    pub fn echoed(&self) -> EchoedFields<'_> {
        EchoedFields { origin: self.origin.as_deref(), request_id: Some(&self.request_id) }
    }
}

impl ResponseFormat {
    /// Returns the framing of events.
    pub const fn framing(self) -> StreamFraming {
        StreamFraming { is_chunked: self.is_chunked }
    }

    /// Returns the HTTP status of an error.
    pub fn error_status(self, kind: ErrorKind) -> Status {
        let row = kind.properties();
        Status::from(if self.is_modern { row.http_modern } else { row.http_legacy })
    }

    /// Writes the head of a response.
    #[inline]
    pub fn begin_response(
        self,
        out: &mut Vec<u8>,
        status: Status,
        body: BodyKind,
        echoed: EchoedFields<'_>,
        heads: &HeadTemplate,
    ) -> ResponseMark {
        let has_fields = self.session_id.is_some()
            || self.protocol_version.is_some()
            || echoed.origin.is_some()
            || self.closes;
        // Of most responses, so that their fields are not built.
        if status == Status::OK && body == BodyKind::Json && !has_fields {
            return response::begin_json_response(out, echoed.request_id, heads);
        }
        self.with_response(status, body, echoed, None, Some(RETRY_AFTER_SECONDS), |response| {
            response::begin_response(out, response, heads)
        })
    }

    /// Replaces the head at `mark` by that of an error; the body stays.
    pub fn replace_head_with_error(
        self,
        out: &mut Vec<u8>,
        mark: ResponseMark,
        kind: ErrorKind,
        echoed: EchoedFields<'_>,
        refusal: Option<&RefusalFields>,
        heads: &HeadTemplate,
    ) -> ResponseMark {
        let status = self.error_status(kind);
        let retry_after = kind.retry_after_seconds().map(u32::from);
        self.with_response(status, BodyKind::Json, echoed, refusal, retry_after, |response| {
            response::replace_head(out, mark, response, heads)
        })
    }

    #[inline]
    fn with_response<T>(
        self,
        status: Status,
        body: BodyKind,
        echoed: EchoedFields<'_>,
        refusal: Option<&RefusalFields>,
        retry_after: Option<u32>,
        write: impl FnOnce(&Response<'_>) -> T,
    ) -> T {
        let session = self.session_id.map(SessionId::to_text);
        let session = session.as_ref().map(|text| &text[..]);
        let is_unavailable = status == Status::UNAVAILABLE;
        let retry_after_seconds = retry_after.filter(|_| is_unavailable);
        let version = self.protocol_version.map(Revision::as_str);
        let fields = ResponseFields {
            session_id: session,
            protocol_version: version,
            retry_after_seconds,
            allow_origin: echoed.origin,
            request_id: echoed.request_id,
            ..ResponseFields::NONE
        };
        let fields = match refusal {
            None => fields,
            Some(refusal) => refusal.add_to(fields),
        };
        let Self { is_chunked, closes, .. } = self;
        write(&Response { status, body, close: closes, is_chunked, fields })
    }
}

/// Value of `Retry-After` in responses with status 503 whose error names no other time.
pub const RETRY_AFTER_SECONDS: u32 = 1;

/// Owner of the response to a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ResponseOwner {
    /// The connection itself, for modern requests.
    Connection,
    /// A legacy session, on any shard.
    Session(SessionId),
    /// A session of the parity dialect, on any shard; `None` during its handshake.
    Parity(Option<SessionId>),
}

impl ResponseOwner {
    /// Returns the session, if it is known.
    pub const fn session(self) -> Option<SessionId> {
        match self {
            Self::Connection | Self::Parity(None) => None,
            Self::Session(session) | Self::Parity(Some(session)) => Some(session),
        }
    }
}

/// A request whose response is not complete.
#[derive(Debug)]
pub struct HttpExchange {
    /// Serial number among the exchanges of the connection.
    pub serial: u32,
    pub owner: ResponseOwner,
    pub format: ResponseFormat,
    /// Value of `Access-Control-Allow-Origin`, if it has to be sent.
    pub allowed_origin: Option<Box<[u8]>>,
    /// The id of the request, until the head of the response is written.
    pub request_id: Option<RequestIdBuf>,
    /// Whether an event stream has begun.
    pub is_streaming: bool,
    /// Whether the response is complete.
    pub is_complete: bool,
    /// Time of the last output, or of the beginning.
    pub last_output: Instant,
}

heap_bytes!(
    HttpExchange { allowed_origin, request_id }
    inline { serial, owner, format, is_streaming, is_complete, last_output }
);

impl HttpExchange {
    /// Returns the fields that the response repeats.
    fn echoed(&self) -> EchoedFields<'_> {
        EchoedFields {
            origin: self.allowed_origin.as_deref(),
            request_id: self.request_id.as_ref().map(RequestIdBuf::as_bytes),
        }
    }

    /// Returns whether another request may follow on the connection: not during a response, nor
    /// after a stream that ends with the connection.
    pub const fn is_reusable(&self) -> bool {
        self.is_complete && (!self.is_streaming || self.format.is_chunked)
    }

    /// Begins the event stream, unless it has begun.
    pub fn begin_event_stream(&mut self, out: &mut Vec<u8>, heads: &mut HeadTemplate) {
        if self.is_streaming {
            return;
        }
        self.is_streaming = true;
        let (status, body) = (Status::OK, BodyKind::EventStream);
        let mark = self.format.begin_response(out, status, body, self.echoed(), heads);
        response::end_response(out, mark, heads);
        self.request_id = None;
    }

    /// Writes a message; returns `true` if it completes the response.
    pub fn write_message(
        &mut self,
        out: &mut Vec<u8>,
        outcome: Outcome,
        event: Option<EventId>,
        heads: &mut HeadTemplate,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> bool {
        let is_last = outcome.is_response();
        let is_json_possible = event.is_none() || !self.format.accepts_event_stream;
        if is_last && !self.is_streaming && is_json_possible {
            let (status, retry_after) = match outcome {
                Outcome::Error(kind) => {
                    (self.format.error_status(kind), kind.retry_after_seconds().map(u32::from))
                }
                _ => (Status::OK, None),
            };
            let (format, body, echoed) = (self.format, BodyKind::Json, self.echoed());
            let mark = format.with_response(status, body, echoed, None, retry_after, |response| {
                response::begin_response(out, response, heads)
            });
            write(out);
            response::end_response(out, mark, heads);
            return true;
        }
        self.begin_event_stream(out, heads);
        let mark = sse::begin_event(out, self.format.framing(), event);
        write(out);
        sse::end_event(out, mark);
        if is_last {
            sse::end_stream(out, self.format.framing());
        }
        is_last
    }

    /// Writes an event without data, from which a client can resume.
    pub fn write_priming_event(
        &mut self,
        out: &mut Vec<u8>,
        event: EventId,
        retry_ms: u32,
        heads: &mut HeadTemplate,
    ) {
        self.begin_event_stream(out, heads);
        sse::write_priming_event(out, self.format.framing(), event, Some(retry_ms));
    }

    /// Writes a comment, which begins the stream or keeps it from timing out.
    pub fn write_keepalive(&mut self, out: &mut Vec<u8>, heads: &mut HeadTemplate) {
        self.begin_event_stream(out, heads);
        sse::write_comment(out, self.format.framing());
    }

    /// Ends the event stream, which has begun, without a response; writes `retry` if given.
    pub fn end_event_stream(&self, out: &mut Vec<u8>, retry_ms: Option<u32>) {
        if let Some(retry_ms) = retry_ms {
            sse::write_reconnection_time(out, self.format.framing(), retry_ms);
        }
        sse::end_stream(out, self.format.framing());
    }

    /// Writes the event `endpoint` of 2024-11-05 on a stream that has begun.
    pub fn write_endpoint_event(&self, out: &mut Vec<u8>, uri: &str) {
        sse::write_endpoint(out, self.format.framing(), uri);
    }

    /// Writes a complete response. No stream may have begun.
    pub fn write_complete(
        &self,
        out: &mut Vec<u8>,
        status: Status,
        body: BodyKind,
        heads: &mut HeadTemplate,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        debug_assert!(!self.is_streaming, "the status precedes the stream");
        let mark = self.format.begin_response(out, status, body, self.echoed(), heads);
        write(out);
        response::end_response(out, mark, heads);
    }

    /// Writes the response to a request that is refused for lack of a scope or by a limit. No
    /// stream may have begun.
    pub fn write_refusal(
        &self,
        out: &mut Vec<u8>,
        kind: ErrorKind,
        fields: &RefusalFields,
        heads: &mut HeadTemplate,
        text: &[u8],
    ) {
        self.write_with_fields(out, self.format.error_status(kind), fields, heads, text);
    }

    /// Writes a complete response with the header fields of a refusal. No stream may have begun.
    pub fn write_with_fields(
        &self,
        out: &mut Vec<u8>,
        status: Status,
        fields: &RefusalFields,
        heads: &mut HeadTemplate,
        text: &[u8],
    ) {
        debug_assert!(!self.is_streaming, "the status precedes the stream");
        let (format, body, echoed) = (self.format, BodyKind::Json, self.echoed());
        let retry_after = Some(RETRY_AFTER_SECONDS);
        let mark =
            format.with_response(status, body, echoed, Some(fields), retry_after, |response| {
                response::begin_response(out, response, heads)
            });
        out.extend_from_slice(text);
        response::end_response(out, mark, heads);
    }

    /// Writes a response without a body. No stream may have begun.
    pub fn write_status(&self, out: &mut Vec<u8>, status: Status, heads: &mut HeadTemplate) {
        debug_assert!(!self.is_streaming, "the status precedes the stream");
        let mark = self.format.begin_response(out, status, BodyKind::Empty, self.echoed(), heads);
        response::end_response(out, mark, heads);
    }
}
