//! The phases of a shard: it serves, drains, cuts what takes longer than the drain, and ends. On
//! stdio the end of the input limits the time of outstanding calls in the same way.

use std::time::Duration;

use corelane_base::time::Instant;

use crate::server::shard_message::DrainTimeouts;

/// The phase of a shard, and what ends it.
#[derive(Debug)]
pub struct ShardPhase {
    phase: Phase,
    timeouts: DrainTimeouts,
    /// The shard ends with its only connection (stdio).
    ends_with_input: bool,
    /// HTTP sessions were ended in this turn because the server drains.
    pub has_ended_sessions: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    Serving,
    /// The input of the only connection has ended (stdio): calls may complete until this time, if
    /// it has not passed.
    InputEnded(Option<Instant>),
    /// Serving and not ready; the drain was requested at this time and begins after its delay.
    DrainRequested(Instant),
    /// Completing what is in flight, until this time at the latest.
    Draining(Instant),
    /// The drain timeout has passed: calls are cancelled, and their error responses may be sent
    /// until this time.
    Cutting(Instant),
    /// Everything is closed.
    Aborted,
}

impl ShardPhase {
    pub const fn new(timeouts: DrainTimeouts) -> Self {
        Self { phase: Phase::Serving, timeouts, ends_with_input: false, has_ended_sessions: false }
    }

    /// Sets the timeouts of a drain that has not begun.
    pub const fn set_timeouts(&mut self, timeouts: DrainTimeouts) {
        self.timeouts = timeouts;
    }

    /// Has the shard end with its only connection (stdio).
    pub const fn end_with_input(&mut self) {
        self.ends_with_input = true;
    }

    /// Returns the maximum duration of the drain, and of calls after the end of the input (stdio).
    pub const fn drain_timeout(&self) -> Duration {
        self.timeouts.timeout
    }

    /// Requests the drain, which begins after the delay; with a `timeout` it begins at once and
    /// lasts no longer. Returns `false` if it was requested before; a `timeout` may shorten it
    /// then. Over stdio there is no delay. After the end of the input it ends at once: the peer has
    /// stopped waiting.
    pub fn request_drain(&mut self, now: Instant, timeout: Option<Duration>) -> bool {
        if let Some(timeout) = timeout {
            self.timeouts = DrainTimeouts { delay: Duration::ZERO, timeout };
        }
        match self.phase {
            Phase::Serving => {}
            Phase::InputEnded(_) => self.timeouts.timeout = Duration::ZERO,
            Phase::Draining(deadline) => {
                let earlier = timeout.map_or(deadline, |timeout| now.after(timeout).min(deadline));
                self.phase = Phase::Draining(earlier);
                return false;
            }
            _ => return false,
        }
        self.phase = Phase::DrainRequested(now);
        true
    }

    const fn delay(&self) -> Duration {
        if self.ends_with_input { Duration::ZERO } else { self.timeouts.delay }
    }

    /// Begins the drain if its delay has passed; returns whether that is now.
    pub fn begin_drain(&mut self, now: Instant) -> bool {
        let Phase::DrainRequested(requested) = self.phase else { return false };
        let is_due = requested.after(self.delay()) <= now;
        if is_due {
            self.phase = Phase::Draining(now.after(self.timeouts.timeout));
        }
        is_due
    }

    /// Records the end of the input of the only connection (stdio). Does nothing if it ended before
    /// or the shard drains.
    pub fn end_input(&mut self, now: Instant) {
        if self.phase == Phase::Serving {
            self.phase = Phase::InputEnded(Some(now.after(self.timeouts.timeout)));
        }
    }

    /// Returns whether the time of calls after the end of the input has passed, once.
    pub fn expire_input(&mut self, now: Instant) -> bool {
        let is_over = matches!(self.phase, Phase::InputEnded(Some(deadline)) if deadline <= now);
        if is_over {
            self.phase = Phase::InputEnded(None);
        }
        is_over
    }

    /// Ends the drain if its timeout has passed: calls are cancelled from now on. Returns whether
    /// that is now.
    pub fn expire_drain(&mut self, now: Instant) -> bool {
        let is_over = matches!(self.phase, Phase::Draining(deadline) if deadline <= now);
        if is_over {
            self.phase = Phase::Cutting(now.after(CUT_RESPONSE_TIMEOUT));
        }
        is_over
    }

    /// Ends the time of the last error responses if it has passed; returns whether that is now.
    pub fn abort(&mut self, now: Instant) -> bool {
        let is_over = matches!(self.phase, Phase::Cutting(deadline) if deadline <= now);
        if is_over {
            self.phase = Phase::Aborted;
        }
        is_over
    }

    /// Returns whether requests are read and connections accepted.
    pub const fn is_serving(&self) -> bool {
        matches!(self.phase, Phase::Serving | Phase::DrainRequested(_))
    }

    pub const fn is_draining(&self) -> bool {
        matches!(self.phase, Phase::Draining(_))
    }

