//! The official conformance suite against `corelane serve` over Streamable HTTP, against
//! `McpService` in axum, and against the client in `client/`.
//!
//! The suite acts as a client or a server of one revision and checks every message, also against
//! the schema of that revision. It scores only some of its scenarios (not tasks, headers, session
//! lifecycle, polling and schemas); here all must pass without a warning, which the suite gives for
//! an unmet SHOULD of the specification. `expected-failures.yml` lists the exceptions: none.
//!
//! `install.sh` installs the suite below the target directory before the tests; without it every
//! test fails with that hint.

#![cfg(target_os = "linux")]

mod gateway;
mod mounted;
mod results;
mod suite;

use std::fs;

use corelane_test_support::ServeProcess;
use mounted::MountedServer;
use results::{Outcome, Scenario};
use suite::Selection;

use crate::CORELANE;

/// Skipped by the suite, which has no client for it yet.
const SKIPPED: &str = "tasks-status-notifications";

#[ignore = "needs Node.js: ./test.sh installs the conformance suite and runs it"]
#[test]
fn conformance_2026_07_28_passes() {
    expect_passes(Selection::Requirements("2026-07-28"), 50);
}

#[ignore = "needs Node.js: ./test.sh installs the conformance suite and runs it"]
#[test]
fn conformance_2025_11_25_passes() {
    expect_passes(Selection::Requirements("2025-11-25"), 33);
}

#[ignore = "needs Node.js: ./test.sh installs the conformance suite and runs it"]
#[test]
fn conformance_2025_06_18_passes() {
    expect_passes(Selection::Applicable("2025-06-18"), 27);
}

#[ignore = "needs Node.js: ./test.sh installs the conformance suite and runs it"]
#[test]
fn conformance_2025_03_26_passes() {
    expect_passes(Selection::Applicable("2025-03-26"), 1);
}

#[ignore = "needs Node.js: ./test.sh installs the conformance suite and runs it"]
#[test]
fn conformance_of_skills_passes() {
    let skills = tempfile::tempdir().expect("a directory");
    let folder = skills.path().join("office/pdf");
    fs::create_dir_all(folder.join("scripts")).expect("a folder");
    let text = "---\nname: pdf\ndescription: Fills PDF forms.\n---\nRun scripts/fill.py.\n";
    fs::write(folder.join("SKILL.md"), text).expect("a file");
    fs::write(folder.join("scripts/fill.py"), "print('filled')\n").expect("a file");
    let directory = skills.path().to_str().expect("UTF-8");
    let server = ServeProcess::http(CORELANE, &["--skills", directory]);
    for name in ["enumeration", "manifest", "directory"] {
        let scenario = format!("sep-2640-skills-{name}");
        expect_passes_at(&server.url("/mcp"), Selection::Scenario(&scenario), 1);
    }
}

#[ignore = "needs Node.js: ./test.sh installs the conformance suite and runs it"]
#[test]
fn mounted_conformance_2026_07_28_passes() {
    expect_passes_at(&MountedServer::start().url(), Selection::Requirements("2026-07-28"), 50);
}

#[ignore = "needs Node.js: ./test.sh installs the conformance suite and runs it"]
#[test]
fn mounted_conformance_2025_11_25_passes() {
    expect_passes_at(&MountedServer::start().url(), Selection::Requirements("2025-11-25"), 33);
}

#[ignore = "needs Node.js: ./test.sh installs the conformance suite and runs it"]
#[test]
fn client_conformance_2026_07_28_passes() {
    let expected = [
        "http-custom-headers",
        "http-invalid-tool-headers",
        "http-standard-headers",
        "json-schema-2020-12-preservation",
        "json-schema-ref-no-deref",
        "request-metadata",
        "sep-2322-client-request-state",
        "tools_call",
    ];
    expect_client_passes(&["--requirements", "2026-07-28"], &expected, 31);
}

#[ignore = "needs Node.js: ./test.sh installs the conformance suite and runs it"]
#[test]
fn client_conformance_2025_11_25_passes() {
    let expected = [
        "elicitation-sep1034-client-defaults",
        "initialize",
        "json-schema-2020-12-preservation",
        "sse-retry",
        "tools_call",
    ];
    expect_client_passes(&["--requirements", "2025-11-25"], &expected, 20);
}

#[ignore = "needs Node.js: ./test.sh installs the conformance suite and runs it"]
#[test]
fn client_conformance_2025_03_26_authorization_passes() {
    expect_client_passes(&["--suite", "backcompat"], &[], 2);
}

#[ignore = "needs Node.js: ./test.sh installs the conformance suite and runs it"]
#[test]
fn client_conformance_of_skills_passes() {
    for check in ["no-prefetch", "verify-digest", "verify-frontmatter", "verify-size"] {
        let scenario = format!("sep-2640-client-{check}");
        expect_client_passes(&["--scenario", &scenario], &[&scenario], 0);
    }
}

/// Runs the scenarios of the client. These pass, and as many with authorization as stated.
fn expect_client_passes(selection: &[&str], expected: &[&str], authorization: usize) {
    let tests = std::env::current_exe().expect("the path of the tests");
    // Cargo puts tests into target/debug/deps.
    let target = tests.ancestors().nth(2).expect("a target directory");
    let program = target.join("examples/conformance_client");
    assert!(program.exists(), "build the client first: cargo build --examples");
    let run = suite::run_client(selection, &program);
    for scenario in &run.scenarios {
        eprintln!("{scenario}");
    }
    let (with, without): (Vec<_>, Vec<_>) =
        run.scenarios.iter().partition(|scenario| scenario.name.starts_with("auth/"));
    let passed = without.iter().filter(|scenario| scenario.outcome() == Outcome::Passed);
    let passed: Vec<&str> = passed.map(|scenario| scenario.name.as_str()).collect();
    assert_eq!(passed, expected, "the scenarios that pass:\n{}", run.output);
    assert_eq!(without.len(), expected.len(), "number of scenarios:\n{}", run.output);
    let is_failed = |scenario: &&Scenario| scenario.outcome() != Outcome::Passed;
    let failed: Vec<&str> =
        with.iter().copied().filter(is_failed).map(|scenario| scenario.name.as_str()).collect();
    assert!(failed.is_empty(), "with authorization do not pass: {failed:?}\n{}", run.output);
    assert_eq!(with.len(), authorization, "scenarios with authorization:\n{}", run.output);
    assert!(run.status.success(), "the suite exited with {}:\n{}", run.status, run.output);
}

/// Runs a selection against its own server.
fn expect_passes(selection: Selection<'_>, count: usize) {
    let server = ServeProcess::http(CORELANE, &["--demo", "conformance"]);
    expect_passes_at(&server.url("/mcp"), selection, count);
}

/// Runs a selection against the server at `url`. `count` detects missing scenarios.
fn expect_passes_at(url: &str, selection: Selection<'_>, count: usize) {
    let run = suite::run(selection, url);
    for scenario in &run.scenarios {
        eprintln!("{scenario}");
    }
    let failed: Vec<&str> = run
        .scenarios
        .iter()
        .filter(|scenario| match scenario.outcome() {
            Outcome::Passed => false,
            Outcome::Skipped => scenario.name != SKIPPED,
            Outcome::Failed => true,
        })
        .map(|scenario| scenario.name.as_str())
        .collect();
    assert!(failed.is_empty(), "{} scenarios do not pass: {}", failed.len(), failed.join(", "));
    assert_eq!(run.scenarios.len(), count, "number of scenarios:\n{}", run.output);
    assert!(run.status.success(), "the suite exited with {}:\n{}", run.status, run.output);
}
