//! Why a call or a connection failed.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use corelane_parity::error::ErrorCode;
use corelane_protocol::json::Value;
use corelane_tls::{TlsError, TlsErrorKind};

/// Code of a request without a valid token.
const UNAUTHORIZED: i64 = -32010;
/// Longest text of the server that an error quotes, in characters.
const QUOTED_CHARACTERS_MAX: usize = 200;

/// Why a call or a connection failed. Cloning is cheap: calls that fail together share the source.
///
/// It has the size of a pointer, so that a result which may be an error is not larger for it.
#[derive(Clone)]
pub struct ClientError(Box<ErrorDetails>);

#[derive(Clone)]
struct ErrorDetails {
    kind: ClientErrorKind,
    message: Cow<'static, str>,
    /// `error.data` of a JSON-RPC error, or `details` of one of the parity dialect, encoded.
    data: Option<Box<str>>,
    /// Whether and when a repetition may succeed.
    retry: RetryAdvice,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

/// What an error says of a repetition.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct RetryAdvice {
    is_retryable: bool,
    after: Option<Duration>,
}

/// Kind of a [`ClientError`].
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ClientErrorKind {
    /// The arguments or the target are invalid; nothing was sent.
    InvalidInput,
    /// The connection could not be opened. No call has run.
    Connect,
    /// The connection is not secure: the certificate of the server or of the client was not
    /// accepted, or the server does not speak TLS. No call has run.
    Tls,
    /// The server refused the handshake, or supports no revision that the client may use.
    Handshake,
    /// The server did not declare the capability that the call needs, or its revision has no such
    /// method. Nothing was sent.
    Unsupported,
    /// As many calls as allowed wait already. Nothing was sent.
    Busy,
    /// No response arrived in time. The call was cancelled; it may have run.
    Timeout,
    /// The connection ended before the response. The call may have run.
    Closed,
    /// The server violated the protocol.
    Protocol,
    /// The server answered with a JSON-RPC error.
    Rpc {
        /// Its code, such as -32602.
        code: i64,
    },
    /// The server answered with an error of the parity dialect. [`ClientError::data`] has its
    /// `details`.
    Parity {
        /// Its code, such as `error.rate_limited`.
        code: ErrorCode,
    },
    /// The server of the parity dialect cannot continue the session whose connection was lost, and
    /// the stream of the call with it. The call may have run.
    Restart,
    /// The caller has cancelled the request. It may have run.
    Cancelled,
    /// The HTTP request was refused, by the server or by a proxy before it: the response has no
    /// message of MCP. The message of the error has the beginning of its body.
    Http {
        /// The status, such as 404; 401 is [`Unauthorized`](Self::Unauthorized).
        status: u16,
    },
    /// The server requires a token, or has refused the one it got: HTTP status 401, also at the
    /// upgrade to WebSocket, or error -32010 of a Corelane server over a stream. The call has not
    /// run. A client with [`oauth`](crate::ClientBuilder::oauth) authorizes itself first.
    Unauthorized {
        /// What the server asks for: the values of `WWW-Authenticate`, separated by commas
        /// (RFC 9110, section 11.6.1). `None` without the field, and always over a stream.
        challenge: Option<Box<str>>,
    },
    /// The server requires authorization, and no token was obtained. The call has not run.
    Authorization,
    /// The tool failed (`isError`); the message is its text.
    Tool,
    /// A file of a skill is not the one that the skill lists.
    Integrity,
    /// The task that the call waits for was cancelled.
    TaskCancelled,
    /// A handler of this client did not provide the input that the server requires.
    Input,
}

impl ClientError {
    /// Creates an error.
    #[doc(hidden)]
    pub fn new(kind: ClientErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        let (message, retry) = (message.into(), RetryAdvice::default());
        Self(Box::new(ErrorDetails { kind, message, data: None, retry, source: None }))
    }

