//! Comparison of results, figure by figure, with significance tests.
//!
//! With several runs a side each run is a sample; with one run a side each second is. Seconds of
//! one run depend on one another, so that p-values come out too small and intervals too narrow:
//! such a comparison is only a hint.
//!
//! All figures together have one significance level (Holm's correction). A difference counts as
//! worse only if it is significant and larger than the tolerance. [`comparability`] checks whether
//! two results may be compared at all.

pub mod comparability;
pub mod repetitions;

use serde::Serialize;

use crate::result::{RunResult, SecondResult};
use crate::significance::{Difference, holm_corrected, p_value_min};

/// Settings of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ComparisonOptions {
    /// Largest relative worsening that is acceptable, such as 0.03.
    pub tolerance: f64,
    /// Significance level: the probability of any false positive among all figures.
    pub level: f64,
}

impl Default for ComparisonOptions {
    /// Tolerance 0.03, level 0.05.
    fn default() -> Self {
        Self { tolerance: 0.03, level: 0.05 }
    }
}

/// What the samples are.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SampleKind {
    /// Runs.
    Run,
    /// Seconds of one run a side.
    Second,
}

/// The outcome of comparing a figure.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ComparisonOutcome {
    /// Significantly better, by more than the tolerance.
    Better,
    /// Significantly different, within the tolerance.
    WithinTolerance,
    /// Not significantly different.
    NotSignificant,
    /// Not measured on both sides, or too few samples.
    NotCompared,
    /// Significantly worse, by more than the tolerance.
    Worse,
}

/// The comparison of one figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Name of the figure.
    pub figure: &'static str,
    /// Unit of the figure.
    pub unit: &'static str,
    /// Median of the base, or `None` if it was not measured.
    pub base: Option<f64>,
    /// Median of the new side.
    pub new: Option<f64>,
    /// The difference, or `None` if there are too few samples.
    pub difference: Option<Difference>,
    /// P-value, corrected for the number of figures.
    pub p_value_corrected: Option<f64>,
    /// The outcome.
    pub outcome: ComparisonOutcome,
    /// Whether higher values are better.
    pub is_higher_better: bool,
}

/// The comparison of two sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// What the samples are.
    pub sample_kind: SampleKind,
    /// Number of samples of the base.
    pub base_count: usize,
    /// Number of samples of the new side.
    pub new_count: usize,
    /// The compared figures.
    pub rows: Vec<Row>,
}

/// A figure and how to read it from a run or a second.
struct ComparedFigure {
    figure: &'static str,
    unit: &'static str,
    is_more_better: bool,
    of_run: fn(&RunResult) -> Option<f64>,
    of_second: fn(&SecondResult) -> Option<f64>,
}

const COMPARED_FIGURES: [ComparedFigure; 9] = [
    ComparedFigure {
        figure: "rate",
        unit: "responses/s",
        is_more_better: true,
        of_run: |run| Some(run.totals.rate.max(RATE_MIN)),
        of_second: |second| Some(float(second.answered).max(RATE_MIN)),
    },
    ComparedFigure {
        figure: "p50",
        unit: "us",
        is_more_better: false,
        of_run: |run| positive(run.response.p50_us),
        of_second: |second| positive(second.p50_us),
    },
    ComparedFigure {
        figure: "p90",
        unit: "us",
        is_more_better: false,
        of_run: |run| positive(run.response.p90_us),
        of_second: |second| positive(second.p90_us),
    },
    ComparedFigure {
        figure: "p95",
        unit: "us",
        is_more_better: false,
        of_run: |run| positive(run.response.p95_us),
        of_second: |second| positive(second.p95_us),
    },
    ComparedFigure {
        figure: "p99",
        unit: "us",
        is_more_better: false,
        of_run: |run| positive(run.response.p99_us),
        of_second: |second| positive(second.p99_us),
    },
    ComparedFigure {
        figure: "p99.9",
        unit: "us",
        is_more_better: false,
        of_run: |run| positive(run.response.p999_us),
        of_second: |second| positive(second.p999_us),
    },
    ComparedFigure {
        figure: "p99.99",
        unit: "us",
        is_more_better: false,
        of_run: |run| positive(run.response.p9999_us),
        of_second: |second| positive(second.p9999_us),
    },
    ComparedFigure {
        figure: "server CPU",
        unit: "us per response",
        is_more_better: false,
        of_run: |run| positive(run.server?.cpu_us_per_response),
        of_second: |second| positive(second.server_cores? * 1e6 / float(second.answered)),
    },
    ComparedFigure {
        figure: "server RSS",
        unit: "MiB",
        is_more_better: false,
        of_run: |run| mebibytes(run.server?.resident_bytes_max),
        of_second: |second| mebibytes(second.server_resident_bytes?),
    },
];

