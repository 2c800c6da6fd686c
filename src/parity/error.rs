//! The errors of the dialect, with their codes on every transport in one table.
//!
//! Invariants: [`ErrorCode::properties`] is the only place of the codes; an error of MCP maps to
//! one error of the dialect, and its code is in `details.mcpCode` where the dialect has no own.

use std::borrow::Cow;

use corelane_protocol::error::{Error, ErrorKind};
use corelane_protocol::json::{ObjectWriter, write};

/// The code of an error.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ErrorCode {
    /// The protocol version of a handshake is not supported.
    VersionUnsupported,
    /// The method or capability is not negotiated, or the state does not allow the message.
    FeatureNotAvailable,
    /// No valid credential.
    Unauthorized,
    /// The caller lacks a scope or tier.
    Forbidden,
    /// Too many requests in a time or in flight.
    RateLimited,
    /// The message is longer than the limit.
    PayloadTooLarge,
    /// A request with the same idempotency key was accepted before.
    AlreadyProcessed,
    /// Everything else: failures of the server, and malformed messages.
    Internal,
}

/// The properties of an [`ErrorCode`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ErrorCodeProperties {
    /// The code on the wire.
    pub code: &'static str,
    /// Whether a repetition of the request may succeed, unless the error says otherwise.
    pub retryable: bool,
    /// Status of the HTTP response that has the error.
    pub http_status: u16,
    /// WebSocket close code, if the error ends the connection; `None` if it never does.
    pub close_code: Option<u16>,
    /// The code of the same error in MCP (JSON-RPC).
    pub mcp_code: i32,
}

impl ErrorCode {
    /// Every code.
    pub const ALL: [Self; 8] = [
        Self::VersionUnsupported,
        Self::FeatureNotAvailable,
        Self::Unauthorized,
        Self::Forbidden,
        Self::RateLimited,
        Self::PayloadTooLarge,
        Self::AlreadyProcessed,
        Self::Internal,
    ];

    /// Returns the properties. Columns: code, retryable, HTTP status, WebSocket close code, kind of
    /// MCP error.
    pub const fn properties(self) -> ErrorCodeProperties {
        let (code, retryable, http_status, close_code, kind) = match self {
            Self::VersionUnsupported => (
                "error.version_unsupported",
                false,
                400,
                Some(1002),
                ErrorKind::UnsupportedProtocolVersion,
            ),
            Self::FeatureNotAvailable => {
                let kind = ErrorKind::MethodNotFound;
                ("error.feature_not_available", false, 400, Some(1008), kind)
            }
            Self::Unauthorized => {
                ("error.auth.unauthorized", false, 401, Some(1008), ErrorKind::Unauthorized)
            }
            Self::Forbidden => {
                ("error.auth.forbidden", false, 403, Some(1008), ErrorKind::InsufficientScope)
            }
            Self::RateLimited => {
                ("error.rate_limited", true, 429, Some(1013), ErrorKind::RateLimited)
            }
            Self::PayloadTooLarge => {
                ("error.payload_too_large", false, 413, Some(1009), ErrorKind::MessageTooLarge)
            }
            Self::AlreadyProcessed => {
                ("error.already_processed", false, 409, None, ErrorKind::InvalidRequest)
            }
            Self::Internal => ("error.internal", true, 500, Some(1011), ErrorKind::Internal),
        };
        let mcp_code = kind.properties().code;
        ErrorCodeProperties { code, retryable, http_status, close_code, mcp_code }
    }

    /// Returns whether a request with this error was refused before it ran.
    pub const fn is_refusal(self) -> bool {
        match self {
            Self::VersionUnsupported
            | Self::FeatureNotAvailable
            | Self::Unauthorized
            | Self::Forbidden
            | Self::RateLimited
            | Self::PayloadTooLarge => true,
            Self::AlreadyProcessed | Self::Internal => false,
        }
    }

    /// Returns the code on the wire.
    pub const fn as_str(self) -> &'static str {
        self.properties().code
    }

    /// Returns the code with this text; `None` for an unknown one.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.as_str() == text)
    }
}

