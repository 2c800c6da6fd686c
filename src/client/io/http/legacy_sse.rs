//! HTTP with SSE (MCP 2024-11-05 basic/transports): messages are posted to a path that the stream
//! of the server names, and all responses arrive on this stream.

use super::exchange::Exchange;
use crate::error::ClientError;

/// Whether the server speaks HTTP with SSE.
#[derive(Debug, Default)]
pub(super) enum LegacySse {
    /// It is not known to.
    #[default]
    Unused,
    /// `initialize` was refused with this error. It waits for the path.
    Opening(Box<(Exchange, ClientError)>),
    /// The path is known.
    Open,
    /// The stream has ended, and the session with it.
    Ended,
}

impl LegacySse {
    /// Returns whether a server that refused `initialize` with `status` may speak HTTP with SSE.
    pub(super) const fn may_follow(&self, status: u16) -> bool {
        matches!(self, Self::Unused) && matches!(status, 400 | 404 | 405)
    }

    pub(super) const fn is_unused(&self) -> bool {
        matches!(self, Self::Unused)
    }

    pub(super) const fn is_open(&self) -> bool {
        matches!(self, Self::Open)
    }

    pub(super) const fn has_ended(&self) -> bool {
        matches!(self, Self::Ended)
    }

    /// Waits for the path of a server that refused `initialize`.
    pub(super) fn begin(&mut self, initialize: Exchange, error: ClientError) {
        *self = Self::Opening(Box::new((initialize, error)));
    }

    /// Returns `initialize`, to be sent once the path is known.
    pub(super) fn open(&mut self) -> Option<Exchange> {
        match std::mem::replace(self, Self::Open) {
            Self::Opening(waiting) => Some(waiting.0),
            Self::Unused | Self::Open | Self::Ended => None,
        }
    }

    /// Handles the end of the stream. Returns `initialize` with its error if it waits.
    pub(super) fn end(&mut self) -> Option<(Exchange, ClientError)> {
        match std::mem::replace(self, Self::Ended) {
            Self::Opening(waiting) => Some(*waiting),
            Self::Unused | Self::Open | Self::Ended => None,
        }
    }
}