    /// Returns whether the drain has begun: nothing new is read.
    pub const fn has_begun_drain(&self) -> bool {
        matches!(self.phase, Phase::Draining(_) | Phase::Cutting(_) | Phase::Aborted)
    }

    /// Returns whether calls are cancelled and their error responses sent.
    pub const fn is_cutting(&self) -> bool {
        matches!(self.phase, Phase::Cutting(_))
    }

    pub fn is_aborted(&self) -> bool {
        self.phase == Phase::Aborted
    }

    /// Returns whether the shard ends once nothing is left.
    pub const fn ends(&self) -> bool {
        (!self.is_serving() || self.ends_with_input) && !self.has_ended_sessions
    }

    /// Returns when the next phase begins, or calls are cancelled after the end of the input.
    pub fn next_deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::Serving | Phase::Aborted => None,
            Phase::InputEnded(deadline) => deadline,
            Phase::DrainRequested(requested) => Some(requested.after(self.delay())),
            Phase::Draining(deadline) | Phase::Cutting(deadline) => Some(deadline),
        }
    }
}

/// Time that the error responses of cancelled calls have to be sent at the end of a drain: that of
/// every other connection that closes.
const CUT_RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Instant {
        Instant::from_milliseconds(milliseconds)
    }

    /// Returns the phase of a shard whose drain takes 100 ms, after a delay of 30 ms.
    fn phase() -> ShardPhase {
        let (delay, timeout) = (Duration::from_millis(30), Duration::from_millis(100));
        ShardPhase::new(DrainTimeouts { delay, timeout })
    }

    #[test]
    fn shard_serves_until_drain_delay_has_passed() {
        let mut phase = phase();
        assert!(phase.request_drain(at(10), None));
        assert!(!phase.request_drain(at(20), None), "requested before");
        assert!(!phase.begin_drain(at(39)));
        assert!(phase.is_serving() && !phase.ends());
        assert_eq!(phase.next_deadline(), Some(at(40)));
        assert!(phase.begin_drain(at(40)));
        assert!(phase.is_draining() && phase.ends());
        assert_eq!(phase.next_deadline(), Some(at(140)));
    }

    #[test]
    fn drain_timeout_shortens_drain_in_progress() {
        let mut phase = phase();
        assert!(phase.request_drain(at(0), None) && phase.begin_drain(at(30)));
        assert!(!phase.request_drain(at(40), Some(Duration::from_millis(500))));
        assert_eq!(phase.next_deadline(), Some(at(130)), "never longer");
        assert!(!phase.request_drain(at(50), Some(Duration::from_millis(10))));
        assert_eq!(phase.next_deadline(), Some(at(60)));
    }

    #[test]
    fn drain_timeout_ends_delay() {
        let mut phase = phase();
        assert!(phase.request_drain(at(0), None));
        assert!(!phase.request_drain(at(5), Some(Duration::from_millis(20))));
        assert!(phase.begin_drain(at(5)));
        assert_eq!(phase.next_deadline(), Some(at(25)));
    }

    #[test]
    fn shorter_drain_delay_applies_at_once() {
        let mut phase = phase();
        assert!(phase.request_drain(at(0), None));
        let (delay, timeout) = (Duration::from_millis(10), Duration::from_millis(50));
        phase.set_timeouts(DrainTimeouts { delay, timeout });
        assert!(!phase.begin_drain(at(9)));
        assert!(phase.begin_drain(at(10)));
        assert_eq!(phase.next_deadline(), Some(at(60)));
    }

    #[test]
    fn cut_calls_have_time_for_their_errors() {
        let mut phase = phase();
        assert!(phase.request_drain(at(0), None) && phase.begin_drain(at(30)));
        assert!(!phase.expire_drain(at(129)));
        assert!(phase.expire_drain(at(130)) && phase.is_cutting());
        assert!(!phase.abort(at(1_129)));
        assert!(phase.abort(at(1_130)) && phase.is_aborted());
        assert_eq!(phase.next_deadline(), None);
    }

    #[test]
    fn drain_after_end_of_input_ends_at_once() {
        let mut phase = phase();
        phase.end_with_input();
        phase.end_input(at(10));
        assert_eq!(phase.next_deadline(), Some(at(110)));
        assert!(phase.request_drain(at(50), None) && phase.begin_drain(at(50)));
        assert!(phase.expire_drain(at(50)));
        assert!(phase.is_cutting());
    }

    #[test]
    fn end_of_input_does_not_extend_drain() {
        let mut phase = phase();
        phase.end_with_input();
        assert!(phase.request_drain(at(10), None) && phase.begin_drain(at(10)));
        phase.end_input(at(50));
        assert_eq!(phase.next_deadline(), Some(at(110)));
    }

    #[test]
    fn end_of_input_expires_once() {
        let mut phase = phase();
        phase.end_input(at(10));
        phase.end_input(at(60));
        assert!(!phase.expire_input(at(109)));
        assert!(phase.expire_input(at(110)));
        assert!(!phase.expire_input(at(111)));
        assert_eq!(phase.next_deadline(), None);
    }
}
