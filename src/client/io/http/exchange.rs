//! One request and its response.

use std::time::Duration;

use super::waiting::{ExchangeClass, HttpExchange};
use crate::error::ClientError;
use crate::retry::{RetryEvent, RetryPolicy};
use crate::session::{OutgoingKind, OutgoingMessage, ParameterField};
use corelane_base::time::Instant;
use corelane_engine::clock::unix_ms;
use corelane_protocol::eras::Method;
use corelane_protocol::revision::Revision;
use corelane_transport::http::client::event_reader::EventReader;
use corelane_transport::http::client::request_writer::{ExtraFields, RequestFields, RequestWriter};
use corelane_transport::http::client::response_head::ResponseHead;
use corelane_transport::http::header_consistency::name_key;

/// Redirects of a request that are followed.
const REDIRECTS_MAX: u32 = 5;
/// Time that requests wait for the server to accept a notification.
const ORDERED_TIMEOUT: Duration = Duration::from_secs(5);
/// Time before a stream is opened again, unless the server names one; doubled with each failure.
const RECONNECTION_TIME: Duration = Duration::from_secs(3);
const RECONNECTION_TIME_MIN: Duration = Duration::from_millis(10);
const RECONNECTION_TIME_MAX: Duration = Duration::from_secs(30);
/// Failures in turn after which a stream is given up.
const STREAM_FAILURES_MAX: u32 = 5;

/// What an exchange is for.
#[derive(Debug)]
pub(super) enum ExchangeKind {
    /// A request of the session.
    Request { id: u64, method: Method },
    /// Another message. What follows an ordered one is sent once the server has accepted it.
    Message { is_ordered: bool },
    /// GET: a stream of messages of the server.
    Stream(StreamCursor),
    /// DELETE: the end of the session.
    Delete,
}

/// Where a stream is resumed.
#[derive(Clone, Debug, Default)]
pub(super) struct StreamCursor {
    /// The request whose response the stream carries; `None` for the stream of the session.
    pub(super) call: Option<u64>,
    last_event_id: Vec<u8>,
    reconnection_time: Option<Duration>,
    failures: u32,
}

impl StreamCursor {
    /// The cursor of the request `call` after the events read so far; `None` if the server sends
    /// no ids.
    pub(super) fn of_call(call: u64, events: &EventReader) -> Option<Self> {
        (!events.last_event_id().is_empty()).then(|| Self {
            call: Some(call),
            last_event_id: events.last_event_id().to_vec(),
            reconnection_time: events.reconnection_time(),
            failures: 0,
        })
    }

    /// Returns the cursor after a stream that has ended, or `None` if it is given up.
    pub(super) fn after(mut self, events: &EventReader) -> Option<Self> {
        let has_advanced =
            !events.last_event_id().is_empty() && events.last_event_id() != self.last_event_id;
        if has_advanced {
            self.last_event_id = events.last_event_id().to_vec();
        }
        if has_advanced || events.reconnection_time().is_some() {
            self.failures = 0;
        } else {
            self.failures += 1;
        }
        self.reconnection_time = events.reconnection_time().or(self.reconnection_time);
        (self.failures <= STREAM_FAILURES_MAX).then_some(self)
    }

    fn delay(&self) -> Duration {
        let time = self.reconnection_time.unwrap_or(RECONNECTION_TIME);
        let time = time.max(RECONNECTION_TIME_MIN);
        let limit = time.max(RECONNECTION_TIME_MAX);
        time.saturating_mul(1 << self.failures.min(8)).min(limit)
    }
}

/// What authorizes one request.
#[derive(Default)]
pub struct RequestAuthorization<'a> {
    /// `Authorization`.
    pub(super) value: Option<&'a str>,
    /// `DPoP`.
    pub(super) proof: Option<String>,
    /// The number of the credentials.
    pub(super) generation: u32,
}

/// How often a request was sent again.
#[derive(Debug, Default)]
struct Repeats {
    /// After a status that the policy of the client names.
    retries: u32,
    /// The server has declared that the tool may run twice without harm.
    is_declared_idempotent: bool,
    /// After a redirect.
    redirects: u32,
    /// Writes the request to where it was redirected.
    redirected: Option<Box<RequestWriter>>,
    /// The server has opened the stream of a subscription, or of a session.
    was_open: bool,
}

/// A request to send, and what happened to it before.
#[derive(Debug)]
pub struct McpExchange {
    kind: ExchangeKind,
    revision: Revision,
    name: Option<Box<str>>,
    parameters: Box<[ParameterField]>,
    fields: Option<Box<ExtraFields>>,
    message: Box<[u8]>,
    /// It is not sent before this.
    not_before: Option<Instant>,
    repeats: Repeats,
    was_resent: bool,
    /// The session it was sent in, counted from the first; `None` without `Mcp-Session-Id`.
    session: Option<u32>,
    lost_session: bool,
    /// The number of the credentials it was sent with.
    generation: u32,
    /// Times that the server has asked for authorization.
    challenges: u32,
}

