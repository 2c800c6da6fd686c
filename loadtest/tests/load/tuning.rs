//! Tests of warnings about the machine before a run, of what `tuning/README.md` explains, and of
//! `cpus.sh` on files that imitate `/proc` and `/sys`.

#![expect(clippy::unwrap_used, reason = "test setup")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::load;
use crate::truth::{ServerModel, TruthServer};

#[test]
fn short_backlog_is_noted_before_run() {
    let server = TruthServer::start(ServerModel { workers: 9, ..ServerModel::default() });
    let target = server.target();
    let run = |flags: &[&str]| {
        let flags = flags.iter().copied();
        load(["run", &target, "-c200", "-r50", "-d200ms", "--warm-up=0s"].into_iter().chain(flags))
    };
    // The backlog of a listener of std is 128.
    let address = target.strip_prefix("tcp://").unwrap();
    let note = format!("note: 200 connections open at once, and the backlog of {address} is ");
    let ended = run(&[]);
    assert!(ended.stderr.contains(&note) && ended.stderr.contains("--connect-rate"), "{ended:?}");
    assert!(!ended.stdout.contains("backlog of"), "{ended:?}");
    assert_eq!(run(&["--quiet"]).stderr, "");
    assert!(!run(&["--connect-rate=10k"]).stderr.contains(&note));
}

#[test]
fn tuning_readme_explains_each_setting() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tuning");
    let readme = fs::read_to_string(folder.join("README.md")).unwrap();
    let profile = fs::read_to_string(folder.join("90-corelane.conf")).unwrap();
    let names = profile.lines().filter(|line| !line.starts_with('#'));
    let names: Vec<&str> = names.filter_map(|line| line.split_once(" = ")).map(|it| it.0).collect();
    assert!(names.len() >= 5, "{names:?}");
    let unset = ["nf_conntrack_max", "io_uring_disabled", "sched_rt_runtime_us", "clock source"];
    for name in names.iter().chain(&unset) {
        // The last part of a name: several are explained together.
        let name = name.rsplit('.').next().unwrap();
        assert!(readme.contains(name), "{name} is not in tuning/README.md");
    }
}

/// Creates the files of a machine with forty cores in a directory of this test.
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

/// Returns the contents of all files below a directory.
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

fn cpus(root: &Path, arguments: &[&str]) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tuning/cpus.sh");
    Command::new("bash").arg(script).args(arguments).env("CPUS_ROOT", root).output().unwrap()
}

fn assert_done(root: &Path, arguments: &[&str]) -> String {
    let output = cpus(root, arguments);
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{arguments:?}: {stdout}{output:?}");
    stdout
}

fn assert_rejected(root: &Path, arguments: &[&str], why: &str) {
    let output = cpus(root, arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && stderr.contains(why), "{arguments:?}: {stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[test]
fn cpus_apply_and_undo_restore_all_settings() {
    let root = machine("cores");
    let before = files(&root);
    let stdout = assert_done(&root, &["apply", "2-31,33", "--dry-run"]);
    assert!(stdout.contains("would write"), "{stdout}");
    assert_eq!(files(&root), before);

    assert_done(&root, &["apply", "2-31,33"]);
    let now = |path: &str| fs::read_to_string(root.join(path)).unwrap().trim().to_owned();
    let rest = "0,1,32,34,35,36,37,38,39";
    assert_eq!(now("proc/irq/default_smp_affinity"), "000000fd,00000003");
    assert_eq!(now("proc/irq/1/smp_affinity_list"), rest);
    // Already on another core.
    assert_eq!(now("proc/irq/2/smp_affinity_list"), "1");
    assert_eq!(now("proc/irq/3/smp_affinity_list"), rest);
    assert_eq!(now("sys/devices/virtual/workqueue/cpumask"), "000000fd,00000003");
    // RPS is off and stays off.
    assert_eq!(now("sys/class/net/eth0/queues/rx-0/rps_cpus"), "00,00000000");
    assert_eq!(now("sys/class/net/eth0/queues/rx-1/rps_cpus"), "000000fd,00000003");
    assert_eq!(now("sys/fs/cgroup/corelane.slice/cpuset.cpus"), "2-31,33");
    assert_eq!(now("sys/fs/cgroup/corelane.slice/cpuset.cpus.partition"), "root");
    assert!(assert_done(&root, &["show"]).contains("undo restores"));
    assert_rejected(&root, &["apply", "2"], "undo first");

    assert_done(&root, &["undo", "--dry-run"]);
    assert_done(&root, &["undo"]);
    assert_eq!(files(&root), before);
    assert_rejected(&root, &["undo"], "no cores are reserved");
}

#[test]
fn invalid_cores_change_nothing() {
    let root = machine("senseless");
    let before = files(&root);
    for (cores, why) in [
        ("two", "not a list of cores"),
        ("2-", "not a list of cores"),
        ("0-39", "at least one"),
        ("38-41", "40 41 is not online"),
    ] {
        assert_rejected(&root, &["apply", cores], why);
    }
    assert_rejected(&root, &["apply"], "usage:");
    assert_rejected(&root, &["destroy"], "usage:");
    assert_eq!(files(&root), before);
}
