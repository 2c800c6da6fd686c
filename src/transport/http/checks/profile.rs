//! The HTTP profile: which variants of MCP over HTTP a server offers.

use std::rc::Rc;

use super::paths::EndpointPaths;
use corelane_protocol::revision::Revision;

/// The endpoints of operators that a listener serves.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum OperatorEndpoints {
    /// `/healthz`, `/readyz` and `/metrics`.
    #[default]
    Monitoring,
    /// These and `/connections`, which shows the addresses of clients.
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

    /// Iterates over the supported revisions, newest first.
    pub fn revisions(&self) -> impl Iterator<Item = Revision> {
        Revision::ALL.into_iter().rev().filter(|revision| match self.strict {
            Some(pinned) => *revision == pinned,
            None => self.legacy || revision.is_modern(),
        })
    }
}