    /// Creates an error with its cause.
    pub(crate) fn with_source(
        kind: ClientErrorKind,
        message: impl Into<Cow<'static, str>>,
        source: impl Error + Send + Sync + 'static,
    ) -> Self {
        let mut error = Self::new(kind, message);
        error.0.source = Some(Arc::new(source));
        error
    }

    /// Creates the error of an authorization that has failed.
    pub(crate) fn authorization(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ClientErrorKind::Authorization, message)
    }

    /// Creates the error of a TLS handshake or connection. Its source is `error`.
    pub(crate) fn from_tls(message: String, error: TlsError) -> Self {
        let kind = match error.kind() {
            TlsErrorKind::Closed | TlsErrorKind::Timeout => ClientErrorKind::Connect,
            _ => ClientErrorKind::Tls,
        };
        Self::with_source(kind, message, error)
    }

    /// Reads the `error` member of a response.
    pub(crate) fn from_response(error: Value<'_>) -> Self {
        let member = |name| error.as_object().and_then(|error| error.find(name));
        let Some(code) = member("code").and_then(Value::as_i64) else {
            let code = member("code").filter(|code| !code.is_null());
            let code = code.map_or_else(
                || "no code".into(),
                |code| {
                    let code: String = encode(code).chars().take(QUOTED_CHARACTERS_MAX).collect();
                    format!("the code {code}, which is no integer")
                },
            );
            let message = quoted_message(member("message"));
            let text = format!("the server answered with an error that has {code}: {message}");
            let mut error = Self::new(ClientErrorKind::Protocol, text);
            error.0.data = member("data").map(encode);
            return error;
        };
        let mut error = Self::new(ClientErrorKind::Rpc { code }, quoted_message(member("message")));
        let data = member("data");
        error.0.data = data.map(encode);
        let advice = |name| data.and_then(Value::as_object).and_then(|data| data.find(name));
        let is_retryable = advice("retryable").and_then(Value::as_bool).unwrap_or(false);
        let after = advice("retryAfterMs").and_then(Value::as_u64).map(Duration::from_millis);
        error.0.retry = RetryAdvice { is_retryable, after };
        // Another server may use the code for something else.
        if code == UNAUTHORIZED && advice("retryable").and_then(Value::as_bool) == Some(false) {
            error.0.message = error.to_string().into();
            error.0.kind = ClientErrorKind::Unauthorized { challenge: None };
        }
        error
    }

    /// Reads an error object of the parity dialect.
    pub(crate) fn from_parity(error: Value<'_>) -> Self {
        let member = |name| error.as_object().and_then(|error| error.find(name));
        let code = member("code").and_then(Value::as_str).unwrap_or_default();
        let message = quoted_message(member("message"));
        let Some(code) = ErrorCode::parse(code) else {
            let code = quote(code.as_bytes());
            let text = format!("the server answered with an error of an unknown code{code}");
            return Self::new(ClientErrorKind::Protocol, format!("{text}: {message}"));
        };
        let is_retryable = member("retryable").and_then(Value::as_bool).unwrap_or(false);
        let seconds = member("retryAfter").and_then(Value::as_f64);
        let after = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let mut error = Self::new(ClientErrorKind::Parity { code }, message);
        error.0.data = member("details").map(encode);
        error.0.retry = RetryAdvice { is_retryable, after };
        error
    }

    /// Creates the error for an HTTP response with these values of `WWW-Authenticate` and without a
    /// message of MCP.
    pub(crate) fn from_http(status: u16, challenges: &[Box<str>], body: &[u8]) -> Self {
        let kind = match status {
            401 => {
                let challenge = (!challenges.is_empty()).then(|| challenges.join(", ").into());
                ClientErrorKind::Unauthorized { challenge }
            }
            _ => ClientErrorKind::Http { status },
        };
        Self::new(kind, format!("the server answered with HTTP status {status}{}", quote(body)))
    }

    /// Creates the error of a request over HTTP that the server refuses for now: `body` may be a
    /// JSON-RPC error, whose message is quoted.
    pub(crate) fn from_refusal(
        status: u16,
        challenges: &[Box<str>],
        body: &[u8],
        retry_after: Option<Duration>,
    ) -> Self {
        let document: Option<serde_json::Value> = serde_json::from_slice(body).ok();
        let message = document.as_ref().and_then(|document| document["error"]["message"].as_str());
        let error = Self::from_http(status, challenges, message.map_or(body, str::as_bytes));
        error.with_retry_after(retry_after)
    }

    /// Sets the time before which a repetition does not succeed.
    pub(crate) fn with_retry_after(mut self, after: Option<Duration>) -> Self {
        self.0.retry.after = after;
        self
    }

    /// Returns the error of a request that was refused so until its time, `timeout`, was over.
    pub(super) fn after_refusals(&self, timeout: Duration) -> Self {
        let text = format!("{self}; it was not accepted within {timeout:?}");
        let mut error = Self::with_source(self.kind(), text, self.clone());
        error.0.retry = self.0.retry;
        error
    }

    /// The error of a redirect that is not followed.
    pub(crate) fn from_redirect(status: u16, location: &str) -> Self {
        let text = format!(
            "the server redirects to {location} (HTTP status {status}), which is not followed; use \
             that URL if you trust it"
        );
        Self::new(ClientErrorKind::Http { status }, text)
    }

    /// Returns the kind.
    pub fn kind(&self) -> ClientErrorKind {
        self.0.kind.clone()
    }

    /// Returns the message of the server or of the client, without the source.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the error of this client that caused this one.
    pub(super) fn cause(&self) -> Option<&Self> {
        self.0.source.as_deref()?.downcast_ref()
    }

    /// Returns `error.data` of a JSON-RPC error, or `details` of an error of the parity dialect, as
    /// JSON text.
    pub fn data(&self) -> Option<&str> {
        self.0.data.as_deref()
    }

    /// Returns whether a repetition may succeed: `data.retryable` of a JSON-RPC error, `retryable`
    /// of an error of the parity dialect; false for every other error.
    pub fn is_retryable(&self) -> bool {
        self.0.retry.is_retryable
    }

    /// Returns the time before which a repetition does not succeed: `data.retryAfterMs` of a
    /// JSON-RPC error, `retryAfter` of an error of the parity dialect, `Retry-After` of a response
    /// over HTTP.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry.after
    }
}