/// Rate of a second without responses: ratios need a positive value, ranks only one below 1.
const RATE_MIN: f64 = 0.5;

#[expect(clippy::cast_precision_loss, reason = "counts and bytes for people")]
const fn float(count: u64) -> f64 {
    count as f64
}

fn positive(value: f64) -> Option<f64> {
    (value.is_finite() && value > 0.0).then_some(value)
}

fn mebibytes(bytes: u64) -> Option<f64> {
    positive(float(bytes) / f64::from(1 << 20))
}

impl Comparison {
    /// Compares two sides, each of one result or more. [`evaluate`] sets the outcomes afterwards,
    /// since the correction needs all comparisons.
    pub fn between(base: &[RunResult], new: &[RunResult]) -> Self {
        let sample_kind = match (base, new) {
            ([_], [_]) => SampleKind::Second,
            _ => SampleKind::Run,
        };
        let values = |side: &[RunResult], question: &ComparedFigure| -> Vec<f64> {
            match (sample_kind, side) {
                (SampleKind::Second, [run]) => {
                    measured_seconds(run).iter().filter_map(question.of_second).collect()
                }
                _ => side.iter().filter_map(question.of_run).collect(),
            }
        };
        let count = |side: &[RunResult]| match (sample_kind, side) {
            (SampleKind::Second, [run]) => measured_seconds(run).len(),
            _ => side.len(),
        };
        let row = |question: &ComparedFigure| {
            let (one, other) = (values(base, question), values(new, question));
            let ComparedFigure { figure, unit, is_more_better, .. } = *question;
            Row {
                figure,
                unit,
                difference: Difference::between(&one, &other),
                base: median(one),
                new: median(other),
                p_value_corrected: None,
                outcome: ComparisonOutcome::NotCompared,
                is_higher_better: is_more_better,
            }
        };
        Self {
            sample_kind,
            base_count: count(base),
            new_count: count(new),
            rows: COMPARED_FIGURES.iter().map(row).collect(),
        }
    }

    /// Returns whether any figure had enough samples.
    pub fn has_enough_samples(&self) -> bool {
        self.rows.iter().any(|row| row.difference.is_some())
    }

    /// Returns whether any figure is worse.
    pub fn is_worse(&self) -> bool {
        self.rows.iter().any(|row| row.outcome == ComparisonOutcome::Worse)
    }

    /// Returns whether any difference could be significant at all with this number of samples and
    /// tests.
    pub fn can_be_significant(&self, level: f64, questions: usize) -> bool {
        #[expect(clippy::cast_precision_loss, reason = "a few questions")]
        let questions = questions as f64;
        p_value_min(self.base_count, self.new_count) * questions < level
    }
}

/// Returns the number of significance tests in these comparisons.
pub fn test_count(comparisons: &[Comparison]) -> usize {
    let rows = comparisons.iter().flat_map(|comparison| &comparison.rows);
    rows.filter(|row| row.difference.is_some()).count()
}

