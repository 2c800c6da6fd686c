//! What can go wrong, and what is said about it.
//!
//! An [`Error`] says who is to blame, how far the damage reaches, its code and whether a retry can
//! help. JSON-RPC code, HTTP status and WebSocket close code are derived from its [`Kind`] in one
//! table, [`Kind::row`], and nowhere else.

use crate::protocol::json::{Duplicate, ParseError, write};
use crate::protocol::revision::Revision;
use std::borrow::Cow;
use std::fmt;

/// Who is to blame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Blame {
    /// The program at the other end: what it sent is not the protocol.
    Peer,
    /// The caller behind it: the protocol is right, the wish is not.
    Caller,
    /// Somebody we asked.
    Upstream,
    /// This server.
    Us,
}

/// How far the damage reaches.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Scope {
    /// One message; the next one is read as if nothing had happened.
    Message,
    /// One request, which this error answers.
    Request,
    /// The session: nothing is served before its state changes.
    Session,
    /// The connection, which closes after this error.
    Connection,
    /// The process.
    Process,
}

/// What happened. Each has one row in [`Kind::row`].
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Kind {
    /// A handler's own error, with a code of its own outside the range that JSON-RPC reserves.
    Application(i32),
    /// More requests in flight than a connection may have.
    Busy,
    /// More connections than the server may have (seed 001, section 2: code 1001).
    ConnectionLimit,
    /// A handler panicked. To the caller the same as [`Kind::Internal`].
    Crashed,
    /// A header disagrees with the body, or is missing (2026-07-28, `basic/transports`).
    HeaderMismatch,
    /// Something broke on this side.
    Internal,
    /// The method is known and its params are not right.
    InvalidParams,
    /// JSON, but no JSON-RPC message.
    InvalidRequest,
    /// Not UTF-8; to JSON-RPC the same as not JSON.
    InvalidUtf8,
    /// No such method, or not in this revision.
    MethodNotFound,
    /// The request needs something its client did not declare (2026-07-28, `basic/index`).
    MissingCapability,
    /// A request before `initialize`, or before its end.
    NotInitialized,
    /// Not JSON.
    Parse,
    /// No such resource, said to a legacy client (2025-11-25, `server/resources`); to a modern one
    /// it is [`Kind::InvalidParams`].
    ResourceNotFound,
    /// Longer than a message may be (seed 001, "Error handling": code -32012).
    TooLarge,
    /// A revision this server does not speak (2026-07-28, `basic/versioning`).
    UnsupportedVersion,
    /// The user has to open an address first (2025-11-25, `client/elicitation`).
    UrlElicitationRequired,
}

/// What follows from a [`Kind`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Row {
    /// Who is to blame.
    pub blame: Blame,
    /// How far it reaches.
    pub scope: Scope,
    /// The JSON-RPC code.
    pub code: i32,
    /// The HTTP status towards a modern client.
    pub http_modern: u16,
    /// The HTTP status towards a legacy client, where the specification is silent and the official
    /// SDKs answer 200 to whatever has an id.
    pub http_legacy: u16,
    /// The WebSocket close code (RFC 6455, section 7.4), where the error ends the connection.
    pub close: Option<u16>,
    /// Whether the same message may succeed later.
    pub retryable: bool,
}

impl Kind {
    /// The one table. Columns: blame, scope, JSON-RPC code, HTTP status (modern, legacy), close
    /// code, retryable.
    pub const fn row(self) -> Row {
        use Blame::{Caller, Peer, Us};
        use Scope::{Connection, Message, Request, Session};
        let (blame, scope, code, http_modern, http_legacy, close, retryable) = match self {
            Self::Application(code) => (Us, Request, code, 200, 200, None, false),
            Self::Busy => (Us, Request, -32603, 503, 503, None, true),
            Self::ConnectionLimit => (Us, Connection, 1001, 503, 503, Some(1013), true),
            Self::HeaderMismatch => (Peer, Request, -32020, 400, 400, None, false),
            Self::Crashed | Self::Internal => (Us, Request, -32603, 200, 200, None, false),
            Self::InvalidParams => (Caller, Request, -32602, 400, 200, None, false),
            Self::InvalidRequest => (Peer, Message, -32600, 400, 400, None, false),
            Self::InvalidUtf8 => (Peer, Message, -32700, 400, 400, Some(1007), false),
            Self::MethodNotFound => (Caller, Request, -32601, 404, 200, None, false),
            Self::MissingCapability => (Caller, Request, -32021, 400, 400, None, false),
            Self::NotInitialized => (Peer, Session, -32600, 400, 400, None, true),
            Self::Parse => (Peer, Message, -32700, 400, 400, None, false),
            Self::ResourceNotFound => (Caller, Request, -32002, 400, 200, None, false),
            Self::TooLarge => (Peer, Connection, -32012, 413, 413, Some(1009), false),
            Self::UnsupportedVersion => (Peer, Request, -32022, 400, 400, None, false),
            Self::UrlElicitationRequired => (Caller, Request, -32042, 400, 200, None, true),
        };
        Row { blame, scope, code, http_modern, http_legacy, close, retryable }
    }
}

