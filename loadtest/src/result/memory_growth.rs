//! Growth of the memory of the server over the measured window, with its confidence.
//!
//! The growth is the slope of the linear regression over the samples of each second. Neighbouring
//! samples depend on each other, so their scatter around the line does not tell how far the slope
//! can be trusted: memory that wanders without a trend has a slope, too. The interval therefore
//! comes from the differences between the means of ten blocks of samples: they scatter little only
//! if the memory grows at the same pace in all of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::figure;
use crate::metrics::second::{RATE_SPAN_S_MIN, SecondResult};

/// Blocks of samples, each with a sample or more.
const BLOCKS: usize = 10;
/// Quantile 0.975 of Student's t distribution for the differences of the blocks: 8 degrees of
/// freedom.
const T_QUANTILE: f64 = 2.306;
/// How much the scatter of the differences understates the error of their mean for memory that
/// wanders: neighbouring differences then correlate by a quarter.
const CORRELATION_FACTOR: f64 = 1.2;
const SECONDS_PER_MINUTE: f64 = 60.0;

/// Growth of the resident memory of the server, in bytes a minute, with the interval that contains
/// the true growth in 95 of 100 runs.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct MemoryGrowth {
    /// The growth.
    pub bytes_per_minute: f64,
    /// Lower end of the interval.
    pub low_bytes_per_minute: f64,
    /// Upper end of the interval.
    pub high_bytes_per_minute: f64,
}

/// Memory at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    seconds: f64,
    bytes: f64,
}

impl MemoryGrowth {
    /// Fewest seconds from which it is determined.
    pub const SECONDS_MIN: usize = BLOCKS;

    /// Returns the growth over the measured seconds, or `None` with too few samples.
    #[expect(clippy::cast_precision_loss, reason = "bytes of memory")]
    pub(super) fn of(seconds: &[SecondResult]) -> Option<Self> {
        let measured = seconds.iter().filter(|second| second.span_s >= RATE_SPAN_S_MIN);
        let points = measured.filter_map(|second| {
            Some(Point { seconds: second.at_s, bytes: second.server_resident_bytes? as f64 })
        });
        Self::of_points(&points.collect::<Vec<_>>())
    }

    fn of_points(points: &[Point]) -> Option<Self> {
        if points.len() < BLOCKS {
            return None;
        }
        let slope = slope(points) * SECONDS_PER_MINUTE;
        let half = half_width(points) * SECONDS_PER_MINUTE;
        (slope.is_finite() && half.is_finite()).then_some(Self {
            bytes_per_minute: slope,
            low_bytes_per_minute: slope - half,
            high_bytes_per_minute: slope + half,
        })
    }

    /// Formats it: `growth +12.0 MiB/min (95 %: +10.0 to +14.0)`.
    pub fn text(&self) -> String {
        let all = [self.bytes_per_minute, self.low_bytes_per_minute, self.high_bytes_per_minute];
        let largest = all.into_iter().map(f64::abs).fold(0.0, f64::max);
        let (divisor, unit) = figure::byte_unit(largest);
        let [growth, low, high] = all.map(|bytes| signed(bytes / divisor));
        format!("growth {growth} {unit}/min (95 %: {low} to {high})")
    }
}

/// Formats a number with its sign; zero has none.
fn signed(value: f64) -> String {
    let text = figure::digits(value.abs());
    let is_zero = text.bytes().all(|byte| matches!(byte, b'0' | b'.'));
    match (is_zero, value > 0.0) {
        (true, _) => "0".into(),
        (false, true) => format!("+{text}"),
        (false, false) => format!("-{text}"),
    }
}

/// Returns the slope of the linear regression, in bytes a second.
fn slope(points: &[Point]) -> f64 {
    let middle = mean(points);
    let sum = |product: fn(f64, f64) -> f64| {
        let distances = points
            .iter()
            .map(|point| product(point.seconds - middle.seconds, point.bytes - middle.bytes));
        distances.sum::<f64>()
    };
    sum(|seconds, bytes| seconds * bytes) / sum(|seconds, _| seconds * seconds)
}

/// Returns half the width of the 95 % interval of the slope, in bytes a second.
#[expect(clippy::cast_precision_loss, reason = "a small count")]
fn half_width(points: &[Point]) -> f64 {
    let border = |block: usize| block * points.len() / BLOCKS;
    let blocks = (0..BLOCKS).map(|block| mean(&points[border(block)..border(block + 1)]));
    let blocks: Vec<Point> = blocks.collect();
    let pairs = blocks.windows(2).map(|pair| {
        let [first, second] = [pair[0], pair[1]];
        (second.bytes - first.bytes) / (second.seconds - first.seconds)
    });
    let paces: Vec<f64> = pairs.collect();
    let count = paces.len() as f64;
    let pace = paces.iter().sum::<f64>() / count;
    let squares: f64 = paces.iter().map(|other| (other - pace).powi(2)).sum();
    T_QUANTILE * CORRELATION_FACTOR * (squares / (count - 1.0) / count).sqrt()
}

