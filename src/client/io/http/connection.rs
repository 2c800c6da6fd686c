//! One connection of Streamable HTTP, with its deadlines.

use std::time::Duration;

use super::exchange::{Exchange, ExchangeKind, StreamCursor, note_stream};
use super::exchange_connection::{ExchangeConnection, Response};
use crate::base::time::Instant;
use crate::client::error::{ClientError, ClientErrorKind, quote};
use crate::client::io::stream::Loss;
use crate::engine::clock::unix_ms;
use crate::engine::ring::{Ring, Socket};
use crate::transport::http::client::event_reader::{EventReader, ServerEvent};
use crate::transport::http::client::response_head::{
    MediaType, ResponseError, ResponseHead, ResponseLimits,
};
use crate::transport::http::client::response_reader::ResponseEvent;
use crate::transport::http::head::ContentCoding;

/// Time for which an idle connection is used again.
const IDLE_TIME_MAX: Duration = Duration::from_mins(1);
/// Time before the end that a server announces for an idle connection, in which it is not used.
const CLOSE_MARGIN: Duration = Duration::from_secs(1);
/// Bytes of a body that an error may quote.
const EXCERPT_BYTES_MAX: usize = 1_024;

/// A connection with the deadlines of its exchange and of its idle time.
#[derive(Debug)]
pub(super) struct HttpConnection {
    connection: ExchangeConnection<Exchange>,
    /// When an exchange without a timeout of the session is given up.
    deadline: Option<Instant>,
    /// When the idle connection is no longer used, because the server may be closing it.
    idle_deadline: Option<Instant>,
}

impl HttpConnection {
    /// Starts to receive.
    pub(super) fn open(ring: &mut dyn Ring, socket: Socket) -> Self {
        let connection = ExchangeConnection::open(ring, socket);
        Self { connection, deadline: None, idle_deadline: None }
    }

    pub(super) const fn socket(&self) -> Socket {
        self.connection.socket()
    }

    pub(super) const fn exchange(&self) -> Option<&Exchange> {
        self.connection.exchange()
    }

    pub(super) const fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    pub(super) const fn head(&self) -> Option<&ResponseHead> {
        self.connection.head()
    }

    /// Returns whether an exchange can be started.
    pub(super) const fn is_idle(&self) -> bool {
        self.connection.is_idle()
    }

    /// Returns whether the server may be closing the connection because it is idle.
    pub(super) fn is_stale(&self, now: Instant) -> bool {
        self.is_idle() && self.idle_deadline.is_some_and(|deadline| deadline <= now)
    }

    /// Sends `request`.
    pub(super) fn start(
        &mut self,
        ring: &mut dyn Ring,
        exchange: Exchange,
        request: Vec<u8>,
        deadline: Option<Instant>,
    ) {
        self.deadline = deadline;
        self.connection.start(ring, exchange, request);
    }

    /// Handles the end of the send.
    pub(super) const fn handle_sent(&mut self) {
        self.connection.handle_sent();
    }

    /// Handles the failure of the send. A response may have arrived before, so the end of the
    /// connection is waited for, until `deadline`.
    pub(super) fn handle_send_failure(&mut self, deadline: Instant) {
        self.deadline = Some(self.deadline.map_or(deadline, |other| other.min(deadline)));
    }

    /// Notes that the exchange has timed out: the server may have handled it. Returns the failure.
    pub(super) fn handle_timeout(&mut self) -> ClientError {
        self.connection.note_timeout();
        match self.exchange().and_then(Exchange::call) {
            Some(_) => response_error(ResponseError::Truncated),
            None => ClientError::new(ClientErrorKind::Timeout, "the server did not answer in time"),
        }
    }

    /// Reads `bytes[*from..]`, advances `from`, and passes complete events to `deliver`.
    pub(super) fn receive(
        &mut self,
        bytes: &[u8],
        from: &mut usize,
        limits: &ResponseLimits,
        deliver: impl FnMut(ServerEvent<'_>),
    ) -> Result<ResponseEvent, ResponseError> {
        let event = self.connection.receive(bytes, from, limits, deliver)?;
        if event == ResponseEvent::HeadComplete
            && self.head().is_some_and(ResponseHead::is_event_stream)
            && let Some(exchange) = self.connection.exchange_mut()
        {
            note_stream(exchange);
        }
        Ok(event)
    }

    /// Handles the end of the stream. Returns whether it completes the response.
    pub(super) const fn end_of_stream(&mut self) -> Result<bool, ResponseError> {
        self.connection.end_of_stream()
    }

    /// Ends the exchange whose response is complete.
    pub(super) fn finish(&mut self, now: Instant) -> Option<(Exchange, Response)> {
        let (exchange, response) = self.connection.finish()?;
        let idle = response.head.keep_alive_seconds.map_or(IDLE_TIME_MAX, |seconds| {
            Duration::from_secs(seconds.into()).saturating_sub(CLOSE_MARGIN).min(IDLE_TIME_MAX)
        });
        self.idle_deadline = Some(now.after(idle));
        self.deadline = None;
        Some((exchange, response))
    }

    /// Ends the exchange without a response. Returns it with whether it met a connection that the
    /// server has closed while it was idle.
    pub(super) fn abort(self) -> (Option<Exchange>, EventReader, bool) {
        self.connection.abort()
    }
}

impl Response {
    pub(super) fn is_json(&self) -> bool {
        self.head.media_type == MediaType::Json
            && self.head.content_coding == ContentCoding::Identity
    }

