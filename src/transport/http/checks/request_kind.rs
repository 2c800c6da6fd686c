//! Routes of the server, and the kinds of requests.

use super::profile::CheckProfile;
use corelane_protocol::RESOURCE_METADATA_PATH;

/// The kind of an admitted request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RequestKind<'b> {
    /// DELETE of the MCP endpoint: ends a legacy session.
    DeleteSession {
        /// The session id.
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
    /// GET of the catalog of the host, which names the server card (SEP-2127).
    CardCatalog,
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
        /// The session id; `None` if the server has no sessions or the request names
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
    /// GET of the metadata of the protected resource (RFC 9728).
    ResourceMetadata,
    /// GET of the server card (SEP-2127).
    ServerCard,
    /// GET of the counters shown on the page.
    Status,
    /// GET of the list of the servers behind this one.
    Upstreams,
    /// POST of a change of a server behind this one.
    ChangeUpstream {
        /// The path below that of the list: `NAME/CHANGE`.
        path: &'b [u8],
    },
    /// GET of the MCP endpoint: opens or resumes a stream of a legacy session.
    GetStream {
        /// The session id.
        session_id: &'b [u8],
        /// The value of `Last-Event-ID`, if a stream is resumed.
        last_event_id: Option<&'b [u8]>,
    },
    /// A request of the parity dialect.
    Parity(ParityRequest<'b>),
    /// GET of the WebSocket path; validated by
    /// [`handshake`](crate::websocket::handshake).
    Upgrade,
}

/// A request of the parity dialect.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ParityRequest<'b> {
    /// POST of one message.
    Message {
        /// The session; `None` for a handshake.
        session_id: Option<&'b [u8]>,
        /// Whether the response to a streaming request is an event stream.
        streams: bool,
    },
    /// GET of the event stream of a session.
    Events {
        /// The session; `None` for a handshake in the query.
        session_id: Option<&'b [u8]>,
        /// The value of `Last-Event-ID`.
        last_event_id: Option<&'b [u8]>,
        /// The query.
        query: &'b [u8],
    },
    /// DELETE: ends a session.
    End {
        /// The session.
        session_id: Option<&'b [u8]>,
    },
    /// GET of a JSON schema.
    Schema {
        /// The whole path.
        path: &'b [u8],
    },
}

impl RequestKind<'_> {
    /// Returns whether it is a request of an MCP client, which may need a token.
    #[inline]
    pub const fn is_of_client(&self) -> bool {
        matches!(
            self,
            Self::Post { .. }
                | Self::GetStream { .. }
                | Self::DeleteSession { .. }
                | Self::LegacyMessage { .. }
                | Self::LegacySse
                | Self::Upgrade
                | Self::Parity(
                    ParityRequest::Message { .. }
                        | ParityRequest::Events { .. }
                        | ParityRequest::End { .. }
                )
        )
    }

    /// Returns whether operators send it: it does not count against the limits of clients.
    #[inline]
    pub const fn is_operators(&self) -> bool {
        matches!(
            self,
            Self::ChangeUpstream { .. }
                | Self::Connections { .. }
                | Self::Health
                | Self::Metrics
                | Self::Ready
                | Self::Upstreams
        )
    }
}

/// The query parameter that holds the session id of a 2024-11-05 client, as written in the
/// `endpoint` event, and of other legacy clients where the profile allows it. The TypeScript SDK
/// uses the same name.
pub const SESSION_PARAMETER: &str = "sessionId";

/// Returns whether the server has a page or an endpoint of operators at `path` in some profile.
pub fn is_fixed_path(path: &[u8]) -> bool {
    Route::find_fixed(path).is_some()
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
    ResourceMetadata,
    CardCatalog,
    ServerCard,
    Status,
    Upstreams,
    UpstreamChange,
    WebSocket,
    Parity,
    ParityEvents,
    ParitySchemas,
    /// `*`: the server itself, for OPTIONS only.
    Asterisk,
}

impl Route {
    /// Returns the route of `path`, ignoring one trailing slash.
    #[inline]
    pub(super) fn find(path: &[u8], profile: &CheckProfile) -> Option<Self> {
        // The path of most requests is compared first, with a constant.
        if profile.paths.is_default_mcp(path) && profile.serves_clients() {
            return Some(Self::Mcp);
        }
        Self::find_other(path, profile)
    }

    #[inline(never)]
    fn find_other(path: &[u8], profile: &CheckProfile) -> Option<Self> {
        let path = match path {
            [inner @ .., b'/'] if inner.len() > 1 => inner,
            path => path,
        };
        let is = |known: &str| path == known.as_bytes();
        let route = match path {
            _ if is(profile.paths.mcp()) => Self::Mcp,
            _ if is(profile.paths.legacy_sse()) && profile.has_legacy_sse() => Self::LegacySse,
            _ if is(profile.paths.legacy_messages()) && profile.has_legacy_sse() => {
                Self::LegacyMessages
            }
            b"*" => Self::Asterisk,
            _ if profile.resource_metadata && is_metadata_path(path, profile) => {
                Self::ResourceMetadata
            }
            _ if profile.server_card && is_server_card(path, profile) => Self::ServerCard,
            _ if profile.server_card && path == CARD_CATALOG_PATH => Self::CardCatalog,
            _ => match Self::find_fixed(path) {
                Some(route) => route,
                None if profile.websocket.as_deref().is_some_and(is) => Self::WebSocket,
                None => Self::find_parity(path, profile)?,
            },
        };
        route.is_served(profile).then_some(route)
    }

