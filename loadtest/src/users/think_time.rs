//! Pauses of a user before a step.

use std::time::Duration;

use corelane_base::random::Random;

/// Standard normal quantile of the 95th percentile.
const QUANTILE_95: f64 = 1.644_853_626_951_472_2;
/// Longest pause.
const THINK_MAX: Duration = Duration::from_hours(24);

/// Distribution of a pause.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ThinkTime {
    /// Always the same.
    Fixed(Duration),
    /// Evenly distributed between two times.
    Uniform {
        /// Shortest.
        min: Duration,
        /// Longest.
        max: Duration,
    },
    /// Log-normal: most pauses are short, a few are long, as those of people are.
    Lognormal {
        /// Half of the pauses are shorter.
        median: Duration,
        /// 95 % of the pauses are shorter.
        p95: Duration,
    },
}

impl ThinkTime {
    /// Draws a pause.
    pub fn draw(self, random: &mut Random) -> Duration {
        match self {
            Self::Fixed(time) => time,
            Self::Uniform { min, max } => min + max.saturating_sub(min).mul_f64(fraction(random)),
            Self::Lognormal { median, p95 } => {
                let sigma = (p95.as_secs_f64() / median.as_secs_f64()).ln() / QUANTILE_95;
                let seconds = median.as_secs_f64() * (sigma * standard_normal(random)).exp();
                Duration::try_from_secs_f64(seconds).unwrap_or(THINK_MAX).min(THINK_MAX)
            }
        }
    }
}

/// Returns a number from 0 to below 1.
#[expect(clippy::cast_precision_loss, reason = "the upper 53 bits fit")]
pub(super) fn fraction(random: &mut Random) -> f64 {
    (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Returns a number of the standard normal distribution (Box and Muller).
fn standard_normal(random: &mut Random) -> f64 {
    let (one, other) = (1.0 - fraction(random), fraction(random));
    (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * other).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns 10,000 sorted pauses.
    fn draws(think: ThinkTime) -> Vec<Duration> {
        let mut random = Random::seeded(7);
        let mut draws: Vec<_> = (0..10_000).map(|_| think.draw(&mut random)).collect();
        draws.sort();
        draws
    }

    #[test]
    fn uniform_pauses_fill_their_range() {
        let [min, max] = [1, 3].map(Duration::from_secs);
        let draws = draws(ThinkTime::Uniform { min, max });
        assert!(draws[0] >= min && draws[0] < min + Duration::from_millis(10));
        assert!(draws[9_999] <= max && draws[9_999] + Duration::from_millis(10) > max);
        assert!(draws[5_000].abs_diff(Duration::from_secs(2)) < Duration::from_millis(50));
    }

    #[test]
    fn lognormal_pauses_have_median_and_percentile() {
        let [median, p95] = [2, 8].map(Duration::from_secs);
        let draws = draws(ThinkTime::Lognormal { median, p95 });
        assert!(draws[5_000].abs_diff(median) < Duration::from_millis(100), "{:?}", draws[5_000]);
        assert!(draws[9_500].abs_diff(p95) < Duration::from_millis(600), "{:?}", draws[9_500]);
    }
}
