//! Memory pressure: by which steps a server takes on less, given readings of its memory.
//!
//! Invariants: a step applies those before it; a step that has begun ends only once the use is
//! [`HYSTERESIS_PERCENT`] below the percentage at which it begins, or a quarter of that percentage
//! if that is less, so that a use around it does not change the step with each reading, and every
//! step can end.
//!
//! Source: Linux, `Documentation/accounting/psi.rst`.

/// A step of memory pressure.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub enum PressureStep {
    /// Memory is not short.
    #[default]
    None,
    /// New connections are refused.
    RefuseConnections,
    /// Large messages are refused.
    RefuseMessages,
    /// Notification streams are ended and refused.
    EndStreams,
    /// The connections for which most is held are closed.
    CloseSlowest,
}

impl PressureStep {
    const STEPS: [Self; 4] =
        [Self::RefuseConnections, Self::RefuseMessages, Self::EndStreams, Self::CloseSlowest];

    /// Returns the name of the step in the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::RefuseConnections => "refuse_connections",
            Self::RefuseMessages => "refuse_messages",
            Self::EndStreams => "end_streams",
            Self::CloseSlowest => "close_slowest",
        }
    }

    /// Returns the number of the step, 0 to 4.
    pub const fn number(self) -> u8 {
        self as u8
    }
}

/// When the steps begin.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PressureRules {
    /// Percentage of used memory at which each step begins; 0 leaves the step out.
    pub begins_at: [u8; 4],
    /// Percentage of time in which tasks waited for memory, from which the next step applies; 0
    /// ignores it.
    pub stalled_percent: u8,
}

impl PressureRules {
    /// Returns whether there is a step.
    pub fn is_enabled(self) -> bool {
        self.begins_at.iter().any(|percent| *percent > 0)
    }

    /// Returns the highest step that begins at `permille` or below.
    fn step_begun(self, permille: u16) -> PressureStep {
        self.highest_step(|begins_at| permille >= begins_at)
    }

    /// Returns the highest step that, once begun, lasts at `permille`.
    fn step_lasting(self, permille: u16) -> PressureStep {
        self.highest_step(|begins_at| {
            permille >= begins_at - (begins_at / 4).min(10 * u16::from(HYSTERESIS_PERCENT))
        })
    }

    /// Returns the highest step that applies, given the thousandths at which it begins.
    fn highest_step(self, applies: impl Fn(u16) -> bool) -> PressureStep {
        let steps = PressureStep::STEPS.into_iter().zip(self.begins_at);
        let applying =
            steps.filter(|(_, percent)| *percent > 0 && applies(10 * u16::from(*percent)));
        applying.map(|(step, _)| step).max().unwrap_or_default()
    }

    /// Returns the step of the rules behind `step`, or `step` if it is the last.
    fn next_step(self, step: PressureStep) -> PressureStep {
        let mut steps = PressureStep::STEPS.into_iter().zip(self.begins_at);
        let next = steps.find(|(next, begins_at)| *begins_at > 0 && *next > step);
        next.map_or(step, |(next, _)| next)
    }
}

/// The use of memory at a time.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct MemoryReading {
    /// Bytes in use that cannot be reclaimed.
    pub used_bytes: u64,
    /// Bytes that may be used.
    pub limit_bytes: u64,
    /// Percentage of the last 10 seconds in which some task waited for memory.
    pub stalled_percent: u8,
}

impl MemoryReading {
    /// Returns the percentage of the memory that is used, at most 100; 0 without a limit.
    pub fn used_percent(&self) -> u8 {
        u8::try_from(self.used_permille() / 10).unwrap_or(100)
    }

    /// Returns the thousandths of the memory that are used, at most 1,000; 0 without a limit.
    pub fn used_permille(&self) -> u16 {
        let used = u128::from(self.used_bytes) * 1_000;
        let permille = used.checked_div(u128::from(self.limit_bytes)).unwrap_or_default();
        u16::try_from(permille).map_or(1_000, |permille| permille.min(1_000))
    }
}

/// The current step.
#[derive(Clone, Copy, Debug, Default)]
pub struct PressureGuard {
    step: PressureStep,
}

impl PressureGuard {
    /// Returns the current step.
    pub const fn step(self) -> PressureStep {
        self.step
    }

