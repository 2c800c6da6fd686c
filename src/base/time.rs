//! Time as an argument.
//!
//! A [`Moment`] is read once a turn by the engine's clock and handed down; nothing below the
//! engine asks for the time. Spans between moments are [`std::time::Duration`].

use std::time::Duration;

/// A point in monotonic time: nanoseconds since an origin that the engine's clock chose.
///
/// The simulator chooses its own origin, so that a run is the same every time.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Moment(u64);

impl Moment {
    /// The origin itself.
    pub const ORIGIN: Self = Self(0);

    /// The moment `nanoseconds` after the origin.
    pub const fn from_nanoseconds(nanoseconds: u64) -> Self {
        Self(nanoseconds)
    }

    /// The moment `milliseconds` after the origin.
    pub const fn from_milliseconds(milliseconds: u64) -> Self {
        Self(milliseconds.saturating_mul(1_000_000))
    }

    /// Nanoseconds since the origin.
    pub const fn nanoseconds(self) -> u64 {
        self.0
    }

    /// Whole milliseconds since the origin, rounded down.
    pub const fn milliseconds(self) -> u64 {
        self.0 / 1_000_000
    }

    /// The moment `span` later; saturates at the end of time (584 years).
    #[must_use]
    pub const fn after(self, span: Duration) -> Self {
        let nanoseconds = span.as_nanos();
        if nanoseconds > (u64::MAX - self.0) as u128 {
            return Self(u64::MAX);
        }
        #[expect(clippy::cast_possible_truncation, reason = "the branch above bounds it")]
        Self(self.0 + nanoseconds as u64)
    }

    /// The span from `earlier` to this moment; zero where `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Where the moments of one clock stand in the calendar.
///
/// Fixed when a server starts: what is set on the wall clock later changes nothing here.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Calendar {
    origin_unix_ms: u64,
}

impl Calendar {
    /// The calendar in which `moment` is `unix_ms` milliseconds after the beginning of 1970 (UTC).
    pub const fn at(moment: Moment, unix_ms: u64) -> Self {
        Self { origin_unix_ms: unix_ms.saturating_sub(moment.milliseconds()) }
    }

    /// Milliseconds from the beginning of 1970 (UTC) to `moment`.
    pub const fn unix_ms(self, moment: Moment) -> u64 {
        self.origin_unix_ms.saturating_add(moment.milliseconds())
    }
}

/// Year, month and day of the civil calendar, `days` after 1970-01-01. Counted in years that start
/// with March, so that the day that some years lack is their last one.
///
/// Source: Howard Hinnant, "chrono-compatible low-level date algorithms", `civil_from_days`.
pub const fn civil_date(days: u64) -> (u64, u64, u64) {
    let days = days.saturating_add(DAYS_BEFORE_1970);
    let (era, of_era) = (days / ERA_DAYS, days % ERA_DAYS);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / (ERA_DAYS - 1)) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400;
    (if month <= 2 { year + 1 } else { year }, month, day)
}

/// Days of the 400 years after which the calendar repeats itself.
const ERA_DAYS: u64 = 146_097;
/// Days from 0000-03-01 to 1970-01-01.
const DAYS_BEFORE_1970: u64 = 719_468;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_saturates_instead_of_wrapping() {
        let end = Moment::from_nanoseconds(u64::MAX - 1).after(Duration::from_secs(5));
        assert_eq!(end, Moment::from_nanoseconds(u64::MAX));
    }

    #[test]
    fn a_calendar_dates_moments_before_and_after_the_one_it_was_set_at() {
        let calendar = Calendar::at(Moment::from_milliseconds(40), 1_000);
        assert_eq!(calendar.unix_ms(Moment::from_milliseconds(50)), 1_010);
        assert_eq!(calendar.unix_ms(Moment::ORIGIN), 960);
    }

    #[test]
    fn the_span_to_a_later_moment_is_zero() {
        let early = Moment::from_milliseconds(3);
        let late = early.after(Duration::from_millis(4));
        assert_eq!(late.since(early), Duration::from_millis(4));
        assert_eq!(early.since(late), Duration::ZERO);
    }

    #[test]
    fn every_day_of_four_centuries_follows_the_one_before() {
        let is_leap = |year: u64| {
            year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
        };
        let mut expected = (1970, 1, 1);
        for days in 0..ERA_DAYS {
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
