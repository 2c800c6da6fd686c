//! Log lines and spans of the parity dialect, at debug level; and what the spans that are exported
//! have, at any level.
//!
//! Invariants: no payload, argument or token is recorded; ids, methods and names of tools that a
//! client has chosen are cut at 128 bytes. The names of the fields are those of the specification
//! of the dialect. Below debug level and without an exporter a request costs two comparisons.

use corelane_base::transport::Transport;
use tracing::field::Empty;
use tracing::span::EnteredSpan;
use tracing::{Level, Span, debug, debug_span};

use crate::telemetry::trace::OpenSpan;

/// The `tracing` target of the lines and spans.
const TARGET: &str = "corelane::parity";

/// Bytes of a text that a client has chosen.
const TEXT_BYTES_MAX: usize = 128;

/// The name of the span of a handshake.
pub const HANDSHAKE: &str = "MCP Handshake";
/// The name of the span of a request.
pub const REQUEST: &str = "MCP Request";
/// The name of the span of a stream, in that of its request.
const STREAM: &str = "MCP Stream";

/// Returns whether lines and spans are logged.
#[inline]
pub fn is_enabled() -> bool {
    tracing::enabled!(target: TARGET, Level::DEBUG)
}

/// An error as it was sent.
#[derive(Clone, Copy, Debug)]
pub struct SentError {
    /// Its code.
    pub code: &'static str,
    /// Whether a repetition may succeed.
    pub retryable: bool,
    /// Time in milliseconds after which a repetition may succeed.
    pub retry_after_ms: Option<u64>,
}

/// The session of a request or handshake.
#[derive(Clone, Debug)]
pub struct SessionFields {
    /// Id of the session.
    pub session: String,
    /// Transport of the message.
    pub transport: Transport,
    /// Tier of the caller.
    pub tier: Box<str>,
}

/// What a client has sent of a request.
#[derive(Clone, Copy, Debug)]
pub struct RequestFields<'a> {
    /// Its id as JSON text.
    pub request_id: &'a str,
    /// Its method.
    pub method: &'a str,
    /// The name in its params, such as that of a tool.
    pub tool: Option<&'a str>,
    /// The trace that it belongs to (W3C Trace Context, section 3.2).
    pub traceparent: Option<&'a str>,
}

/// What can be read of a message that is rejected.
#[derive(Clone, Copy, Debug)]
pub struct RejectedFields<'a> {
    /// Whether it is a request.
    pub is_request: bool,
    /// Its id as JSON text.
    pub request_id: Option<&'a str>,
    /// Its method.
    pub method: Option<&'a str>,
    /// The name in its params, such as that of a tool.
    pub tool: Option<&'a str>,
    /// The trace that it belongs to.
    pub traceparent: Option<&'a str>,
}

/// The handshake of a session has ended. In the span `MCP Handshake`; `exported` is the one of the
/// exporter, if there is one.
pub fn record_handshake(
    fields: &SessionFields,
    traceparent: Option<&str>,
    error: Option<SentError>,
    exported: Option<OpenSpan>,
) {
    let SessionFields { session, transport, tier } = fields;
    if let Some(mut exported) = exported {
        set_session(&mut exported, fields);
        end(exported, error);
    }
    let span = debug_span!(
        target: TARGET, parent: None, "MCP Handshake",
        sessionId = session, %transport, auth.tier = tier,
        traceId = traceparent.and_then(trace_id), traceparent = traceparent.map(cut),
        error.code = error.map(|error| error.code),
    );
    let _entered = span.enter();
    debug!(
        target: TARGET,
        sessionId = session, %transport, auth.tier = tier,
        traceId = traceparent.and_then(trace_id),
        error.code = error.map(|error| error.code), retryable = error.map(|error| error.retryable),
        retryAfter = error.and_then(SentError::retry_after_seconds),
        "handshake"
    );
}

/// A message of a session was rejected. A request is in the span `MCP Request`; `exported` is the
/// one of the exporter, if there is one.
pub fn record_rejection(
    session: &SessionFields,
    message: &RejectedFields<'_>,
    error: SentError,
    exported: Option<OpenSpan>,
) {
    if let Some(mut exported) = exported {
        set_session(&mut exported, session);
        end_rejected(exported, message, error);
    }
    let SessionFields { session, transport, tier } = session;
    write_rejection(Some(session), *transport, Some(tier), message, error);
}

/// A message was rejected that has no session, or is no JSON; as [`record_rejection`].
pub fn record_refusal(
    transport: Transport,
    message: &RejectedFields<'_>,
    error: SentError,
    exported: Option<OpenSpan>,
) {
    if let Some(mut exported) = exported {
        exported.set("transport", transport.as_str());
        end_rejected(exported, message, error);
    }
    write_rejection(None, transport, None, message, error);
}

