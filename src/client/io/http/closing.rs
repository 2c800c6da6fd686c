//! The end of a session that the server has to be told.

use std::time::Duration;

use corelane_base::time::Instant;

/// Time that the server has to end a session.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

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