/// Sets the outcomes of all figures of comparisons that are made together.
pub fn evaluate(comparisons: &mut [Comparison], bounds: ComparisonOptions) {
    let rows = || comparisons.iter().flat_map(|comparison| &comparison.rows);
    let p_values: Vec<f64> =
        rows().filter_map(|row| row.difference).map(|difference| difference.p_value).collect();
    let mut corrected = holm_corrected(&p_values).into_iter();
    for row in comparisons.iter_mut().flat_map(|comparison| &mut comparison.rows) {
        let Some(difference) = row.difference else { continue };
        let Some(p_value) = corrected.next() else { return };
        row.p_value_corrected = Some(p_value);
        let worsening =
            if row.is_higher_better { 1.0 / difference.ratio } else { difference.ratio };
        row.outcome = if p_value >= bounds.level {
            ComparisonOutcome::NotSignificant
        } else if worsening > 1.0 + bounds.tolerance {
            ComparisonOutcome::Worse
        } else if 1.0 / worsening > 1.0 + bounds.tolerance {
            ComparisonOutcome::Better
        } else {
            ComparisonOutcome::WithinTolerance
        };
    }
}

impl Row {
    /// Returns the difference and its confidence interval in the unit of the figure: the ratios
    /// applied to the median of the base.
    pub fn absolute(&self) -> Option<(f64, f64, f64)> {
        let Difference { ratio, ratio_low, ratio_high, .. } = self.difference?;
        let base = self.base?;
        Some(((ratio - 1.0) * base, (ratio_low - 1.0) * base, (ratio_high - 1.0) * base))
    }
}

