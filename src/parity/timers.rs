//! Deadlines of a session: handshake, explicit capabilities, keepalive, idle.
//!
//! Invariants: at most one deadline of the beginning is set; a keepalive is due when nothing has
//! come for its interval; a session that is busy is not idle, however long its peer is silent.

use std::time::Duration;

use corelane_base::time::Instant;

/// Times of a session.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SessionTimeouts {
    /// From the transport to the handshake.
    pub handshake: Duration,
    /// From the acknowledgement to the explicit capabilities.
    pub capabilities: Duration,
    /// Whether a session without the explicit capabilities is served.
    pub continues_without_capabilities: bool,
    /// Interval of keepalives.
    pub keepalive: Duration,
    /// Time after a keepalive in which the peer has to send something: `timeoutHintSec`.
    pub hint: Duration,
    /// Time without a message of the peer, and without work, after which a session is idle.
    pub idle: Duration,
}

/// What a deadline is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Timeout {
    /// No acceptable handshake came.
    Handshake,
    /// No explicit capabilities came.
    Capabilities,
    /// A keepalive is due.
    Keepalive,
    /// The session was idle for too long.
    Idle,
}

/// The deadlines of one session.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Timers {
    phase: Phase,
    last_received: Instant,
    /// When the session was last known to be busy.
    last_busy: Instant,
    /// The last keepalive, or the time of the last message before the first.
    last_keepalive: Instant,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    Handshake(Instant),
    Capabilities(Instant),
    Open,
    Ended,
}

impl Timers {
    /// The timers of a session whose transport is established at `now`.
    pub const fn new(timeouts: &SessionTimeouts, now: Instant) -> Self {
        Self {
            phase: Phase::Handshake(now.after(timeouts.handshake)),
            last_received: now,
            last_busy: now,
            last_keepalive: now,
        }
    }

    /// Waits for the explicit capabilities.
    pub const fn await_capabilities(&mut self, timeouts: &SessionTimeouts, now: Instant) {
        self.phase = Phase::Capabilities(now.after(timeouts.capabilities));
    }

    /// The session is ready: keepalives follow.
    pub const fn open(&mut self, now: Instant) {
        self.phase = Phase::Open;
        self.last_keepalive = now;
        self.record_received(now);
    }

    /// The session has ended, or has no transport.
    pub const fn end(&mut self) {
        self.phase = Phase::Ended;
    }

    /// Records a message of the peer.
    #[inline]
    pub const fn record_received(&mut self, now: Instant) {
        self.last_received = now;
    }

    /// Records that something ends which keeps the session busy.
    #[inline]
    pub const fn record_busy(&mut self, now: Instant) {
        self.last_busy = now;
    }

    /// Returns the next deadline. It can move later without notice: check it when it has passed.
    pub fn next_deadline(&self, timeouts: &SessionTimeouts, is_busy: bool) -> Option<Instant> {
        match self.phase {
            Phase::Handshake(deadline) | Phase::Capabilities(deadline) => Some(deadline),
            Phase::Open if is_busy => Some(self.keepalive_at(timeouts)),
            Phase::Open => Some(self.keepalive_at(timeouts).min(self.idle_at(timeouts))),
            Phase::Ended => None,
        }
    }

    /// Returns what has expired at `now`, once. `is_busy`: something runs for the peer, which may
    /// be silent meanwhile.
    pub fn expire(
        &mut self,
        timeouts: &SessionTimeouts,
        is_busy: bool,
        now: Instant,
    ) -> Option<Timeout> {
        match self.phase {
            Phase::Handshake(deadline) if deadline <= now => {
                self.phase = Phase::Ended;
                Some(Timeout::Handshake)
            }
            Phase::Capabilities(deadline) if deadline <= now => {
                self.phase = Phase::Ended;
                Some(Timeout::Capabilities)
            }
            Phase::Open if !is_busy && self.idle_at(timeouts) <= now => {
                self.phase = Phase::Ended;
                Some(Timeout::Idle)
            }
            Phase::Open if self.keepalive_at(timeouts) <= now => {
                self.last_keepalive = now;
                Some(Timeout::Keepalive)
            }
            _ => None,
        }
    }

