//! The table of checks: every check of an HTTP request in order, with the status and error of its
//! failure.
//!
//! Cheap checks come first; nothing of a body is read before its head is admitted.
//!
//! Source: MCP 2026-07-28 and 2025-11-25 `basic/transports`. Where they do not specify the
//! behaviour, the check documents what the official SDKs do.

use std::borrow::Cow;

use crate::protocol::error::{Error, ErrorKind};
use crate::transport::http::status::Status;

/// The component that runs a check.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CheckComponent {
    /// The request reader, while bytes arrive.
    Reader,
    /// The guard: allowed hosts and origins.
    Guard,
    /// [`super::check_head`], before the body is parsed.
    Head,
    /// The WebSocket [`handshake`](crate::transport::websocket::handshake).
    Handshake,
    /// [`super::era()`], once the body is parsed as JSON.
    Era,
    /// [`header_consistency`](crate::transport::http::header_consistency).
    HeaderConsistency,
    /// The dispatcher, for messages of every transport.
    Dispatcher,
}

/// The requests a check applies to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CheckScope {
    /// All requests.
    All,
    /// Requests of clients up to 2025-11-25.
    Legacy,
    /// Requests of clients since 2026-07-28.
    Modern,
    /// Requests to a server in the strict profile.
    Strict,
    /// Requests to a server that is not in the strict profile.
    NonStrict,
}

/// One check of an HTTP request.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// Identifies the check and its position.
    pub id: CheckId,
    /// What the check requires.
    pub requirement: &'static str,
    /// The component that runs it.
    pub component: CheckComponent,
    /// The requests it applies to.
    pub scope: CheckScope,
    /// The status of the error response.
    pub status: Status,
    /// The JSON-RPC error in its body.
    pub error_kind: ErrorKind,
}

