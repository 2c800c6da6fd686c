//! Circuit breaker: refuses calls of a tool or upstream server that fails or is slow, for a while.
//!
//! ```text
//!            share of failed or slow calls reached           wait has passed
//!   closed ─────────────────────────────────────────▶ open ───────────────────▶ half-open
//!     ▲                                                ▲                          │   │
//!     │                                                └── a probe fails ─────────┘   │
//!     └────────────────── all probes have succeeded ──────────────────────────────────┘
//! ```
//!
//! It opens for all callers, so that one whose own calls fail does not open it: the share of
//! callers whose calls fail has to be reached, too.
//!
//! Invariants: a closed breaker refuses no call; an open one admits none; a half-open one admits at
//! most `probes_max` calls that are neither refused nor abandoned; each opening lasts at least
//! `wait`, and twice as long as the one before while the breaker does not stay closed.
//!
//! Source: M. Nygard, "Release It!", "Circuit Breaker"; the sliding window is that of resilience4j.

use std::time::Duration;

use corelane_base::time::Instant;

/// When a breaker opens, and for how long.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BreakerRules {
    /// Calls that ended in this time count.
    pub window: Duration,
    /// A breaker with fewer calls in its window stays closed.
    pub calls_min: u32,
    /// Opens at this percentage of failed calls; 0 ignores failures.
    pub failed_percent: u8,
    /// Opens at this percentage of slow calls; 0 ignores durations.
    pub slow_percent: u8,
    /// A call that takes at least this long is slow.
    pub slow_after: Duration,
    /// How long the first opening lasts.
    pub wait: Duration,
    /// The longest opening.
    pub wait_max: Duration,
    /// Calls that a half-open breaker admits; it closes when all of them have succeeded.
    pub probes_max: u16,
}

/// State of a breaker.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BreakerState {
    /// Every call is admitted.
    Closed,
    /// No call is admitted.
    Open,
    /// Some calls are admitted, to find out whether they succeed.
    HalfOpen,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Trigger {
    ShareReached,
    WaitPassed,
    ProbeFailed,
    ProbesSucceeded,
}

/// Returns the state that follows, or `None` if the trigger does not apply.
const fn next_state(state: BreakerState, trigger: Trigger) -> Option<BreakerState> {
    match (state, trigger) {
        (BreakerState::Closed, Trigger::ShareReached)
        | (BreakerState::HalfOpen, Trigger::ProbeFailed) => Some(BreakerState::Open),
        (BreakerState::Open, Trigger::WaitPassed) => Some(BreakerState::HalfOpen),
        (BreakerState::HalfOpen, Trigger::ProbesSucceeded) => Some(BreakerState::Closed),
        _ => None,
    }
}

/// How a call has ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CallOutcome {
    /// With a result, or an error that is not that of the tool.
    Succeeded,
    /// With an error of the tool, or too late.
    Failed,
    /// Cancelled, or refused before it ran: says nothing about the tool.
    Abandoned,
}

/// An admitted call; its end is recorded with it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Permit {
    /// The number of changes of state before the call.
    epoch: u32,
    caller: CallerGroup,
}

/// One of 64 groups of callers. Most callers are alone in theirs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CallerGroup(u8);

impl CallerGroup {
    /// Returns the group of the caller with this hash.
    #[inline]
    pub const fn of_hash(hash: u64) -> Self {
        Self((hash >> 58) as u8)
    }

    /// Returns a set of this group alone.
    #[inline]
    const fn bit(self) -> u64 {
        1 << self.0
    }
}

/// A call that is refused; it may be repeated after this time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Refused {
    /// Time until the next call may be admitted.
    pub retry_after: Duration,
}

/// The circuit breaker of one tool or upstream server.
#[derive(Clone, Debug)]
pub struct CircuitBreaker {
    state: BreakerState,
    /// The number of changes of state (wraps); calls of an earlier state are not counted.
    epoch: u32,
    /// When the state began.
    since: Instant,
    /// Length of the current or last opening; zero before the first.
    wait: Duration,
    /// Probes that were admitted and not abandoned.
    probes: u16,
    probes_succeeded: u16,
    calls: CallWindow,
}

