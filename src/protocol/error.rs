//! Errors that are sent to peers, and the codes of each kind.
//!
//! JSON-RPC code and HTTP status are derived from the [`ErrorKind`] in one table,
//! [`ErrorKind::properties`].

use crate::json::{DuplicateKey, ParseError, write};
use crate::revision::Revision;
use std::borrow::Cow;
use std::fmt;

use corelane_base::heap_bytes;

/// Kind of an error. Each has one row in [`ErrorKind::properties`].
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ErrorKind {
    /// Error of a handler, with its own code outside the range that JSON-RPC reserves.
    Application(i32),
    /// Too many requests in flight on a connection.
    TooManyRequests,
    /// Too many requests of a caller, or connections of an address, in a time (code 1002).
    RateLimited,
    /// Too many connections to the server (code 1001).
    ConnectionLimit,
    /// The server shuts down: it serves no new connections, and no requests that have not started
    /// (code 1001).
    Draining,
    /// The call had started and took longer than the drain of the server (code 1001).
    CutByDrain,
    /// A handler panicked; clients see the same code as [`ErrorKind::Internal`].
    HandlerPanicked,
    /// An HTTP header is missing or disagrees with the body (MCP 2026-07-28, `basic/transports`).
    HeaderMismatch,
    /// Failure inside this server.
    Internal,
    /// A known method with invalid params.
    InvalidParams,
    /// The caller lacks a scope or tier that the request requires.
    InsufficientScope,
    /// All that the caller lacks for the request is the proof of a second factor.
    SecondFactorRequired,
    /// JSON, but not a valid JSON-RPC message.
    InvalidRequest,
    /// Unknown method, or not defined in this revision.
    MethodNotFound,
    /// The client did not declare a required capability (MCP 2026-07-28, `basic/index`).
    MissingCapability,
    /// A request before the handshake is complete.
    NotInitialized,
    /// Not JSON, or not UTF-8.
    Parse,
    /// Unknown resource, for legacy clients (MCP 2025-11-25, `server/resources`); modern clients
    /// get [`ErrorKind::InvalidParams`].
    ResourceNotFound,
    /// The HTTP session of the request was deleted while it ran.
    SessionDeleted,
    /// Message longer than the limit (code -32012).
    MessageTooLarge,
    /// The request has no valid token.
    Unauthorized,
    /// The token of the request has expired; clients of MCP see the same code as
    /// [`ErrorKind::Unauthorized`].
    TokenExpired,
    /// A tool or the server is overloaded; the request may be repeated after a time.
    Overloaded {
        /// The time, rounded up; the value of `Retry-After`.
        retry_after_seconds: u16,
    },
    /// Unsupported revision (MCP 2026-07-28, `basic/versioning`).
    UnsupportedProtocolVersion,
    /// The user must open a URL first (MCP 2025-11-25, `client/elicitation`).
    UrlElicitationRequired,
}

/// Properties of an [`ErrorKind`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ErrorProperties {
    /// JSON-RPC code.
    pub code: i32,
    /// HTTP status for a modern client.
    pub http_modern: u16,
    /// HTTP status for a legacy client: the specification is silent, and the official SDKs answer
    /// every request that has an id with 200.
    pub http_legacy: u16,
}

impl ErrorKind {
    /// Returns the properties of the kind. Columns: JSON-RPC code, HTTP status (modern, legacy).
    pub const fn properties(self) -> ErrorProperties {
        let (code, http_modern, http_legacy) = match self {
            Self::Application(code) => (code, 200, 200),
            Self::TooManyRequests | Self::Overloaded { .. } => (-32603, 503, 503),
            Self::ConnectionLimit | Self::Draining | Self::CutByDrain => (1001, 503, 503),
            Self::RateLimited => (1002, 429, 429),
            Self::HeaderMismatch => (-32020, 400, 400),
            Self::HandlerPanicked | Self::Internal => (-32603, 200, 200),
            Self::InsufficientScope | Self::SecondFactorRequired => (-32011, 403, 403),
            Self::InvalidParams => (-32602, 400, 200),
            Self::InvalidRequest | Self::NotInitialized => (-32600, 400, 400),
            Self::SessionDeleted => (-32600, 404, 404),
            Self::MethodNotFound => (-32601, 404, 200),
            Self::MissingCapability => (-32021, 400, 200),
            Self::Parse => (-32700, 400, 400),
            Self::ResourceNotFound => (-32002, 400, 200),
            Self::MessageTooLarge => (-32012, 413, 413),
            Self::Unauthorized | Self::TokenExpired => (-32010, 401, 401),
            Self::UnsupportedProtocolVersion => (-32022, 400, 400),
            Self::UrlElicitationRequired => (-32042, 400, 200),
        };
        ErrorProperties { code, http_modern, http_legacy }
    }

