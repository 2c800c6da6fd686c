//! The project's rules as tests over the text of the repository.
//!
//! Each rule is a function from text to findings, with tests beside it that show it firing. The
//! tests in this file run every rule over every file; a finding names the file, the line, what is
//! wrong and what to do instead. The code that is read is not compiled: comments and strings are
//! blanked and the rest is split into tokens.

#![expect(
    clippy::case_sensitive_file_extension_comparisons,
    reason = "file names of the repository are in lower case"
)]

mod cycles;
mod layers;
mod names;
mod phrases;
mod plain;
mod purity;
mod reach;
mod repository;
mod shape;
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
fn module_uses_only_allowed_modules() {
    let repository = Repository::read();
    expect_none(repository.rust().flat_map(layers::check).collect());
}

#[test]
fn every_module_has_a_layer() {
    let repository = Repository::read();
    expect_none(layers::check_modules(&repository.modules(), repository.paths()));
}

#[test]
fn children_use_only_earlier_siblings() {
    let repository = Repository::read();
    let modules = repository.modules();
    let found = repository.rust().flat_map(|file| siblings::check(file, &modules));
    expect_none(found.collect());
}

#[test]
fn modules_have_no_cycles() {
    let repository = Repository::read();
    expect_none(cycles::check(&repository.rust().collect::<Vec<_>>()));
}

#[test]
fn files_and_functions_are_small() {
    let repository = Repository::read();
    expect_none(repository.rust().flat_map(sizes::check).collect());
}

#[test]
fn offending_shapes_only_become_fewer() {
    let repository = Repository::read();
    let (files, list) = (repository.rust().collect::<Vec<_>>(), include_str!("offenders.txt"));
    expect_none(shape::check(&files, repository.paths(), list, "tests/tidy/offenders.txt"));
}

#[test]
fn every_file_has_a_header() {
    let repository = Repository::read();
    expect_none(repository.rust().filter_map(plain::check_header).collect());
}

#[test]
fn text_is_plain() {
    let repository = Repository::read();
    expect_none(repository.texts().flat_map(|(path, text)| plain::check(path, text)).collect());
}

#[test]
fn no_file_is_large() {
    let repository = Repository::read();
    expect_none(plain::check_weights(repository.weights()));
}

#[test]
fn no_banned_code_is_used() {
    let repository = Repository::read();
    let modules = repository.modules();
    let mut findings: Vec<Finding> =
        repository.rust().flat_map(|file| words::check(file, &modules)).collect();
    findings.extend(repository.texts().flat_map(|(path, text)| words::check_marks(path, text)));
    expect_none(findings);
}

#[test]
fn names_use_standard_words() {
    let repository = Repository::read();
    let mut findings: Vec<Finding> = repository.rust().flat_map(names::check).collect();
    findings.extend(names::check_paths(repository.paths()));
    expect_none(findings);
}

#[test]
fn prose_uses_standard_words() {
    let repository = Repository::read();
    expect_none(repository.texts().flat_map(|(path, text)| phrases::check(path, text)).collect());
}

#[test]
fn unsafe_code_and_side_effects_are_confined() {
    let repository = Repository::read();
    let modules = repository.modules();
    let mut findings: Vec<Finding> = repository.rust().flat_map(purity::check_unsafe).collect();
    findings.extend(repository.rust().flat_map(|file| purity::check_pure(file, &modules)));
    findings.extend(repository.rust().filter_map(purity::check_forbid));
    expect_none(findings);
}

#[test]
fn every_source_file_is_reachable() {
    let repository = Repository::read();
    let rust: Vec<_> = repository.rust().collect();
    expect_none(reach::check_dead(&rust));
}

#[test]
fn every_document_link_resolves() {
    let repository = Repository::read();
    expect_none(
        repository
            .texts()
            // Those of `src` are parts of the crate documentation, whose links rustdoc checks.
            .filter(|(path, _)| path.ends_with(".md") && !path.starts_with("src/"))
            .flat_map(|(path, text)| {
                let mut found = reach::check_document(path, text, &|to| repository.has(to));
                let read = |to: &str| repository.rust().find(|file| file.path == to);
                found.extend(reach::check_items(path, text, &read));
                found
            })
            .collect(),
    );
}