    fn keepalive_at(&self, timeouts: &SessionTimeouts) -> Instant {
        self.last_received.max(self.last_keepalive).after(timeouts.keepalive)
    }

    fn idle_at(&self, timeouts: &SessionTimeouts) -> Instant {
        self.last_received.max(self.last_busy).after(timeouts.idle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUTS: SessionTimeouts = SessionTimeouts {
        handshake: Duration::from_secs(5),
        capabilities: Duration::from_secs(5),
        continues_without_capabilities: true,
        keepalive: Duration::from_mins(1),
        hint: Duration::from_mins(2),
        idle: Duration::from_mins(3),
    };

    fn at(seconds: u64) -> Instant {
        Instant::ORIGIN.after(Duration::from_secs(seconds))
    }

    #[test]
    fn handshake_and_capabilities_have_deadlines() {
        let mut timers = Timers::new(&TIMEOUTS, at(0));
        assert_eq!(timers.expire(&TIMEOUTS, false, at(4)), None);
        timers.await_capabilities(&TIMEOUTS, at(4));
        assert_eq!(timers.next_deadline(&TIMEOUTS, false), Some(at(9)));
        assert_eq!(timers.expire(&TIMEOUTS, false, at(9)), Some(Timeout::Capabilities));
        assert_eq!(timers.expire(&TIMEOUTS, false, at(90)), None, "once");
        let mut timers = Timers::new(&TIMEOUTS, at(0));
        assert_eq!(timers.expire(&TIMEOUTS, false, at(5)), Some(Timeout::Handshake));
    }

    #[test]
    fn silent_peer_is_closed_after_keepalive() {
        let mut timers = Timers::new(&TIMEOUTS, at(0));
        timers.open(at(0));
        timers.record_received(at(10));
        assert_eq!(timers.expire(&TIMEOUTS, false, at(69)), None);
        assert_eq!(timers.expire(&TIMEOUTS, false, at(70)), Some(Timeout::Keepalive));
        assert_eq!(timers.next_deadline(&TIMEOUTS, false), Some(at(130)));
        assert_eq!(timers.expire(&TIMEOUTS, false, at(130)), Some(Timeout::Keepalive));
        assert_eq!(timers.expire(&TIMEOUTS, false, at(189)), None);
        assert_eq!(timers.expire(&TIMEOUTS, false, at(190)), Some(Timeout::Idle));
        assert_eq!(timers.next_deadline(&TIMEOUTS, false), None);
    }

    #[test]
    fn busy_session_is_not_idle() {
        let mut timers = Timers::new(&TIMEOUTS, at(0));
        timers.open(at(0));
        for round in 1..20 {
            assert_eq!(timers.expire(&TIMEOUTS, true, at(60 * round)), Some(Timeout::Keepalive));
            assert_eq!(timers.next_deadline(&TIMEOUTS, true), Some(at(60 * (round + 1))));
        }
        // What has kept it busy ends just before the next keepalive.
        timers.record_busy(at(1_199));
        assert_eq!(timers.expire(&TIMEOUTS, false, at(1_200)), Some(Timeout::Keepalive));
        assert_eq!(timers.expire(&TIMEOUTS, false, at(1_378)), Some(Timeout::Keepalive));
        assert_eq!(timers.next_deadline(&TIMEOUTS, false), Some(at(1_379)));
        assert_eq!(timers.expire(&TIMEOUTS, false, at(1_379)), Some(Timeout::Idle));
    }

    #[test]
    fn answered_keepalive_restarts_idle_time() {
        let mut timers = Timers::new(&TIMEOUTS, at(0));
        timers.open(at(0));
        for round in 1..20 {
            assert_eq!(timers.expire(&TIMEOUTS, false, at(60 * round)), Some(Timeout::Keepalive));
            timers.record_received(at(60 * round));
        }
    }
}
