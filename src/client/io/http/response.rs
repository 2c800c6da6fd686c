//! Responses of a server of MCP, and what an exchange without one fails with.

use super::connection::{ExchangeLoss, HttpResponse};
use super::exchange::{ExchangeKind, McpExchange, StreamCursor};
use crate::error::{ClientError, ClientErrorKind, quote};
use crate::io::loss::Loss;
use corelane_engine::clock::unix_ms;
use corelane_transport::http::client::response_head::{MediaType, ResponseError};
use corelane_transport::http::head::ContentCoding;

/// Bytes of a body that an error may quote.
const EXCERPT_BYTES_MAX: usize = 1_024;

impl HttpResponse {
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
    pub(super) fn next_cursor(&self, exchange: McpExchange) -> Option<StreamCursor> {
        match exchange.into_kind() {
            ExchangeKind::Stream(cursor) if self.head.is_event_stream() => {
                cursor.after(&self.events)
            }
            _ => None,
        }
    }
}

/// Returns why an exchange failed whose response is not complete.
fn response_error(error: ResponseError) -> ClientError {
    match error {
        ResponseError::Invalid(text) => ClientError::new(ClientErrorKind::Protocol, text),
        ResponseError::Truncated => {
            let text = "the server closed the connection before the end of the response";
            ClientError::new(ClientErrorKind::Closed, text)
        }
    }
}

/// Returns why an exchange failed that has ended without its response.
pub(super) fn loss_error(exchange: &McpExchange, loss: &ExchangeLoss<'_>) -> ClientError {
    match (loss, exchange.call()) {
        (ExchangeLoss::Response(error), _) => response_error(*error),
        (ExchangeLoss::Connection(loss), _) => end_error(loss),
        // The server may have handled the request.
        (ExchangeLoss::Timeout, Some(_)) => response_error(ResponseError::Truncated),
        (ExchangeLoss::Timeout, None) => {
            ClientError::new(ClientErrorKind::Timeout, "the server did not answer in time")
        }
    }
}

/// Returns why an exchange failed whose connection has ended.
fn end_error(loss: &Loss) -> ClientError {
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
