//! How many runs a side a comparison needs to show a change.
//!
//! The number of runs of Student's test with level `a` and power `b` for a change of a ratio `r`,
//! with logarithms of standard deviation `s`, is `2 ((z(1 - a / 2) + z(b)) s / ln r)² +
//! z(1 - a / 2)² / 4`. The permutation test needs about as many.
//!
//! Source: Guenther, "Sample Size Formulas for Normal Theory T Tests" (1981).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ComparisonOptions, RUNS_MAX, figures, float, runs_min};
use crate::plan::budgets::Figure;
use crate::result::RunResult;
use crate::significance::normal_quantile;

/// Probability of showing the change.
pub const POWER: f64 = 0.8;
/// Standard deviation that is assumed, as a ratio, where fewer than two runs were measured.
pub const SPREAD_ASSUMED: f64 = 0.03;
/// Smallest change that is considered.
const CHANGE_MIN: f64 = 0.001;

/// The runs a side that show a change of a figure as large as its budget.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Repetitions {
    /// The figure.
    pub figure: Figure,
    /// Standard deviation of the runs, as a ratio, or `None` if it is assumed.
    pub spread: Option<f64>,
    /// Runs a side.
    pub runs: usize,
}

/// Returns the repetitions of each tested figure that differs between runs, or of all with the
/// assumed spread if there are no results. Errors are not among them: their spread grows with them.
pub fn repetitions(sides: &[&[RunResult]], options: &ComparisonOptions) -> Vec<Repetitions> {
    let is_empty = sides.iter().all(|side| side.is_empty());
    let tested = Figure::ALL.into_iter().filter(|figure| !figure.is_ratio());
    let tested = tested.filter_map(|figure| Some((figure, options.budget(figure)?)));
    let tested: Vec<_> = tested.collect();
    let count = tested.len();
    let needed = tested.into_iter().filter_map(|(figure, budget)| {
        let all = sides.concat();
        if !is_empty && figures::samples(figure, &all, &[]).is_err() && all.len() > 1 {
            return None;
        }
        let values = |side: &&[RunResult]| {
            side.iter().filter_map(|run| figures::value(figure, run)).collect::<Vec<f64>>()
        };
        let spread = spread(&sides.iter().map(values).collect::<Vec<_>>());
        let runs = runs_needed(spread.unwrap_or(SPREAD_ASSUMED), budget, options.level, count);
        Some(Repetitions { figure, spread, runs })
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

/// Returns the runs a side for a change of one of `count` tested figures.
fn runs_needed(spread: f64, change: f64, level: f64, count: usize) -> usize {
    let change = change.max(CHANGE_MIN).ln_1p();
    let quantile = normal_quantile(1.0 - level / float(count.max(1)) / 2.0);
    let sum = quantile + normal_quantile(POWER);
    let samples = 2.0 * (sum * spread / change).powi(2) + quantile * quantile / 4.0;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, and saturating"
    )]
    let samples = samples.ceil() as usize;
    samples.clamp(runs_min(level, 1), RUNS_MAX)
}

#[cfg(test)]
mod tests {
    use corelane_base::random::Random;

    use super::*;
    use crate::comparison::tests::result;
    use crate::significance::{Samples, p_values};

    #[test]
    fn wider_spread_and_smaller_change_need_more_runs() {
        let needed = |spread, change| runs_needed(spread, change, 0.05, 7);
        assert_eq!(needed(0.001, 0.03), 4, "the fewest that can be significant");
        // 2 ((2.690 + 0.842) · 0.03 / 0.02956)² + 2.690² / 4.
        assert_eq!(needed(0.03, 0.03), 28);
        assert!(needed(0.06, 0.03) > 3 * needed(0.03, 0.03));
        assert!(needed(0.03, 0.2) < 10);
        assert_eq!(needed(1.0, 0.0), RUNS_MAX);
    }

    #[test]
    fn spread_comes_from_the_first_results() {
        let runs = [100.0, 103.0, 98.0].map(|p99_us| result(1_000, p99_us));
        let options = ComparisonOptions::default();
        let needed = repetitions(&[&runs], &options);
        let p99 = needed.iter().find(|it| it.figure == Figure::P99).unwrap();
        assert!(p99.spread.is_some_and(|spread| (0.02..0.03).contains(&spread)), "{p99:?}");
        assert!(needed.iter().all(|it| it.figure != Figure::Rate), "a constant is left out");
        let one = repetitions(&[&runs[..1]], &options);
        assert!(one.iter().all(|it| it.spread.is_none() && it.runs == 27), "{one:?}");
        assert_eq!(repetitions(&[], &options).len(), 6);
    }

    #[test]
    fn needed_runs_show_the_change() {
        let mut random = Random::seeded(7);
        let mut normal = |mean: f64| {
            #[expect(clippy::cast_precision_loss, reason = "numbers below a million")]
            let sum: f64 = (0..12).map(|_| random.below(1_000_000) as f64 / 1e6).sum();
            mean + 0.012 * (sum - 6.0)
        };
        let runs = runs_needed(0.012, 0.03, 0.05, 1);
        assert_eq!(runs, 4);
        let mut sample = |mean: f64| (0..runs).map(|_| normal(mean)).collect::<Vec<f64>>();
        let mut is_shown = || {
            let samples = Samples { first: sample(0.0), second: sample(1.03_f64.ln()) };
            p_values(&[samples])[0] < 0.05
        };
        let shown = (0..500).filter(|_| is_shown()).count();
        assert!((330..=470).contains(&shown), "{shown} of 500, expected 80 %");
    }
}