/// An error as it is said to the peer.
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    /// What happened.
    pub kind: Kind,
    /// Who is to blame.
    pub blame: Blame,
    /// How far it reaches.
    pub scope: Scope,
    /// The JSON-RPC code.
    pub code: i32,
    /// One sentence for a human, without secrets.
    pub message: Cow<'static, str>,
    /// The `data` member, already encoded as JSON.
    pub data: Option<Box<str>>,
    /// Whether the same message may succeed later.
    pub retryable: bool,
}

impl Error {
    /// An error of `kind`.
    #[cold]
    pub fn new(kind: Kind, message: impl Into<Cow<'static, str>>) -> Self {
        let Row { blame, scope, code, retryable, .. } = kind.row();
        Self { kind, blame, scope, code, message: message.into(), data: None, retryable }
    }

    /// The same error with `data`, which is JSON already.
    #[must_use]
    pub fn with_data(self, data: impl Into<Box<str>>) -> Self {
        Self { data: Some(data.into()), ..self }
    }

    /// A handler's own error. Codes from -32768 to -32000 belong to JSON-RPC and MCP; one of them
    /// here becomes an internal error (-32603).
    pub fn application(code: i32, message: impl Into<Cow<'static, str>>) -> Self {
        if matches!(code, -32768..=-32000) {
            return Self::new(Kind::Internal, message);
        }
        Self::new(Kind::Application(code), message)
    }

    /// More requests in flight than `in_flight_max`.
    pub fn busy(in_flight_max: usize) -> Self {
        Self::new(
            Kind::Busy,
            format!(
                "{in_flight_max} requests are in flight on this connection; wait for an answer"
            ),
        )
    }

    /// More connections than the server may have.
    pub fn connection_limit() -> Self {
        Self::new(Kind::ConnectionLimit, "the server has no room for another connection; try later")
    }

    /// A handler panicked. The caller learns nothing of it but that.
    pub fn crashed() -> Self {
        Self::new(Kind::Crashed, "the tool crashed")
    }

    /// A header that disagrees with the body.
    pub fn header_mismatch(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::HeaderMismatch, message)
    }

    /// Something broke on this side.
    pub fn internal(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::Internal, message)
    }

    /// Params that are not right.
    pub fn invalid_params(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::InvalidParams, message)
    }

    /// JSON, but no JSON-RPC message.
    pub fn invalid_request(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::InvalidRequest, message)
    }

    /// No such method, or not in this revision.
    pub fn method_not_found(method: &str) -> Self {
        let mut message = String::from("method not found: ");
        message.extend(method.chars().take(QUOTED_CHARACTERS_MAX));
        Self::new(Kind::MethodNotFound, message)
    }

    /// A request before its session is ready.
    pub fn not_initialized(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::NotInitialized, message)
    }

    /// Not JSON.
    pub fn parse(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::Parse, message)
    }

    /// No such resource, with its URI in `data`: -32002 for a legacy `revision`, invalid params
    /// (-32602) for a modern one.
    ///
    /// Source: `server/resources`, "Error Handling", of each revision.
    pub fn resource_not_found(uri: &str, revision: Revision) -> Self {
        let kind = if revision.is_modern() { Kind::InvalidParams } else { Kind::ResourceNotFound };
        let mut data = br#"{"uri":"#.to_vec();
        let uri: String = uri.chars().take(QUOTED_URI_CHARACTERS_MAX).collect();
        write::string(&mut data, &uri);
        data.push(b'}');
        Self::new(kind, "Resource not found").with_data(String::from_utf8_lossy(&data))
    }

    /// Longer than a message may be.
    pub fn too_large(message_bytes_max: usize) -> Self {
        Self::new(Kind::TooLarge, format!("a message may have {message_bytes_max} bytes at most"))
    }

    /// A revision this server does not speak, with those it does, newest first.
    pub fn unsupported_version(requested: &str) -> Self {
        Self::unsupported_among(requested, Revision::ALL.into_iter().rev())
    }

    /// A revision that is not among `supported`, which are those that this peer may ask for.
    pub fn unsupported_among(
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
        Self::new(Kind::UnsupportedVersion, "Unsupported protocol version")
            .with_data(String::from_utf8_lossy(&data))
    }

    /// The HTTP status for a client of `revision`.
    pub const fn http_status(&self, revision: Revision) -> u16 {
        let row = self.kind.row();
        if revision.is_modern() { row.http_modern } else { row.http_legacy }
    }

    /// The WebSocket close code, where the error ends the connection.
    pub const fn close_code(&self) -> Option<u16> {
        self.kind.row().close
    }
}

