//! The plans that ship with the harness: each can be run as it is, says what it shows, and is named
//! in the table of its folder; so is every plan that another document or the program itself names.

#![expect(clippy::unwrap_used, reason = "what a test sets up for itself has to be there")]
#![expect(
    clippy::case_sensitive_file_extension_comparisons,
    reason = "the names of our own files are in lower case"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use corelane_load::plan::{PhasePlan, Plan, Span};
use corelane_load::target::Target;

/// The folder of this package.
fn package() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(package().join(path)).unwrap()
}

/// The plans of the folder by their names, in order.
fn plans() -> BTreeSet<String> {
    let entries = fs::read_dir(package().join("plans")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".toml")).collect()
}

/// The names of plans in a text, wherever they stand.
fn named(text: &str) -> BTreeSet<String> {
    let is_part = |sign: char| sign.is_ascii_alphanumeric() || matches!(sign, '-' | '_' | '.');
    let words = text.split(|sign: char| !is_part(sign));
    let words = words.filter(|word| word.ends_with(".toml"));
    words.filter(|word| *word != "Cargo.toml").map(str::to_owned).collect()
}

#[test]
fn every_plan_can_be_run_as_it_is() {
    assert!(plans().len() >= 8);
    for name in plans() {
        let mut plan = Plan::read(&package().join("plans").join(&name)).unwrap();
        if plan.sweep.is_some() {
            // It looks for its rates itself.
            plan.phases = vec![PhasePlan::constant(1.0, Span::seconds(1))];
        }
        let job = plan.job();
        assert!(job.is_ok(), "{name}: {:?}", job.err());
        let target: Target = plan.target.parse().unwrap();
        let addresses = target.resolve().unwrap();
        assert!(addresses.iter().all(|address| address.ip().is_loopback()), "{name}: {target}");
    }
}

#[test]
fn every_plan_says_first_what_it_shows() {
    for name in plans() {
        let text = read(&format!("plans/{name}"));
        let head = text.lines().take_while(|line| line.starts_with('#')).count();
        assert!(head >= 2, "{name} begins with {head} lines of comment");
    }
}

#[test]
fn the_table_of_the_folder_names_every_plan_and_no_other() {
    let table: Vec<String> = read("plans/README.md")
        .lines()
        .filter(|line| line.starts_with("| ["))
        .map(|line| line[3..line.find(']').unwrap()].to_owned())
        .collect();
    let names: BTreeSet<String> = table.iter().cloned().collect();
    assert_eq!(names, plans());
    assert_eq!(table.len(), names.len(), "a plan stands twice in the table");
    assert!(table.is_sorted(), "the table is not in order: {table:?}");
}

#[test]
fn every_knob_has_a_plan_that_is_there_and_a_chapter() {
    let chapters = read("../tuning/README.md");
    let knobs: BTreeSet<String> =
        plans().into_iter().filter(|name| name.starts_with("knob-")).collect();
    let told: BTreeSet<String> =
        named(&chapters).into_iter().filter(|name| name.starts_with("knob-")).collect();
    assert_eq!(told, knobs, "plans that tuning/README.md names, and those that there are");
    let mut advised = BTreeSet::new();
    for file in ["knobs.rs", "limits.rs", "review.rs"] {
        advised.extend(named(&read(&format!("src/tuning/{file}"))));
    }
    assert!(advised.is_subset(&knobs), "{advised:?}");
    for setting in corelane_load::tuning::settings(corelane_load::tuning::PROFILE) {
        let name = setting.name.rsplit('.').next().unwrap();
        assert!(chapters.contains(name), "{name} has no chapter");
    }
}
