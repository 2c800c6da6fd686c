//! What is told of a machine, and what is done to one: `corelane-load check`, and `cpus.sh` against
//! a machine that is made of files.

#![expect(clippy::unwrap_used, reason = "what a test sets up for itself has to be there")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use corelane_load::tuning::{Review, Weight};

/// Runs `corelane-load check`; its status and what it printed.
fn check(flags: &[&str]) -> (i32, String) {
    let program = env!("CARGO_BIN_EXE_corelane-load");
    let output = Command::new(program).arg("check").args(flags).output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn one_connection_fits_everywhere_and_more_than_there_are_addresses_nowhere() {
    let (status, text) = check(&["--connections=1"]);
    assert_eq!(status, 0, "{text}");
    assert!(text.starts_with("1 connections from 1 address: nothing "), "{text}");
    let (status, text) = check(&["--connections=99999999999"]);
    assert_eq!(status, 1);
    for part in ["they do not fit", "NEEDED", "nofile", "ports", "memory", "knob-limits.toml"] {
        assert!(text.contains(part), "'{part}' is not in: {text}");
    }
}

#[test]
fn the_same_is_told_as_json() {
    let (status, text) = check(&["--connections=99999999999", "--sources=3", "--json"]);
    let review: Review = serde_json::from_str(&text).unwrap();
    assert_eq!((status, review.wish.sources, review.is_enough()), (1, 3, false));
    assert_eq!(review.findings[0].weight, Weight::Needed);
}

/// A machine of forty cores, in a folder of this test alone.
fn machine(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::remove_dir_all(&root).unwrap_or(());
    for (path, text) in [
        ("run/keep", ""),
        ("sys/devices/system/cpu/online", "0-39\n"),
        ("proc/irq/default_smp_affinity", "ff,ffffffff\n"),
        ("proc/irq/1/smp_affinity_list", "0-39\n"),
        ("proc/irq/2/smp_affinity_list", "1\n"),
        ("proc/irq/3/smp_affinity_list", "33\n"),
        ("sys/devices/virtual/workqueue/cpumask", "ff,ffffffff\n"),
        ("sys/class/net/eth0/queues/rx-0/rps_cpus", "00,00000000\n"),
        ("sys/class/net/eth0/queues/rx-1/rps_cpus", "ff,0000000f\n"),
        ("sys/fs/cgroup/cgroup.controllers", "cpuset cpu\n"),
        ("sys/fs/cgroup/cgroup.subtree_control", "cpuset cpu\n"),
        ("sys/fs/cgroup/corelane.slice/cpuset.cpus", "\n"),
        ("sys/fs/cgroup/corelane.slice/cpuset.cpus.partition", "member\n"),
    ] {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

/// Every file below a folder.
fn files(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            let text = fs::read_to_string(&path).unwrap();
            found.insert(path, text);
        }
    }
    found
}

fn cpus(root: &Path, words: &[&str]) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tuning/cpus.sh");
    Command::new("bash").arg(script).args(words).env("CPUS_ROOT", root).output().unwrap()
}

fn assert_done(root: &Path, words: &[&str]) -> String {
    let output = cpus(root, words);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{words:?}: {said}{output:?}");
    said
}

fn assert_refused(root: &Path, words: &[&str], why: &str) {
    let output = cpus(root, words);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains(why), "{words:?}: {said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn cores_are_set_aside_and_everything_comes_back_as_it_was() {
    let root = machine("cores");
    let before = files(&root);
    let said = assert_done(&root, &["apply", "2-31,33", "--dry-run"]);
    assert!(said.contains("would write"), "{said}");
    assert_eq!(files(&root), before);

    assert_done(&root, &["apply", "2-31,33"]);
    let now = |path: &str| fs::read_to_string(root.join(path)).unwrap().trim().to_owned();
    let rest = "0,1,32,34,35,36,37,38,39";
    assert_eq!(now("proc/irq/default_smp_affinity"), "000000fd,00000003");
    assert_eq!(now("proc/irq/1/smp_affinity_list"), rest);
    // It was elsewhere already.
    assert_eq!(now("proc/irq/2/smp_affinity_list"), "1");
    assert_eq!(now("proc/irq/3/smp_affinity_list"), rest);
    assert_eq!(now("sys/devices/virtual/workqueue/cpumask"), "000000fd,00000003");
    // It is off, and stays off.
    assert_eq!(now("sys/class/net/eth0/queues/rx-0/rps_cpus"), "00,00000000");
    assert_eq!(now("sys/class/net/eth0/queues/rx-1/rps_cpus"), "000000fd,00000003");
    assert_eq!(now("sys/fs/cgroup/corelane.slice/cpuset.cpus"), "2-31,33");
    assert_eq!(now("sys/fs/cgroup/corelane.slice/cpuset.cpus.partition"), "root");
    assert!(assert_done(&root, &["show"]).contains("undo brings back"));
    assert_refused(&root, &["apply", "2"], "undo first");

    assert_done(&root, &["undo", "--dry-run"]);
    assert_done(&root, &["undo"]);
    assert_eq!(files(&root), before);
    assert_refused(&root, &["undo"], "nothing is set aside");
}

#[test]
fn cores_that_make_no_sense_change_nothing() {
    let root = machine("senseless");
    let before = files(&root);
    for (cores, why) in [
        ("two", "names no cores"),
        ("2-", "names no cores"),
        ("0-39", "at least one"),
        ("38-41", "40 41 is not online"),
    ] {
        assert_refused(&root, &["apply", cores], why);
    }
    assert_refused(&root, &["apply"], "say show");
    assert_refused(&root, &["destroy"], "say show");
    assert_eq!(files(&root), before);
}
