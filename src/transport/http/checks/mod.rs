//! The ordered checks of an HTTP request, as a table: each with the status and error of its
//! failure.
//!
//! [`CheckId`] lists them in order. [`check_head`] runs those that need only a head and returns the
//! [`RequestKind`]; [`era()`] selects the rules for the body, and
//! [`header_consistency`](super::header_consistency) compares the headers with the body. WebSocket
//! requests are also checked by their [`handshake`](crate::websocket::handshake). The other checks
//! run in the guard and the dispatcher, with status and error from the table. The framing of a
//! request is checked before them by its reader, and a message that reaches the dispatcher fails
//! with the status of its [`ErrorKind`].
//!
//! Cheap checks come first; nothing of a body is read before its head is admitted, and what a head
//! can decide is decided before any JSON is parsed. A request that fails several checks gets the
//! error of the first. Session ids are not resolved here.
//!
//! Source: MCP 2026-07-28 and 2025-11-25 `basic/transports`. Where they do not specify the
//! behaviour, the check documents what the official SDKs do. The era: 2026-07-28
//! `basic/versioning`; `basic/transports/streamable-http`, "Protocol Version Header"; 2025-06-18
//! and 2025-11-25 `basic/transports`, the same.

mod profile;

mod request_kind;

mod head_checks;

use std::borrow::Cow;

use self::head_checks::parse_revision;
use crate::http::status::Status;
use corelane_protocol::error::{Error, ErrorKind};
pub use head_checks::{check_head, check_pinned_version, query_parameter, session_id_in_query};
pub use profile::{CheckProfile, EndpointPaths, OperatorEndpoints};
pub use request_kind::{
    ParityRequest, RequestKind, SESSION_PARAMETER, is_card_path, is_fixed_path, is_health_path,
    is_metadata_path, is_parity_path,
};

/// The response to a failed check.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// The status of the error response.
    pub status: Status,
    /// The JSON-RPC error in its body.
    pub error_kind: ErrorKind,
}

