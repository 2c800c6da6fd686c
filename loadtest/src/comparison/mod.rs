//! Whether results differ: figure by figure, with the probability that it is chance.
//!
//! With several runs a side the runs are the witnesses. With one run a side its seconds are: they
//! depend on one another, since a slow spell of the machine slows several in a row, so the p-values
//! come out too small and the intervals too narrow. Such a comparison is a hint and not a verdict.
//!
//! What it keeps true: all figures together have one level of significance, by Holm's correction; a
//! difference is called worse only where it is told from chance and larger than the tolerance.
//!
//! What it does not do: compare what is not alike. [`likeness`] says whether two results are.

pub mod likeness;

use serde::Serialize;

use crate::result::{RunResult, SecondResult};
use crate::significance::{Difference, corrected, p_value_min};

/// What counts as a difference.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bounds {
    /// How much worse a figure may get: 0.03 is three parts in a hundred.
    pub tolerance: f64,
    /// How probable one false alarm among all figures may be.
    pub level: f64,
}

impl Default for Bounds {
    /// Three parts in a hundred, at a level of 0.05.
    fn default() -> Self {
        Self { tolerance: 0.03, level: 0.05 }
    }
}

/// What the figures are samples of.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Witness {
    /// Whole runs.
    Run,
    /// The seconds of one run a side.
    Second,
}

/// What is said of a figure.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Judgement {
    /// Better by more than the tolerance, and not by chance.
    Better,
    /// Different, and not by chance, but within the tolerance.
    Within,
    /// Not told from chance.
    Undecided,
    /// Not measured on both sides, or too few values.
    Unknown,
    /// Worse by more than the tolerance, and not by chance.
    Worse,
}

/// One figure on both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What is compared.
    pub figure: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The median of the first side; none where it was not measured.
    pub base: Option<f64>,
    /// The median of the second side.
    pub new: Option<f64>,
    /// How they differ; none where there are too few values.
    pub difference: Option<Difference>,
    /// The p-value of the difference, corrected for all figures.
    pub p_value_corrected: Option<f64>,
    /// What comes of it.
    pub judgement: Judgement,
    /// Whether a larger value is a better one.
    pub is_more_better: bool,
}

/// Two sides, figure by figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// What the figures are samples of.
    pub witness: Witness,
    /// How many there are of the first side.
    pub base_count: usize,
    /// How many there are of the second side.
    pub new_count: usize,
    /// The figures.
    pub rows: Vec<Row>,
}

/// A figure, and where it is found.
struct Question {
    figure: &'static str,
    unit: &'static str,
    is_more_better: bool,
    of_run: fn(&RunResult) -> Option<f64>,
    of_second: fn(&SecondResult) -> Option<f64>,
}

const QUESTIONS: [Question; 6] = [
    Question {
        figure: "rate",
        unit: "answers/s",
        is_more_better: true,
        of_run: |run| Some(run.totals.rate.max(ANSWERS_MIN)),
        of_second: |second| Some(float(second.answered).max(ANSWERS_MIN)),
    },
    Question {
        figure: "p50",
        unit: "us",
        is_more_better: false,
        of_run: |run| positive(run.response.p50_us),
        of_second: |second| positive(second.p50_us),
    },
    Question {
        figure: "p99",
        unit: "us",
        is_more_better: false,
        of_run: |run| positive(run.response.p99_us),
        of_second: |second| positive(second.p99_us),
    },
    Question {
        figure: "p99.9",
        unit: "us",
        is_more_better: false,
        of_run: |run| positive(run.response.p999_us),
        of_second: |second| positive(second.p999_us),
    },
    Question {
        figure: "server CPU",
        unit: "us an answer",
        is_more_better: false,
        of_run: |run| positive(run.server?.cpu_us_per_answer),
        of_second: |second| positive(second.server_cores? * 1e6 / float(second.answered)),
    },
    Question {
        figure: "server RSS",
        unit: "MiB",
        is_more_better: false,
        of_run: |run| mebibytes(run.server?.resident_bytes_max),
        of_second: |second| mebibytes(second.server_resident_bytes?),
    },
];

