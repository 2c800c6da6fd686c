//! One request of HTTP and the answer to it, on the shard of its connection.
//!
//! ```text
//!            word before the answer, or it takes long
//!   waiting ─────────────────────────────────────────▶ streaming
//!      │ answer: one JSON text                              │ answer: the last event
//!      ▼                                                    ▼
//!    over ◀──────────────────────────────────────────────────
//! ```
//!
//! What it keeps true: an answer is one JSON text as long as nothing was said before it, and an
//! event stream otherwise; whatever is said is one piece of one buffer, to be sent at once.
//!
//! What it does not do: know handlers or sessions; it says what it is given.
//!
//! Source: 2026-07-28 and 2025-11-25, `basic/transports/streamable-http`.

use super::identity::SessionId;
use crate::base::time::Moment;
use crate::protocol::error::Kind;
use crate::server::party::Said;
use crate::transport::http::date::Date;
use crate::transport::http::fields::{Allowed, Fields};
use crate::transport::http::response::{self, Body, Mark, Response};
use crate::transport::http::sse::{self, EventId, Framing};
use crate::transport::http::status::Status;

/// How the answers to one request are to be written.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of the request of its own")]
pub(in crate::server) struct Manner {
    /// Whether a stream comes in chunks: HTTP/1.1.
    pub(in crate::server) is_chunked: bool,
    /// Whether the connection ends with the answer.
    pub(in crate::server) closes: bool,
    /// Whether the client takes an event stream.
    pub(in crate::server) may_stream: bool,
    /// Whether errors have the status of the modern era.
    pub(in crate::server) is_modern: bool,
    /// What `Mcp-Session-Id` says.
    pub(in crate::server) session: Option<SessionId>,
    /// What `MCP-Protocol-Version` says.
    pub(in crate::server) version: Option<&'static str>,
}

impl Manner {
    /// The framing of events.
    pub(in crate::server) const fn framing(self) -> Framing {
        Framing { is_chunked: self.is_chunked }
    }

    /// The status of an error.
    pub(in crate::server) fn status_of(self, kind: Kind) -> Status {
        let row = kind.row();
        Status::from(if self.is_modern { row.http_modern } else { row.http_legacy })
    }

    /// Begins an answer.
    #[inline]
    pub(in crate::server) fn begin(
        self,
        out: &mut Vec<u8>,
        (status, body): (Status, Body),
        origin: Option<&[u8]>,
        date: &Date,
    ) -> Mark {
        self.with_response(status, body, origin, |response| response::begin(out, response, date))
    }

    /// Puts the head of an error before what was written behind another one.
    pub(in crate::server) fn amend(
        self,
        out: &mut Vec<u8>,
        (mark, kind): (Mark, Kind),
        origin: Option<&[u8]>,
        date: &Date,
    ) -> Mark {
        let status = self.status_of(kind);
        self.with_response(status, Body::Json, origin, |response| {
            response::amend(out, mark, response, date)
        })
    }

    #[inline]
    fn with_response<T>(
        self,
        status: Status,
        body: Body,
        origin: Option<&[u8]>,
        write: impl FnOnce(&Response<'_>) -> T,
    ) -> T {
        let session = self.session.map(SessionId::text);
        let session = session.as_ref().map(|text| &text[..]);
        let allowed = origin.map(Allowed::Origin);
        let is_full = status == Status::UNAVAILABLE;
        let retry_after_seconds = is_full.then_some(RETRY_AFTER_SECONDS);
        let version = self.version;
        let fields =
            Fields { session, version, retry_after_seconds, origin: allowed, ..Fields::NONE };
        let Self { is_chunked, closes, .. } = self;
        write(&Response { status, body, closes, is_chunked, fields })
    }
}

/// When a client comes back that finds no room.
pub(in crate::server) const RETRY_AFTER_SECONDS: u32 = 1;

/// Who answers a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::server) enum Bearer {
    /// The connection itself: the request is modern.
    Connection,
    /// A legacy session, on whichever shard it lives.
    Session(SessionId),
}