/// The status of an HTTP response with a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct HttpStatus {
    /// The status code.
    pub code: u16,
    /// The value of `Retry-After` in seconds, rounded up, where there is one.
    pub retry_after: Option<u32>,
}

impl HttpStatus {
    /// The status of a response with a result.
    pub const OK: Self = Self::new(200);

    /// A status without `Retry-After`.
    pub const fn new(code: u16) -> Self {
        Self { code, retry_after: None }
    }
}

/// An error as it is sent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ParityError {
    /// The code.
    pub code: ErrorCode,
    /// Human-readable message without secrets.
    pub message: Cow<'static, str>,
    /// Whether a repetition may succeed.
    pub retryable: bool,
    /// Time in milliseconds after which a repetition may succeed; sent as seconds.
    pub retry_after_ms: Option<u64>,
    /// `details`, an encoded JSON object.
    pub details: Option<Box<str>>,
    /// Status of an HTTP response with it.
    status: u16,
}

/// Status of an [`ErrorCode::Internal`] for which the client is to blame.
const BAD_REQUEST: u16 = 400;

/// Status of the error of a session that is gone.
const NOT_FOUND: u16 = 404;

impl ParityError {
    /// Creates an error with the `retryable` and the HTTP status of its code.
    pub fn new(code: ErrorCode, message: impl Into<Cow<'static, str>>) -> Self {
        let ErrorCodeProperties { retryable, http_status: status, .. } = code.properties();
        let (message, retry_after_ms, details) = (message.into(), None, None);
        Self { code, message, retryable, retry_after_ms, details, status }
    }

    /// A failure that no repetition changes: a malformed message or invalid params.
    pub fn malformed(mcp_code: i32, message: impl Into<Cow<'static, str>>) -> Self {
        Self { retryable: false, status: BAD_REQUEST, ..Self::new(ErrorCode::Internal, message) }
            .with_details(format!("{{\"mcpCode\":{mcp_code}}}"))
    }

    /// A message that is longer than `bytes_max`.
    pub fn payload_too_large(bytes_max: u64) -> Self {
        let message = format!("message too large: limit {bytes_max} bytes");
        Self::new(ErrorCode::PayloadTooLarge, message)
    }

