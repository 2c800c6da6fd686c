//! The session that a server keeps under `Mcp-Session-Id`, and its end.

use std::time::Duration;

use super::exchange::Exchange;
use crate::base::time::Instant;
use crate::transport::http::client::response_head::ResponseHead;

/// Time that the server has to end a session.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The session of a server, up to 2025-11-25.
#[derive(Debug, Default)]
pub(super) struct HttpSession {
    /// `Mcp-Session-Id`.
    id: Option<Box<str>>,
    /// Number of sessions that the server has lost.
    number: u32,
    /// The server lacks a message without which it may refuse requests.
    is_broken: bool,
}

impl HttpSession {
    /// Begins the session whose id the response to `initialize` has, or one without an id.
    pub(super) fn note(&mut self, exchange: Option<&Exchange>, head: Option<&ResponseHead>) {
        if exchange.is_some_and(Exchange::is_initialize)
            && let Some(head) = head
            && matches!(head.status, 200..300)
        {
            self.id.clone_from(&head.session_id);
        }
    }

    /// Returns the id, and the number of the session.
    pub(super) fn current(&self) -> Option<(&str, u32)> {
        self.id.as_deref().map(|id| (id, self.number))
    }

    /// Notes whether a message was lost that must precede the requests of the session.
    pub(super) const fn note_loss(&mut self, is_ordered: bool) {
        self.is_broken |= is_ordered;
    }

    pub(super) const fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Ends session `number`. Returns `false` if it has ended before.
    pub(super) fn lose(&mut self, number: u32) -> bool {
        let is_current = number == self.number;
        if is_current {
            *self = Self { id: None, number: number + 1, is_broken: false };
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
    /// Begins to end a session, which the server has [`CLOSE_TIMEOUT`] for.
    pub(super) fn begin(&mut self, now: Instant) {
        *self = Self::Until(now.after(CLOSE_TIMEOUT));
    }

    /// Ends the wait for the server.
    pub(super) fn end(&mut self) {
        if *self != Self::No {
            *self = Self::Done;
        }
    }

    /// Ends the wait for a server that has had its time.
    pub(super) fn expire(&mut self, now: Instant) {
        if self.deadline().is_some_and(|deadline| deadline <= now) {
            *self = Self::Done;
        }
    }

    pub(super) const fn deadline(self) -> Option<Instant> {
        match self {
            Self::Until(deadline) => Some(deadline),
            Self::No | Self::Done => None,
        }
    }
}
