//! What a server speaks over HTTP, as far as a head can tell the difference.

use std::rc::Rc;

use crate::protocol::revision::Revision;

/// Which of the ways to speak MCP over HTTP are open.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Profile {
    /// The strict profile: JSON answers only, no GET, and every request of the MCP endpoint names
    /// this revision. Default none: every revision is spoken, each by its own rules.
    pub strict: Option<Revision>,
    /// Legacy clients are served, with sessions. Default yes; in the strict profile the pinned
    /// revision decides.
    pub legacy: bool,
    /// The two endpoints of 2024-11-05 are open, where legacy clients are served at all. Default
    /// no.
    pub sse_pair: bool,
    /// The path at which a connection becomes a WebSocket. Default none: there is no such path. One
    /// that something else stands at already is never reached.
    pub websocket: Option<Rc<str>>,
}

impl Default for Profile {
    fn default() -> Self {
        Self { strict: None, legacy: true, sse_pair: false, websocket: None }
    }
}

impl Profile {
    /// Whether there are legacy sessions.
    pub(super) const fn has_sessions(&self) -> bool {
        match self.strict {
            Some(revision) => !revision.is_modern(),
            None => self.legacy,
        }
    }

    /// Whether there are streams that nobody asked for: the GET of a session.
    pub(super) const fn has_streams(&self) -> bool {
        self.strict.is_none() && self.legacy
    }

    /// Whether the endpoints of 2024-11-05 are there.
    pub(super) const fn has_pair(&self) -> bool {
        self.has_streams() && self.sse_pair
    }

    /// The revisions that are spoken, newest first.
    pub(super) fn revisions(&self) -> impl Iterator<Item = Revision> {
        Revision::ALL.into_iter().rev().filter(|revision| match self.strict {
            Some(pinned) => *revision == pinned,
            None => self.legacy || revision.is_modern(),
        })
    }
}