/// Creation.
impl McpExchange {
    /// Creates the exchange for a message of a session.
    pub(super) fn of_message(message: &OutgoingMessage<'_>) -> Self {
        let kind = match message.kind {
            OutgoingKind::Request { id, method, .. } => ExchangeKind::Request { id, method },
            OutgoingKind::Notification => ExchangeKind::Message { is_ordered: true },
            OutgoingKind::Cancellation { .. } | OutgoingKind::Response => {
                ExchangeKind::Message { is_ordered: false }
            }
        };
        let mut exchange = Self::new(kind, message.revision);
        exchange.message = message.text.into();
        if let OutgoingKind::Request { name, parameters, fields, is_idempotent, .. } = message.kind
        {
            exchange.repeats.is_declared_idempotent = is_idempotent;
            exchange.name = name.map(Into::into);
            exchange.parameters = parameters.into();
            exchange.fields = fields.cloned().map(Box::new);
        }
        exchange
    }

    /// Creates a GET for a stream, after the time that its cursor states.
    pub(super) fn of_stream(cursor: StreamCursor, revision: Revision, now: Instant) -> Self {
        let not_before = Some(now.after(cursor.delay()));
        let mut exchange = Self { not_before, ..Self::new(ExchangeKind::Stream(cursor), revision) };
        exchange.note_stream();
        exchange
    }

    /// Creates the first GET for the stream of a session.
    pub(super) fn first_stream(revision: Revision) -> Self {
        Self::new(ExchangeKind::Stream(StreamCursor::default()), revision)
    }

    /// Creates the DELETE that ends the session.
    pub(super) fn delete(revision: Revision) -> Self {
        Self::new(ExchangeKind::Delete, revision)
    }

    fn new(kind: ExchangeKind, revision: Revision) -> Self {
        Self {
            kind,
            revision,
            name: None,
            parameters: Box::default(),
            fields: None,
            message: Box::default(),
            not_before: None,
            repeats: Repeats::default(),
            was_resent: false,
            session: None,
            lost_session: false,
            generation: 0,
            challenges: 0,
        }
    }
}

impl McpExchange {
    pub(super) const fn kind(&self) -> &ExchangeKind {
        &self.kind
    }

    /// Returns whether it is for the messages that belong to no request.
    pub(super) const fn is_session_stream(&self) -> bool {
        matches!(&self.kind, ExchangeKind::Stream(StreamCursor { call: None, .. }))
    }

    pub(super) fn into_kind(self) -> ExchangeKind {
        self.kind
    }

    pub(super) const fn revision(&self) -> Revision {
        self.revision
    }

    /// Returns the time that the server has to answer, unless the session counts it.
    pub(super) fn timeout(&self, timeout: Duration) -> Option<Duration> {
        match self.kind {
            ExchangeKind::Message { is_ordered: true } => Some(timeout.min(ORDERED_TIMEOUT)),
            ExchangeKind::Message { .. } | ExchangeKind::Delete => Some(timeout),
            ExchangeKind::Request { .. } | ExchangeKind::Stream(_) => None,
        }
    }

    pub(super) const fn is_initialize(&self) -> bool {
        matches!(self.kind, ExchangeKind::Request { method: Method::Initialize, .. })
    }

    /// Returns the request whose response this exchange is to bring.
    pub(super) const fn call(&self) -> Option<u64> {
        match &self.kind {
            ExchangeKind::Request { id, .. } => Some(*id),
            ExchangeKind::Stream(cursor) => cursor.call,
            ExchangeKind::Message { .. } | ExchangeKind::Delete => None,
        }
    }

