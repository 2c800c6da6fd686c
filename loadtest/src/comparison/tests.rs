//! Tests of verdicts on comparisons of results with known figures.

use serde_json::json;

use super::*;
use crate::result::{Manifest, Totals};

/// Returns a result with this rate and 99th percentile; other percentiles follow the latter.
pub(crate) fn result(rate: u32, p99_us: f64) -> RunResult {
    let percentiles = json!({
        "count": 100_000, "mean_us": 10.0, "p50_us": p99_us * 0.25, "p90_us": p99_us * 0.5,
        "p95_us": p99_us * 0.75, "p99_us": p99_us,
        "p999_us": p99_us * 2.0, "p9999_us": p99_us * 3.0, "max_us": 1e3,
    });
    let cost = json!({ "cpu_us_per_response": 5.0, "cores": 0.5, "resident_bytes_max": 1 << 20 });
    serde_json::from_value(json!({
        "verdict": { "invalid": [], "missed_thresholds": [] },
        "plan": {
            "target": "tcp://127.0.0.1:1", "warm_up": "1s", "closed": true,
            "phase": [{ "rate": rate, "duration": "4s" }],
        },
        "manifest": Manifest { kernel: "6.18".into(), ..Default::default() },
        "totals": Totals {
            duration_s: 4.0, rate: f64::from(rate), due: u64::from(rate) * 4,
            failure_ratio: Some(0.0), ..Default::default()
        },
        "response": percentiles, "service": percentiles, "lag": percentiles,
        "generator": cost, "server": cost, "seconds": [],
    }))
    .unwrap()
}

/// Returns runs around these figures.
fn side(count: u32, rate: u32, p99_us: f64) -> Side {
    let run = |number| result(rate + number % 3, p99_us * (1.0 + 0.002 * f64::from(number % 4)));
    Side { name: "side".into(), runs: (0..count).map(run).collect() }
}

fn compare(base: &Side, new: &Side, options: &ComparisonOptions) -> Comparison {
    Comparison::between(base, new, options, 1)
}

fn row(comparison: &Comparison, figure: Figure) -> Row {
    *comparison.rows.iter().find(|row| row.figure == figure).unwrap()
}

fn left_out(comparison: &Comparison, figure: Figure) -> &str {
    &comparison.left_out.iter().find(|it| it.figure == figure).unwrap().reason
}

fn with_budgets(text: &str) -> ComparisonOptions {
    ComparisonOptions { budgets: Budgets::parse(text).unwrap(), ..ComparisonOptions::default() }
}

#[test]
fn five_percent_is_worse_with_five_runs() {
    let options = ComparisonOptions::default();
    let worse = compare(&side(5, 1_000, 100.0), &side(5, 1_000, 105.0), &options);
    assert_eq!(worse.verdict, ComparisonVerdict::Worse, "{worse:?}");
    assert_eq!(row(&worse, Figure::P99).outcome, ComparisonOutcome::Worse);
    assert_eq!(row(&worse, Figure::P999).outcome, ComparisonOutcome::NotTested);
    assert!(worse.reasons.iter().any(|why| why.starts_with("p95 +5.0")), "{worse:?}");
    let better = compare(&side(5, 1_000, 105.0), &side(5, 1_000, 100.0), &options);
    assert_eq!(better.verdict, ComparisonVerdict::NotWorse);
    assert_eq!(row(&better, Figure::P99).outcome, ComparisonOutcome::Better);
}

#[test]
fn lower_rate_is_worse_and_higher_better() {
    let (few, many) = (side(5, 900, 100.0), side(5, 1_000, 100.0));
    let options = ComparisonOptions::default();
    let worse = compare(&many, &few, &options);
    assert_eq!(row(&worse, Figure::Rate).outcome, ComparisonOutcome::Worse);
    let better = compare(&few, &many, &options);
    assert_eq!(row(&better, Figure::Rate).outcome, ComparisonOutcome::Better);
}