impl Default for CircuitBreaker {
    fn default() -> Self {
        Self {
            state: BreakerState::Closed,
            epoch: 0,
            since: Instant::ORIGIN,
            wait: Duration::ZERO,
            probes: 0,
            probes_succeeded: 0,
            calls: CallWindow::default(),
        }
    }
}

impl CircuitBreaker {
    /// Returns the state. An open breaker becomes half-open with the first call after its wait.
    #[inline]
    pub const fn state(&self) -> BreakerState {
        self.state
    }

    /// Closes the breaker for another tool; calls that were admitted before are not counted.
    pub fn reset(&mut self) {
        *self = Self { epoch: self.epoch.wrapping_add(1), ..Self::default() };
    }

    /// Admits a call of a caller, or refuses it.
    ///
    /// # Errors
    ///
    /// The breaker is open, or half-open and all probes are admitted.
    #[inline]
    pub fn admit(
        &mut self,
        rules: &BreakerRules,
        caller: CallerGroup,
        now: Instant,
    ) -> Result<Permit, Refused> {
        if self.state != BreakerState::Closed {
            self.admit_probe(rules, now)?;
        }
        Ok(Permit { epoch: self.epoch, caller })
    }

    #[cold]
    fn admit_probe(&mut self, rules: &BreakerRules, now: Instant) -> Result<(), Refused> {
        let half_open_at = self.since.after(self.wait);
        if self.state == BreakerState::Open {
            if now < half_open_at {
                return Err(Refused { retry_after: half_open_at.since(now) });
            }
            self.change(Trigger::WaitPassed, rules, now);
        }
        if self.probes >= rules.probes_max.max(1) {
            return Err(Refused { retry_after: rules.wait.min(PROBE_RETRY) });
        }
        self.probes += 1;
        Ok(())
    }

    /// Records the end of an admitted call, `duration` after its admission.
    #[inline]
    pub fn record(
        &mut self,
        rules: &BreakerRules,
        Permit { epoch, caller }: Permit,
        outcome: CallOutcome,
        duration: Duration,
        now: Instant,
    ) {
        if epoch != self.epoch {
            return;
        }
        let is_failed = outcome == CallOutcome::Failed && rules.failed_percent > 0;
        let is_slow = rules.slow_percent > 0 && duration >= rules.slow_after;
        if self.state != BreakerState::Closed {
            return self.record_probe(rules, outcome, is_failed || is_slow, now);
        }
        if outcome == CallOutcome::Abandoned {
            return;
        }
        let call = EndedCall { caller, is_failed, is_slow };
        let totals = self.calls.add(rules.window, call, now);
        let is_share = |part, percent, callers| {
            totals.is_share(part, percent) && self.calls.is_share_of_callers(percent, callers)
        };
        if totals.has_bad_calls()
            && totals.calls >= rules.calls_min
            && (is_share(totals.failed, rules.failed_percent, |part| part.failed_callers)
                || is_share(totals.slow, rules.slow_percent, |part| part.slow_callers))
        {
            self.change(Trigger::ShareReached, rules, now);
        }
    }

    #[cold]
    fn record_probe(
        &mut self,
        rules: &BreakerRules,
        outcome: CallOutcome,
        is_bad: bool,
        now: Instant,
    ) {
        if outcome == CallOutcome::Abandoned {
            self.probes = self.probes.saturating_sub(1);
        } else if is_bad {
            self.change(Trigger::ProbeFailed, rules, now);
        } else {
            self.probes_succeeded += 1;
            if self.probes_succeeded >= rules.probes_max.max(1) {
                self.change(Trigger::ProbesSucceeded, rules, now);
            }
        }
    }

    #[cold]
    fn change(&mut self, trigger: Trigger, rules: &BreakerRules, now: Instant) {
        let Some(next) = next_state(self.state, trigger) else { return };
        if next == BreakerState::Open {
            // A breaker that opens again soon after it has closed is treated as one whose probe
            // has failed.
            let reopens = self.state == BreakerState::HalfOpen || now.since(self.since) < self.wait;
            let longer = if reopens { self.wait.saturating_mul(2) } else { Duration::ZERO };
            self.wait = longer.min(rules.wait_max).max(rules.wait);
        }
        self.state = next;
        self.epoch = self.epoch.wrapping_add(1);
        self.since = now;
        (self.probes, self.probes_succeeded) = (0, 0);
        self.calls.clear();
    }
}

