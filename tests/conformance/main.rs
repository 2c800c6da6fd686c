//! The official conformance suite against `corelane serve` over Streamable HTTP.
//!
//! The suite plays a client of one revision and judges every answer, each message against the
//! schema of that revision too. It scores some of its scenarios and only runs the others (tasks,
//! headers, the life of a session, polling, schemas); here all of them must pass, and without a
//! warning, for the suite warns where a SHOULD of the specification is not met. What may fail
//! nevertheless stands in `expected-failures.yml`: nothing.
//!
//! `install.sh` puts the suite below the target folder before the tests; where it is missing a test
//! fails and says so. Whatever is started here ends with its test.

#![cfg(target_os = "linux")]

mod suite;
mod verdict;

#[path = "../support/serving.rs"]
mod serving;

use serving::Serving;
use suite::Selection;
use verdict::Ending;

/// The suite plays no client yet that could observe it, and says so.
const UNPLAYED: &str = "tasks-status-notifications";

#[test]
fn every_scenario_of_2026_07_28_passes() {
    expect_passes(Selection::Requirements("2026-07-28"), 50);
}

#[test]
fn every_scenario_of_2025_11_25_passes() {
    expect_passes(Selection::Requirements("2025-11-25"), 33);
}

#[test]
fn every_scenario_that_applies_to_2025_06_18_passes() {
    expect_passes(Selection::Applicable("2025-06-18"), 27);
}

#[test]
fn every_scenario_that_applies_to_2025_03_26_passes() {
    expect_passes(Selection::Applicable("2025-03-26"), 1);
}

/// Runs a selection against a server of its own. The number of scenarios is stated, so that none
/// goes missing unnoticed.
fn expect_passes(selection: Selection, count: usize) {
    let server = Serving::start(&[]);
    let run = suite::run(selection, &server.url("/mcp"));
    for scenario in &run.scenarios {
        eprintln!("{scenario}");
    }
    let failed: Vec<&str> = run
        .scenarios
        .iter()
        .filter(|scenario| match scenario.ending() {
            Ending::Passed => false,
            Ending::Skipped => scenario.name != UNPLAYED,
            Ending::Failed => true,
        })
        .map(|scenario| scenario.name.as_str())
        .collect();
    assert!(failed.is_empty(), "{} scenarios do not pass: {}", failed.len(), failed.join(", "));
    assert_eq!(run.scenarios.len(), count, "so many scenarios were played:\n{}", run.said);
    assert!(run.status.success(), "the suite itself ends with {}:\n{}", run.status, run.said);
}
