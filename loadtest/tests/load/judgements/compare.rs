//! Tests of `compare` on results that are written by the library.

use corelane_test_support::ExitResult;

use super::{assert_contains_all, assert_usage_error, path_text, read, run, write};
use crate::load;

/// Writes results around this 99th percentile to a directory, and returns its path.
fn directory(name: &str, count: u32, p99_us: f64) -> String {
    let path = path_text(name);
    std::fs::create_dir_all(&path).unwrap();
    for number in 0..count {
        let mut result = run(p99_us * (1.0 + 0.002 * f64::from(number % 4)));
        result.response.p50_us = Some(10.0 + f64::from(number % 3) * 0.01);
        write(&format!("{name}/{number}.json"), &result);
    }
    path
}

#[test]
fn compare_of_single_runs_is_undecided() {
    let base = write("single-base.json", &run(100.0));
    let new = write("single-new.json", &run(200.0));
    let ExitResult { status, stdout, .. } = load(["compare", &base, &new]);
    assert_eq!(status, 3, "{stdout}");
    let expected = ["+100 %", "UNDECIDED: with 1 and 1 runs", "at least 4 runs a side"];
    assert_contains_all(&stdout, &expected);
    let (three, other) = (directory("three", 3, 100.0), directory("three-new", 3, 100.0));
    assert_eq!(load(["compare", &three, &other]).status, 3);
}

#[test]
fn compare_finds_five_percent_with_five_runs() {
    let (base, new) = (directory("five-base", 5, 100.0), directory("five-new", 5, 105.0));
    let kept = path_text("five-kept.json");
    let ExitResult { status, stdout, .. } = load(["compare", &base, &new, "--json", &kept]);
    assert_eq!(status, 1, "{stdout}");
    assert_contains_all(&stdout, &["(5 runs)", "WORSE: p99 +5.0", "budget +3 % (p = 0.0079)"]);
    let expected = ["left out: rate, errors", "the same in every run"];
    assert!(expected.iter().any(|part| stdout.contains(part)), "{stdout}");
    let comparison = &read(&kept)["comparisons"][0];
    assert_eq!(comparison["verdict"], "worse");
    let rows = comparison["rows"].as_array().unwrap();
    let p99 = rows.iter().find(|row| row["figure"] == "p99").unwrap();
    assert_eq!(p99["outcome"], "worse");
    let ExitResult { status, stdout, .. } = load(["compare", &new, &base]);
    assert_eq!(status, 0, "{stdout}");
    assert_contains_all(&stdout, &["NOT WORSE: nothing is significantly worse"]);
    let ExitResult { status, stdout, .. } = load(["compare", &base, &base, &new]);
    assert_eq!((status, stdout.matches("medians").count()), (1, 2), "{stdout}");
}

#[test]
fn compare_budgets_decide_exit_status() {
    let (base, new) = (directory("budget-base", 5, 100.0), directory("budget-new", 5, 110.0));
    let compare = |flags: &[&str]| load(["compare", &base, &new].iter().chain(flags).copied());
    let ExitResult { status, stdout, .. } = compare(&["--budget", "p99 +15 %, rate −10 %"]);
    assert_eq!(status, 0, "{stdout}");
    assert_contains_all(&stdout, &["+15 %  within budget"]);
    let ExitResult { status, stdout, .. } = compare(&["--budget=p99 +5 %"]);
    assert_eq!(status, 1, "{stdout}");
    assert_contains_all(&stdout, &["WORSE: p99 +10.0 %, budget +5 %"]);
    let file = path_text("budgets.toml");
    std::fs::write(&file, "[budgets]\np99 = \"+5 %\"\nerrors = \"+0.5 points\"\n").unwrap();
    assert_eq!(compare(&["--budgets", &file]).status, 1);
    let unmeasured = compare(&["--budget", "p999 +5 %, p9999 +5 %"]);
    assert_eq!(unmeasured.status, 1, "{}", unmeasured.stdout);
    let expected = ["the budget of p99.99 cannot be checked"];
    assert_contains_all(&unmeasured.stdout, &expected);
    for (budget, part) in [("p96 +1 %", "the figures are"), ("rate +1 %", "a lower value")] {
        assert_usage_error(&compare(&["--budget", budget]), &[part]);
    }
}

#[test]
fn compare_writes_markdown_to_standard_output() {
    let (base, new) = (directory("mark-base", 5, 100.0), directory("mark-new", 5, 105.0));
    let ExitResult { status, stdout, .. } = load(["compare", &base, &new, "--markdown", "-"]);
    assert_eq!(status, 1);
    assert!(stdout.starts_with("### WORSE: p99 +5.0"), "{stdout}");
    assert_contains_all(&stdout, &["| p99 |", "| WORSE |"]);
}

#[test]
fn compare_without_results_names_needed_runs() {
    let ExitResult { status, stdout, .. } = load(["compare"]);
    assert_eq!(status, 0);
    let expected = ["runs a side that show a change of 3 %", "p99 27 (assumed)", "a spread of 3 %"];
    assert_contains_all(&stdout, &expected);
    assert!(stdout.lines().all(|line| line.chars().count() <= 100), "{stdout}");
    let first = [100.0, 101.0].map(|p99_us| write(&format!("first-{p99_us}.json"), &run(p99_us)));
    let ExitResult { status, stdout, .. } = load(["compare", "--base", &first[0], &first[1]]);
    assert_eq!(status, 0, "{stdout}");
    assert_contains_all(&stdout, &["p99 4 (spread 0.7"]);
}

#[test]
fn compare_rejects_incomparable_results() {
    let base = write("unlike-base.json", &run(100.0));
    let mut other = run(100.0);
    other.manifest.kernel = "6.1".into();
    other.plan.connections = 3;
    other.plan.target = "http://127.0.0.1:1".into();
    let other = write("unlike-new.json", &other);
    let expected = [
        "kernel (6.18 / 6.1)",
        "connections (64 / 3)",
        "transport (tcp / http)",
        "--even-different",
    ];
    assert_usage_error(&load(["compare", &base, &other]), &expected);
    let ExitResult { status, stderr, .. } = load(["compare", &base, &other, "--even-different"]);
    assert_eq!(status, 3, "{stderr}");
    assert_contains_all(&stderr, &["differs: kernel (6.18 / 6.1)"]);
}

#[test]
fn compare_rejects_invalid_runs_by_default() {
    let base = write("invalid-base.json", &run(100.0));
    let mut other = run(100.0);
    other.verdict.saturated.push("only 50.0 % of the due requests".into());
    let other = write("invalid-new.json", &other);
    let expected = ["invalid-new.json is invalid", "only 50.0 %", "--even-invalid"];
    assert_usage_error(&load(["compare", &base, &other]), &expected);
    assert_eq!(load(["compare", &base, &other, "--even-invalid"]).status, 3);
}