    /// Returns the method of the message that it carries, or of the HTTP request.
    pub(super) const fn method(&self) -> &'static str {
        match self.kind {
            ExchangeKind::Request { method, .. } => method.as_str(),
            _ => self.http_method(),
        }
    }

    /// Returns the method of the HTTP request.
    pub(super) const fn http_method(&self) -> &'static str {
        match self.kind {
            ExchangeKind::Request { .. } | ExchangeKind::Message { .. } => "POST",
            ExchangeKind::Stream(_) => "GET",
            ExchangeKind::Delete => "DELETE",
        }
    }

    pub(super) const fn generation(&self) -> u32 {
        self.generation
    }

    /// Counts a refusal by the server; returns the number of refusals so far.
    pub(super) const fn count_challenge(&mut self) -> u32 {
        self.challenges += 1;
        self.challenges
    }

    /// Writes the request. `session` is the session of the server, with its number.
    pub(super) fn write(
        &mut self,
        writer: &RequestWriter,
        session: Option<(&str, u32)>,
        authorization: &RequestAuthorization<'_>,
    ) -> Vec<u8> {
        let is_initialize = self.is_initialize();
        let session = session.filter(|_| !is_initialize && !self.revision.is_modern());
        self.session = session.map(|(_, number)| number);
        self.generation = authorization.generation;
        let mut fields = RequestFields {
            protocol_version: (!is_initialize).then_some(self.revision.as_str()),
            session_id: session.map(|(id, _)| id),
            authorization: authorization.value,
            dpop_proof: authorization.proof.as_deref(),
            extra: self.fields.as_deref(),
            ..RequestFields::default()
        };
        let writer = self.repeats.redirected.as_deref().unwrap_or(writer);
        let mut out = Vec::new();
        match &self.kind {
            ExchangeKind::Request { method, .. } if self.revision.is_modern() => {
                fields.method = Some(method.as_str());
                fields.parameters = &self.parameters;
                fields.name = self.name.as_deref().filter(|_| name_key(*method).is_some());
                writer.write_post(&mut out, &fields, &self.message);
            }
            ExchangeKind::Request { .. } | ExchangeKind::Message { .. } => {
                writer.write_post(&mut out, &fields, &self.message);
            }
            ExchangeKind::Stream(cursor) => {
                let id = &cursor.last_event_id[..];
                fields.last_event_id = (!id.is_empty()).then_some(id);
                writer.write_get(&mut out, &fields);
            }
            ExchangeKind::Delete => writer.write_delete(&mut out, &fields),
        }
        out
    }

    /// Returns whether the request may run twice without harm.
    const fn is_idempotent(&self) -> bool {
        self.repeats.is_declared_idempotent
            || !matches!(
                self.kind,
                ExchangeKind::Request { method: Method::ToolsCall | Method::TasksUpdate, .. }
            )
    }

    /// Returns the event of a repetition because of `error`.
    pub(super) fn retry_event(&self, error: ClientError, delay: Duration) -> RetryEvent {
        RetryEvent::new(self.method(), self.name.as_deref(), error, delay)
    }

    /// Returns whether the request may be sent again, once, after its connection ended before the
    /// response (RFC 9112, section 9.3.1).
    pub(super) fn allow_resend(&mut self, policy: &RetryPolicy) -> bool {
        let is_request = matches!(self.kind, ExchangeKind::Request { .. });
        let is_allowed = self.is_idempotent() && !self.was_resent;
        self.was_resent = true;
        is_allowed && (!is_request || policy.repeats_idempotent())
    }

    /// Returns the session it was sent in if it may be sent again, once, in another: a request, a
    /// stream that the server has opened before, or one that is `needed`.
    pub(super) const fn leave_session(&mut self, needed: bool) -> Option<u32> {
        let is_of_session = matches!(self.kind, ExchangeKind::Request { .. })
            || self.was_open()
            || self.is_session_stream() && needed;
        if self.lost_session || !is_of_session {
            return None;
        }
        let session = self.session.take();
        self.lost_session = session.is_some();
        session
    }

    /// Postpones the exchange after a status that the policy names; `started` is what the response
    /// says of it. Returns the time before it is sent again; `None` if it is not: it may have run,
    /// it was sent often enough, or the time exceeds `delay_max`.
    pub(super) fn postpone(
        &mut self,
        head: &ResponseHead,
        started: Option<bool>,
        policy: &RetryPolicy,
        delay_max: Duration,
        now: Instant,
    ) -> Option<Duration> {
        let is_request = matches!(self.kind, ExchangeKind::Request { .. });
        // What is no request changes nothing.
        let policy = if is_request { policy } else { &RetryPolicy::safe() };
        if !policy.repeats_after_status(head.status, started, self.is_idempotent()) {
            return None;
        }
        let delay = policy.next_delay(self.repeats.retries)?;
        let stated = head.retry_delay(unix_ms());
        let delay = Some(stated.unwrap_or(delay)).filter(|delay| *delay <= delay_max)?;
        self.repeats.retries += 1;
        self.not_before = Some(now.after(delay));
        Some(delay)
    }
}

/// What has become of it.
impl McpExchange {
    /// Returns whether it is a request that is sent in a session.
    pub(super) const fn needs_session(&self) -> bool {
        match self.kind {
            ExchangeKind::Request { method, .. } => {
                !matches!(method, Method::Initialize | Method::Discover)
            }
            _ => false,
        }
    }

    /// Notes that the server has begun an event stream for it.
    pub(super) const fn note_stream(&mut self) {
        let is_lasting = match &self.kind {
            ExchangeKind::Request { method, .. } => matches!(method, Method::SubscriptionsListen),
            _ => self.is_session_stream(),
        };
        self.repeats.was_open |= is_lasting;
    }