#[expect(clippy::cast_precision_loss, reason = "a small count")]
fn mean(points: &[Point]) -> Point {
    let count = points.len() as f64;
    Point {
        seconds: points.iter().map(|point| point.seconds).sum::<f64>() / count,
        bytes: points.iter().map(|point| point.bytes).sum::<f64>() / count,
    }
}

#[cfg(test)]
mod tests {
    use corelane_base::random::Random;

    use super::*;

    const MIB: f64 = 1_048_576.0;
    /// Series of each kind, and how many of them may miss the true growth.
    const SERIES: usize = 400;
    const MISSES_MAX: usize = SERIES * 8 / 100;

    /// Returns points a second apart.
    fn points(count: u32, bytes: impl FnMut(f64) -> f64) -> Vec<Point> {
        let seconds = (0..count).map(f64::from);
        seconds
            .clone()
            .zip(seconds.map(bytes))
            .map(|(seconds, bytes)| Point { seconds, bytes })
            .collect()
    }

    /// Returns a value from -0.5 to 0.5.
    fn noise(random: &mut Random) -> f64 {
        f64::from(u32::try_from(random.below(1_000_001)).unwrap()) / 1e6 - 0.5
    }

    /// Returns how many series with this growth have an interval without it. `next` returns the
    /// deviation that follows one.
    fn misses(count: u32, mib_per_minute: f64, next: fn(&mut Random, f64) -> f64) -> usize {
        let mut random = Random::seeded(7);
        let is_missed = |_: &usize| {
            let mut deviation = 0.0;
            let growth = MemoryGrowth::of_points(&points(count, |seconds| {
                deviation = next(&mut random, deviation);
                (seconds / 60.0 * mib_per_minute + deviation) * MIB
            }));
            let growth = growth.unwrap();
            let range = growth.low_bytes_per_minute..=growth.high_bytes_per_minute;
            !range.contains(&(mib_per_minute * MIB))
        };
        (0..SERIES).filter(is_missed).count()
    }

    #[test]
    fn interval_contains_growth_of_dependent_samples() {
        for count in [10, 30, 120] {
            for growth in [0.0, 12.0, -3.0] {
                let independent = misses(count, growth, |random, _| noise(random));
                let dependent = misses(count, growth, |random, last| 0.9 * last + noise(random));
                let wandering = misses(count, growth, |random, last| last + noise(random));
                for missed in [independent, dependent, wandering] {
                    assert!(missed <= MISSES_MAX, "{count} {growth}: {missed} of {SERIES}");
                }
            }
        }
    }

    #[test]
    fn steady_growth_is_found_within_tenth() {
        let mut random = Random::seeded(3);
        let leak = points(60, |seconds| (64.0 + seconds * 0.2 + 0.2 * noise(&mut random)) * MIB);
        let growth = MemoryGrowth::of_points(&leak).unwrap();
        assert!((growth.bytes_per_minute / MIB - 12.0).abs() < 0.6, "{growth:?}");
        assert!(growth.low_bytes_per_minute > 10.8 * MIB, "{growth:?}");
        assert!(growth.high_bytes_per_minute < 13.2 * MIB, "{growth:?}");
    }

    #[test]
    fn growth_in_the_beginning_only_is_uncertain() {
        let plateau = points(60, |seconds| 64.0 * MIB * (1.0 - (-seconds / 6.0).exp()));
        let growth = MemoryGrowth::of_points(&plateau).unwrap();
        assert!(growth.bytes_per_minute > 0.0 && growth.low_bytes_per_minute < 0.0, "{growth:?}");
        assert!(MemoryGrowth::of_points(&plateau[..9]).is_none());
    }

    #[test]
    fn samples_outside_the_window_are_ignored() {
        let second = |at: u32| SecondResult {
            at_s: f64::from(at),
            span_s: if (3..=13).contains(&at) { 1.0 } else { 0.0 },
            server_resident_bytes: Some(if at < 3 { 0 } else { 1 << 20 }),
            ..SecondResult::default()
        };
        let seconds: Vec<SecondResult> = (1..=15).map(second).collect();
        assert_eq!(MemoryGrowth::of(&seconds), Some(MemoryGrowth::default()));
        assert_eq!(MemoryGrowth::of(&seconds[..11]), None);
    }

    #[test]
    fn text_has_one_unit_and_signs() {
        let growth = |growth: f64, half: f64| MemoryGrowth {
            bytes_per_minute: growth,
            low_bytes_per_minute: growth - half,
            high_bytes_per_minute: growth + half,
        };
        let text = growth(12.0 * MIB, 2.0 * MIB).text();
        assert_eq!(text, "growth +12.0 MiB/min (95 %: +10.0 to +14.0)");
        assert_eq!(growth(0.0, 0.0).text(), "growth 0 KiB/min (95 %: 0 to 0)");
        let text = growth(-2_048.0, 4_096.0).text();
        assert_eq!(text, "growth -2.00 KiB/min (95 %: -6.00 to +2.00)");
    }
}