/// Declares the check ids and their table. Each row has the requirement, id, status and error.
macro_rules! checks {
    ($(
        $(#[doc = $requirement:literal])+
        $id:ident $status:ident $kind:ident,
    )+) => {
        /// The checks with a response of their own, in order.
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub enum CheckId {
            $($(#[doc = $requirement])+ $id,)+
        }

        impl CheckId {
            /// Returns the response to a failure of this check.
            pub const fn check(self) -> Check {
                match self {
                    $(Self::$id => Check {
                        status: Status::$status,
                        error_kind: ErrorKind::$kind,
                    },)+
                }
            }
        }
    };
}

checks! {
    /// `Host` is an allowed name, which prevents DNS rebinding. (Some SDKs respond 421.)
    Host                FORBIDDEN               InvalidRequest,
    /// `Origin`, if present, is allowed.
    Origin              FORBIDDEN               InvalidRequest,
    /// The path exists.
    Path                NOT_FOUND               InvalidRequest,
    /// The path supports the method. GET and DELETE of the MCP endpoint need a legacy session id;
    /// without one, or in a modern revision, they are not allowed. The strict profile has no GET.
    HttpMethod          METHOD_NOT_ALLOWED      InvalidRequest,
    /// `Content-Type` is present. (Outside the strict profile a missing one fails the next check,
    /// as in the SDKs.)
    ContentTypePresent  BAD_REQUEST             InvalidRequest,
    /// `Content-Type` of a message is `application/json`.
    ContentType         UNSUPPORTED_MEDIA_TYPE  InvalidRequest,
    /// `Content-Encoding` is absent or `identity`: bodies are not decompressed, to prevent
    /// decompression bombs. (RFC 9110, section 15.5.16; the response has `Accept-Encoding:
    /// identity`, which distinguishes it from an unsupported type: section 12.5.3.)
    ContentCoding       UNSUPPORTED_MEDIA_TYPE  InvalidRequest,
    /// `Accept` includes `application/json` and `text/event-stream`, by name or by a range such as
    /// `*/*`. Every revision requires clients to list both, and the official SDKs respond 406
    /// otherwise, also to a missing `Accept`.
    AcceptBoth          NOT_ACCEPTABLE          InvalidRequest,
    /// `Accept`, if present, includes `application/json`, the only response type.
    AcceptJson          NOT_ACCEPTABLE          InvalidRequest,
    /// `Accept` of a GET includes `text/event-stream`, the only response type.
    AcceptStream        NOT_ACCEPTABLE          InvalidRequest,
    /// `MCP-Protocol-Version` is the only revision that the strict profile serves. A request
    /// without a session is checked once its body is parsed, and `initialize` only where it is
    /// pinned, too.
    VersionPinned       BAD_REQUEST             InvalidRequest,
    /// `MCP-Protocol-Version` of a GET or DELETE, if present, is supported.
    StreamVersion       BAD_REQUEST             UnsupportedProtocolVersion,
    /// `Mcp-Session-Id` and the session id in the query, where that is allowed, agree.
    SessionIdAgrees     BAD_REQUEST             InvalidRequest,
    /// A message to the 2024-11-05 endpoint has its session id in the query.
    SessionInQuery      BAD_REQUEST             InvalidRequest,
    /// A request to the WebSocket path is an upgrade: `Upgrade` lists `websocket`, `Connection`
    /// lists `upgrade`, in HTTP/1.1. (The response names the protocol.)
    UpgradeRequested    UPGRADE_REQUIRED        InvalidRequest,
    /// The upgrade request has no body.
    UpgradeBody         BAD_REQUEST             InvalidRequest,
    /// `Sec-WebSocket-Version` is 13, once. (The response names the version.)
    UpgradeVersion      UPGRADE_REQUIRED        InvalidRequest,
    /// `Sec-WebSocket-Key` is 16 bytes in base64, once.
    UpgradeKey          BAD_REQUEST             InvalidRequest,
    /// `Sec-WebSocket-Protocol`, if present, offers a supported subprotocol.
    UpgradeProtocol     BAD_REQUEST             InvalidRequest,
    /// The body is JSON.
    Parse               BAD_REQUEST             Parse,
    /// It is one JSON-RPC message; batches are allowed only in 2025-03-26 sessions.
    MessageShape        BAD_REQUEST             InvalidRequest,
    /// A request without a revision in `_meta` has `MCP-Protocol-Version`, if the server has no
    /// legacy sessions. (If it has, a missing header means 2025-03-26.)
    VersionPresent      BAD_REQUEST             HeaderMismatch,
    /// The revision in `MCP-Protocol-Version` is supported.
    VersionSupported    BAD_REQUEST             UnsupportedProtocolVersion,
    /// A legacy request other than `initialize` has a session id.
    SessionIdPresent    BAD_REQUEST             InvalidRequest,
    /// The session exists. (On 404 clients start a new one.)
    SessionExists       NOT_FOUND               InvalidRequest,
    /// The session has no other GET stream. (The TypeScript and Python SDKs respond 409 too.)
    StreamAvailable     CONFLICT                InvalidRequest,
    /// `Last-Event-ID` is an event of a stream that can be resumed. (Not 404, on which the client
    /// would abandon the session.)
    EventIdKnown        BAD_REQUEST             InvalidRequest,
}

impl CheckId {
    /// Creates a rejection by this check, with its error and `message`.
    #[cold]
    pub fn reject(self, message: impl Into<Cow<'static, str>>) -> Rejection {
        self.reject_with(Error::new(self.check().error_kind, message))
    }

    /// Creates a rejection by this check with a specific error.
    #[cold]
    pub const fn reject_with(self, error: Error) -> Rejection {
        Rejection { check: self, status: self.check().status, allow: None, error }
    }
}

/// A failed check. The connection stays open, because the end of the request is known.
#[derive(Clone, Debug, PartialEq)]
pub struct Rejection {
    /// The check that failed.
    pub check: CheckId,
    /// The status of the response.
    pub status: Status,
    /// The `Allow` field of a 405 response (RFC 9110, section 15.5.6).
    pub allow: Option<&'static str>,
    /// The error in the body, without an id because the message was not read.
    pub error: Error,
}

/// The era whose rules apply to a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Era {
    /// Up to 2025-11-25: `initialize` and sessions.
    Legacy,
    /// Since 2026-07-28: stateless requests.
    Modern,
}

/// Returns the era of a message posted to the MCP endpoint with this `MCP-Protocol-Version`.
/// `names_version` is whether its `_meta` has the key of the protocol version.
///
/// `Modern` does not imply that the request is valid or its revision supported; later checks decide
/// that.
///
/// # Errors
///
/// [`CheckId::VersionPresent`] and [`CheckId::VersionSupported`].
#[inline]
pub fn era(
    version: Option<&[u8]>,
    names_version: bool,
    profile: &CheckProfile,
) -> Result<Era, Rejection> {
    if names_version {
        return Ok(Era::Modern);
    }
    match version.map(|version| (version, parse_revision(version))) {
        Some((_, Some(revision))) if revision.is_modern() => Ok(Era::Modern),
        None | Some((_, Some(_))) if profile.has_sessions() => Ok(Era::Legacy),
        None => Err(CheckId::VersionPresent.reject("MCP-Protocol-Version is missing")),
        Some((version, _)) => {
            let requested = String::from_utf8_lossy(version);
            let error = Error::unsupported_protocol_version_with(&requested, profile.revisions());
            Err(CheckId::VersionSupported.reject_with(error))
        }
    }
}