/// A request whose answer is not complete.
#[derive(Debug)]
pub(in crate::server) struct Exchange {
    /// Which of the exchanges of its connection this is.
    pub(in crate::server) serial: u32,
    /// Who answers.
    pub(in crate::server) bearer: Bearer,
    /// How.
    pub(in crate::server) manner: Manner,
    /// The origin that may read the answer, where that has to be said.
    pub(in crate::server) origin: Option<Box<[u8]>>,
    /// Whether an event stream has begun.
    pub(in crate::server) is_streaming: bool,
    /// Whether everything was said.
    pub(in crate::server) is_over: bool,
    /// When something was last said, or it began.
    pub(in crate::server) spoke: Moment,
}

impl Exchange {
    /// Whether another request may follow on the connection: not behind a stream that only the end
    /// of the connection ends, nor behind one that stands open.
    pub(in crate::server) const fn is_reusable(&self) -> bool {
        self.is_over && (!self.is_streaming || self.manner.is_chunked)
    }

    /// Begins the event stream, unless it has begun.
    pub(in crate::server) fn stream(&mut self, out: &mut Vec<u8>, date: &Date) {
        if self.is_streaming {
            return;
        }
        self.is_streaming = true;
        let head = (Status::OK, Body::EventStream);
        let mark = self.manner.begin(out, head, self.origin.as_deref(), date);
        response::end(out, mark);
    }

    /// Says a text; `true` where that was the last of it.
    pub(in crate::server) fn say(
        &mut self,
        out: &mut Vec<u8>,
        (said, event): (Said, Option<EventId>),
        date: &Date,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> bool {
        let is_last = said.is_answer();
        let is_alone = event.is_none() || !self.manner.may_stream;
        if is_last && !self.is_streaming && is_alone {
            let status = match said {
                Said::Refusal(kind) => self.manner.status_of(kind),
                _ => Status::OK,
            };
            let head = (status, Body::Json);
            let mark = self.manner.begin(out, head, self.origin.as_deref(), date);
            write(out);
            response::end(out, mark);
            return true;
        }
        self.stream(out, date);
        let mark = sse::begin_event(out, self.manner.framing(), event);
        write(out);
        sse::end_event(out, mark);
        if is_last {
            sse::end_stream(out, self.manner.framing());
        }
        is_last
    }

    /// Says an event without a text: a client that has seen it can come back for what follows.
    pub(in crate::server) fn prime(
        &mut self,
        out: &mut Vec<u8>,
        event: EventId,
        retry_ms: u32,
        date: &Date,
    ) {
        self.stream(out, date);
        sse::prime(out, self.manner.framing(), event, Some(retry_ms));
    }

    /// Shows that it lives.
    pub(in crate::server) fn keep_alive(&mut self, out: &mut Vec<u8>, date: &Date) {
        self.stream(out, date);
        sse::comment(out, self.manner.framing());
    }

    /// Ends the event stream, which has begun, without an answer, and says when to come back.
    pub(in crate::server) fn end(&self, out: &mut Vec<u8>, retry_ms: Option<u32>) {
        if let Some(retry_ms) = retry_ms {
            sse::retry(out, self.manner.framing(), retry_ms);
        }
        sse::end_stream(out, self.manner.framing());
    }

    /// Says where messages are to be posted, on a stream that has begun.
    pub(in crate::server) fn endpoint(&self, out: &mut Vec<u8>, uri: &str) {
        sse::endpoint(out, self.manner.framing(), uri);
    }

    /// Answers with an error. No stream has begun: its session decides whether there is one.
    pub(in crate::server) fn refuse(
        &self,
        out: &mut Vec<u8>,
        status: Status,
        date: &Date,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        debug_assert!(!self.is_streaming, "a status comes first");
        let mark = self.manner.begin(out, (status, Body::Json), self.origin.as_deref(), date);
        write(out);
        response::end(out, mark);
    }

    /// Answers with a status and nothing else. No stream has begun, as above.
    pub(in crate::server) fn answer_bare(&self, out: &mut Vec<u8>, status: Status, date: &Date) {
        debug_assert!(!self.is_streaming, "a status comes first");
        let head = (status, Body::Nothing);
        let mark = self.manner.begin(out, head, self.origin.as_deref(), date);
        response::end(out, mark);
    }
}