    /// Returns the route of a path of the parity dialect.
    fn find_parity(path: &[u8], profile: &CheckProfile) -> Option<Self> {
        let rest = path.strip_prefix(profile.parity.as_deref()?.as_bytes())?;
        match rest {
            b"" => Some(Self::Parity),
            b"/events" => Some(Self::ParityEvents),
            _ => rest.starts_with(b"/schemas/").then_some(Self::ParitySchemas),
        }
    }

    fn is_served(self, profile: &CheckProfile) -> bool {
        match self {
            // The page calls the MCP endpoint.
            Self::Page if profile.paths.mcp().is_empty() => false,
            Self::Connections => profile.lists_connections(),
            Self::Upstreams | Self::UpstreamChange => profile.lists_upstreams(),
            Self::Health | Self::Metrics | Self::Ready => profile.has_monitoring(),
            _ => profile.serves_clients(),
        }
    }

    /// Returns the route of a path that no option changes.
    fn find_fixed(path: &[u8]) -> Option<Self> {
        Some(match path {
            b"/" => Self::Page,
            b"/connections" => Self::Connections,
            b"/healthz" => Self::Health,
            b"/metrics" => Self::Metrics,
            b"/readyz" => Self::Ready,
            b"/status" => Self::Status,
            b"/upstreams" => Self::Upstreams,
            _ if upstream_change(path).is_some() => Self::UpstreamChange,
            _ => return None,
        })
    }

    /// Returns the methods of the route, for `Allow`.
    pub(super) const fn allow(self, profile: &CheckProfile) -> &'static str {
        match self {
            Self::Mcp | Self::Asterisk if profile.has_streams() => "POST, GET, DELETE, OPTIONS",
            Self::Mcp | Self::Asterisk if profile.has_sessions() => "POST, DELETE, OPTIONS",
            Self::Mcp | Self::Asterisk | Self::LegacyMessages | Self::UpstreamChange => {
                "POST, OPTIONS"
            }
            Self::Parity => "POST, DELETE, OPTIONS",
            Self::Connections
            | Self::LegacySse
            | Self::Metrics
            | Self::ParityEvents
            | Self::Upstreams
            | Self::WebSocket => "GET, OPTIONS",
            Self::ParitySchemas
            | Self::Health
            | Self::Page
            | Self::Ready
            | Self::ResourceMetadata
            | Self::CardCatalog
            | Self::ServerCard
            | Self::Status => "GET, HEAD, OPTIONS",
        }
    }
}

/// Returns what follows `/upstreams/` in a path, without a slash at its end.
pub(super) fn upstream_change(path: &[u8]) -> Option<&[u8]> {
    let rest = path.strip_prefix(b"/upstreams/")?;
    Some(rest.strip_suffix(b"/").unwrap_or(rest))
}

/// Returns whether the path is that of the metadata: the well-known path alone, or followed by that
/// of an endpoint (RFC 9728, section 3.1).
pub fn is_metadata_path(path: &[u8], profile: &CheckProfile) -> bool {
    let Some(endpoint) = path.strip_prefix(RESOURCE_METADATA_PATH.as_bytes()) else { return false };
    let is = |known: &str| endpoint == known.as_bytes();
    endpoint.is_empty()
        || is(profile.paths.mcp())
        || profile.websocket.as_deref().is_some_and(is)
        || (profile.has_legacy_sse() && is(profile.paths.legacy_sse()))
}

/// The path of the catalog of the host (SEP-2127, "Discovery").
const CARD_CATALOG_PATH: &[u8] = b"/.well-known/ai-catalog.json";

/// Returns whether the path is that of MCP followed by `/server-card`.
fn is_server_card(path: &[u8], profile: &CheckProfile) -> bool {
    let mcp = profile.paths.mcp();
    path.strip_prefix(mcp.trim_end_matches('/').as_bytes()) == Some(b"/server-card")
        && !mcp.is_empty()
}

/// Returns whether the path is that of the server card or of the catalog of the host, which are for
/// clients of every origin.
pub fn is_card_path(path: &[u8], profile: &CheckProfile) -> bool {
    profile.server_card && (is_server_card(path, profile) || path == CARD_CATALOG_PATH)
}

/// Returns whether the path is that of health or readiness, which probes ask for by any `Host`: the
/// response says nothing that a page of another origin may not know.
pub fn is_health_path(path: &[u8], profile: &CheckProfile) -> bool {
    matches!(path, b"/healthz" | b"/readyz") && profile.has_monitoring()
}

/// Returns whether the path is one of the parity dialect.
pub fn is_parity_path(path: &[u8], profile: &CheckProfile) -> bool {
    Route::find_other(path, profile).is_some_and(|route| {
        matches!(route, Route::Parity | Route::ParityEvents | Route::ParitySchemas)
    })
}
