//! Comparison of results, figure by figure, with a significance test.
//!
//! Each run is a sample: how much runs of one server differ shows only between runs, not between
//! the seconds of one. All tested figures have one significance level together ([`significance`]).
//! A figure is worse only if the difference is significant and larger than its budget. A comparison
//! in which nothing could be significant, or a budget could not be checked, is undecided.
//! [`comparability`] checks whether two results may be compared at all.
//!
//! [`significance`]: crate::significance

pub mod comparability;
pub mod repetitions;

mod figures;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::comparability::Comparability;
use self::repetitions::Repetitions;
use crate::figure;
use crate::plan::budgets::{Budgets, Figure};
use crate::result::RunResult;
use crate::significance::{self, Samples, Shift, median, p_value_min};

/// Budget of `errors` if none is named: a difference of the failure ratios.
const DEFAULT_ERRORS_BUDGET: f64 = 0.001;
/// Largest number of runs a side that is considered for significance at all.
const RUNS_MAX: usize = 1_000;
/// Figures that are tested if no budget is named: each says something of its own.
const TESTED: [Figure; 7] = [
    Figure::Rate,
    Figure::Errors,
    Figure::P50,
    Figure::P95,
    Figure::P99,
    Figure::Cpu,
    Figure::Memory,
];

/// Settings of a comparison.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ComparisonOptions {
    /// Acceptable worsening of each figure; only these are tested. Without any, some figures are
    /// tested with `tolerance`.
    pub budgets: Budgets,
    /// Acceptable relative worsening without budgets, such as 0.03.
    pub tolerance: f64,
    /// Significance level: the probability of any false alarm among all figures.
    pub level: f64,
}

impl Default for ComparisonOptions {
    /// No budgets, tolerance 0.03, level 0.05.
    fn default() -> Self {
        Self { budgets: Budgets::default(), tolerance: 0.03, level: 0.05 }
    }
}

impl ComparisonOptions {
    /// Returns the acceptable worsening of a figure, or `None` if it is not tested.
    pub fn budget(&self, figure: Figure) -> Option<f64> {
        if !self.budgets.is_empty() {
            return self.budgets.0.get(&figure).copied();
        }
        let default = if figure.is_ratio() { DEFAULT_ERRORS_BUDGET } else { self.tolerance };
        TESTED.contains(&figure).then_some(default)
    }
}

/// The outcome of comparing a figure.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ComparisonOutcome {
    /// Significantly better.
    Better,
    /// Significantly worse, within the budget.
    WithinBudget,
    /// Not significantly different.
    NotSignificant,
    /// For information only: the figure has no budget.
    NotTested,
    /// Significantly worse, by more than the budget.
    Worse,
}

/// The comparison of one figure.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Row {
    /// The figure.
    pub figure: Figure,
    /// Median of the base: responses a second, microseconds, MiB, or a ratio.
    pub base: f64,
    /// Median of the new side.
    pub new: f64,
    /// The change relative to the base, such as 0.05; of `errors` the difference of the ratios.
    pub change: Shift,
    /// P-value, corrected for the number of tests; `None` if the figure is not tested.
    pub p_value: Option<f64>,
    /// Acceptable worsening; `None` if the figure is not tested.
    pub budget: Option<f64>,
    /// The outcome.
    pub outcome: ComparisonOutcome,
}

/// A figure that says nothing about the comparison.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct LeftOut {
    /// The figure.
    pub figure: Figure,
    /// Why.
    pub reason: String,
}

/// The verdict on a comparison.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ComparisonVerdict {
    /// No budget is exceeded.
    NotWorse,
    /// A budget is exceeded.
    Worse,
    /// No difference could be significant, or a budget could not be checked.
    Undecided,
}

/// The results of one side.
#[derive(Clone, Debug)]
pub struct Side {
    /// Name for people.
    pub name: String,
    /// The results, at least one.
    pub runs: Vec<RunResult>,
}

/// The comparison of two sides.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Comparison {
    /// Name of the base.
    pub base: String,
    /// Name of the new side.
    pub new: String,
    /// Number of runs of the base.
    pub base_count: usize,
    /// Number of runs of the new side.
    pub new_count: usize,
    /// The verdict.
    pub verdict: ComparisonVerdict,
    /// What exceeds a budget, or why the comparison is undecided.
    pub reasons: Vec<String>,
    /// The compared figures.
    pub rows: Vec<Row>,
    /// Figures that say nothing.
    pub left_out: Vec<LeftOut>,
}

/// All comparisons of a command, as stored.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct ComparisonFile {
    /// Settings.
    pub options: ComparisonOptions,
    /// Differences of machines and plans.
    pub comparability: Comparability,
    /// The comparisons with the base.
    pub comparisons: Vec<Comparison>,
    /// The runs a side that show a change as large as the budget.
    pub repetitions: Vec<Repetitions>,
}

impl ComparisonFile {
    /// Compares each of the other sides with the base.
    pub fn new(base: &Side, others: &[Side], options: ComparisonOptions) -> Self {
        let comparability = Comparability::of_sides(base, others);
        let compare = |other| Comparison::between(base, other, &options, others.len());
        let comparisons = others.iter().map(compare).collect();
        let sides: Vec<&[RunResult]> =
            std::iter::once(base).chain(others).map(|side| &side.runs[..]).collect();
        let repetitions = repetitions::repetitions(&sides, &options);
        Self { options, comparability, comparisons, repetitions }
    }

    /// Returns the verdict on all comparisons.
    pub fn verdict(&self) -> ComparisonVerdict {
        let has = |verdict| self.comparisons.iter().any(|it| it.verdict == verdict);
        [ComparisonVerdict::Worse, ComparisonVerdict::Undecided]
            .into_iter()
            .find(|verdict| has(*verdict))
            .unwrap_or(ComparisonVerdict::NotWorse)
    }
}

