//! The HTTP profile: which variants of MCP over HTTP a server offers, and at which paths.

use std::borrow::Cow;
use std::rc::Rc;

use corelane_protocol::revision::Revision;

/// The endpoints of operators that a listener serves.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum OperatorEndpoints {
    /// `/healthz`, `/readyz` and `/metrics`.
    #[default]
    Monitoring,
    /// These, `/connections`, which shows the addresses of clients, and `/upstreams`.
    All,
    /// None: they have a listener of their own.
    None,
    /// All of them and nothing else: the listener of operators.
    Only,
}

/// The variants of MCP over HTTP that are enabled.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent option")]
pub struct CheckProfile {
    /// Strict profile: JSON responses only, no GET, and every request of the MCP endpoint after
    /// `initialize` must name this revision. Default `None`: all revisions are served.
    pub strict: Option<Revision>,
    /// In the strict profile `initialize` must name the revision, too. Default false.
    pub pins_initialize: bool,
    /// Whether legacy clients are served, with sessions. Default true; in the strict profile the
    /// pinned revision decides.
    pub legacy: bool,
    /// Whether the HTTP+SSE endpoints of 2024-11-05 are enabled; requires `legacy`. Default false.
    pub legacy_sse: bool,
    /// Whether requests to the MCP endpoint may have their session id in the query. Default false.
    pub session_id_query: bool,
    /// The paths of the MCP endpoint and of those of 2024-11-05.
    pub paths: EndpointPaths,
    /// The path of the WebSocket endpoint. Default `None`. The other paths take precedence over it.
    pub websocket: Option<Rc<str>>,
    /// The path of the endpoint of the parity dialect. Default `None`. The other paths take
    /// precedence over it.
    pub parity: Option<Rc<str>>,
    /// Whether the metadata of the protected resource is served (RFC 9728). Default false.
    pub resource_metadata: bool,
    /// Whether the server card and the catalog of the host are served (SEP-2127). Default false.
    pub server_card: bool,
    /// Whether there are servers behind this one, to be listed where connections are. Default
    /// false.
    pub upstreams: bool,
    /// The endpoints of operators. Default [`OperatorEndpoints::Monitoring`].
    pub operators: OperatorEndpoints,
}

impl Default for CheckProfile {
    fn default() -> Self {
        Self {
            strict: None,
            pins_initialize: false,
            legacy: true,
            legacy_sse: false,
            session_id_query: false,
            paths: EndpointPaths::DEFAULT,
            websocket: None,
            parity: None,
            resource_metadata: false,
            server_card: false,
            upstreams: false,
            operators: OperatorEndpoints::Monitoring,
        }
    }
}

impl CheckProfile {
    /// Returns whether legacy sessions are enabled.
    pub const fn has_sessions(&self) -> bool {
        match self.strict {
            Some(revision) => !revision.is_modern(),
            None => self.legacy,
        }
    }

    /// Returns whether sessions have a GET stream.
    pub(super) const fn has_streams(&self) -> bool {
        self.strict.is_none() && self.legacy
    }

    /// Returns whether the endpoints of 2024-11-05 are enabled.
    pub(super) const fn has_legacy_sse(&self) -> bool {
        self.has_streams() && self.legacy_sse
    }

    /// Returns whether the endpoints of clients are served.
    pub(super) const fn serves_clients(&self) -> bool {
        !matches!(self.operators, OperatorEndpoints::Only)
    }

    /// Returns whether health, readiness and metrics are served.
    pub(super) const fn has_monitoring(&self) -> bool {
        !matches!(self.operators, OperatorEndpoints::None)
    }

    /// Returns whether the list of connections is served.
    pub(super) const fn lists_connections(&self) -> bool {
        matches!(self.operators, OperatorEndpoints::All | OperatorEndpoints::Only)
    }

    /// Returns whether the list of the servers behind this one is served.
    pub const fn lists_upstreams(&self) -> bool {
        self.upstreams && self.lists_connections()
    }

    /// Iterates over the supported revisions, newest first.
    pub fn revisions(&self) -> impl Iterator<Item = Revision> {
        Revision::ALL.into_iter().rev().filter(|revision| match self.strict {
            Some(pinned) => *revision == pinned,
            None => self.legacy || revision.is_modern(),
        })
    }
}

/// The paths of the MCP endpoint and of the endpoints of 2024-11-05. Each begins with `/`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EndpointPaths {
    mcp: Cow<'static, str>,
    legacy_sse: Cow<'static, str>,
    legacy_messages: Cow<'static, str>,
    /// Whether `mcp` is [`EndpointPaths::MCP`], which is compared as a constant.
    has_default_mcp: bool,
}

impl EndpointPaths {
    /// The default path of the MCP endpoint.
    pub const MCP: &'static str = "/mcp";
    /// The default path of the event stream of 2024-11-05.
    pub const LEGACY_SSE: &'static str = "/sse";
    /// The default path for the messages of 2024-11-05.
    pub const LEGACY_MESSAGES: &'static str = "/messages";

    /// The default paths.
    pub const DEFAULT: Self = Self {
        mcp: Cow::Borrowed(Self::MCP),
        legacy_sse: Cow::Borrowed(Self::LEGACY_SSE),
        legacy_messages: Cow::Borrowed(Self::LEGACY_MESSAGES),
        has_default_mcp: true,
    };

    /// Returns these paths.
    pub fn new(mcp: &str, legacy_sse: &str, legacy_messages: &str) -> Self {
        Self {
            has_default_mcp: mcp == Self::MCP,
            mcp: Cow::Owned(mcp.to_owned()),
            legacy_sse: Cow::Owned(legacy_sse.to_owned()),
            legacy_messages: Cow::Owned(legacy_messages.to_owned()),
        }
    }

    /// Returns paths that no request has: MCP is not served.
    pub fn none() -> Self {
        Self::new("", "", "")
    }

    /// Returns the path of the MCP endpoint.
    pub fn mcp(&self) -> &str {
        &self.mcp
    }

    /// Returns the path of the event stream of 2024-11-05.
    pub fn legacy_sse(&self) -> &str {
        &self.legacy_sse
    }

    /// Returns the path to which messages of 2024-11-05 are posted.
    pub fn legacy_messages(&self) -> &str {
        &self.legacy_messages
    }

    /// Returns whether `path` is the MCP endpoint and has its default.
    #[inline]
    pub(super) fn is_default_mcp(&self, path: &[u8]) -> bool {
        path == Self::MCP.as_bytes() && self.has_default_mcp
    }
}
