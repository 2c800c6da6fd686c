//! Time values: a monotonic [`Instant`] and the conversion to Unix time.
//!
//! The engine's clock is read once a turn and the result is passed down as an argument; code
//! outside the engine never reads a clock. Intervals are [`std::time::Duration`].

use std::time::Duration;

/// A point in monotonic time: nanoseconds since the origin of the engine's clock.
///
/// The simulator uses an origin of its own, so that runs are repeatable.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Instant(u64);

impl Instant {
    /// The clock's origin (0 ns).
    pub const ORIGIN: Self = Self(0);

    /// Returns the instant `nanoseconds` after the origin.
    pub const fn from_nanoseconds(nanoseconds: u64) -> Self {
        Self(nanoseconds)
    }

    /// Returns the instant `milliseconds` after the origin.
    pub const fn from_milliseconds(milliseconds: u64) -> Self {
        Self(milliseconds.saturating_mul(1_000_000))
    }

    /// Returns the nanoseconds since the origin.
    pub const fn nanoseconds(self) -> u64 {
        self.0
    }

    /// Returns the milliseconds since the origin, rounded down.
    pub const fn milliseconds(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Returns the instant `duration` later, saturating at `u64::MAX` ns (584 years).
    #[must_use]
    pub const fn after(self, duration: Duration) -> Self {
        let nanoseconds = duration.as_nanos();
        if nanoseconds > (u64::MAX - self.0) as u128 {
            return Self(u64::MAX);
        }
        #[expect(clippy::cast_possible_truncation, reason = "the branch above bounds it")]
        Self(self.0 + nanoseconds as u64)
    }

    /// Returns the duration from `earlier` to `self`, or zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Returns the earliest of several deadlines; `None` is none, and so is `u64::MAX` ns.
    #[inline]
    pub fn earliest<const COUNT: usize>(deadlines: [Option<Self>; COUNT]) -> Option<Self> {
        const NEVER: Instant = Instant(u64::MAX);
        let deadlines = deadlines.map(|deadline| deadline.unwrap_or(NEVER));
        let first = deadlines.into_iter().fold(NEVER, Self::min);
        (first != NEVER).then_some(first)
    }
}

/// Maps instants of a monotonic clock to Unix time.
///
/// Fixed at start: later changes of the system's wall clock have no effect.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct WallClock {
    origin_unix_ms: u64,
}

impl WallClock {
    /// Creates the mapping in which `instant` is `unix_ms` milliseconds after 1970-01-01 UTC.
    pub const fn at(instant: Instant, unix_ms: u64) -> Self {
        Self { origin_unix_ms: unix_ms.saturating_sub(instant.milliseconds()) }
    }

    /// Returns the milliseconds from 1970-01-01 UTC to `instant`.
    pub const fn unix_ms(self, instant: Instant) -> u64 {
        self.origin_unix_ms.saturating_add(instant.milliseconds())
    }
}

/// Returns year, month and day of the proleptic Gregorian calendar, `days` after 1970-01-01. Counts
/// in years that begin in March, so that the leap day is the last day of a year.
///
/// Source: Howard Hinnant, "chrono-compatible low-level date algorithms", `civil_from_days`.
pub const fn civil_date(days: u64) -> (u64, u64, u64) {
    let days = days.saturating_add(DAYS_BEFORE_1970);
    let (era, of_era) = (days / CYCLE_DAYS, days % CYCLE_DAYS);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / (CYCLE_DAYS - 1)) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400;
    (if month <= 2 { year + 1 } else { year }, month, day)
}

/// Days of a 400-year cycle of the Gregorian calendar.
const CYCLE_DAYS: u64 = 146_097;
/// Days from 0000-03-01 to 1970-01-01.
const DAYS_BEFORE_1970: u64 = 719_468;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instant_addition_saturates() {
        let end = Instant::from_nanoseconds(u64::MAX - 1).after(Duration::from_secs(5));
        assert_eq!(end, Instant::from_nanoseconds(u64::MAX));
    }

    #[test]
    fn wall_clock_converts_instants_around_its_anchor() {
        let wall_clock = WallClock::at(Instant::from_milliseconds(40), 1_000);
        assert_eq!(wall_clock.unix_ms(Instant::from_milliseconds(50)), 1_010);
        assert_eq!(wall_clock.unix_ms(Instant::ORIGIN), 960);
    }

    #[test]
    fn earliest_deadline_ignores_missing_ones() {
        let at = Instant::from_milliseconds;
        assert_eq!(Instant::earliest([None, Some(at(7)), Some(at(3)), None]), Some(at(3)));
        assert_eq!(Instant::earliest([Some(Instant::ORIGIN), None]), Some(Instant::ORIGIN));
        let never = Instant::from_nanoseconds(u64::MAX);
        assert_eq!(Instant::earliest([None, Some(never)]), None);
        assert_eq!(Instant::earliest([]), None);
    }

    #[test]
    fn duration_since_a_later_instant_is_zero() {
        let early = Instant::from_milliseconds(3);
        let late = early.after(Duration::from_millis(4));
        assert_eq!(late.since(early), Duration::from_millis(4));
        assert_eq!(early.since(late), Duration::ZERO);
    }

    #[test]
    fn civil_date_counts_every_day_of_400_years() {
        let is_leap = |year: u64| {
            year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
        };
        let mut expected = (1970, 1, 1);
        for days in 0..CYCLE_DAYS {
            assert_eq!(civil_date(days), expected);
            let (year, month, day) = expected;
            let length = match month {
                2 => 28 + u64::from(is_leap(year)),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            expected = match (day < length, month < 12) {
                (true, _) => (year, month, day + 1),
                (false, true) => (year, month + 1, 1),
                (false, false) => (year + 1, 1, 1),
            };
        }
    }
}
