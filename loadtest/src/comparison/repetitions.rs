//! How many runs a side a comparison needs to show a change.
//!
//! The number of samples of a rank test with level `a` and power `b` for a change of a ratio `r`,
//! with logarithms of standard deviation `s`, is `2 ((z(1 - a / 2) + z(b)) s / ln r)² / e`, where
//! `e = 3 / π` is the efficiency of the test relative to that of Student.
//!
//! Source: Lehmann, "Nonparametrics: Statistical Methods Based on Ranks" (1975), section 2.4.

use serde::Serialize;

use super::{COMPARED_FIGURES, ComparisonOptions};
use crate::result::RunResult;
use crate::significance::{normal_quantile, p_value_min};

/// Probability of showing the change.
pub const POWER: f64 = 0.8;
/// Standard deviation that is assumed, as a ratio, where fewer than two runs were measured.
pub const SPREAD_ASSUMED: f64 = 0.03;
/// Smallest change that is considered.
const CHANGE_MIN: f64 = 0.001;
/// Smallest number of runs with which ranks are compared.
const RUNS_MIN: usize = 4;
/// Largest number that is returned.
const RUNS_MAX: usize = 10_000;

/// The runs a side that show a change of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Repetitions {
    /// Name of the figure.
    pub figure: &'static str,
    /// Standard deviation of the runs, as a ratio, or `None` if it is assumed.
    pub spread: Option<f64>,
    /// Runs a side.
    pub runs: usize,
}

/// Returns the repetitions of each figure that was measured, or of all with the assumed spread if
/// there are no results. A change is as large as the tolerance.
pub fn repetitions(sides: &[&[RunResult]], options: ComparisonOptions) -> Vec<Repetitions> {
    let is_empty = sides.iter().all(|side| side.is_empty());
    let needed = COMPARED_FIGURES.iter().filter_map(|question| {
        let values = sides.iter().map(|side| side.iter().filter_map(question.of_run).collect());
        let values: Vec<Vec<f64>> = values.collect();
        let is_measured = values.iter().any(|side| !side.is_empty());
        let spread = spread(&values);
        (is_measured || is_empty).then(|| Repetitions {
            figure: question.figure,
            spread,
            runs: runs_needed(spread.unwrap_or(SPREAD_ASSUMED), options),
        })
    });
    needed.collect()
}

/// Returns the pooled standard deviation of the logarithms, or `None` if no side has two values.
fn spread(sides: &[Vec<f64>]) -> Option<f64> {
    let (mut squares, mut degrees) = (0.0, 0.0);
    for side in sides.iter().filter(|side| side.len() > 1) {
        let logarithms: Vec<f64> = side.iter().map(|value| value.ln()).collect();
        let mean = logarithms.iter().sum::<f64>() / float(side.len());
        squares += logarithms.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        degrees += float(side.len() - 1);
    }
    (degrees > 0.0).then(|| (squares / degrees).sqrt())
}

/// Returns the runs a side for a change of the tolerance in one of all figures.
fn runs_needed(spread: f64, options: ComparisonOptions) -> usize {
    let level = options.level / float(COMPARED_FIGURES.len());
    let change = options.tolerance.max(CHANGE_MIN).ln_1p();
    let quantiles = normal_quantile(1.0 - level / 2.0) + normal_quantile(POWER);
    let efficiency = 3.0 / std::f64::consts::PI;
    let samples = 2.0 * (quantiles * spread / change).powi(2) / efficiency;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, and saturating"
    )]
    let samples = samples.ceil() as usize;
    // Few samples cannot be significant at all.
    let least = (RUNS_MIN..RUNS_MAX).find(|runs| p_value_min(*runs, *runs) < level);
    samples.clamp(least.unwrap_or(RUNS_MIN), RUNS_MAX)
}

#[expect(clippy::cast_precision_loss, reason = "numbers of runs and figures")]
const fn float(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use corelane_base::random::Random;

    use super::*;
    use crate::comparison::tests::result;
    use crate::significance::Difference;

    #[test]
    fn wider_spread_and_smaller_change_need_more_runs() {
        let options = ComparisonOptions::default();
        let needed = |spread| runs_needed(spread, options);
        assert_eq!(needed(0.001), 6, "the fewest that can be significant in nine tests");
        // 2 ((2.773 + 0.842) · 0.03 / 0.02956)² · π / 3.
        assert_eq!(needed(0.03), 29);
        assert!(needed(0.06) > 3 * needed(0.03));
        let wide = ComparisonOptions { tolerance: 0.2, ..options };
        assert!(runs_needed(0.03, wide) < 10);
        let none = ComparisonOptions { tolerance: 0.0, ..options };
        assert_eq!(runs_needed(1.0, none), RUNS_MAX);
    }

    #[test]
    fn spread_comes_from_the_first_results() {
        let runs = [100.0, 103.0, 98.0].map(|p99_us| result(1_000, p99_us, 4));
        let needed = repetitions(&[&runs], ComparisonOptions::default());
        let p99 = needed.iter().find(|it| it.figure == "p99").unwrap();
        assert!(p99.spread.is_some_and(|spread| (0.02..0.03).contains(&spread)), "{p99:?}");
        let rate = needed.iter().find(|it| it.figure == "rate").unwrap();
        assert_eq!((rate.spread, rate.runs), (Some(0.0), 6));
        let one = repetitions(&[&runs[..1]], ComparisonOptions::default());
        assert!(one.iter().all(|it| it.spread.is_none() && it.runs == 29), "{one:?}");
        let assumed = repetitions(&[], ComparisonOptions::default());
        assert_eq!(assumed.len(), COMPARED_FIGURES.len());
    }

    #[test]
    fn needed_runs_show_the_change() {
        let mut random = Random::seeded(7);
        let mut normal = |mean: f64| {
            #[expect(clippy::cast_precision_loss, reason = "numbers below a million")]
            let sum: f64 = (0..12).map(|_| random.below(1_000_000) as f64 / 1e6).sum();
            mean * (0.03 * (sum - 6.0)).exp()
        };
        let runs = runs_needed(0.03, ComparisonOptions::default());
        let mut sample = |mean: f64| (0..runs).map(|_| normal(mean)).collect::<Vec<f64>>();
        let level = 0.05 / float(COMPARED_FIGURES.len());
        let shown = (0..500)
            .filter(|_| Difference::between(&sample(1.0), &sample(1.03)).unwrap().p_value < level)
            .count();
        assert!((350..=450).contains(&shown), "{shown} of 500, expected 80 %");
    }
}
