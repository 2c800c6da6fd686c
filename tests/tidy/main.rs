//! The house rules as tests over the text of the repository.
//!
//! Each rule is a function from text to findings, with tests beside it that show it firing. The
//! tests on this page run every rule over every file and name the file, the line, what is wrong
//! and what to do instead. Nothing here compiles or runs the code that it reads: comments and
//! strings are blanked and the rest is looked at as words.

#![expect(
    clippy::case_sensitive_file_extension_comparisons,
    reason = "the names of our own files are in lower case"
)]

mod layers;
mod names;
mod plain;
mod purity;
mod reach;
mod repository;
mod siblings;
mod sizes;
mod source;
mod words;

use std::fmt;

use repository::Repository;

/// One broken rule.
#[derive(Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Finding {
    file: String,
    line: usize,
    message: String,
}

impl Finding {
    fn new(file: &str, line: usize, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {}", self.file, self.line, self.message)
    }
}

/// Fails with one line per finding.
fn expect_none(mut findings: Vec<Finding>) {
    findings.sort();
    findings.dedup();
    let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "{} broken rules:\n{}", lines.len(), lines.join("\n"));
}

#[test]
fn every_room_uses_only_the_rooms_below_it() {
    let repository = Repository::read();
    expect_none(repository.rust().flat_map(layers::check).collect());
}

#[test]
fn every_room_stands_in_the_layer_table() {
    let repository = Repository::read();
    expect_none(layers::check_rooms(&repository.modules()));
}

#[test]
fn children_use_only_siblings_listed_before_them() {
    let repository = Repository::read();
    let modules = repository.modules();
    expect_none(repository.rust().flat_map(|file| siblings::check(file, &modules)).collect());
}

#[test]
fn files_functions_and_folders_stay_small() {
    let repository = Repository::read();
    let mut findings: Vec<Finding> = repository.rust().flat_map(sizes::check).collect();
    findings.extend(sizes::check_folders(repository.paths()));
    expect_none(findings);
}

#[test]
fn every_file_opens_with_what_it_is() {
    let repository = Repository::read();
    expect_none(repository.rust().filter_map(plain::check_header).collect());
}

#[test]
fn text_is_plain_and_fits_the_page() {
    let repository = Repository::read();
    expect_none(repository.texts().flat_map(|(path, text)| plain::check(path, text)).collect());
}

#[test]
fn no_file_is_large() {
    let repository = Repository::read();
    expect_none(plain::check_weights(repository.weights()));
}

#[test]
fn no_banned_word_is_used() {
    let repository = Repository::read();
    let modules = repository.modules();
    let mut findings: Vec<Finding> =
        repository.rust().flat_map(|file| words::check(file, &modules)).collect();
    findings.extend(repository.texts().flat_map(|(path, text)| words::check_marks(path, text)));
    expect_none(findings);
}

#[test]
fn names_are_spelled_out() {
    let repository = Repository::read();
    let mut findings: Vec<Finding> = repository.rust().flat_map(names::check).collect();
    findings.extend(names::check_paths(repository.paths()));
    expect_none(findings);
}

#[test]
fn danger_has_an_address_and_pure_rooms_are_pure() {
    let repository = Repository::read();
    let modules = repository.modules();
    let mut findings: Vec<Finding> = repository.rust().flat_map(purity::check_unsafe).collect();
    findings.extend(repository.rust().flat_map(|file| purity::check_pure(file, &modules)));
    findings.extend(repository.rust().filter_map(purity::check_forbid));
    expect_none(findings);
}

#[test]
fn every_source_file_is_reached_from_a_crate_root() {
    let repository = Repository::read();
    let rust: Vec<_> = repository.rust().collect();
    expect_none(reach::check_dead(&rust));
}

#[test]
fn every_link_of_a_document_leads_somewhere() {
    let repository = Repository::read();
    expect_none(
        repository
            .texts()
            .filter(|(path, _)| path.ends_with(".md"))
            .flat_map(|(path, text)| reach::check_document(path, text, &|to| repository.has(to)))
            .collect(),
    );
}
