//! The HTTP profile: which variants of MCP over HTTP a server offers.

use std::rc::Rc;

use crate::protocol::revision::Revision;

/// The variants of MCP over HTTP that are enabled.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CheckProfile {
    /// Strict profile: JSON responses only, no GET, and every request of the MCP endpoint must name
    /// this revision. Default `None`: all revisions are served.
    pub strict: Option<Revision>,
    /// Whether legacy clients are served, with sessions. Default true; in the strict profile the
    /// pinned revision decides.
    pub legacy: bool,
    /// Whether the HTTP+SSE endpoints of 2024-11-05 are enabled; requires `legacy`. Default false.
    pub legacy_sse: bool,
    /// The path of the WebSocket endpoint. Default `None`. Reserved paths take precedence over it.
    pub websocket: Option<Rc<str>>,
}

impl Default for CheckProfile {
    fn default() -> Self {
        Self { strict: None, legacy: true, legacy_sse: false, websocket: None }
    }
}

impl CheckProfile {
    /// Returns whether legacy sessions are enabled.
    pub(super) const fn has_sessions(&self) -> bool {
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

    /// Iterates over the supported revisions, newest first.
    pub(super) fn revisions(&self) -> impl Iterator<Item = Revision> {
        Revision::ALL.into_iter().rev().filter(|revision| match self.strict {
            Some(pinned) => *revision == pinned,
            None => self.legacy || revision.is_modern(),
        })
    }
}
