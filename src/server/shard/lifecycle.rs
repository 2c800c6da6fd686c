//! The phases of a shard: it serves, drains, and aborts the drain after a timeout. On stdio the end
//! of the input limits the time of outstanding calls in the same way.

use std::time::Duration;

use crate::base::time::Instant;

/// The phase of a shard, and what ends it.
#[derive(Debug)]
pub(in crate::server) struct Lifecycle {
    phase: Phase,
    /// Maximum duration of the drain, and of calls after the end of the input (stdio).
    pub(in crate::server) drain_timeout: Duration,
    /// The shard ends with its only connection (stdio).
    pub(in crate::server) ends_with_input: bool,
    /// HTTP sessions were ended in this turn because the server drains.
    pub(in crate::server) has_ended_sessions: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    Serving,
    /// The input of the only connection has ended (stdio): calls may complete until this time, if
    /// it has not passed.
    InputEnded(Option<Instant>),
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

    /// Begins the drain; returns `false` if it began before. After the end of the input it ends at
    /// once: the peer has stopped waiting.
    pub(in crate::server) fn begin_drain(&mut self, now: Instant) -> bool {
        let deadline = match self.phase {
            Phase::Serving => now.after(self.drain_timeout),
            Phase::InputEnded(_) => now,
            Phase::Draining(_) | Phase::Aborted => return false,
        };
        self.phase = Phase::Draining(deadline);
        true
    }

    /// Records the end of the input of the only connection (stdio). Does nothing if it ended before
    /// or the shard drains.
    pub(in crate::server) fn end_input(&mut self, now: Instant) {
        if self.is_serving() {
            self.phase = Phase::InputEnded(Some(now.after(self.drain_timeout)));
        }
    }

    /// Returns whether the time of calls after the end of the input has passed, once.
    pub(in crate::server) fn expire_input(&mut self, now: Instant) -> bool {
        let is_over = matches!(self.phase, Phase::InputEnded(Some(deadline)) if deadline <= now);
        if is_over {
            self.phase = Phase::InputEnded(None);
        }
        is_over
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

    /// Returns when the drain is aborted, or calls are cancelled after the end of the input.
    pub(in crate::server) const fn next_deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::Serving | Phase::Aborted => None,
            Phase::InputEnded(deadline) => deadline,
            Phase::Draining(deadline) => Some(deadline),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Instant {
        Instant::from_milliseconds(milliseconds)
    }

    #[test]
    fn drain_after_end_of_input_ends_at_once() {
        let mut lifecycle = Lifecycle::new(Duration::from_millis(100));
        lifecycle.end_input(at(10));
        assert_eq!(lifecycle.next_deadline(), Some(at(110)));
        assert!(lifecycle.begin_drain(at(50)));
        assert!(lifecycle.expire_drain(at(50)));
        assert!(lifecycle.is_aborted());
    }

    #[test]
    fn end_of_input_does_not_extend_drain() {
        let mut lifecycle = Lifecycle::new(Duration::from_millis(100));
        assert!(lifecycle.begin_drain(at(10)));
        lifecycle.end_input(at(50));
        assert_eq!(lifecycle.next_deadline(), Some(at(110)));
    }

    #[test]
    fn end_of_input_expires_once() {
        let mut lifecycle = Lifecycle::new(Duration::from_millis(100));
        lifecycle.end_input(at(10));
        lifecycle.end_input(at(60));
        assert!(!lifecycle.expire_input(at(109)));
        assert!(lifecycle.expire_input(at(110)));
        assert!(!lifecycle.expire_input(at(111)));
        assert_eq!(lifecycle.next_deadline(), None);
    }
}