/// Longest retry hint while the probes run.
const PROBE_RETRY: Duration = Duration::from_secs(1);

/// Parts of a window; the oldest is dropped as a whole.
const PARTS: u8 = 10;

/// Calls in a window, by part.
#[derive(Clone, Debug, Default)]
struct CallWindow {
    parts: [WindowPart; PARTS as usize],
    totals: CallTotals,
    /// The part that calls are added to.
    current: usize,
    /// When the next part begins.
    ends: Instant,
}

#[derive(Clone, Copy, Debug, Default)]
struct WindowPart {
    totals: CallTotals,
    /// The groups of callers with calls.
    callers: u64,
    /// Those of them with a failed call.
    failed_callers: u64,
    /// Those of them with a slow call.
    slow_callers: u64,
}

/// A call that counts.
#[derive(Clone, Copy, Debug)]
struct EndedCall {
    caller: CallerGroup,
    is_failed: bool,
    is_slow: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct CallTotals {
    calls: u32,
    failed: u32,
    slow: u32,
}

impl CallTotals {
    /// Returns whether a call has failed or was slow.
    #[inline]
    const fn has_bad_calls(self) -> bool {
        self.failed | self.slow != 0
    }

    /// Returns whether `part` of the calls is at least `percent`; `false` at 0 percent.
    #[inline]
    const fn is_share(self, part: u32, percent: u8) -> bool {
        percent > 0 && part as u64 * 100 >= self.calls as u64 * percent as u64
    }
}

impl CallWindow {
    /// Adds a call that has ended; returns the totals of the window.
    #[inline]
    fn add(&mut self, window: Duration, call: EndedCall, now: Instant) -> CallTotals {
        let EndedCall { caller, is_failed, is_slow } = call;
        if now >= self.ends {
            self.advance(window, now);
        }
        let part = &mut self.parts[self.current];
        part.callers |= caller.bit();
        if is_failed {
            part.failed_callers |= caller.bit();
        }
        if is_slow {
            part.slow_callers |= caller.bit();
        }
        for totals in [&mut part.totals, &mut self.totals] {
            totals.calls = totals.calls.saturating_add(1);
            if is_failed || is_slow {
                totals.failed = totals.failed.saturating_add(is_failed.into());
                totals.slow = totals.slow.saturating_add(is_slow.into());
            }
        }
        self.totals
    }

    /// Returns whether more than `percent` of the callers, or all, are among the bad ones in most
    /// parts of the window in which they call; `true` if there is only one.
    #[cold]
    fn is_share_of_callers(&self, percent: u8, bad_callers: fn(&WindowPart) -> u64) -> bool {
        let mut left = self.parts.iter().fold(0, |all, part| all | part.callers);
        let callers = left.count_ones();
        let mut bad = 0;
        while left != 0 {
            let caller = left & left.wrapping_neg();
            left ^= caller;
            let count = |set: fn(&WindowPart) -> u64| {
                self.parts.iter().filter(|part| set(part) & caller != 0).count()
            };
            bad += u32::from(2 * count(bad_callers) > count(|part| part.callers));
        }
        callers <= 1 || bad == callers || bad * 100 > callers * u32::from(percent)
    }

    fn clear(&mut self) {
        *self = Self::default();
    }