/// What a second without an answer counts as: ratios of rates need something to divide by, and
/// ranks only need it to be less than one.
const ANSWERS_MIN: f64 = 0.5;

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
    /// The figures of two sides, each of one result or more. They are not judged yet: that takes
    /// all comparisons that are made together.
    pub fn between(base: &[RunResult], new: &[RunResult]) -> Self {
        let witness = match (base, new) {
            ([_], [_]) => Witness::Second,
            _ => Witness::Run,
        };
        let values = |side: &[RunResult], question: &Question| -> Vec<f64> {
            match (witness, side) {
                (Witness::Second, [run]) => {
                    measured_seconds(run).iter().filter_map(question.of_second).collect()
                }
                _ => side.iter().filter_map(question.of_run).collect(),
            }
        };
        let count = |side: &[RunResult]| match (witness, side) {
            (Witness::Second, [run]) => measured_seconds(run).len(),
            _ => side.len(),
        };
        let row = |question: &Question| {
            let (one, other) = (values(base, question), values(new, question));
            let Question { figure, unit, is_more_better, .. } = *question;
            Row {
                figure,
                unit,
                difference: Difference::between(&one, &other),
                base: median(one),
                new: median(other),
                p_value_corrected: None,
                judgement: Judgement::Unknown,
                is_more_better,
            }
        };
        Self {
            witness,
            base_count: count(base),
            new_count: count(new),
            rows: QUESTIONS.iter().map(row).collect(),
        }
    }

    /// Whether any figure could be compared.
    pub fn is_fruitful(&self) -> bool {
        self.rows.iter().any(|row| row.difference.is_some())
    }

    /// Whether any figure is worse.
    pub fn is_worse(&self) -> bool {
        self.rows.iter().any(|row| row.judgement == Judgement::Worse)
    }

    /// Whether a difference could be told from chance at all: with few runs not even the clearest
    /// one can, once it is one of so many questions.
    pub fn can_tell(&self, level: f64, questions: usize) -> bool {
        #[expect(clippy::cast_precision_loss, reason = "a few questions")]
        let questions = questions as f64;
        p_value_min(self.base_count, self.new_count) * questions < level
    }
}

/// How many questions these comparisons ask together.
pub fn questions(comparisons: &[Comparison]) -> usize {
    let rows = comparisons.iter().flat_map(|comparison| &comparison.rows);
    rows.filter(|row| row.difference.is_some()).count()
}

/// Judges all figures of comparisons that are made together.
pub fn judge(comparisons: &mut [Comparison], bounds: Bounds) {
    let rows = || comparisons.iter().flat_map(|comparison| &comparison.rows);
    let p_values: Vec<f64> =
        rows().filter_map(|row| row.difference).map(|difference| difference.p_value).collect();
    let mut corrected = corrected(&p_values).into_iter();
    for row in comparisons.iter_mut().flat_map(|comparison| &mut comparison.rows) {
        let Some(difference) = row.difference else { continue };
        let Some(p_value) = corrected.next() else { return };
        row.p_value_corrected = Some(p_value);
        let worsening = if row.is_more_better { 1.0 / difference.ratio } else { difference.ratio };
        row.judgement = if p_value >= bounds.level {
            Judgement::Undecided
        } else if worsening > 1.0 + bounds.tolerance {
            Judgement::Worse
        } else if 1.0 / worsening > 1.0 + bounds.tolerance {
            Judgement::Better
        } else {
            Judgement::Within
        };
    }
}

impl Row {
    /// The difference in the unit of the figure, with the interval that belongs to it: the ratios
    /// applied to the median of the first side.
    pub fn absolute(&self) -> Option<(f64, f64, f64)> {
        let Difference { ratio, ratio_low, ratio_high, .. } = self.difference?;
        let base = self.base?;
        Some(((ratio - 1.0) * base, (ratio_low - 1.0) * base, (ratio_high - 1.0) * base))
    }
}

