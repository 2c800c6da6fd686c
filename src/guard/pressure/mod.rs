//! Memory pressure: by which steps a server takes on less, given readings of its memory.
//!
//! Invariants: a step applies those before it; a step that has begun ends only once the use is
//! [`HYSTERESIS_PERCENT`] below the percentage at which it begins, so that a use around it does not
//! change the step with each reading.
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

    /// Returns the highest step that applies at `percent`.
    fn step_at(self, percent: u8) -> PressureStep {
        let steps = PressureStep::STEPS.into_iter().zip(self.begins_at);
        let reached = steps.filter(|(_, begins_at)| *begins_at > 0 && percent >= *begins_at);
        reached.map(|(step, _)| step).max().unwrap_or_default()
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
        let percent = u128::from(self.used_bytes) * 100 / u128::from(self.limit_bytes.max(1));
        let percent = if self.limit_bytes == 0 { 0 } else { percent };
        u8::try_from(percent).map_or(100, |percent| percent.min(100))
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
        let (percent, stalled) = (reading.used_percent(), reading.stalled_percent);
        let limit = rules.stalled_percent;
        let (begins, lasts) = (limit > 0 && stalled >= limit, limit > 0 && stalled >= limit / 2);
        let step = |percent, is_stalled| {
            let step = rules.step_at(percent);
            if is_stalled { rules.next_step(step) } else { step }
        };
        let least = step(percent, begins);
        let most = step(percent.saturating_add(HYSTERESIS_PERCENT), begins || lasts);
        let before = self.step;
        self.step = before.clamp(least, most.max(least));
        self.step != before
    }
}

/// Percentage of memory by which the use has to fall below the begin of a step to end it.
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
    fn stalled_tasks_begin_the_next_step() {
        assert_eq!(steps(&[(10, 19), (10, 20), (10, 10), (10, 9)]), [0, 1, 1, 0]);
        assert_eq!(steps(&[(85, 20), (99, 90)]), [4, 4]);
    }

    #[test]
    fn unknown_limit_is_no_pressure() {
        let reading = MemoryReading { used_bytes: 9, limit_bytes: 0, stalled_percent: 0 };
        assert_eq!(reading.used_percent(), 0);
        assert!(!PressureRules::default().is_enabled() && RULES.is_enabled());
    }
}
