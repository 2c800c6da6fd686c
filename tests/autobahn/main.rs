//! The Autobahn test suite against an echo on the link and frames that the server uses.
//!
//! Its fuzzing client plays every case but those of chapter 9, which measure speed and judge
//! nothing: framing, pings, fragments, UTF-8, closing, and `permessage-deflate` with seven offers
//! and five kinds of data. What it finds out about a case must be that it went as it should;
//! "informational" is what it calls a case in which a server may do as it likes. The number of
//! cases is stated, so that none goes missing unnoticed.
//!
//! Each test is one chapter with an echo of its own, so that they run side by side. The chapters of
//! compression take the client about half a minute each, most of it in its own zlib.
//!
//! `install.sh` puts the suite below the target folder before the tests; where it is missing a test
//! fails and says so. Whatever is started here ends with its test.

#![cfg(target_os = "linux")]

mod echo;
mod report;
mod suite;

use echo::{Backend, Echo};

/// Cases of one chapter of compression: so many sizes of messages and of their fragments.
const SIZES: usize = 18;

/// Whatever has no extension.
const PLAIN: [&str; 8] = ["1.*", "2.*", "3.*", "4.*", "5.*", "6.*", "7.*", "10.*"];

#[test]
fn frames_pings_fragments_texts_and_closings_are_handled_as_they_should() {
    expect_passes_over(Backend::Uring, &PLAIN, 247);
}

#[test]
fn the_same_is_so_over_readiness() {
    expect_passes_over(Backend::Poll, &PLAIN, 247);
}

#[test]
fn compressed_json_comes_back_as_it_was() {
    expect_passes(&["12.1.*"], SIZES);
}

#[test]
fn a_compressed_bitmap_comes_back_as_it_was() {
    expect_passes(&["12.2.*"], SIZES);
}

#[test]
fn a_compressed_book_comes_back_as_it_was() {
    expect_passes(&["12.3.*"], SIZES);
}

#[test]
fn compressed_html_comes_back_as_it_was() {
    expect_passes(&["12.4.*"], SIZES);
}

#[test]
fn what_cannot_be_compressed_comes_back_as_it_was() {
    expect_passes(&["12.5.*"], SIZES);
}

#[test]
fn an_offer_without_parameters_is_accepted() {
    expect_passes(&["13.1.*"], SIZES);
}

#[test]
fn an_offer_may_ask_for_a_fresh_context_with_each_message() {
    expect_passes(&["13.2.*"], SIZES);
}

#[test]
fn an_offer_may_ask_for_the_smallest_window() {
    expect_passes(&["13.3.*"], SIZES);
}

#[test]
fn an_offer_may_ask_for_the_largest_window() {
    expect_passes(&["13.4.*"], SIZES);
}

#[test]
fn an_offer_may_ask_for_a_fresh_context_in_the_smallest_window() {
    expect_passes(&["13.5.*"], SIZES);
}

#[test]
fn an_offer_may_ask_for_a_fresh_context_in_the_largest_window() {
    expect_passes(&["13.6.*"], SIZES);
}

#[test]
fn the_first_of_several_offers_that_suits_is_accepted() {
    expect_passes(&["13.7.*"], SIZES);
}

fn expect_passes(patterns: &[&str], count: usize) {
    expect_passes_over(Backend::Uring, patterns, count);
}

/// Plays the cases of some patterns against an echo of their own.
fn expect_passes_over(backend: Backend, patterns: &[&str], count: usize) {
    let echo = Echo::start(backend);
    let run = suite::run(patterns, echo.address());
    let failed: Vec<String> = run
        .cases
        .iter()
        .filter(|case| !case.is_passed())
        .inspect(|case| eprintln!("{case}"))
        .map(|case| case.id.clone())
        .collect();
    assert!(failed.is_empty(), "{} cases do not pass: {}", failed.len(), failed.join(", "));
    assert_eq!(run.cases.len(), count, "so many cases were played:\n{}", run.said);
    assert!(run.status.success(), "the suite itself ends with {}:\n{}", run.status, run.said);
}
