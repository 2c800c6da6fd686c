//! The phases of a scene, and the calls of honest clients in each.

use std::time::Duration;

use corelane_base::time::Instant;
use corelane_engine::clock::Clock;
use hdrhistogram::Histogram;

/// Time until the first recorded call: connections are opened, code and data are warm.
const WARM_UP: Duration = Duration::from_millis(500);
/// Time after hostile peers have left.
const AFTER: Duration = Duration::from_secs(3);
/// Largest recorded latency in nanoseconds.
const LATENCY_MAX: u64 = 60_000_000_000;

/// A phase of a scene.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Phase {
    /// Calls are not recorded.
    WarmUp,
    /// Without hostile peers.
    Quiet,
    /// The hostile peers have begun.
    Onset,
    /// With hostile peers.
    Attack,
    /// The hostile peers leave.
    After,
}

impl Phase {
    const ALL: [Self; 5] = [Self::WarmUp, Self::Quiet, Self::Onset, Self::Attack, Self::After];
}

/// Times of the phases.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    clock: Clock,
    span: Duration,
    onset: Duration,
}

impl Schedule {
    /// A schedule that starts now, with the phases that are compared of `span` each, and `onset`
    /// from the begin of an attack to its phase.
    pub(crate) fn start(span: Duration, onset: Duration) -> Self {
        Self { clock: Clock::start(), span, onset }
    }

    /// Returns the current time.
    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Waits until `time`.
    #[expect(clippy::disallowed_methods, reason = "calls and phases of a bench have fixed times")]
    pub(crate) fn wait_until(&self, time: Instant) {
        std::thread::sleep(time.since(self.now()));
    }

    /// Returns the phase at `time`, or `None` after the end.
    pub(crate) fn phase_at(&self, time: Instant) -> Option<Phase> {
        Phase::ALL.into_iter().find(|phase| time < self.end_of(*phase))
    }

    /// Waits until the end of a phase.
    pub(crate) fn wait_for_end_of(&self, phase: Phase) {
        self.wait_until(self.end_of(phase));
    }

    const fn duration(&self, phase: Phase) -> Duration {
        match phase {
            Phase::WarmUp => WARM_UP,
            Phase::Quiet | Phase::Attack => self.span,
            Phase::Onset => self.onset,
            Phase::After => AFTER,
        }
    }

    fn end_of(&self, phase: Phase) -> Instant {
        let before = Phase::ALL.into_iter().take_while(|before| *before != phase);
        let elapsed: Duration = before.chain([phase]).map(|phase| self.duration(phase)).sum();
        Instant::default().after(elapsed)
    }
}

/// A call that was due when hostile peers left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LateCall {
    pub(crate) due: Instant,
    /// `None` if it failed.
    pub(crate) latency: Option<Duration>,
}

/// Calls of one or more honest clients in the phases that are compared.
#[derive(Clone, Debug)]
pub(crate) struct PhaseCalls {
    pub(crate) quiet: Calls,
    /// With the failures before and after it.
    pub(crate) attack: Calls,
    /// Those after the attack.
    pub(crate) late: Vec<LateCall>,
}

impl PhaseCalls {
    /// Calls of which none has been made.
    pub(crate) fn none() -> Result<Self, hdrhistogram::CreationError> {
        Ok(Self { quiet: Calls::none()?, attack: Calls::none()?, late: Vec::new() })
    }

    /// Records a call in a phase; an error in the warm-up is returned.
    pub(crate) fn record(
        &mut self,
        phase: Phase,
        due: Instant,
        latency: Duration,
        result: Result<(), std::io::Error>,
    ) -> Result<(), std::io::Error> {
        if phase == Phase::After {
            self.late.push(LateCall { due, latency: result.is_ok().then_some(latency) });
        }
        let calls = match phase {
            Phase::WarmUp => return result,
            Phase::Quiet => &mut self.quiet,
            Phase::Onset | Phase::Attack | Phase::After => &mut self.attack,
        };
        if matches!(phase, Phase::Quiet | Phase::Attack) || result.is_err() {
            calls.record(latency, result);
        }
        Ok(())
    }

    /// Adds the calls of another client.
    pub(crate) fn add(&mut self, other: &Self) -> Result<(), hdrhistogram::AdditionError> {
        self.late.extend_from_slice(&other.late);
        self.quiet.add(&other.quiet)?;
        self.attack.add(&other.attack)
    }

    /// Returns the number of failed calls.
    pub(crate) const fn failures(&self) -> u64 {
        self.quiet.failures() + self.attack.failures()
    }

    /// Returns the error of the first failed call.
    pub(crate) fn first_failure(&self) -> Option<&str> {
        [&self.quiet, &self.attack].into_iter().find_map(Calls::first_failure)
    }
}

/// Calls of one or more honest clients in one phase.
#[derive(Clone, Debug)]
pub(crate) struct Calls {
    /// Of successful calls, in nanoseconds.
    latency: Histogram<u64>,
    failures: u64,
    first_failure: Option<String>,
}

impl Calls {
    /// Calls of which none has been made.
    pub(crate) fn none() -> Result<Self, hdrhistogram::CreationError> {
        let latency = Histogram::new_with_bounds(1, LATENCY_MAX, 3)?;
        Ok(Self { latency, failures: 0, first_failure: None })
    }

    /// Records a call.
    pub(crate) fn record(&mut self, latency: Duration, result: Result<(), std::io::Error>) {
        match result {
            Ok(()) => {
                let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
                self.latency.saturating_record(nanoseconds);
            }
            Err(error) => {
                self.failures += 1;
                self.first_failure.get_or_insert_with(|| error.to_string());
            }
        }
    }

    /// Adds the calls of another client.
    pub(crate) fn add(&mut self, other: &Self) -> Result<(), hdrhistogram::AdditionError> {
        self.latency.add(&other.latency)?;
        self.failures += other.failures;
        if self.first_failure.is_none() {
            self.first_failure.clone_from(&other.first_failure);
        }
        Ok(())
    }

    /// Returns the number of calls.
    pub(crate) fn count(&self) -> u64 {
        self.latency.len() + self.failures
    }

    /// Returns the number of failed calls.
    pub(crate) const fn failures(&self) -> u64 {
        self.failures
    }

    /// Returns the error of the first failed call.
    pub(crate) fn first_failure(&self) -> Option<&str> {
        self.first_failure.as_deref()
    }

    /// Returns a percentile of the latency of successful calls.
    pub(crate) fn percentile(&self, percentile: f64) -> Duration {
        Duration::from_nanos(self.latency.value_at_percentile(percentile))
    }
}