    /// Returns whether the server has opened the stream of a subscription or of a session for it.
    pub(super) const fn was_open(&self) -> bool {
        self.repeats.was_open
    }

    /// Does not send it before `time`.
    pub(super) const fn delay_until(&mut self, time: Instant) {
        self.not_before = Some(time);
    }

    /// Lets a request be sent again to the path that a redirect names: a temporary one (RFC 9110,
    /// section 15.4.8) concerns this request, a permanent one (15.4.9) also what `writer` writes
    /// from now on. Returns `false` if it is not to be sent again: it was not redirected, too
    /// often, or to another origin, which must not have its credentials.
    pub(super) fn follow_redirect(
        &mut self,
        head: &ResponseHead,
        writer: &mut RequestWriter,
    ) -> bool {
        let repeats = &mut self.repeats;
        let is_permanent = head.status == 308;
        let Some(location) =
            head.location.as_deref().filter(|_| is_permanent || head.status == 307)
        else {
            return false;
        };
        let mut redirected = repeats.redirected.take().unwrap_or_else(|| Box::new(writer.clone()));
        if repeats.redirects >= REDIRECTS_MAX || !redirected.set_endpoint(location.as_bytes()) {
            return false;
        }
        if is_permanent && repeats.redirects == 0 {
            writer.clone_from(&redirected);
        }
        repeats.redirects += 1;
        repeats.redirected = Some(redirected);
        true
    }
}

impl HttpExchange for McpExchange {
    fn class(&self) -> ExchangeClass {
        match self.kind {
            ExchangeKind::Request { method: Method::SubscriptionsListen, .. }
            | ExchangeKind::Stream(_) => ExchangeClass::Unlimited,
            ExchangeKind::Request { .. } => ExchangeClass::Request,
            ExchangeKind::Message { .. } | ExchangeKind::Delete => ExchangeClass::Message,
        }
    }

    fn is_ordered(&self) -> bool {
        matches!(self.kind, ExchangeKind::Message { is_ordered: true })
    }

    fn not_before(&self) -> Option<Instant> {
        self.not_before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn stream_delay_doubles_until_given_up() {
        let mut cursor = StreamCursor::default();
        for delay in [3, 6, 12, 24, 30] {
            assert_eq!(cursor.delay(), seconds(delay));
            cursor = cursor.after(&EventReader::new()).unwrap();
        }
        assert!(cursor.after(&EventReader::new()).is_none());
    }

    #[test]
    fn stream_delay_is_that_of_server() {
        let mut events = EventReader::new();
        let text = b"retry: 45000\nid: 1\ndata: a\n\n";
        assert_eq!(events.next(text, &mut 0, 64), Ok(true));
        let failed = StreamCursor { failures: 4, ..StreamCursor::default() };
        let cursor = failed.after(&events).unwrap();
        assert_eq!((cursor.delay(), cursor.failures), (seconds(45), 0));
    }

    #[test]
    fn refused_request_is_postponed_three_times() {
        let head = |text: &str| ResponseHead::parse(text.as_bytes()).unwrap();
        let call =
            |method| McpExchange::new(ExchangeKind::Request { id: 1, method }, Revision::LATEST);
        let policy = RetryPolicy::safe();
        let refused = head("HTTP/1.1 429 A\r\n\r\n");
        let mut exchange = call(Method::ToolsCall);
        let mut postpone =
            || exchange.postpone(&refused, None, &policy, seconds(30), Instant::ORIGIN);
        assert_eq!(
            [(); 4].map(|()| postpone()),
            [1, 2, 4, 0].map(|delay| { Some(seconds(delay)).filter(|delay| !delay.is_zero()) })
        );

        let overloaded = head("HTTP/1.1 503 A\r\n\r\n");
        let later = head("HTTP/1.1 503 A\r\nRetry-After: 31\r\n\r\n");
        let postpone = |method, head: &ResponseHead, started, delay_max| {
            let delay_max = seconds(delay_max);
            call(method).postpone(head, started, &policy, delay_max, Instant::ORIGIN).is_some()
        };
        assert!(!postpone(Method::ToolsCall, &overloaded, None, 30));
        assert!(!postpone(Method::ToolsCall, &later, None, 31), "it may have run");
        assert!(!postpone(Method::ToolsCall, &later, Some(true), 31));
        assert!(postpone(Method::ToolsCall, &later, Some(false), 31));
        assert!(!postpone(Method::ToolsCall, &later, Some(false), 30));
        assert!(postpone(Method::ToolsList, &overloaded, None, 30));
        let mut declared = call(Method::ToolsCall);
        declared.repeats.is_declared_idempotent = true;
        let delay = declared.postpone(&overloaded, None, &policy, seconds(30), Instant::ORIGIN);
        assert!(delay.is_some());
    }
}