    /// Returns the value of `Retry-After` in a response with status 503; `None` if the request may
    /// have taken effect.
    pub const fn retry_after_seconds(self) -> Option<u16> {
        match self {
            Self::Overloaded { retry_after_seconds } => Some(retry_after_seconds),
            Self::CutByDrain => None,
            _ => Some(1),
        }
    }
}

/// An error as it is sent to the peer.
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    /// Kind of the error.
    pub kind: ErrorKind,
    /// JSON-RPC code.
    pub code: i32,
    /// Human-readable message without secrets.
    pub message: Cow<'static, str>,
    /// The `data` member, encoded as JSON.
    pub data: Option<Box<str>>,
}

heap_bytes!(Error { message, data } inline { kind, code });

impl Error {
    /// Creates an error of `kind`.
    #[cold]
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, code: kind.properties().code, message: message.into(), data: None }
    }

    /// Sets `data`, which must be encoded JSON.
    #[must_use]
    pub fn with_data(self, data: impl Into<Box<str>>) -> Self {
        Self { data: Some(data.into()), ..self }
    }

    /// Error of a handler. Codes from -32768 to -32000 are reserved by JSON-RPC and MCP; one of
    /// them becomes an internal error (-32603).
    pub fn application(code: i32, message: impl Into<Cow<'static, str>>) -> Self {
        if matches!(code, -32768..=-32000) {
            return Self::new(ErrorKind::Internal, message);
        }
        Self::new(ErrorKind::Application(code), message)
    }

    /// `in_flight_max` requests are in flight on the connection.
    pub fn too_many_requests(in_flight_max: usize) -> Self {
        Self::new(
            ErrorKind::TooManyRequests,
            format!(
                "{in_flight_max} requests are in flight on this connection; wait for a response"
            ),
        )
    }

    /// The server has reached its limit of connections.
    pub fn connection_limit() -> Self {
        Self::new(ErrorKind::ConnectionLimit, "connection limit of the server reached; retry later")
    }

    /// The server has no descriptor left for a connection.
    pub fn no_descriptors() -> Self {
        Self::new(
            ErrorKind::ConnectionLimit,
            "the server has no descriptor left for new connections; retry later",
        )
    }

    /// The address of the client has its share of the connections.
    pub fn address_connection_limit() -> Self {
        Self::new(
            ErrorKind::ConnectionLimit,
            "too many connections from this address (limit address_share_percent of \
             connections_max); close some or retry later",
        )
    }

    /// The server shuts down and serves no new connections.
    pub fn draining() -> Self {
        Self::new(ErrorKind::Draining, "the server is shutting down; connect again later")
    }

    /// The call had started and took longer than the drain of the server: it may have taken effect.
    /// `data.started` is true, `data.retryable` false.
    pub fn cut_by_drain() -> Self {
        Self::new(
            ErrorKind::CutByDrain,
            "the server is shutting down and cancelled the call, which had started; find out what \
             it has done before you repeat it",
        )
        .with_data(r#"{"started":true,"retryable":false}"#)
    }

    /// The request waited while the server drained and has not started. `data.started` is false,
    /// `data.retryable` true.
    pub fn not_started_by_drain() -> Self {
        Self::new(
            ErrorKind::Draining,
            "the server is shutting down and has not started the request; connect again and retry",
        )
        .with_data(r#"{"started":false,"retryable":true}"#)
    }

    /// A handler panicked.
    pub fn handler_panicked(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::HandlerPanicked, message)
    }

    /// An HTTP header that is missing or disagrees with the body.
    pub fn header_mismatch(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::HeaderMismatch, message)
    }

    /// Failure inside this server.
    pub fn internal(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    /// A known method with invalid params.
    pub fn invalid_params(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::InvalidParams, message)
    }

    /// JSON, but not a valid JSON-RPC message.
    pub fn invalid_request(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::InvalidRequest, message)
    }

    /// Arguments of a tool in which `key` occurs twice in one object.
    #[cold]
    pub fn duplicate_argument(key: &str) -> Self {
        let key: String = key.chars().take(QUOTED_CHARACTERS_MAX).collect();
        Self::invalid_params(format!("duplicate key \"{key}\" in params.arguments"))
    }

    /// A `kind`, such as a tool, that the server does not have.
    #[cold]
    pub fn unknown_name(kind: &str, name: &str) -> Self {
        let name: String = name.chars().take(QUOTED_CHARACTERS_MAX).collect();
        Self::invalid_params(format!("unknown {kind}: {name}"))
    }

    /// Unknown method, or not defined in this revision.
    pub fn method_not_found(method: &str) -> Self {
        let mut message = String::from("method not found: ");
        message.extend(method.chars().take(QUOTED_CHARACTERS_MAX));
        Self::new(ErrorKind::MethodNotFound, message)
    }

    /// A request before the handshake is complete.
    pub fn not_initialized(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::NotInitialized, message)
    }

    /// Not JSON.
    pub fn parse(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Parse, message)
    }

    /// Unknown resource, with its URI in `data`: -32002 for a legacy `revision`, invalid params
    /// (-32602) for a modern one.
    ///
    /// MCP: `server/resources`, "Error Handling", of each revision.
    pub fn resource_not_found(uri: &str, revision: Revision) -> Self {
        let kind = if revision.is_modern() {
            ErrorKind::InvalidParams
        } else {
            ErrorKind::ResourceNotFound
        };
        let mut data = br#"{"uri":"#.to_vec();
        let uri: String = uri.chars().take(QUOTED_URI_CHARACTERS_MAX).collect();
        write::string(&mut data, &uri);
        data.push(b'}');
        let quoted: String = uri.chars().take(QUOTED_CHARACTERS_MAX).collect();
        Self::new(kind, format!("Resource not found: {quoted}"))
            .with_data(String::from_utf8_lossy(&data))
    }

    /// Message longer than `message_bytes_max`.
    pub fn message_too_large(message_bytes_max: usize) -> Self {
        Self::new(
            ErrorKind::MessageTooLarge,
            format!("message too large: limit {message_bytes_max} bytes"),
        )
    }

    /// A call that ran when its client deleted the session.
    pub fn session_deleted() -> Self {
        Self::new(ErrorKind::SessionDeleted, "the session was deleted; the call is cancelled")
    }

    /// A request without a valid token. `data.retryable` is false: the client needs another token.
    #[cold]
    pub fn unauthorized(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Unauthorized, message).with_data(r#"{"retryable":false}"#)
    }

    /// A request whose token has expired. `data.retryable` is false: the client needs another
    /// token.
    #[cold]
    pub fn token_expired(message: impl Into<Cow<'static, str>>) -> Self {
        Self { kind: ErrorKind::TokenExpired, ..Self::unauthorized(message) }
    }

    /// A request of a caller who lacks some of `scopes`, separated by spaces, or else a higher
    /// tier; `data.requiredScopes` lists all of them. `is_second_factor`: all that is missing is
    /// the proof of a second factor, so that another token of the caller helps.
    #[cold]
    pub fn insufficient_scope(
        message: impl Into<Cow<'static, str>>,
        scopes: &str,
        is_second_factor: bool,
    ) -> Self {
        let (kind, head) = if is_second_factor {
            (ErrorKind::SecondFactorRequired, r#"{"retryable":true,"mfaRequired":true,"#)
        } else {
            (ErrorKind::InsufficientScope, r#"{"retryable":false,"#)
        };
        let mut data = head.as_bytes().to_vec();
        data.extend_from_slice(br#""requiredScopes":["#);
        for (index, scope) in scopes.split_ascii_whitespace().enumerate() {
            if index > 0 {
                data.push(b',');
            }
            write::string(&mut data, scope);
        }
        data.extend_from_slice(b"]}");
        Self::new(kind, message).with_data(String::from_utf8_lossy(&data))
    }

    /// Unsupported revision; `data.supported` lists every supported one, newest first.
    pub fn unsupported_protocol_version(requested: &str) -> Self {
        Self::unsupported_protocol_version_with(requested, Revision::ALL.into_iter().rev())
    }

    /// Unsupported revision; `data.supported` lists `supported`, the revisions this peer may use.
    pub fn unsupported_protocol_version_with(
        requested: &str,
        supported: impl IntoIterator<Item = Revision>,
    ) -> Self {
        let mut data = br#"{"supported":["#.to_vec();
        for (index, revision) in supported.into_iter().enumerate() {
            if index > 0 {
                data.push(b',');
            }
            write::string(&mut data, revision.as_str());
        }
        data.extend_from_slice(br#"],"requested":"#);
        let requested: String = requested.chars().take(QUOTED_CHARACTERS_MAX).collect();
        write::string(&mut data, &requested);
        data.push(b'}');
        Self::new(ErrorKind::UnsupportedProtocolVersion, "Unsupported protocol version")
            .with_data(String::from_utf8_lossy(&data))
    }
}

impl From<ParseError> for Error {
    #[cold]
    fn from(error: ParseError) -> Self {
        match error {
            ParseError::Depth => Self::invalid_request("JSON is nested too deeply"),
            ParseError::Syntax | ParseError::Structure => Self::parse("invalid JSON"),
            ParseError::Tokens => Self::invalid_request("JSON has too many values"),
            ParseError::Utf8 => Self::parse("invalid UTF-8"),
        }
    }
}

impl From<DuplicateKey> for Error {
    /// Applies to params; a duplicate key of the message itself is an invalid request.
    #[cold]
    fn from(duplicate: DuplicateKey) -> Self {
        Self::invalid_params(format!("duplicate key \"{}\"", duplicate.key))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for Error {}

/// Characters of a peer's text that an error repeats.
const QUOTED_CHARACTERS_MAX: usize = 128;
/// Characters of an unknown URI that an error repeats; clients compare it with their request.
const QUOTED_URI_CHARACTERS_MAX: usize = 2048;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_version_error_names_supported_and_requested() {
        let error = Error::unsupported_protocol_version("1900-01-01\"");
        let data: serde_json::Value = serde_json::from_str(&error.data.unwrap()).unwrap();
        assert_eq!(data["requested"], "1900-01-01\"");
        assert_eq!(data["supported"][0], "2026-07-28");
        assert_eq!(data["supported"].as_array().unwrap().len(), Revision::ALL.len());
    }

    #[test]
    fn resource_not_found_code_depends_on_revision() {
        for revision in Revision::ALL {
            let error = Error::resource_not_found("test://\"x\"", revision);
            assert_eq!(error.code, revision.dialect().resource_not_found_code);
            let data: serde_json::Value = serde_json::from_str(&error.data.unwrap()).unwrap();
            assert_eq!(data["uri"], "test://\"x\"");
            assert_eq!(error.message, "Resource not found: test://\"x\"");
        }
    }

    #[test]
    fn application_error_reserved_code_becomes_internal() {
        assert_eq!(Error::application(42, "x").code, 42);
        assert_eq!(Error::application(-32020, "x").code, -32603);
    }

    #[test]
    fn error_truncates_long_peer_text() {
        let long = "é".repeat(100_000);
        assert!(Error::method_not_found(&long).message.len() < 400);
        assert!(Error::unknown_name("tool", &long).message.len() < 400);
        assert!(Error::resource_not_found(&long, Revision::LATEST).message.len() < 400);
        assert!(
            Error::unsupported_protocol_version(&"x".repeat(100_000)).data.unwrap().len() < 400
        );
    }
}
