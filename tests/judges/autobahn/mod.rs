//! The Autobahn test suite against an echo server on the connections and codec of the server, and
//! against an echo client on the codec of the client.
//!
//! Its fuzzing client runs every case except chapter 9, which only measures speed: framing, pings,
//! fragments, UTF-8, closing, and `permessage-deflate` with seven offers and five kinds of data.
//! Every case must be `OK` or `INFORMATIONAL` (any behaviour is allowed). The number of cases is
//! asserted to detect missing ones.
//!
//! Each test runs one chapter against its own echo server, in parallel. A chapter of compression
//! takes the client about half a minute, mostly in its own zlib.
//!
//! `install.sh` installs the suite below the target directory before the tests; without it every
//! test fails with that hint.

#![cfg(target_os = "linux")]

mod client;
mod echo;
mod report;
mod suite;

use echo::{Backend, EchoServer};
use report::Case;
use suite::FuzzingServer;

/// Cases of one chapter of compression: combinations of message and fragment sizes.
const SIZES: usize = 18;

/// Chapters without an extension.
const PLAIN: [&str; 8] = ["1.*", "2.*", "3.*", "4.*", "5.*", "6.*", "7.*", "10.*"];

#[ignore = "needs pyenv: ./test.sh installs the Autobahn test suite and runs it"]
#[test]
fn websocket_cases_pass_over_uring() {
    expect_passes_over(Backend::Uring, &PLAIN, 247);
}

#[ignore = "needs pyenv: ./test.sh installs the Autobahn test suite and runs it"]
#[test]
fn websocket_cases_pass_over_poll() {
    expect_passes_over(Backend::Poll, &PLAIN, 247);
}

#[ignore = "needs pyenv: ./test.sh installs the Autobahn test suite and runs it"]
#[test]
fn deflate_json_is_echoed_unchanged() {
    expect_passes(&["12.1.*"], SIZES);
}

#[ignore = "needs pyenv: ./test.sh installs the Autobahn test suite and runs it"]
#[test]
fn deflate_bitmap_is_echoed_unchanged() {
    expect_passes(&["12.2.*"], SIZES);
}

#[ignore = "needs pyenv: ./test.sh installs the Autobahn test suite and runs it"]
#[test]
fn deflate_book_is_echoed_unchanged() {
    expect_passes(&["12.3.*"], SIZES);
}

#[ignore = "needs pyenv: ./test.sh installs the Autobahn test suite and runs it"]
#[test]
fn deflate_html_is_echoed_unchanged() {
    expect_passes(&["12.4.*"], SIZES);
}

#[ignore = "needs pyenv: ./test.sh installs the Autobahn test suite and runs it"]
#[test]
fn deflate_incompressible_data_is_echoed_unchanged() {
    expect_passes(&["12.5.*"], SIZES);
}

#[ignore = "needs pyenv: ./test.sh installs the Autobahn test suite and runs it"]
#[test]
fn deflate_offer_without_parameters_is_accepted() {
    expect_passes(&["13.1.*"], SIZES);
}

#[ignore = "needs pyenv: ./test.sh installs the Autobahn test suite and runs it"]
#[test]
fn deflate_offer_without_context_takeover_is_accepted() {
    expect_passes(&["13.2.*"], SIZES);
}

#[ignore = "needs pyenv: ./test.sh installs the Autobahn test suite and runs it"]
#[test]
fn deflate_offer_with_smallest_window_is_accepted() {
    expect_passes(&["13.3.*"], SIZES);
}

#[ignore = "needs pyenv: ./test.sh installs the Autobahn test suite and runs it"]
#[test]
fn deflate_offer_with_largest_window_is_accepted() {
    expect_passes(&["13.4.*"], SIZES);
}

#[ignore = "needs pyenv: ./test.sh installs the Autobahn test suite and runs it"]
#[test]
fn deflate_smallest_window_without_takeover_is_accepted() {
    expect_passes(&["13.5.*"], SIZES);
}

#[ignore = "needs pyenv: ./test.sh installs the Autobahn test suite and runs it"]
#[test]
fn deflate_largest_window_without_takeover_is_accepted() {
    expect_passes(&["13.6.*"], SIZES);
}

#[ignore = "needs pyenv: ./test.sh installs the Autobahn test suite and runs it"]
#[test]
fn deflate_first_suitable_offer_is_accepted() {
    expect_passes(&["13.7.*"], SIZES);
}

/// The client receives only text (1.2.* are binary), and offers no compression (12.*, 13.*). It
/// checks the text of a message at its end, where 6.4.* prefer an earlier check.
#[ignore = "needs pyenv: ./test.sh installs the Autobahn test suite and runs it"]
#[test]
fn websocket_cases_pass_for_client() {
    let server = FuzzingServer::start(&PLAIN, &["1.2.*"]);
    let read = |path: &str| client::echo(server.address(), path).expect("the suite answers");
    let count: usize = read("/getCaseCount").concat().parse().expect("a number of cases");
    for case in 1..=count {
        read(&format!("/runCase?case={case}&agent=corelane"));
    }
    read("/updateReports?agent=corelane");
    let cases = server.cases();
    let is_passed = |case: &Case| case.is_passed() || case.is_late_but_passed("6.4.");
    expect_all(&cases, is_passed);
    assert_eq!((count, cases.len()), (CLIENT_CASES, CLIENT_CASES), "number of cases");
}

/// Cases of the client.
const CLIENT_CASES: usize = 239;

fn expect_passes(patterns: &[&str], count: usize) {
    expect_passes_over(Backend::Uring, patterns, count);
}

/// Runs the cases that match `patterns` against their own echo server.
fn expect_passes_over(backend: Backend, patterns: &[&str], count: usize) {
    let echo = EchoServer::start(backend);
    let run = suite::run(patterns, echo.address());
    expect_all(&run.cases, Case::is_passed);
    assert_eq!(run.cases.len(), count, "number of cases:\n{}", run.output);
    assert!(run.status.success(), "the suite exited with {}:\n{}", run.status, run.output);
}

/// Expects that all cases pass; prints those that do not.
fn expect_all(cases: &[Case], is_passed: impl Fn(&Case) -> bool) {
    let failed: Vec<&str> = cases
        .iter()
        .filter(|case| !is_passed(case))
        .inspect(|case| eprintln!("{case}"))
        .map(|case| &*case.id)
        .collect();
    assert!(failed.is_empty(), "{} cases do not pass: {}", failed.len(), failed.join(", "));
}