impl From<ParseError> for Error {
    #[cold]
    fn from(error: ParseError) -> Self {
        match error {
            ParseError::Depth => Self::invalid_request("arrays and objects are nested too deeply"),
            ParseError::Syntax | ParseError::Unread => Self::parse("the message is not valid JSON"),
            ParseError::Tokens => Self::invalid_request("the message has too many values"),
            ParseError::Utf8 => Self::new(Kind::InvalidUtf8, "the message is not valid UTF-8"),
        }
    }
}

impl From<Duplicate> for Error {
    /// In params; the envelope says the same with another code.
    #[cold]
    fn from(duplicate: Duplicate) -> Self {
        Self::invalid_params(format!("the key \"{}\" occurs twice", duplicate.key))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for Error {}

/// How much of a peer's own words an error repeats.
const QUOTED_CHARACTERS_MAX: usize = 128;
/// How much of an unknown URI an error repeats: clients compare it with the one they asked for.
const QUOTED_URI_CHARACTERS_MAX: usize = 2048;

#[cfg(test)]
mod tests {
    use super::*;

    /// (kind, JSON-RPC code, HTTP modern, HTTP legacy, close code): the table said once more.
    const EXPECTED: [(Kind, i32, u16, u16, Option<u16>); 17] = [
        (Kind::Application(7), 7, 200, 200, None),
        (Kind::Busy, -32603, 503, 503, None),
        (Kind::ConnectionLimit, 1001, 503, 503, Some(1013)),
        (Kind::Crashed, -32603, 200, 200, None),
        (Kind::HeaderMismatch, -32020, 400, 400, None),
        (Kind::Internal, -32603, 200, 200, None),
        (Kind::InvalidParams, -32602, 400, 200, None),
        (Kind::InvalidRequest, -32600, 400, 400, None),
        (Kind::InvalidUtf8, -32700, 400, 400, Some(1007)),
        (Kind::MethodNotFound, -32601, 404, 200, None),
        (Kind::MissingCapability, -32021, 400, 400, None),
        (Kind::NotInitialized, -32600, 400, 400, None),
        (Kind::Parse, -32700, 400, 400, None),
        (Kind::ResourceNotFound, -32002, 400, 200, None),
        (Kind::TooLarge, -32012, 413, 413, Some(1009)),
        (Kind::UnsupportedVersion, -32022, 400, 400, None),
        (Kind::UrlElicitationRequired, -32042, 400, 200, None),
    ];

    #[test]
    fn every_row_of_the_table_says_what_the_specification_says() {
        for (kind, code, modern, legacy, close) in EXPECTED {
            let error = Error::new(kind, "");
            assert_eq!(error.code, code, "{kind:?}");
            assert_eq!(error.http_status(Revision::LATEST), modern, "{kind:?}");
            assert_eq!(error.http_status(Revision::LATEST_LEGACY), legacy, "{kind:?}");
            assert_eq!(error.close_code(), close, "{kind:?}");
        }
    }

    #[test]
    fn only_errors_that_end_a_connection_or_a_frame_have_a_close_code() {
        for (kind, ..) in EXPECTED {
            let row = kind.row();
            assert!(row.scope != Scope::Connection || row.close.is_some(), "{kind:?}");
            let after_a_step = [Kind::NotInitialized, Kind::UrlElicitationRequired];
            assert!(row.blame == Blame::Us || !row.retryable || after_a_step.contains(&kind));
        }
    }

    #[test]
    fn a_version_error_names_what_is_supported_and_what_was_asked() {
        let error = Error::unsupported_version("1900-01-01\"");
        let data: serde_json::Value = serde_json::from_str(&error.data.unwrap()).unwrap();
        assert_eq!(data["requested"], "1900-01-01\"");
        assert_eq!(data["supported"][0], "2026-07-28");
        assert_eq!(data["supported"].as_array().unwrap().len(), Revision::ALL.len());
    }

    #[test]
    fn a_resource_that_is_not_there_has_the_code_of_the_revision() {
        for revision in Revision::ALL {
            let error = Error::resource_not_found("test://\"x\"", revision);
            assert_eq!(error.code, revision.dialect().resource_not_found_code);
            let data: serde_json::Value = serde_json::from_str(&error.data.unwrap()).unwrap();
            assert_eq!(data["uri"], "test://\"x\"");
        }
    }

    #[test]
    fn a_handler_cannot_take_a_code_that_the_protocol_reserves() {
        assert_eq!(Error::application(42, "x").code, 42);
        assert_eq!(Error::application(-32020, "x").code, -32603);
    }

    #[test]
    fn long_words_of_the_peer_are_not_repeated_in_full() {
        assert!(Error::method_not_found(&"é".repeat(100_000)).message.len() < 400);
        assert!(Error::unsupported_version(&"x".repeat(100_000)).data.unwrap().len() < 400);
    }
}
