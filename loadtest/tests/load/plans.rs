//! Tests of the shipped plans: each is valid, has a description, and is listed in the README; plans
//! named elsewhere exist.

#![expect(clippy::unwrap_used, reason = "test setup")]
#![expect(
    clippy::case_sensitive_file_extension_comparisons,
    reason = "all file names are lower case"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use corelane_load::plan::{HumanDuration, PhasePlan, Plan};
use corelane_load::target::Target;

use crate::{file_path, load};

/// Returns the directory of this package.
fn package() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(package().join(path)).unwrap()
}

/// Returns the names of the plans in order.
fn plans() -> BTreeSet<String> {
    let entries = fs::read_dir(package().join("plans")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".toml")).collect()
}

/// Returns the names of plans in a text.
fn named(text: &str) -> BTreeSet<String> {
    let is_part = |sign: char| sign.is_ascii_alphanumeric() || matches!(sign, '-' | '_' | '.');
    let words = text.split(|sign: char| !is_part(sign));
    let words = words.filter(|word| word.ends_with(".toml"));
    words.filter(|word| *word != "Cargo.toml").map(str::to_owned).collect()
}

#[test]
fn shipped_plans_are_valid() {
    assert!(plans().len() >= 8);
    for name in plans() {
        let path = package().join("plans").join(&name);
        let own = Plan::read(&path).ok().map(|plan| plan.target);
        let target = own.unwrap_or_else(|| "http://127.0.0.1:8080".into());
        let mut plan = Plan::read_with_target(&path, Some(&target)).unwrap();
        if plan.sweep.is_some() {
            // A sweep determines its rates itself.
            plan.phases = vec![PhasePlan::constant(1.0, HumanDuration::from_secs(1))];
        }
        let job = plan.run_config();
        assert!(job.is_ok(), "{name}: {:?}", job.err());
        let target: Target = plan.target.parse().unwrap();
        let addresses = target.resolve().unwrap();
        assert!(addresses.iter().all(|address| address.ip().is_loopback()), "{name}: {target}");
    }
}

#[test]
fn shipped_plans_begin_with_a_description() {
    for name in plans() {
        let text = read(&format!("plans/{name}"));
        let head = text.lines().take_while(|line| line.starts_with('#')).count();
        assert!(head >= 2, "{name} begins with {head} lines of comment");
    }
}

#[test]
fn plans_readme_lists_all_plans() {
    let table: Vec<String> = read("plans/README.md")
        .lines()
        .filter(|line| line.starts_with("| ["))
        .map(|line| line[3..line.find(']').unwrap()].to_owned())
        .collect();
    let names: BTreeSet<String> = table.iter().cloned().collect();
    assert_eq!(names, plans());
    assert_eq!(table.len(), names.len(), "duplicate row in the table");
    assert!(table.is_sorted(), "the table is not in order: {table:?}");
}

#[test]
fn tuning_readme_names_each_knob_plan() {
    let chapters = read("../tuning/README.md");
    let knobs: BTreeSet<String> =
        plans().into_iter().filter(|name| name.starts_with("knob-")).collect();
    let named_plans: BTreeSet<String> =
        named(&chapters).into_iter().filter(|name| name.starts_with("knob-")).collect();
    assert_eq!(named_plans, knobs, "plans named in tuning/README.md, and existing plans");
}

#[test]
fn plan_without_target_takes_that_of_command() {
    let path = file_path("targetless.toml");
    fs::write(&path, "connections = 3\n[[phase]]\nrate = 1\nduration = \"1s\"\n").unwrap();
    let plan = Plan::read_with_target(&path, Some("tcp://localhost:1")).unwrap();
    assert_eq!((plan.target.as_str(), plan.connections), ("tcp://localhost:1", 3));
    for command in ["run", "search"] {
        let ended = load([command, "--plan", path.to_str().unwrap(), "--p99-max=1s"]);
        assert_eq!((ended.status, ended.stderr.lines().count()), (2, 1), "{ended:?}");
        for part in ["targetless.toml has no target", "on the command line", "target = \"http"] {
            assert!(ended.stderr.contains(part), "'{part}' is not in: {ended:?}");
        }
    }
}

#[test]
fn stdio_target_of_a_plan_has_one_connection() {
    let path = file_path("connections.toml");
    let connections = |text: &str, target| {
        fs::write(&path, text).unwrap();
        Plan::read_with_target(&path, target).unwrap().connections
    };
    assert_eq!(connections("target = \"stdio:cat\"", None), 1);
    assert_eq!(connections("target = \"tcp://localhost:1\"", Some("stdio:cat")), 1);
    assert_eq!(connections("target = \"stdio:cat\"", Some("tcp://localhost:1")), 64);
    assert_eq!(connections("target = \"stdio:cat\"\nconnections = 5", None), 5);
}
