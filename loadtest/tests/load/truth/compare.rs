//! `compare` finds a server that is slower by a known amount, and an equal one equal.

use std::time::Duration;

use corelane_load::comparison::{Comparison, ComparisonOptions, ComparisonVerdict, Side};
use corelane_load::plan::Budgets;

use super::{ServerModel, run};

/// Runs a side.
const RUNS: usize = 5;
/// Comparisons, of which one has to agree with the truth: the machine may be busy.
const ATTEMPTS: usize = 3;

/// Measures two servers in turn, and compares them.
fn compare(service_times_ms: [u64; 2]) -> Comparison {
    let flags = ["--closed", "--connections=8", "--warm-up=0s", "--duration=200ms"];
    let mut sides = ["base", "new"].map(|name| Side { name: name.into(), runs: Vec::new() });
    for _ in 0..RUNS {
        for (side, ms) in sides.iter_mut().zip(service_times_ms) {
            let service_time = Duration::from_millis(ms);
            let model = ServerModel { workers: 8, service_time, ..ServerModel::default() };
            side.runs.push(run(model, &flags).result);
        }
    }
    let budgets = Budgets::parse("p50 +3 %, rate -3 %").unwrap();
    let options = ComparisonOptions { budgets, ..ComparisonOptions::default() };
    let [base, new] = &sides;
    Comparison::between(base, new, &options, 1)
}

/// Compares until the verdict is the expected one.
fn assert_verdict(service_times_ms: [u64; 2], expected: ComparisonVerdict) {
    let is_expected = |_| {
        let comparison = compare(service_times_ms);
        eprintln!("{comparison:#?}");
        comparison.verdict == expected
    };
    assert!((0..ATTEMPTS).any(is_expected));
}

#[test]
fn five_percent_slower_server_is_worse() {
    assert_verdict([20, 21], ComparisonVerdict::Worse);
}

#[test]
fn equal_server_is_not_worse() {
    assert_verdict([20, 20], ComparisonVerdict::NotWorse);
}