fn write_rejection(
    session: Option<&str>,
    transport: Transport,
    tier: Option<&str>,
    message: &RejectedFields<'_>,
    error: SentError,
) {
    let RejectedFields { is_request, request_id, method, tool, traceparent } = *message;
    let (request_id, method, tool) = (request_id.map(cut), method.map(cut), tool.map(cut));
    let trace_id = traceparent.and_then(trace_id);
    let span = is_request.then(|| {
        debug_span!(
            target: TARGET, parent: None, "MCP Request",
            sessionId = session, %transport, requestId = request_id, method, tool,
            auth.tier = tier, traceId = trace_id, traceparent = traceparent.map(cut),
            error.code = error.code, retryable = error.retryable,
            retryAfter = error.retry_after_seconds(),
        )
    });
    let _entered = span.map(Span::entered);
    debug!(
        target: TARGET,
        sessionId = session, %transport, requestId = request_id, method, tool, auth.tier = tier,
        traceId = trace_id, error.code = error.code, retryable = error.retryable,
        retryAfter = error.retry_after_seconds(),
        "message rejected"
    );
}

/// Sets the attributes of a session.
fn set_session(span: &mut OpenSpan, SessionFields { session, transport, tier }: &SessionFields) {
    span.set_text("sessionId", session);
    span.set("transport", transport.as_str());
    span.set_text("auth.tier", tier);
}

/// Ends the span of a rejected message.
fn end_rejected(mut span: OpenSpan, message: &RejectedFields<'_>, error: SentError) {
    let RejectedFields { request_id, method, tool, .. } = *message;
    for (key, text) in [("requestId", request_id), ("method", method), ("tool", tool)] {
        if let Some(text) = text {
            span.set_text(key, text);
        }
    }
    end(span, Some(error));
}

/// Ends a span, with its error.
fn end(mut span: OpenSpan, error: Option<SentError>) {
    if let Some(error) = error {
        span.set("error.code", error.code);
        span.set("retryable", error.retryable);
        if let Some(seconds) = error.retry_after_seconds() {
            span.set("retryAfter", seconds);
        }
        span.set_failed();
    }
    span.end();
}

/// What a log line and the spans have of one request, until it ends.
#[derive(Debug)]
pub struct RequestRecord {
    session: SessionFields,
    request_id: Box<str>,
    method: Box<str>,
    tool: Option<Box<str>>,
    trace_id: Option<Box<str>>,
    stream_id: Option<Box<str>>,
    request: Span,
    stream: Span,
    /// The spans of the exporter, if there is one.
    exported: Option<OpenSpan>,
    exported_stream: Option<OpenSpan>,
}

impl RequestRecord {
    /// Begins the span `MCP Request`. `exported`: that of the exporter, if there is one.
    pub fn begin(
        session: SessionFields,
        request: &RequestFields<'_>,
        mut exported: Option<OpenSpan>,
    ) -> Box<Self> {
        let RequestFields { request_id, method, tool, traceparent } = request;
        let (request_id, method, tool) = (cut(request_id), cut(method), tool.map(cut));
        if let Some(exported) = &mut exported {
            set_session(exported, &session);
            exported.set_text("requestId", request_id);
            exported.set_text("method", method);
            if let Some(tool) = tool {
                exported.set_text("tool", tool);
            }
        }
        let exported_id = exported.as_ref().map(OpenSpan::trace_id);
        let trace_id = traceparent.and_then(trace_id).or(exported_id.as_deref());
        let request = debug_span!(
            target: TARGET, parent: None, "MCP Request",
            sessionId = session.session, transport = %session.transport, requestId = request_id,
            method, tool, auth.tier = session.tier,
            traceId = trace_id, traceparent = traceparent.map(cut),
            error.code = Empty, retryable = Empty, retryAfter = Empty,
        );
        Box::new(Self {
            request_id: request_id.into(),
            method: method.into(),
            tool: tool.map(Into::into),
            trace_id: trace_id.map(Into::into),
            stream_id: None,
            request,
            stream: Span::none(),
            exported,
            exported_stream: None,
            session,
        })
    }

    /// Begins the span `MCP Stream`, in that of the request.
    pub fn open_stream(&mut self, stream_id: &str) {
        self.stream = debug_span!(
            target: TARGET, parent: &self.request, "MCP Stream",
            streamId = stream_id, seq = Empty,
        );
        self.exported_stream = self.exported.as_ref().map(|exported| {
            let mut stream = exported.begin_child(STREAM);
            stream.set_text("streamId", stream_id);
            stream
        });
        self.stream_id = Some(stream_id.into());
    }

    /// Enters the span of the request.
    pub fn enter(&self) -> EnteredSpan {
        self.request.clone().entered()
    }

