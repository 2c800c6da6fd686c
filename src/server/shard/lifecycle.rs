//! The phases of a shard: it serves, drains, and aborts the drain after a timeout.

use std::time::Duration;

use crate::base::time::Instant;

/// The phase of a shard, and what ends it.
#[derive(Debug)]
pub(in crate::server) struct Lifecycle {
    phase: Phase,
    /// Maximum duration of the drain.
    pub(in crate::server) drain_timeout: Duration,
    /// The shard ends with its only connection (stdio).
    pub(in crate::server) ends_with_input: bool,
    /// HTTP sessions were ended in this turn because the server drains.
    pub(in crate::server) has_ended_sessions: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    Serving,
    /// Completing what is in flight, until this time at the latest.
    Draining(Instant),
    /// The drain timeout has passed: everything is closed.
    Aborted,
}

impl Lifecycle {
    pub(in crate::server) const fn new(drain_timeout: Duration) -> Self {
        Self {
            phase: Phase::Serving,
            drain_timeout,
            ends_with_input: false,
            has_ended_sessions: false,
        }
    }

    /// Begins the drain; returns `false` if it began before.
    pub(in crate::server) fn begin_drain(&mut self, now: Instant) -> bool {
        let is_serving = self.is_serving();
        if is_serving {
            self.phase = Phase::Draining(now.after(self.drain_timeout));
        }
        is_serving
    }

    /// Aborts the drain if its timeout has passed; returns whether that is now.
    pub(in crate::server) fn expire_drain(&mut self, now: Instant) -> bool {
        let is_over = matches!(self.phase, Phase::Draining(deadline) if deadline <= now);
        if is_over {
            self.phase = Phase::Aborted;
        }
        is_over
    }

    pub(in crate::server) fn is_serving(&self) -> bool {
        self.phase == Phase::Serving
    }

    pub(in crate::server) const fn is_draining(&self) -> bool {
        matches!(self.phase, Phase::Draining(_))
    }

    pub(in crate::server) fn is_aborted(&self) -> bool {
        self.phase == Phase::Aborted
    }

    /// Returns whether the shard ends once nothing is left.
    pub(in crate::server) fn ends(&self) -> bool {
        (!self.is_serving() || self.ends_with_input) && !self.has_ended_sessions
    }

    /// Returns when the drain is aborted.
    pub(in crate::server) const fn next_deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::Serving | Phase::Aborted => None,
            Phase::Draining(deadline) => Some(deadline),
        }
    }
}