    /// Begins the part of `now`; drops those that are older than the window.
    #[cold]
    fn advance(&mut self, window: Duration, now: Instant) {
        let part = (window / u32::from(PARTS)).max(Duration::from_nanos(1));
        let elapsed = now.since(self.ends).as_nanos() / part.as_nanos();
        let steps = u8::try_from(elapsed).unwrap_or(PARTS).min(PARTS - 1) + 1;
        for _ in 0..steps {
            self.current = (self.current + 1) % usize::from(PARTS);
            self.parts[self.current] = WindowPart::default();
        }
        self.ends = now.after(part);
        let parts = self.parts.iter().map(|part| part.totals);
        self.totals = parts.fold(CallTotals::default(), |sum, part| CallTotals {
            calls: sum.calls.saturating_add(part.calls),
            failed: sum.failed.saturating_add(part.failed),
            slow: sum.slow.saturating_add(part.slow),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: BreakerRules = BreakerRules {
        window: Duration::from_secs(10),
        calls_min: 4,
        failed_percent: 50,
        slow_percent: 50,
        slow_after: Duration::from_millis(100),
        wait: Duration::from_secs(5),
        wait_max: Duration::from_secs(15),
        probes_max: 2,
    };

    const QUICK: Duration = Duration::from_millis(1);

    const ONE: CallerGroup = CallerGroup(1);

    fn at(milliseconds: u64) -> Instant {
        Instant::from_nanoseconds(1_000_000 * milliseconds)
    }

    /// Runs a call; returns whether it was admitted.
    fn run(breaker: &mut CircuitBreaker, outcome: CallOutcome, milliseconds: u64) -> bool {
        run_of(breaker, ONE, outcome, milliseconds)
    }

    /// Runs a call of a caller; returns whether it was admitted.
    fn run_of(
        breaker: &mut CircuitBreaker,
        caller: CallerGroup,
        outcome: CallOutcome,
        milliseconds: u64,
    ) -> bool {
        let now = at(milliseconds);
        let admitted = breaker.admit(&RULES, caller, now);
        if let Ok(permit) = admitted {
            breaker.record(&RULES, permit, outcome, QUICK, now);
        }
        admitted.is_ok()
    }

    /// A breaker that has opened at 0 ms.
    fn open() -> CircuitBreaker {
        let mut breaker = CircuitBreaker::default();
        for _ in 0..4 {
            assert!(run(&mut breaker, CallOutcome::Failed, 0));
        }
        assert_eq!(breaker.state(), BreakerState::Open);
        breaker
    }

    #[test]
    fn breaker_opens_at_share_of_failed_calls() {
        let mut breaker = CircuitBreaker::default();
        let outcomes = [
            CallOutcome::Failed,
            CallOutcome::Succeeded,
            CallOutcome::Abandoned,
            CallOutcome::Failed,
        ];
        for outcome in outcomes {
            assert!(run(&mut breaker, outcome, 1));
        }
        assert_eq!(breaker.state(), BreakerState::Closed, "three calls count");
        assert!(run(&mut breaker, CallOutcome::Succeeded, 1));
        assert_eq!(breaker.state(), BreakerState::Open);
        let refused = breaker.admit(&RULES, ONE, at(2_001)).unwrap_err();
        assert_eq!(refused.retry_after, Duration::from_secs(3));
    }

    #[test]
    fn one_caller_does_not_open_breaker() {
        let mut breaker = CircuitBreaker::default();
        let others = [2, 3, 4].map(CallerGroup);
        for second in 0..20 {
            for other in others {
                // One call of each fails.
                let is_failed = second == u64::from(other.0);
                let outcome = if is_failed { CallOutcome::Failed } else { CallOutcome::Succeeded };
                assert!(run_of(&mut breaker, other, outcome, 1_000 * second));
            }
            for _ in 0..100 {
                assert!(run(&mut breaker, CallOutcome::Failed, 1_000 * second));
            }
        }
        // The calls of two of four callers fail, and then those of three.
        for (failing, from) in [(1, 20), (2, 40)] {
            assert_eq!(breaker.state(), BreakerState::Closed);
            for second in from..from + 20 {
                for (index, caller) in [ONE].iter().chain(&others).enumerate() {
                    let is_failed = index <= failing;
                    let outcome =
                        if is_failed { CallOutcome::Failed } else { CallOutcome::Succeeded };
                    run_of(&mut breaker, *caller, outcome, 1_000 * second);
                }
            }
        }
        assert_eq!(breaker.state(), BreakerState::Open);
    }

    #[test]
    fn breaker_opens_when_calls_of_all_callers_fail() {
        let rules = BreakerRules { failed_percent: 100, ..RULES };
        let mut breaker = CircuitBreaker::default();
        for caller in [1, 2, 1, 2].map(CallerGroup) {
            let permit = breaker.admit(&rules, caller, at(0)).unwrap();
            breaker.record(&rules, permit, CallOutcome::Failed, QUICK, at(0));
        }
        assert_eq!(breaker.state(), BreakerState::Open);
    }

    #[test]
    fn breaker_opens_at_share_of_slow_calls() {
        let mut breaker = CircuitBreaker::default();
        for milliseconds in [99, 100, 99, 100] {
            assert_eq!(breaker.state(), BreakerState::Closed);
            let permit = breaker.admit(&RULES, ONE, at(0)).unwrap();
            let (outcome, duration) = (CallOutcome::Succeeded, Duration::from_millis(milliseconds));
            breaker.record(&RULES, permit, outcome, duration, at(milliseconds));
        }
        assert_eq!(breaker.state(), BreakerState::Open);
    }

    #[test]
    fn failures_outside_of_window_are_forgotten() {
        let mut breaker = CircuitBreaker::default();
        for milliseconds in [0, 0, 0, 11_000, 22_000, 33_000] {
            assert!(run(&mut breaker, CallOutcome::Failed, milliseconds));
        }
        assert_eq!(breaker.state(), BreakerState::Closed);
    }

    #[test]
    fn breaker_closes_after_successful_probes() {
        let mut breaker = open();
        assert!(!run(&mut breaker, CallOutcome::Succeeded, 4_999));
        let probes = [0; 2].map(|_| breaker.admit(&RULES, ONE, at(5_000)).unwrap());
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
        assert!(breaker.admit(&RULES, ONE, at(5_000)).is_err());
        for probe in probes {
            assert_eq!(breaker.state(), BreakerState::HalfOpen);
            breaker.record(&RULES, probe, CallOutcome::Succeeded, QUICK, at(5_001));
        }
        assert_eq!(breaker.state(), BreakerState::Closed);
    }

    #[test]
    fn abandoned_probe_leaves_its_place() {
        let mut breaker = open();
        let probes = [0; 2].map(|_| breaker.admit(&RULES, ONE, at(5_000)).unwrap());
        breaker.record(&RULES, probes[0], CallOutcome::Abandoned, QUICK, at(5_001));
        assert!(breaker.admit(&RULES, ONE, at(5_001)).is_ok());
        assert!(breaker.admit(&RULES, ONE, at(5_001)).is_err());
    }

    #[test]
    fn wait_doubles_while_breaker_flaps() {
        let mut breaker = open();
        let waits = |breaker: &mut CircuitBreaker, milliseconds| {
            breaker.admit(&RULES, ONE, at(milliseconds)).unwrap_err().retry_after.as_secs()
        };
        assert!(run(&mut breaker, CallOutcome::Failed, 5_000));
        assert_eq!(waits(&mut breaker, 5_000), 10);
        // It closes and opens again at once.
        for _ in 0..2 {
            assert!(run(&mut breaker, CallOutcome::Succeeded, 15_000));
        }
        for _ in 0..4 {
            assert!(run(&mut breaker, CallOutcome::Failed, 15_001));
        }
        assert_eq!(waits(&mut breaker, 15_001), 15, "at most wait_max");
        for _ in 0..2 {
            assert!(run(&mut breaker, CallOutcome::Succeeded, 30_001));
        }
        // It has stayed closed for longer than it was open.
        for _ in 0..4 {
            assert!(run(&mut breaker, CallOutcome::Failed, 45_001));
        }
        assert_eq!(waits(&mut breaker, 45_001), 5);
    }

    #[test]
    fn call_of_earlier_state_is_not_counted() {
        let mut breaker = CircuitBreaker::default();
        let late = [0; 2].map(|_| breaker.admit(&RULES, ONE, at(0)).unwrap());
        for _ in 0..4 {
            assert!(run(&mut breaker, CallOutcome::Failed, 0));
        }
        breaker.record(&RULES, late[0], CallOutcome::Failed, QUICK, at(1));
        assert!(breaker.admit(&RULES, ONE, at(5_000)).is_ok());
        breaker.record(&RULES, late[1], CallOutcome::Failed, QUICK, at(5_000));
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
    }

    #[test]
    fn states_follow_the_transition_table() {
        use BreakerState::{Closed, HalfOpen, Open};
        let triggers = [
            Trigger::ShareReached,
            Trigger::WaitPassed,
            Trigger::ProbeFailed,
            Trigger::ProbesSucceeded,
        ];
        for (state, expected) in [
            (Closed, [Some(Open), None, None, None]),
            (Open, [None, Some(HalfOpen), None, None]),
            (HalfOpen, [None, None, Some(Open), Some(Closed)]),
        ] {
            assert_eq!(triggers.map(|trigger| next_state(state, trigger)), expected);
        }
    }
}
