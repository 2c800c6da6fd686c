//! How long calls took, counted in buckets that all threads share.
//!
//! Invariants: a histogram has [`BOUNDS`] buckets and one more, whatever is recorded; a duration is
//! recorded without a lock.

use std::fmt::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Bounds of one factor of ten, in hundredths.
const STEPS: [u64; 10] = [100, 125, 160, 200, 250, 315, 400, 500, 630, 800];
/// Factors of ten: from 0.1 ms to 1,000 s.
const DECADES: usize = 7;
/// Number of bounds.
const BOUNDS: usize = STEPS.len() * DECADES + 1;
/// The inclusive upper bounds of the buckets, in microseconds, the lowest first.
const BOUNDS_US: [u64; BOUNDS] = bounds();

/// Every factor of ten has these bounds in the metrics: 1, 2.5 and 5. The first is 1 ms.
const EXPOSED_STEPS: [usize; 3] = [0, 4, 7];
const FIRST_EXPOSED: usize = STEPS.len();
const LAST_EXPOSED_US: u64 = 500_000_000;

const fn bounds() -> [u64; BOUNDS] {
    let (mut bounds, mut at, mut factor) = ([0; BOUNDS], 0, 1);
    while at < BOUNDS {
        bounds[at] = STEPS[at % STEPS.len()] * factor;
        at += 1;
        if at.is_multiple_of(STEPS.len()) {
            factor *= 10;
        }
    }
    bounds
}

/// Durations of calls, from 0.1 ms to 1,000 s.
#[derive(Debug)]
pub struct Durations {
    buckets: [AtomicU64; BOUNDS + 1],
    sum_us: AtomicU64,
}

impl Default for Durations {
    fn default() -> Self {
        Self { buckets: [const { AtomicU64::new(0) }; BOUNDS + 1], sum_us: AtomicU64::new(0) }
    }
}

impl Durations {
    /// Records a duration.
    pub fn record(&self, duration: Duration) {
        let us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_US.partition_point(|bound| *bound < us);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    /// Returns the duration in milliseconds that the part `quantile` of all calls did not exceed:
    /// within 13 %, and 1,000 s at most. `None` before the first call.
    pub fn quantile_ms(&self, quantile: f64) -> Option<f64> {
        let counts = self.counts();
        let total: u64 = counts.iter().sum();
        if total == 0 {
            return None;
        }
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let rank = quantile * total as f64;
        let mut below = 0.0;
        for (at, count) in counts.into_iter().enumerate() {
            #[expect(clippy::cast_precision_loss, reason = "an estimate")]
            let count = count as f64;
            if count > 0.0 && below + count >= rank {
                let lower = at.checked_sub(1).map_or(0.0, bound_ms);
                let upper = bound_ms(at.min(BOUNDS - 1));
                return Some(lower + (upper - lower) * ((rank - below) / count));
            }
            below += count;
        }
        Some(bound_ms(BOUNDS - 1))
    }

    /// Writes the samples of a histogram of Prometheus. `labels` are those of each sample.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn write_samples(&self, out: &mut impl Write, metric: &str, labels: &str) -> fmt::Result {
        let counts = self.counts();
        let mut total = 0;
        for (at, count) in counts.into_iter().enumerate() {
            total += count;
            let is_exposed = at >= FIRST_EXPOSED && EXPOSED_STEPS.contains(&(at % STEPS.len()));
            match BOUNDS_US.get(at) {
                Some(us) if is_exposed && *us <= LAST_EXPOSED_US => {
                    let bound = Duration::from_micros(*us).as_secs_f64();
                    writeln!(out, "{metric}_bucket{{{labels},le=\"{bound}\"}} {total}")?;
                }
                _ => {}
            }
        }
        let sum = Duration::from_micros(self.sum_us.load(Ordering::Relaxed)).as_secs_f64();
        writeln!(out, "{metric}_bucket{{{labels},le=\"+Inf\"}} {total}")?;
        writeln!(out, "{metric}_sum{{{labels}}} {sum}")?;
        writeln!(out, "{metric}_count{{{labels}}} {total}")
    }

    fn counts(&self) -> [u64; BOUNDS + 1] {
        self.buckets.each_ref().map(|bucket| bucket.load(Ordering::Relaxed))
    }
}

fn bound_ms(at: usize) -> f64 {
    Duration::from_micros(BOUNDS_US[at]).as_secs_f64() * 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_bucket() {
        let durations = Durations::default();
        assert_eq!(durations.quantile_ms(0.5), None);
        for ms in 1..=1_000 {
            durations.record(Duration::from_millis(ms));
        }
        for (quantile, expected) in [(0.5, 500.0), (0.99, 990.0), (0.01, 10.0)] {
            let found = durations.quantile_ms(quantile).unwrap();
            assert!((found - expected).abs() <= expected * 0.13, "{quantile}: {found}");
        }
    }

    #[test]
    fn extreme_durations_are_counted_once() {
        let durations = Durations::default();
        for duration in [Duration::ZERO, Duration::from_micros(1), Duration::from_hours(9)] {
            durations.record(duration);
        }
        assert!(durations.quantile_ms(0.1).unwrap() <= 0.1);
        assert!((durations.quantile_ms(1.0).unwrap() - 1e6).abs() < 1.0);
        assert_eq!(durations.counts().iter().sum::<u64>(), 3);
    }

    #[test]
    fn samples_are_cumulative_and_in_seconds() {
        let durations = Durations::default();
        for ms in [1, 2, 3, 70, 2_000_000] {
            durations.record(Duration::from_millis(ms));
        }
        let mut text = String::new();
        durations.write_samples(&mut text, "m", "a=\"b\"").unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "m_bucket{a=\"b\",le=\"0.001\"} 1");
        assert_eq!(lines[1], "m_bucket{a=\"b\",le=\"0.0025\"} 2");
        assert_eq!(lines[2], "m_bucket{a=\"b\",le=\"0.005\"} 3");
        let rest = &lines[lines.len() - 4..];
        assert_eq!(
            rest,
            [
                "m_bucket{a=\"b\",le=\"500\"} 4",
                "m_bucket{a=\"b\",le=\"+Inf\"} 5",
                "m_sum{a=\"b\"} 2000.076",
                "m_count{a=\"b\"} 5",
            ]
        );
        assert_eq!(lines.len(), 18 + 3);
    }
}