/// Returns the beginning of the message of an error.
fn quoted_message(message: Option<Value<'_>>) -> String {
    let message = message.and_then(Value::as_str).unwrap_or_default();
    message.chars().take(QUOTED_CHARACTERS_MAX).collect()
}

/// Returns a value as JSON text.
fn encode(value: Value<'_>) -> Box<str> {
    let mut text = Vec::new();
    value.write(&mut text);
    String::from_utf8_lossy(&text).into()
}

/// Returns the beginning of a body for the message of an error, in one line.
pub fn quote(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(4 * QUOTED_CHARACTERS_MAX)]);
    let text: Vec<&str> = text.split_whitespace().collect();
    let text: String = text.join(" ").chars().take(QUOTED_CHARACTERS_MAX).collect();
    if text.is_empty() { text } else { format!(": {text}") }
}

impl fmt::Display for ClientError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ErrorDetails { kind, message, .. } = &*self.0;
        match kind {
            ClientErrorKind::Rpc { code } => {
                write!(formatter, "the server answered with error {code}: {message}")
            }
            ClientErrorKind::Parity { code } => {
                write!(formatter, "the server answered with {}: {message}", code.as_str())
            }
            ClientErrorKind::Tool => write!(formatter, "the tool failed: {message}"),
            _ => formatter.write_str(message),
        }
    }
}

impl fmt::Debug for ClientError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ErrorDetails { kind, message, data, retry: _, source } = &*self.0;
        formatter
            .debug_struct("ClientError")
            .field("kind", kind)
            .field("message", message)
            .field("data", data)
            .field("source", source)
            .finish()
    }
}

impl Error for ClientError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}