/// Declares the check ids and their table. Each row has the requirement, id, component, scope,
/// status and error.
macro_rules! checks {
    ($(
        $(#[doc = $requirement:literal])+
        $id:ident $component:ident $scope:ident $status:ident $kind:ident,
    )+) => {
        /// The ids of the checks, in order.
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub enum CheckId {
            $($(#[doc = $requirement])+ $id,)+
        }

        /// All checks, in order.
        pub static CHECKS: [Check; [$(CheckId::$id),+].len()] = [$(Check {
            id: CheckId::$id,
            requirement: concat!($($requirement),+),
            component: CheckComponent::$component,
            scope: CheckScope::$scope,
            status: Status::$status,
            error_kind: ErrorKind::$kind,
        }),+];
    };
}

checks! {
    /// The head is valid HTTP/1.0 or 1.1 with an unambiguous body length. (Limits, versions and
    /// codings have a status of their own.)
    Framing                Reader            All    BAD_REQUEST      InvalidRequest,
    /// The body is within the size limit, by its head or once it exceeds it.
    BodySize               Reader            All    CONTENT_TOO_LARGE MessageTooLarge,
    /// `Host` is an allowed name, which prevents DNS rebinding. (Some SDKs respond 421.)
    Host                   Guard             All    FORBIDDEN        InvalidRequest,
    /// `Origin`, if present, is allowed.
    Origin                 Guard             All    FORBIDDEN        InvalidRequest,
    /// The path exists.
    Path                   Head              All    NOT_FOUND        InvalidRequest,
    /// The path supports the method. GET and DELETE of the MCP endpoint need a legacy session id;
    /// without one, or in a modern revision, they are not allowed. The strict profile has no GET.
    HttpMethod             Head              All    METHOD_NOT_ALLOWED InvalidRequest,
    /// `Content-Type` is present. (Outside the strict profile a missing one fails the next check,
    /// as in the SDKs.)
    ContentTypePresent     Head              Strict BAD_REQUEST      InvalidRequest,
    /// `Content-Type` of a message is `application/json`.
    ContentType            Head              All    UNSUPPORTED_MEDIA_TYPE InvalidRequest,
    /// `Content-Encoding` is absent or `identity`: bodies are not decompressed, to prevent
    /// decompression bombs. (RFC 9110, section 15.5.16; the response has `Accept-Encoding:
    /// identity`, which distinguishes it from an unsupported type: section 12.5.3.)
    ContentCoding          Head              All    UNSUPPORTED_MEDIA_TYPE InvalidRequest,
    /// `Accept` includes `application/json` and `text/event-stream`, by name or by a range such as
    /// `*/*`. Every revision requires clients to list both, and the official SDKs respond 406
    /// otherwise, also to a missing `Accept`.
    AcceptBoth             Head              NonStrict NOT_ACCEPTABLE   InvalidRequest,
    /// `Accept`, if present, includes `application/json`, the only response type.
    AcceptJson             Head              Strict NOT_ACCEPTABLE   InvalidRequest,
    /// `Accept` of a GET includes `text/event-stream`, the only response type.
    AcceptStream           Head              Legacy NOT_ACCEPTABLE   InvalidRequest,
    /// `MCP-Protocol-Version` is the pinned revision.
    VersionPinned          Head              Strict BAD_REQUEST      InvalidRequest,
    /// `MCP-Protocol-Version` of a GET or DELETE, if present, is supported.
    StreamVersion          Head              Legacy BAD_REQUEST      UnsupportedProtocolVersion,
    /// A message to the 2024-11-05 endpoint has its session id in the query.
    SessionInQuery         Head              Legacy BAD_REQUEST      InvalidRequest,
    /// A request to the WebSocket path is an upgrade: `Upgrade` lists `websocket`, `Connection`
    /// lists `upgrade`, in HTTP/1.1. (The response names the protocol.)
    UpgradeRequested       Handshake         All    UPGRADE_REQUIRED InvalidRequest,
    /// The upgrade request has no body.
    UpgradeBody            Handshake         All    BAD_REQUEST      InvalidRequest,
    /// `Sec-WebSocket-Version` is 13, once. (The response names the version.)
    UpgradeVersion         Handshake         All    UPGRADE_REQUIRED InvalidRequest,
    /// `Sec-WebSocket-Key` is 16 bytes in base64, once.
    UpgradeKey             Handshake         All    BAD_REQUEST      InvalidRequest,
    /// `Sec-WebSocket-Protocol`, if present, offers a supported subprotocol.
    UpgradeProtocol        Handshake         All    BAD_REQUEST      InvalidRequest,
    /// The body is JSON.
    Parse                  Dispatcher        All    BAD_REQUEST      Parse,
    /// It is one JSON-RPC message; batches are allowed only in 2025-03-26 sessions.
    MessageShape           Dispatcher        All    BAD_REQUEST      InvalidRequest,
    /// A request without a revision in `_meta` has `MCP-Protocol-Version`, if the server has no
    /// legacy sessions. (If it has, a missing header means 2025-03-26.)
    VersionPresent         Era               Modern BAD_REQUEST      HeaderMismatch,
    /// The revision in `MCP-Protocol-Version` is supported.
    VersionSupported       Era               All    BAD_REQUEST      UnsupportedProtocolVersion,
    /// A legacy request other than `initialize` has a session id.
    SessionIdPresent       Dispatcher        Legacy BAD_REQUEST      InvalidRequest,
    /// The session exists. (On 404 clients start a new one.)
    SessionExists          Dispatcher        Legacy NOT_FOUND        InvalidRequest,
    /// The session has no other GET stream. (The TypeScript and Python SDKs respond 409 too.)
    StreamAvailable        Dispatcher        Legacy CONFLICT         InvalidRequest,
    /// `Last-Event-ID` is an event of a stream that can be resumed. (Not 404, on which the client
    /// would abandon the session.)
    EventIdKnown           Dispatcher        Legacy BAD_REQUEST      InvalidRequest,
    /// A modern request has the protocol version and client capabilities in `_meta`.
    Meta                   Dispatcher        Modern BAD_REQUEST      InvalidParams,
    /// `MCP-Protocol-Version` equals the version in `_meta`. Checked before the version itself, so
    /// that a contradiction is reported as such.
    VersionConsistent      HeaderConsistency Modern BAD_REQUEST      HeaderMismatch,
    /// `Mcp-Method` equals the method.
    MethodConsistent       HeaderConsistency Modern BAD_REQUEST      HeaderMismatch,
    /// `Mcp-Name` equals the name, URI or task id in params.
    NameConsistent         HeaderConsistency Modern BAD_REQUEST      HeaderMismatch,
    /// The protocol version in `_meta` is a supported modern revision.
    MetaVersionSupported   Dispatcher        Modern BAD_REQUEST      UnsupportedProtocolVersion,
    /// The method exists in this revision. (200 for a legacy request, as in the SDKs.)
    Method                 Dispatcher        Modern NOT_FOUND        MethodNotFound,
    /// `Mcp-Param-*` headers equal the arguments they repeat.
    ParamHeadersConsistent HeaderConsistency Modern BAD_REQUEST      HeaderMismatch,
    /// The params are valid. (200 for a legacy request.)
    Params                 Dispatcher        Modern BAD_REQUEST      InvalidParams,
    /// The client has the capabilities that the response needs.
    Capability             Dispatcher        Modern BAD_REQUEST      MissingCapability,
}

impl CheckId {
    /// Returns the row of this check in the table.
    pub const fn check(self) -> &'static Check {
        &CHECKS[self as usize]
    }

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