    /// Applies a reading. Returns whether the step has changed.
    pub fn update(&mut self, rules: PressureRules, reading: &MemoryReading) -> bool {
        let (permille, stalled) = (reading.used_permille(), reading.stalled_percent);
        let limit = rules.stalled_percent;
        let reaches = |percent| limit > 0 && stalled >= percent;
        let (begins, lasts) = (reaches(limit), reaches(limit.div_ceil(2)));
        let step = |step, is_stalled| if is_stalled { rules.next_step(step) } else { step };
        let least = step(rules.step_begun(permille), begins);
        let most = step(rules.step_lasting(permille), begins || lasts);
        let before = self.step;
        self.step = before.clamp(least, most.max(least));
        self.step != before
    }
}

/// Percentage of memory by which the use has to fall below the begin of a step to end it, unless a
/// quarter of the begin is less.
pub const HYSTERESIS_PERCENT: u8 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: PressureRules = PressureRules { begins_at: [80, 85, 0, 95], stalled_percent: 20 };

    /// Returns the numbers of the steps after readings of these percentages, used and stalled.
    fn steps(readings: &[(u64, u8)]) -> Vec<u8> {
        let mut guard = PressureGuard::default();
        let numbers = readings.iter().map(|&(used_bytes, stalled_percent)| {
            let before = guard.step();
            let reading = MemoryReading { used_bytes, limit_bytes: 100, stalled_percent };
            assert_eq!(guard.update(RULES, &reading), guard.step() != before);
            guard.step().number()
        });
        numbers.collect()
    }

    #[test]
    fn step_begins_at_its_percentage() {
        assert_eq!(
            steps(&[(79, 0), (80, 0), (84, 0), (85, 0), (94, 0), (95, 0)]),
            [0, 1, 1, 2, 2, 4]
        );
        assert_eq!(steps(&[(1_000, 0)]), [4]);
    }

    #[test]
    fn step_ends_below_its_percentage_only() {
        assert_eq!(steps(&[(95, 0), (90, 0), (89, 0), (80, 0), (79, 0)]), [4, 4, 2, 2, 1]);
        assert_eq!(steps(&[(80, 0), (79, 0), (75, 0), (74, 0)]), [1, 1, 1, 0]);
    }

    #[test]
    fn every_step_ends_as_use_falls() {
        for percent in 1..=100_u8 {
            let rules = PressureRules { begins_at: [percent, 0, 0, 0], stalled_percent: 0 };
            let mut guard = PressureGuard::default();
            let mut step_at = |used_bytes| {
                let reading = MemoryReading { used_bytes, limit_bytes: 10_000, stalled_percent: 0 };
                guard.update(rules, &reading);
                guard.step().number()
            };
            let begin = 100 * u64::from(percent);
            // Thousandths count.
            let last = begin - (begin / 4 / 10 * 10).min(500);
            assert_eq!([begin - 10, begin, begin - 10].map(&mut step_at), [0, 1, 1], "{percent} %");
            assert_eq!([last, last - 10, begin - 10].map(step_at), [1, 0, 0], "{percent} %");
        }
    }

    #[test]
    fn stalled_tasks_begin_the_next_step() {
        assert_eq!(steps(&[(10, 19), (10, 20), (10, 10), (10, 9)]), [0, 1, 1, 0]);
        assert_eq!(steps(&[(85, 20), (99, 90)]), [4, 4]);
    }

    #[test]
    fn stall_of_one_percent_ends() {
        let rules = PressureRules { stalled_percent: 1, ..RULES };
        let mut guard = PressureGuard::default();
        let numbers = [1, 0].map(|stalled_percent| {
            let reading = MemoryReading { used_bytes: 10, limit_bytes: 100, stalled_percent };
            guard.update(rules, &reading);
            guard.step().number()
        });
        assert_eq!(numbers, [1, 0]);
    }

    #[test]
    fn unknown_limit_is_no_pressure() {
        let reading = MemoryReading { used_bytes: 9, limit_bytes: 0, stalled_percent: 0 };
        assert_eq!(reading.used_percent(), 0);
        assert!(!PressureRules::default().is_enabled() && RULES.is_enabled());
    }
}