    /// Ends the request, and writes its line. `seq`: the number of the chunk with its outcome, if
    /// it is a stream.
    pub fn end(mut self, latency_ms: f64, seq: Option<u64>, error: Option<SentError>) {
        if let Some(mut stream) = self.exported_stream.take() {
            if let Some(seq) = seq {
                stream.set("seq", seq);
            }
            end(stream, error);
        }
        if let Some(request) = self.exported.take() {
            end(request, error);
        }
        if let Some(seq) = seq {
            self.stream.record("seq", seq);
        }
        if let Some(error) = error {
            self.request.record("error.code", error.code);
            self.request.record("retryable", error.retryable);
            self.request.record("retryAfter", error.retry_after_seconds());
        }
        let Self {
            session, request_id, method, tool, trace_id, stream_id, request, stream, ..
        } = &self;
        let SessionFields { session, transport, tier } = session;
        let _entered = if stream.is_disabled() { request.enter() } else { stream.enter() };
        debug!(
            target: TARGET,
            sessionId = session, %transport, requestId = request_id, method, tool,
            auth.tier = tier, traceId = trace_id, streamId = stream_id, seq, latency_ms,
            error.code = error.map(|error| error.code),
            retryable = error.map(|error| error.retryable),
            retryAfter = error.and_then(SentError::retry_after_seconds),
            "request"
        );
    }
}

impl SentError {
    fn retry_after_seconds(self) -> Option<f64> {
        self.retry_after_ms.map(|ms| std::time::Duration::from_millis(ms).as_secs_f64())
    }
}

/// Returns the id of the trace that a `traceparent` names.
fn trace_id(traceparent: &str) -> Option<&str> {
    let id = traceparent.split('-').nth(1)?;
    (id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(id)
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::event::tests::logged_at;

    const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn session() -> SessionFields {
        SessionFields { session: "s-1".into(), transport: Transport::Tcp, tier: "user".into() }
    }

    #[test]
    fn request_has_line_and_spans() {
        let text = logged_at(Level::DEBUG, || {
            let request = RequestFields {
                request_id: "7",
                method: "tools/call",
                tool: Some("echo"),
                traceparent: Some(TRACEPARENT),
            };
            let mut record = RequestRecord::begin(session(), &request, None);
            record.open_stream("st-1");
            let error =
                SentError { code: "error.internal", retryable: true, retry_after_ms: Some(1_500) };
            record.end(2.5, Some(4), Some(error));
        });
        let line = text.lines().find(|line| line.contains(": request ")).unwrap_or_default();
        for field in [
            "MCP Request{sessionId=\"s-1\"",
            "transport=tcp",
            "requestId=\"7\"",
            "method=\"tools/call\"",
            "tool=\"echo\"",
            "auth.tier=\"user\"",
            "traceparent=\"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\"",
            "traceId=\"0af7651916cd43dd8448eb211c80319c\"",
            "streamId=\"st-1\"",
            "seq=4",
            "latency_ms=2.5",
            "error.code=\"error.internal\"",
            "retryable=true",
            "retryAfter=1.5",
        ] {
            assert!(line.contains(field), "{field}: {text}");
        }
        assert!(text.contains("MCP Stream{streamId=\"st-1\" seq=4}: corelane::parity: close"));
        assert!(line.contains(":MCP Stream{streamId=\"st-1\" seq=4}"), "{text}");
    }

    #[test]
    fn rejected_message_has_what_can_be_read() {
        let error = SentError { code: "error.internal", retryable: false, retry_after_ms: None };
        let message = RejectedFields {
            is_request: true,
            request_id: Some("7"),
            method: Some("tools/call"),
            tool: Some("echo"),
            traceparent: Some(TRACEPARENT),
        };
        let text = logged_at(Level::DEBUG, || record_rejection(&session(), &message, error, None));
        let line = text.lines().find(|line| line.contains(": message rejected "));
        let (spans, line) = line.and_then(|line| line.split_once(": message rejected ")).unwrap();
        for text in [spans, line] {
            for field in
                ["requestId=\"7\"", "method=\"tools/call\"", "tool=\"echo\"", "traceId=\"0af"]
            {
                assert!(text.contains(field), "{field}: {text}");
            }
        }
        assert!(spans.contains("MCP Request{"), "{spans}");
        let unread = RejectedFields {
            is_request: false,
            request_id: None,
            method: None,
            tool: None,
            traceparent: Some("malformed"),
        };
        let text = logged_at(Level::DEBUG, || record_rejection(&session(), &unread, error, None));
        assert!(!text.contains("MCP Request") && !text.contains("traceId"), "{text}");
    }

    #[test]
    fn handshake_has_line_in_span() {
        let text =
            logged_at(Level::DEBUG, || record_handshake(&session(), Some(TRACEPARENT), None, None));
        assert!(text.contains("MCP Handshake{sessionId=\"s-1\" transport=tcp"), "{text}");
        assert!(text.contains(": handshake sessionId=\"s-1\""), "{text}");
    }

    #[test]
    fn long_texts_of_clients_are_cut() {
        let text = logged_at(Level::DEBUG, || {
            let id = format!("\"{}\"", "é".repeat(200));
            let request =
                RequestFields { request_id: &id, method: "m", tool: None, traceparent: None };
            RequestRecord::begin(session(), &request, None).end(0.0, None, None);
        });
        assert!(text.contains(&"é".repeat(63)) && !text.contains(&"é".repeat(64)), "{text}");
    }

    #[test]
    fn nothing_is_recorded_above_debug_level() {
        let text = logged_at(Level::INFO, || {
            assert!(!is_enabled());
            record_handshake(&session(), None, None, None);
        });
        assert_eq!(text, "");
    }
}