/// Returns the complete seconds of a run after the warm-up.
fn measured_seconds(run: &RunResult) -> &[SecondResult] {
    let warm_up = run.plan.warm_up.get().as_secs_f64();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "seconds of a run, not negative; saturating"
    )]
    let whole = |seconds: f64| seconds as usize;
    // The sum of phase durations may be slightly below a whole number.
    let last = whole((warm_up + run.totals.duration_s + 1e-6).floor()).min(run.seconds.len());
    let first = whole(warm_up.ceil()).min(last);
    &run.seconds[first..last]
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        count if count.is_multiple_of(2) => Some(f64::midpoint(values[middle - 1], values[middle])),
        _ => Some(values[middle]),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns a result with one second of warm-up, `seconds` around these figures, and one second
    /// with the last responses.
    pub(super) fn result(rate: u64, p99_us: f64, seconds: u64) -> RunResult {
        let second = |number: u64| {
            json!({
                "answered": if number == 0 { 0 } else { rate + number % 5 },
                "failed": 0, "p50_us": 10.0 + float(number % 3),
                "p90_us": p99_us * 0.5, "p95_us": p99_us * 0.75,
                "p99_us": p99_us + float(number % 7), "p999_us": p99_us * 2.0,
                "p9999_us": p99_us * 3.0, "max_us": 1e3, "open": 64, "server_cores": 0.5,
                "server_resident_bytes": 64 << 20,
            })
        };
        let percentiles = json!({
            "count": 10, "mean_us": 10.0, "p50_us": 10.0, "p90_us": p99_us * 0.5,
            "p95_us": p99_us * 0.75, "p99_us": p99_us,
            "p999_us": p99_us * 2.0, "p9999_us": p99_us * 3.0, "max_us": 1e3,
        });
        let cost =
            json!({ "cpu_us_per_response": 5.0, "cores": 0.5, "resident_bytes_max": 1 << 20 });
        serde_json::from_value(json!({
            "verdict": { "invalid": [], "missed_thresholds": [] },
            "plan": {
                "target": "tcp://127.0.0.1:1", "warm_up": "1s",
                "phase": [{ "rate": rate, "duration": format!("{seconds}s") }],
            },
            "manifest": crate::result::Manifest { kernel: "6.18".into(), ..Default::default() },
            "totals": crate::result::Totals {
                duration_s: float(seconds), rate: float(rate), ..Default::default()
            },
            "response": percentiles, "service": percentiles, "lag": percentiles,
            "generator": cost, "server": cost,
            "seconds": (0..seconds + 2).map(second).collect::<Vec<_>>(),
        }))
        .unwrap()
    }

    fn evaluated(base: &[RunResult], new: &[RunResult]) -> Comparison {
        let mut all = [Comparison::between(base, new)];
        evaluate(&mut all, ComparisonOptions::default());
        let [comparison] = all;
        comparison
    }

    fn outcome_of(comparison: &Comparison, figure: &str) -> ComparisonOutcome {
        comparison.rows.iter().find(|row| row.figure == figure).unwrap().outcome
    }

    #[test]
    fn single_runs_compare_complete_measured_seconds() {
        let comparison = evaluated(&[result(1_000, 100.0, 10)], &[result(1_000, 100.0, 12)]);
        assert_eq!(comparison.sample_kind, SampleKind::Second);
        assert_eq!((comparison.base_count, comparison.new_count), (10, 12));
        assert!(comparison.has_enough_samples() && !comparison.is_worse(), "{comparison:?}");
    }

    #[test]
    fn doubled_tail_is_worse_and_halved_better() {
        let (short, long) = (result(1_000, 100.0, 20), result(1_000, 200.0, 20));
        let worse = evaluated(std::slice::from_ref(&short), std::slice::from_ref(&long));
        for figure in ["p90", "p95", "p99", "p99.9", "p99.99"] {
            assert_eq!(outcome_of(&worse, figure), ComparisonOutcome::Worse, "{figure}");
        }
        assert_eq!(outcome_of(&worse, "p50"), ComparisonOutcome::NotSignificant);
        assert!(worse.is_worse());
        let better = evaluated(&[long], &[short]);
        assert_eq!(outcome_of(&better, "p99"), ComparisonOutcome::Better);
        assert!(!better.is_worse());
    }

    #[test]
    fn lower_rate_is_worse_and_higher_better() {
        let (few, many) = (result(500, 100.0, 20), result(1_000, 100.0, 20));
        let worse = evaluated(std::slice::from_ref(&many), std::slice::from_ref(&few));
        assert_eq!(outcome_of(&worse, "rate"), ComparisonOutcome::Worse);
        assert_eq!(outcome_of(&evaluated(&[few], &[many]), "rate"), ComparisonOutcome::Better);
    }

    #[test]
    fn difference_below_tolerance_is_within() {
        let base: Vec<_> = (0..8).map(|step| result(100_000 + step, 100.0, 4)).collect();
        let new: Vec<_> = (0..8).map(|step| result(99_000 + step, 100.0, 4)).collect();
        let comparison = evaluated(&base, &new);
        assert_eq!(comparison.sample_kind, SampleKind::Run);
        assert_eq!(outcome_of(&comparison, "rate"), ComparisonOutcome::WithinTolerance);
    }

    #[test]
    fn too_few_runs_are_not_significant() {
        let runs = |count| vec![result(1_000, 100.0, 4); count];
        let comparison = evaluated(&runs(3), &runs(3));
        assert!(!comparison.has_enough_samples());
        assert_eq!(outcome_of(&comparison, "rate"), ComparisonOutcome::NotCompared);
        assert!(!evaluated(&runs(4), &runs(4)).can_be_significant(0.05, 6));
        assert!(evaluated(&runs(5), &runs(5)).can_be_significant(0.05, 6));
    }

    #[test]
    fn seconds_without_response_make_rate_worse() {
        let mut stalled = result(1_000, 100.0, 10);
        for second in &mut stalled.seconds[1..] {
            second.answered = 0;
        }
        let comparison = evaluated(&[result(1_000, 100.0, 10)], &[stalled]);
        assert_eq!(outcome_of(&comparison, "rate"), ComparisonOutcome::Worse);
        assert_eq!(outcome_of(&comparison, "server CPU"), ComparisonOutcome::NotCompared);
    }

    #[test]
    fn absolute_difference_applies_ratio_to_median() {
        let worse = evaluated(&[result(1_000, 100.0, 20)], &[result(1_000, 200.0, 20)]);
        let row = worse.rows.iter().find(|row| row.figure == "p99.9").unwrap();
        let (difference, low, high) = row.absolute().unwrap();
        assert!((difference - 200.0).abs() < 1e-6 && low <= difference && difference <= high);
    }
}
