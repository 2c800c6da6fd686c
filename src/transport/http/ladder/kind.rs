//! What a request is, once its head is admitted, and where the paths of the server lead.

use super::profile::Profile;

/// What an admitted request is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind<'b> {
    /// DELETE of the MCP endpoint: ends a legacy session.
    End {
        /// `Mcp-Session-Id` as it came.
        session: &'b [u8],
    },
    /// GET of the stream that a client of 2024-11-05 begins with.
    Events,
    /// Whether the process lives.
    Health,
    /// POST of a client of 2024-11-05.
    Message {
        /// The session, from the query of the target.
        session: &'b [u8],
    },
    /// OPTIONS by itself: what the path allows.
    Options {
        /// The `Allow` field of the answer, which is 204.
        allow: &'static str,
    },
    /// The page for people.
    Page,
    /// POST of the MCP endpoint: a message is in the body.
    Post {
        /// `Mcp-Session-Id` as it came; none where it means nothing: the server has no sessions, or
        /// the request names a modern revision.
        session: Option<&'b [u8]>,
        /// `MCP-Protocol-Version` as it came.
        version: Option<&'b [u8]>,
    },
    /// OPTIONS by which a browser asks for a page whether it may ask (Fetch standard, CORS
    /// preflight).
    Preflight {
        /// The verbs that the path allows.
        allow: &'static str,
    },
    /// Whether the server takes requests.
    Ready,
    /// The counts that the page shows.
    Status,
    /// GET of the MCP endpoint: opens or resumes a stream of a legacy session.
    Stream {
        /// `Mcp-Session-Id` as it came.
        session: &'b [u8],
        /// `Last-Event-ID` as it came, where a stream is resumed.
        last_event: Option<&'b [u8]>,
    },
    /// GET of the path at which a connection becomes a WebSocket. Whether it asks for that is seen
    /// by [`handshake`](crate::transport::websocket::handshake).
    Upgrade,
}

/// The parameter of the query that names the session of a client of 2024-11-05. Whoever writes the
/// URI of the `endpoint` event names it so; the SDK for TypeScript has the same.
pub const SESSION_PARAMETER: &str = "sessionId";

/// Whether a path is one of the server's own, in any profile: nothing else may stand there.
pub fn is_taken(path: &[u8]) -> bool {
    let all = Profile { sse_pair: true, ..Profile::default() };
    Place::find(path, &all).is_some()
}

/// What stands at a path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Place {
    Events,
    Health,
    Mcp,
    Messages,
    Page,
    Ready,
    Status,
    WebSocket,
    /// `*`: the server itself, about which only OPTIONS asks.
    Whole,
}

impl Place {
    /// What stands at `path`. A slash at its end is passed over: people copy addresses with one.
    #[inline]
    pub(super) fn find(path: &[u8], profile: &Profile) -> Option<Self> {
        let path = match path {
            [inner @ .., b'/'] if inner.len() > 1 => inner,
            path => path,
        };
        Some(match path {
            b"/mcp" => Self::Mcp,
            b"/" => Self::Page,
            b"/healthz" => Self::Health,
            b"/readyz" => Self::Ready,
            b"/status" => Self::Status,
            b"/sse" if profile.has_pair() => Self::Events,
            b"/messages" if profile.has_pair() => Self::Messages,
            b"*" => Self::Whole,
            path if profile.websocket.as_ref().is_some_and(|known| known.as_bytes() == path) => {
                Self::WebSocket
            }
            _ => return None,
        })
    }

    /// The verbs of the place, for `Allow`.
    pub(super) const fn allow(self, profile: &Profile) -> &'static str {
        match self {
            Self::Mcp | Self::Whole if profile.has_streams() => "POST, GET, DELETE, OPTIONS",
            Self::Mcp | Self::Whole if profile.has_sessions() => "POST, DELETE, OPTIONS",
            Self::Mcp | Self::Whole | Self::Messages => "POST, OPTIONS",
            Self::Events | Self::WebSocket => "GET, OPTIONS",
            Self::Health | Self::Page | Self::Ready | Self::Status => "GET, HEAD, OPTIONS",
        }
    }
}
