//! Routes of the server, and the kinds of requests.

use super::profile::CheckProfile;
use super::profile::OperatorEndpoints;

/// The kind of an admitted request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RequestKind<'b> {
    /// DELETE of the MCP endpoint: ends a legacy session.
    DeleteSession {
        /// The value of `Mcp-Session-Id`.
        session_id: &'b [u8],
    },
    /// GET of the event stream of 2024-11-05.
    LegacySse,
    /// GET of the list of open connections.
    Connections {
        /// The query.
        query: &'b [u8],
    },
    /// GET of the liveness probe.
    Health,
    /// POST of a 2024-11-05 client.
    LegacyMessage {
        /// The session id from the query.
        session_id: &'b [u8],
    },
    /// GET of all counters.
    Metrics,
    /// OPTIONS that is not a CORS preflight.
    Options {
        /// The `Allow` field of the 204 response.
        allow: &'static str,
    },
    /// GET of the HTML page.
    Page,
    /// POST of the MCP endpoint.
    Post {
        /// The value of `Mcp-Session-Id`; `None` if the server has no sessions or the request names
        /// a modern revision.
        session_id: Option<&'b [u8]>,
        /// The value of `MCP-Protocol-Version`.
        protocol_version: Option<&'b [u8]>,
    },
    /// CORS preflight (Fetch standard).
    Preflight {
        /// The methods of the path.
        allow: &'static str,
    },
    /// GET of the readiness probe.
    Ready,
    /// GET of the counters shown on the page.
    Status,
    /// GET of the MCP endpoint: opens or resumes a stream of a legacy session.
    GetStream {
        /// The value of `Mcp-Session-Id`.
        session_id: &'b [u8],
        /// The value of `Last-Event-ID`, if a stream is resumed.
        last_event_id: Option<&'b [u8]>,
    },
    /// GET of the WebSocket path; validated by
    /// [`handshake`](crate::transport::websocket::handshake).
    Upgrade,
}

impl RequestKind<'_> {
    /// Returns whether operators send it: it does not count against the limits of clients.
    #[inline]
    pub const fn is_operators(&self) -> bool {
        matches!(self, Self::Connections { .. } | Self::Health | Self::Metrics | Self::Ready)
    }
}

/// The query parameter that holds the session id of a 2024-11-05 client, as written in the
/// `endpoint` event. The TypeScript SDK uses the same name.
pub const SESSION_PARAMETER: &str = "sessionId";

/// Returns whether a path is reserved by the server in some profile.
pub fn is_reserved_path(path: &[u8]) -> bool {
    let all = CheckProfile {
        legacy_sse: true,
        operators: OperatorEndpoints::All,
        ..CheckProfile::default()
    };
    Route::find(path, &all).is_some()
}

/// A route of the server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Route {
    LegacySse,
    Connections,
    Health,
    Mcp,
    LegacyMessages,
    Metrics,
    Page,
    Ready,
    Status,
    WebSocket,
    /// `*`: the server itself, for OPTIONS only.
    Asterisk,
}

impl Route {
    /// Returns the route of `path`, ignoring one trailing slash.
    #[inline]
    pub(super) fn find(path: &[u8], profile: &CheckProfile) -> Option<Self> {
        let path = match path {
            [inner @ .., b'/'] if inner.len() > 1 => inner,
            path => path,
        };
        Some(match path {
            b"/mcp" if profile.serves_clients() => Self::Mcp,
            b"/healthz" if profile.has_monitoring() => Self::Health,
            b"/readyz" if profile.has_monitoring() => Self::Ready,
            b"/metrics" if profile.has_monitoring() => Self::Metrics,
            b"/connections" if profile.lists_connections() => Self::Connections,
            _ if !profile.serves_clients() => return None,
            b"/" => Self::Page,
            b"/status" => Self::Status,
            b"/sse" if profile.has_legacy_sse() => Self::LegacySse,
            b"/messages" if profile.has_legacy_sse() => Self::LegacyMessages,
            b"*" => Self::Asterisk,
            path if profile.websocket.as_ref().is_some_and(|known| known.as_bytes() == path) => {
                Self::WebSocket
            }
            _ => return None,
        })
    }

    /// Returns the methods of the route, for `Allow`.
    pub(super) const fn allow(self, profile: &CheckProfile) -> &'static str {
        match self {
            Self::Mcp | Self::Asterisk if profile.has_streams() => "POST, GET, DELETE, OPTIONS",
            Self::Mcp | Self::Asterisk if profile.has_sessions() => "POST, DELETE, OPTIONS",
            Self::Mcp | Self::Asterisk | Self::LegacyMessages => "POST, OPTIONS",
            Self::Connections | Self::LegacySse | Self::Metrics | Self::WebSocket => "GET, OPTIONS",
            Self::Health | Self::Page | Self::Ready | Self::Status => "GET, HEAD, OPTIONS",
        }
    }
}
