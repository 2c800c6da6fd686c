//! The session that a server keeps under `Mcp-Session-Id`, and its end.

use crate::base::time::Instant;

/// The session of a server, up to 2025-11-25.
#[derive(Debug, Default)]
pub(super) struct HttpSession {
    /// `Mcp-Session-Id`.
    id: Option<Box<str>>,
    /// Number of sessions that the server has lost.
    number: u32,
}

impl HttpSession {
    /// Begins a session with the id that the server has sent, if any.
    pub(super) fn begin(&mut self, id: Option<Box<str>>) {
        self.id = id;
    }

    /// Returns the id, and the number of the session.
    pub(super) fn current(&self) -> Option<(&str, u32)> {
        self.id.as_deref().map(|id| (id, self.number))
    }

    /// Ends session `number`. Returns `false` if it has ended before.
    pub(super) fn lose(&mut self, number: u32) -> bool {
        let is_current = number == self.number;
        if is_current {
            *self = Self { id: None, number: number + 1 };
        }
        is_current
    }
}

/// Whether the client is ending the session.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Closing {
    #[default]
    No,
    /// Until the server answers, at most until this.
    Until(Instant),
    Done,
}

impl Closing {
    pub(super) const fn deadline(self) -> Option<Instant> {
        match self {
            Self::Until(deadline) => Some(deadline),
            Self::No | Self::Done => None,
        }
    }
}