#[test]
fn budgets_bound_significant_differences() {
    let (base, new) = (side(5, 1_000, 100.0), side(5, 1_000, 110.0));
    let kept = compare(&base, &new, &with_budgets("p95 +15 %, rate -10 %, errors +0.5 points"));
    assert_eq!(kept.verdict, ComparisonVerdict::NotWorse, "{kept:?}");
    assert_eq!(row(&kept, Figure::P95).outcome, ComparisonOutcome::WithinBudget);
    assert_eq!(row(&kept, Figure::P99).outcome, ComparisonOutcome::NotTested);
    let exceeded = compare(&base, &new, &with_budgets("p95 +5 %"));
    assert_eq!(exceeded.verdict, ComparisonVerdict::Worse);
    assert_eq!(exceeded.reasons, ["p95 +10.0 %, budget +5 % (p = 0.0079)"]);
}

#[test]
fn error_budget_counts_points() {
    let base = side(5, 1_000, 100.0);
    let mut new = base.clone();
    for (place, run) in new.runs.iter_mut().enumerate() {
        run.totals.failure_ratio = Some(0.006 + 1e-5 * float(place));
    }
    let exceeded = compare(&base, &new, &with_budgets("errors +0.5 points"));
    assert_eq!(exceeded.reasons, ["errors +0.60 points, budget +0.5 points (p = 0.0079)"]);
    let kept = compare(&base, &new, &with_budgets("errors +1 points"));
    assert_eq!(kept.verdict, ComparisonVerdict::NotWorse, "{kept:?}");
}

#[test]
fn too_few_runs_are_undecided() {
    let options = ComparisonOptions::default();
    for count in [1, 3] {
        let few = compare(&side(count, 1_000, 100.0), &side(count, 1_000, 200.0), &options);
        assert_eq!(few.verdict, ComparisonVerdict::Undecided, "{count}");
        let why = few.reasons.last().unwrap();
        assert!(why.contains("measure at least 4 runs a side"), "{why}");
    }
    let four = compare(&side(4, 1_000, 100.0), &side(4, 1_000, 200.0), &options);
    assert_eq!(four.verdict, ComparisonVerdict::Worse);
    assert_eq!([runs_min(0.05, 1), runs_min(0.05, 2), runs_min(0.01, 1)], [4, 5, 5]);
}

#[test]
fn figures_without_information_are_left_out() {
    let (mut base, mut new) = (side(5, 1_000, 100.0), side(5, 1_000, 105.0));
    for run in base.runs.iter_mut().chain(&mut new.runs) {
        run.plan.closed = false;
        run.response.count = 5_000;
    }
    new.runs[2].server = None;
    let comparison = compare(&base, &new, &ComparisonOptions::default());
    assert_eq!(left_out(&comparison, Figure::Rate), "fixed by the plan");
    assert_eq!(left_out(&comparison, Figure::Errors), "the same in every run");
    assert_eq!(left_out(&comparison, Figure::Cpu), "not measured in every run");
    assert!(left_out(&comparison, Figure::P999).starts_with("fewer than 10 requests"));
    assert_eq!(comparison.rows.len() + comparison.left_out.len(), Figure::ALL.len());
}

#[test]
fn unmeasured_budget_is_undecided() {
    let (mut base, new) = (side(5, 1_000, 100.0), side(5, 1_000, 100.5));
    base.runs[0].server = None;
    let comparison = compare(&base, &new, &with_budgets("p95 +5 %, cpu +5 %"));
    assert_eq!(comparison.verdict, ComparisonVerdict::Undecided);
    assert!(comparison.reasons[0].starts_with("the budget of server CPU"), "{comparison:?}");
    let same = compare(&new, &new, &with_budgets("errors +1 points"));
    assert_eq!(same.verdict, ComparisonVerdict::Undecided, "{same:?}");
}

#[test]
fn missing_responses_make_the_rate_worse() {
    let (base, mut new) = (side(5, 1_000, 100.0), side(5, 1_000, 100.0));
    for run in base.runs.clone().iter_mut().chain(&mut new.runs) {
        (run.totals.rate, run.plan.closed) = (0.0, false);
    }
    let comparison = compare(&base, &new, &ComparisonOptions::default());
    assert_eq!(row(&comparison, Figure::Rate).outcome, ComparisonOutcome::Worse);
}