    /// A session that has ended or never was.
    pub fn unknown_session() -> Self {
        let message = "the session has expired or does not exist: send a handshake";
        Self { status: NOT_FOUND, ..Self::new(ErrorCode::Internal, message) }
            .with_details(r#"{"reason":"unknown_session"}"#)
    }

    /// No handshake came in time.
    pub fn handshake_timeout() -> Self {
        let message = "no handshake came within the time of the handshake";
        Self::new(ErrorCode::VersionUnsupported, message)
            .with_details(r#"{"reason":"handshake_timeout"}"#)
    }

    /// The end of a session that was idle.
    pub fn idle_timeout() -> Self {
        Self::new(ErrorCode::Internal, "the session was idle for too long")
            .with_details(r#"{"reason":"idle_timeout"}"#)
    }

    /// The end of a session because the server shuts down.
    pub fn draining() -> Self {
        Self::new(ErrorCode::Internal, "the server shuts down")
            .with_details(r#"{"reason":"draining"}"#)
    }

    /// The end of a connection that was open for as long as the server admits.
    pub fn connection_lifetime() -> Self {
        Self::new(ErrorCode::Internal, "the connection has reached its lifetime")
            .with_details(r#"{"reason":"connection_lifetime"}"#)
    }

    /// The end of a session on behalf of its client.
    pub fn session_ended() -> Self {
        let message = "the client has ended the session";
        Self { retryable: false, status: BAD_REQUEST, ..Self::new(ErrorCode::Internal, message) }
            .with_details(r#"{"reason":"session_ended"}"#)
    }

    /// A message that is no valid envelope.
    pub fn invalid_envelope(message: impl Into<Cow<'static, str>>) -> Self {
        Self::malformed(ErrorKind::InvalidRequest.properties().code, message)
    }

    /// A capability or method that is not negotiated.
    pub fn feature_not_available(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorCode::FeatureNotAvailable, message)
    }

    /// Too many requests; one may be repeated after `retry_after_ms`.
    pub fn rate_limited(message: impl Into<Cow<'static, str>>, retry_after_ms: u64) -> Self {
        let retry_after_ms = Some(retry_after_ms);
        Self { retry_after_ms, ..Self::new(ErrorCode::RateLimited, message) }
    }

    /// A request whose token has expired: it may be repeated with another one.
    pub fn token_expired(message: impl Into<Cow<'static, str>>) -> Self {
        Self { retryable: true, ..Self::new(ErrorCode::Unauthorized, message) }
            .with_details(r#"{"reason":"token_expired","advice":"refresh_token"}"#)
    }

    /// The end of a request that its client has cancelled.
    pub fn cancelled() -> Self {
        let message = "the request was cancelled";
        Self { retryable: false, status: BAD_REQUEST, ..Self::new(ErrorCode::Internal, message) }
            .with_details(r#"{"reason":"cancelled"}"#)
    }

    /// Sets `details`, which must be an encoded JSON object.
    #[must_use]
    pub fn with_details(self, details: impl Into<Box<str>>) -> Self {
        Self { details: Some(details.into()), ..self }
    }

    /// Returns the status of an HTTP response with it: that of its code, but 400 for an
    /// [`ErrorCode::Internal`] for which the client is to blame, and 404 for an unknown session.
    pub fn http_status(&self) -> HttpStatus {
        let code = self.status;
        let seconds = self.retry_after_ms.unwrap_or_default().div_ceil(1_000).max(1);
        let seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
        let retry_after = (self.code == ErrorCode::RateLimited).then_some(seconds);
        HttpStatus { code, retry_after }
    }

    /// Appends the error object.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut object = ObjectWriter::open(out);
        object.string("code", self.code.as_str()).string("message", &self.message);
        object.boolean("retryable", self.retryable);
        if let Some(retry_after_ms) = self.retry_after_ms {
            #[expect(clippy::cast_precision_loss, reason = "a time, in milliseconds")]
            write::float(object.key("retryAfter"), retry_after_ms as f64 / 1_000.0);
        }
        if let Some(details) = &self.details {
            object.raw("details", details.as_bytes());
        }
        object.close();
    }
}

impl From<&Error> for ParityError {
    fn from(error: &Error) -> Self {
        Self::from_mcp(error.kind, error.code, error.message.clone(), error.data.as_deref())
    }
}

impl ParityError {
    /// Maps an error of MCP. `data` is its `data` member, encoded.
    pub fn from_mcp(
        kind: ErrorKind,
        mcp_code: i32,
        message: Cow<'static, str>,
        data: Option<&str>,
    ) -> Self {
        let code = match kind {
            ErrorKind::UnsupportedProtocolVersion => ErrorCode::VersionUnsupported,
            ErrorKind::MethodNotFound | ErrorKind::MissingCapability => {
                ErrorCode::FeatureNotAvailable
            }
            ErrorKind::TokenExpired => return Self::token_expired(message),
            // The data of MCP say what the code of the dialect does.
            ErrorKind::Unauthorized => return Self::new(ErrorCode::Unauthorized, message),
            ErrorKind::InsufficientScope | ErrorKind::SecondFactorRequired => ErrorCode::Forbidden,
            ErrorKind::RateLimited
            | ErrorKind::TooManyRequests
            | ErrorKind::ConnectionLimit
            | ErrorKind::Overloaded { .. } => ErrorCode::RateLimited,
            ErrorKind::MessageTooLarge => ErrorCode::PayloadTooLarge,
            _ => ErrorCode::Internal,
        };
        let error = Self::new(code, message);
        match code {
            ErrorCode::RateLimited => Self {
                retry_after_ms: Some(retry_after_ms(kind, data)),
                details: data.map(Into::into),
                ..error
            },
            ErrorCode::Internal => error.with_mcp_code(kind, mcp_code, data),
            _ => Self {
                // A second factor is pending.
                retryable: error.retryable || kind == ErrorKind::SecondFactorRequired,
                details: data.filter(|data| data.starts_with('{')).map(Into::into),
                ..error
            },
        }
    }

    /// Adds the code and data of MCP, which the dialect has no own code for.
    fn with_mcp_code(self, kind: ErrorKind, mcp_code: i32, data: Option<&str>) -> Self {
        let is_transient =
            matches!(kind, ErrorKind::Internal | ErrorKind::HandlerPanicked | ErrorKind::Draining);
        if is_transient && data.is_none() {
            return self;
        }
        let is_of_server = is_transient || kind == ErrorKind::CutByDrain;
        let status = if is_of_server { self.status } else { BAD_REQUEST };
        let mut details = Vec::new();
        let mut object = ObjectWriter::open(&mut details);
        write::signed(object.key("mcpCode"), mcp_code.into());
        if let Some(data) = data {
            object.raw("data", data.as_bytes());
        }
        object.close();
        let details = String::from_utf8(details).unwrap_or_default();
        Self { retryable: is_transient, status, ..self }.with_details(details)
    }
}

/// Returns the time after which a refused request may be repeated.
fn retry_after_ms(kind: ErrorKind, data: Option<&str>) -> u64 {
    let data = data.and_then(|data| serde_json::from_str::<serde_json::Value>(data).ok());
    let stated = data.and_then(|data| data.get("retryAfterMs")?.as_u64());
    stated.unwrap_or_else(|| 1_000 * u64::from(kind.retry_after_seconds().unwrap_or(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(error: &ParityError) -> String {
        let mut out = Vec::new();
        error.write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn codes_are_distinct_and_read_back() {
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::parse(code.as_str()), Some(code));
        }
        assert_eq!(ErrorCode::parse("error.other"), None);
        let rows: Vec<_> = ErrorCode::ALL
            .into_iter()
            .map(|code| {
                let it = code.properties();
                (it.http_status, it.close_code, it.mcp_code, it.retryable)
            })
            .collect();
        let expected = [
            (400, Some(1002), -32022, false),
            (400, Some(1008), -32601, false),
            (401, Some(1008), -32010, false),
            (403, Some(1008), -32011, false),
            (429, Some(1013), 1002, true),
            (413, Some(1009), -32012, false),
            (409, None, -32600, false),
            (500, Some(1011), -32603, true),
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn error_object_has_members_in_order() {
        let error = ParityError::rate_limited("slow down", 1_500);
        let expected = r#"{"code":"error.rate_limited","message":"slow down","retryable":true,"#;
        assert_eq!(written(&error), format!("{expected}\"retryAfter\":1.5}}"));
        let cancelled = written(&ParityError::cancelled());
        assert!(cancelled.ends_with(r#""retryable":false,"details":{"reason":"cancelled"}}"#));
    }

    #[test]
    fn mcp_error_keeps_its_code_in_details() {
        let error = ParityError::from(&Error::invalid_params("no name"));
        assert_eq!((error.code, error.retryable), (ErrorCode::Internal, false));
        assert_eq!(error.details.as_deref(), Some(r#"{"mcpCode":-32602}"#));
        let failure = ParityError::from(&Error::internal("broken"));
        assert_eq!((failure.retryable, failure.details), (true, None));
        let unknown = ParityError::from(&Error::method_not_found("x/y"));
        assert_eq!(unknown.code, ErrorCode::FeatureNotAvailable);
        let invalid = ParityError::from(&Error::unauthorized("forged"));
        assert_eq!(invalid, ParityError::new(ErrorCode::Unauthorized, "forged"));
        let expired = written(&ParityError::from(&Error::token_expired("old")));
        let details = r#"{"reason":"token_expired","advice":"refresh_token"}"#;
        assert!(expired.ends_with(&format!(r#""retryable":true,"details":{details}}}"#)));
        let limited = Error::new(ErrorKind::RateLimited, "wait")
            .with_data(r#"{"retryable":true,"retryAfterMs":250}"#);
        assert_eq!(ParityError::from(&limited).retry_after_ms, Some(250));
        let status = |ms| ParityError::rate_limited("wait", ms).http_status();
        for (ms, seconds) in [(0, 1), (250, 1), (1_000, 1), (1_001, 2), (u64::MAX, u32::MAX)] {
            assert_eq!(status(ms), HttpStatus { code: 429, retry_after: Some(seconds) });
        }
        assert_eq!(unknown.http_status(), HttpStatus::new(400));
    }
}