impl Comparison {
    /// Compares two sides, one comparison of `comparison_count`.
    pub fn between(
        base: &Side,
        new: &Side,
        options: &ComparisonOptions,
        comparison_count: usize,
    ) -> Self {
        let (mut rows, mut left_out, mut tested, mut reasons) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for figure in Figure::ALL {
            match figures::samples(figure, &base.runs, &new.runs) {
                Ok(samples) => {
                    let scaled = scaled(figure, &samples);
                    rows.extend(Row::new(figure, samples, &scaled, options));
                    if options.budget(figure).is_some() {
                        tested.push(scaled);
                    }
                }
                Err(why) => {
                    left_out.push(LeftOut { figure, reason: why.reason().into() });
                    if options.budgets.0.contains_key(&figure) && !why.is_equal() {
                        reasons.push(format!(
                            "the budget of {} cannot be checked: {}",
                            figure.name(),
                            why.reason()
                        ));
                    }
                }
            }
        }
        if tested.is_empty() && reasons.is_empty() {
            reasons.push("no figure that is tested differs between the runs".into());
        }
        let counts = [base.runs.len(), new.runs.len()];
        reasons.extend(too_few_runs(counts, options, comparison_count));
        let mut p_values = significance::p_values(&tested).into_iter();
        for row in rows.iter_mut().filter(|row| row.budget.is_some()) {
            row.evaluate(p_values.next().unwrap_or(1.0) * float(comparison_count), options.level);
        }
        let exceeded: Vec<String> = rows.iter().filter_map(Row::exceeded).collect();
        let verdict = match (exceeded.is_empty(), reasons.is_empty()) {
            (false, _) => ComparisonVerdict::Worse,
            (true, false) => ComparisonVerdict::Undecided,
            (true, true) => ComparisonVerdict::NotWorse,
        };
        Self {
            base: base.name.clone(),
            new: new.name.clone(),
            base_count: base.runs.len(),
            new_count: new.runs.len(),
            verdict,
            reasons: exceeded.into_iter().chain(reasons).collect(),
            rows,
            left_out,
        }
    }
}

/// Returns the fewest runs a side with which a difference can be significant.
pub fn runs_min(level: f64, comparison_count: usize) -> usize {
    let is_enough = |runs: &usize| p_value_min(*runs, *runs) * float(comparison_count) < level;
    (1..RUNS_MAX).find(is_enough).unwrap_or(RUNS_MAX)
}

/// Explains why no difference could be significant.
fn too_few_runs(
    [base, new]: [usize; 2],
    options: &ComparisonOptions,
    comparison_count: usize,
) -> Option<String> {
    let level = options.level;
    let can_be_significant = p_value_min(base, new) * float(comparison_count) < level;
    (!can_be_significant).then(|| {
        format!(
            "with {base} and {new} runs no difference can be significant at the level of {level}: \
             measure at least {} runs a side",
            runs_min(level, comparison_count)
        )
    })
}

/// Returns the values on the scale of the test: logarithms, unless the figure is a ratio.
fn scaled(figure: Figure, samples: &Samples) -> Samples {
    if figure.is_ratio() {
        return samples.clone();
    }
    let logarithms = |values: &[f64]| values.iter().map(|value| value.ln()).collect();
    Samples { first: logarithms(&samples.first), second: logarithms(&samples.second) }
}

impl Row {
    fn new(
        figure: Figure,
        samples: Samples,
        scaled: &Samples,
        options: &ComparisonOptions,
    ) -> Option<Self> {
        let middle = |mut values: Vec<f64>| {
            values.sort_by(f64::total_cmp);
            median(&values)
        };
        let Shift { estimate, low, high } = Shift::of(scaled)?;
        let [estimate, low, high] = [estimate, low, high]
            .map(|shift| if figure.is_ratio() { shift } else { shift.exp_m1() });
        Some(Self {
            figure,
            base: middle(samples.first)?,
            new: middle(samples.second)?,
            change: Shift { estimate, low, high },
            p_value: None,
            budget: options.budget(figure),
            outcome: ComparisonOutcome::NotTested,
        })
    }

    fn evaluate(&mut self, p_value: f64, level: f64) {
        let worsening = if self.figure.is_higher_better() {
            -self.change.estimate
        } else {
            self.change.estimate
        };
        self.p_value = Some(p_value.min(1.0));
        self.outcome = if p_value >= level {
            ComparisonOutcome::NotSignificant
        } else if worsening < 0.0 {
            ComparisonOutcome::Better
        } else if self.budget.is_some_and(|budget| worsening > budget) {
            ComparisonOutcome::Worse
        } else {
            ComparisonOutcome::WithinBudget
        };
    }

    /// Says which budget is exceeded.
    fn exceeded(&self) -> Option<String> {
        let budget = self.budget.filter(|_| self.outcome == ComparisonOutcome::Worse)?;
        let p_value = self.p_value.unwrap_or(1.0);
        Some(format!(
            "{} {}, budget {} (p = {p_value:.4})",
            self.figure.name(),
            format_change(self.figure, self.change.estimate),
            Budgets::format(self.figure, budget)
        ))
    }
}

/// Formats a change such as `+5.0 %` or `-0.50 points`.
pub fn format_change(figure: Figure, change: f64) -> String {
    let sign = if change < 0.0 { '-' } else { '+' };
    let unit = if figure.is_ratio() { "points" } else { "%" };
    format!("{sign}{} {unit}", figure::digits(change.abs() * 100.0))
}

#[expect(clippy::cast_precision_loss, reason = "numbers of runs and comparisons")]
const fn float(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
pub(crate) mod tests;