    /// Returns whether a token is needed, or another one. The body may be a JSON-RPC error; what is
    /// asked for stands in the head.
    pub(super) const fn is_unauthorized(&self) -> bool {
        self.head.status == 401
    }

    /// Returns the beginning of the body.
    pub(super) fn excerpt(&self) -> Vec<u8> {
        self.body[..self.body.len().min(EXCERPT_BYTES_MAX)].to_vec()
    }

    /// Returns what a refusal says of whether the request had started: `error.data.started`. One
    /// that says when to come back (`retryAfterMs`) and does not state it precedes the start: a
    /// limit, or a breaker.
    pub(super) fn started(&self) -> Option<bool> {
        if self.head.status < 400 {
            return None;
        }
        let body: serde_json::Value = serde_json::from_slice(&self.body).ok()?;
        let data = &body["error"]["data"];
        let precedes_start = data["retryable"] == true && data["retryAfterMs"].is_u64();
        data["started"].as_bool().or_else(|| precedes_start.then_some(false))
    }

    /// Returns why the response has no response to the request. `body` is its beginning.
    pub(super) fn error(&self, body: &[u8]) -> ClientError {
        let protocol = |text: String| ClientError::new(ClientErrorKind::Protocol, text);
        match (self.head.status, &self.head.location) {
            (200..300, _) => {}
            (status @ 300..400, Some(location)) => {
                return ClientError::from_redirect(status, location);
            }
            (status, _) => {
                let error = ClientError::from_http(status, &self.head.challenges, body);
                return error.with_retry_after(self.head.retry_delay(unix_ms()));
            }
        }
        if self.head.content_coding != ContentCoding::Identity {
            return protocol("the response is compressed, which was not asked for".to_owned());
        }
        match self.head.media_type {
            MediaType::EventStream => {
                let text = "the server ended the event stream before the response";
                ClientError::new(ClientErrorKind::Closed, text)
            }
            MediaType::Json => {
                let text = "the server answered with JSON that is no response to the request";
                protocol(format!("{text}{}", quote(body)))
            }
            MediaType::Missing | MediaType::Other => {
                let text = "the server answered with neither JSON nor an event stream";
                protocol(format!("{text} (HTTP status {}){}", self.head.status, quote(body)))
            }
        }
    }

    /// Returns the error of a request that is refused for now.
    pub(super) fn refusal(&self) -> ClientError {
        let delay = self.head.retry_delay(unix_ms());
        ClientError::from_refusal(self.head.status, &self.head.challenges, &self.body, delay)
    }

    /// Returns the cursor to resume the response to `call`, or `None` if it is not resumable.
    pub(super) fn cursor(&self, call: u64) -> Option<StreamCursor> {
        let is_stream = self.head.is_event_stream();
        StreamCursor::of_call(call, &self.events).filter(|_| is_stream)
    }

    /// Returns the cursor to open a stream again, or `None` if that is of no use.
    pub(super) fn next_cursor(&self, exchange: Exchange) -> Option<StreamCursor> {
        match exchange.into_kind() {
            ExchangeKind::Stream(cursor) if self.head.is_event_stream() => {
                cursor.after(&self.events)
            }
            _ => None,
        }
    }
}

/// Returns why an exchange failed whose response is not complete.
pub(super) fn response_error(error: ResponseError) -> ClientError {
    match error {
        ResponseError::Invalid(text) => ClientError::new(ClientErrorKind::Protocol, text),
        ResponseError::Truncated => {
            let text = "the server closed the connection before the end of the response";
            ClientError::new(ClientErrorKind::Closed, text)
        }
    }
}

/// Returns why an exchange failed whose connection has ended.
pub(super) fn end_error(loss: &Loss) -> ClientError {
    match loss.tls_error() {
        Some(error) if error.kind().is_client_certificate() => {
            ClientError::from_tls(error.to_string(), error.clone())
        }
        Some(error) => ClientError::new(ClientErrorKind::Closed, error.to_string()),
        None => response_error(ResponseError::Truncated),
    }
}

/// Returns the error of subscriptions whose notifications cannot arrive, because the session has no
/// stream for them (MCP 2025-11-25 basic/transports, "Listening for Messages from the Server").
pub(super) fn no_notifications(error: &ClientError) -> ClientError {
    match error.kind() {
        ClientErrorKind::Http { status: 405 } => {
            let text = "the server has no event stream for notifications (GET: HTTP status 405), \
                        so no change can arrive";
            ClientError::with_source(ClientErrorKind::Unsupported, text, error.clone())
        }
        kind => {
            let text = format!("there is no event stream for notifications: {error}");
            let error = ClientError::with_source(kind, text, error.clone());
            let retry_after = error.cause().and_then(ClientError::retry_after);
            error.with_retry_after(retry_after)
        }
    }
}

/// Returns the error of a request whose response cannot be read to its end because of `error`; it
/// has run, unlike one that is refused.
pub(super) fn unresumed(error: &ClientError) -> ClientError {
    let text = format!("the response cannot be resumed: {error}");
    ClientError::with_source(ClientErrorKind::Closed, text, error.clone())
}