/// The seconds of a run that were measured whole: none of the warm-up, none of the end.
fn measured_seconds(run: &RunResult) -> &[SecondResult] {
    let warm_up = run.plan.warm_up.duration().as_secs_f64();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "seconds of a run, not negative; saturating"
    )]
    let whole = |seconds: f64| seconds as usize;
    // What is written as 3 s may have been added up to a hair less.
    let last = whole((warm_up + run.totals.span_s + 1e-6).floor()).min(run.seconds.len());
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

    /// A result with seconds around these figures: a second of warm-up, then `seconds`, then one
    /// in which the last answers came.
    pub(super) fn result(rate: u64, p99_us: f64, seconds: u64) -> RunResult {
        let second = |number: u64| {
            json!({
                "answered": if number == 0 { 0 } else { rate + number % 5 },
                "failed": 0, "p50_us": 10.0 + float(number % 3),
                "p99_us": p99_us + float(number % 7), "p999_us": p99_us * 2.0,
                "max_us": 1e3, "open": 64, "server_cores": 0.5,
                "server_resident_bytes": 64 << 20,
            })
        };
        let percentiles = json!({
            "count": 10, "mean_us": 10.0, "p50_us": 10.0, "p90_us": 20.0, "p99_us": p99_us,
            "p999_us": p99_us * 2.0, "p9999_us": p99_us * 3.0, "max_us": 1e3,
        });
        let cost = json!({ "cpu_us_per_answer": 5.0, "cores": 0.5, "resident_bytes_max": 1 << 20 });
        serde_json::from_value(json!({
            "verdict": { "invalid": [], "missed": [] },
            "plan": {
                "target": "tcp://127.0.0.1:1", "warm_up": "1s",
                "phase": [{ "rate": rate, "span": format!("{seconds}s") }],
            },
            "manifest": crate::result::Manifest { kernel: "6.18".into(), ..Default::default() },
            "totals": crate::result::Totals {
                span_s: float(seconds), rate: float(rate), ..Default::default()
            },
            "response": percentiles, "service": percentiles, "lag": percentiles,
            "generator": cost, "server": cost,
            "seconds": (0..seconds + 2).map(second).collect::<Vec<_>>(),
        }))
        .unwrap()
    }

    fn judged(base: &[RunResult], new: &[RunResult]) -> Comparison {
        let mut all = [Comparison::between(base, new)];
        judge(&mut all, Bounds::default());
        let [comparison] = all;
        comparison
    }

    fn judgement(comparison: &Comparison, figure: &str) -> Judgement {
        comparison.rows.iter().find(|row| row.figure == figure).unwrap().judgement
    }

    #[test]
    fn the_seconds_of_one_run_are_those_that_were_measured_whole() {
        let comparison = judged(&[result(1_000, 100.0, 10)], &[result(1_000, 100.0, 12)]);
        assert_eq!(comparison.witness, Witness::Second);
        assert_eq!((comparison.base_count, comparison.new_count), (10, 12));
        assert!(comparison.is_fruitful() && !comparison.is_worse(), "{comparison:?}");
    }

    #[test]
    fn a_tail_that_has_doubled_is_worse_and_one_that_has_halved_better() {
        let (short, long) = (result(1_000, 100.0, 20), result(1_000, 200.0, 20));
        let worse = judged(std::slice::from_ref(&short), std::slice::from_ref(&long));
        assert_eq!(judgement(&worse, "p99"), Judgement::Worse);
        assert_eq!(judgement(&worse, "p50"), Judgement::Undecided);
        assert!(worse.is_worse());
        let better = judged(&[long], &[short]);
        assert_eq!(judgement(&better, "p99"), Judgement::Better);
        assert!(!better.is_worse());
    }

    #[test]
    fn fewer_answers_are_worse_and_more_are_better() {
        let (few, many) = (result(500, 100.0, 20), result(1_000, 100.0, 20));
        let worse = judged(std::slice::from_ref(&many), std::slice::from_ref(&few));
        assert_eq!(judgement(&worse, "rate"), Judgement::Worse);
        assert_eq!(judgement(&judged(&[few], &[many]), "rate"), Judgement::Better);
    }

    #[test]
    fn a_difference_below_the_tolerance_is_within_it() {
        let base: Vec<_> = (0..8).map(|step| result(100_000 + step, 100.0, 4)).collect();
        let new: Vec<_> = (0..8).map(|step| result(99_000 + step, 100.0, 4)).collect();
        let comparison = judged(&base, &new);
        assert_eq!(comparison.witness, Witness::Run);
        assert_eq!(judgement(&comparison, "rate"), Judgement::Within);
    }

    #[test]
    fn few_runs_say_nothing_and_it_is_known() {
        let runs = |count| vec![result(1_000, 100.0, 4); count];
        let comparison = judged(&runs(3), &runs(3));
        assert!(!comparison.is_fruitful());
        assert_eq!(judgement(&comparison, "rate"), Judgement::Unknown);
        assert!(!judged(&runs(4), &runs(4)).can_tell(0.05, 6));
        assert!(judged(&runs(5), &runs(5)).can_tell(0.05, 6));
    }

    #[test]
    fn a_second_without_an_answer_is_the_worst_of_its_run() {
        let mut stalled = result(1_000, 100.0, 10);
        for second in &mut stalled.seconds[1..] {
            second.answered = 0;
        }
        let comparison = judged(&[result(1_000, 100.0, 10)], &[stalled]);
        assert_eq!(judgement(&comparison, "rate"), Judgement::Worse);
        assert_eq!(judgement(&comparison, "server CPU"), Judgement::Unknown);
    }

    #[test]
    fn an_absolute_difference_is_that_of_the_ratio() {
        let worse = judged(&[result(1_000, 100.0, 20)], &[result(1_000, 200.0, 20)]);
        let row = worse.rows.iter().find(|row| row.figure == "p99.9").unwrap();
        let (difference, low, high) = row.absolute().unwrap();
        assert!((difference - 200.0).abs() < 1e-6 && low <= difference && difference <= high);
    }
}
