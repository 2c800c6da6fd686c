//! Tests of `corelane-load check`, and of `cpus.sh` on files that imitate `/proc` and `/sys`.

#![expect(clippy::unwrap_used, reason = "test setup")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use corelane_load::tuning::{
    Listeners, Machine, PROFILE, PlannedLoad, Review, Severity, review,
    settings as profile_settings,
};

use crate::LOAD;

/// Runs `corelane-load check` and returns its exit status and output.
fn check(flags: &[&str]) -> (i32, String) {
    let program = LOAD;
    let output = Command::new(program).arg("check").args(flags).output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn check_fits_one_connection_and_rejects_too_many() {
    let (status, text) = check(&["--connections=1"]);
    assert_eq!(status, 0, "{text}");
    assert!(text.starts_with("1 connections from 1 address: "), "{text}");
    let (status, text) = check(&["--connections=99999999999"]);
    assert_eq!(status, 1);
    for part in ["not sufficient", "NEEDED", "nofile", "ports", "memory", "knob-limits.toml"] {
        assert!(text.contains(part), "'{part}' is not in: {text}");
    }
}

#[test]
fn check_without_connections_judges_current_use() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let connection = std::net::TcpStream::connect(address).unwrap();
    let (_, text) = check(&["--json"]);
    let review: Review = serde_json::from_str(&text).unwrap();
    assert_eq!(review.load, None);
    let found = review.listeners.iter().find(|listener| listener.address == address).unwrap();
    assert_eq!((found.connections, found.waiting), (1, 1), "{found:?}");
    assert_eq!(found.process.as_ref().map(|process| process.pid), Some(std::process::id()));
    let (_, text) = check(&[]);
    assert!(text.starts_with("in use now, "), "{text}");
    assert!(text.contains(&address.to_string()) && text.contains("--connections N"), "{text}");
    drop((listener, connection));
}

#[test]
fn tuning_readme_explains_each_finding() {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tuning/README.md");
    let readme = fs::read_to_string(readme).unwrap().to_lowercase();
    let settings = [
        ("net.netfilter.nf_conntrack_max", "1"),
        ("kernel.io_uring_disabled", "2"),
        ("kernel.sched_rt_runtime_us", "950000"),
        ("fs.file-max", "10"),
        ("fs.file-nr", "1 0 10"),
    ];
    let profile = profile_settings(PROFILE).map(|setting| (setting.name, "0"));
    let machine = Machine {
        settings: profile
            .chain(settings)
            .map(|(name, value)| (name.into(), value.into()))
            .collect(),
        open_files_max: Some(1),
        available_bytes: Some(1),
        swap_bytes: 1 << 30,
        governors: vec!["powersave".into()],
        exit_latency_us_max: Some(900),
        huge_pages: Some("always".into()),
        nodes: 2,
        mitigations: vec!["meltdown".into()],
        listeners: Listeners { all: Vec::new(), overflows: Some(1) },
        ..Machine::default()
    };
    let planned = review(&machine, Some(PlannedLoad { connections: 60_000, sources: 1 }));
    let now = review(&machine, None);
    assert!(planned.findings.len() >= 17, "{planned:?}");
    for finding in planned.findings.iter().chain(&now.findings) {
        // The last part of a name: several are explained together.
        let name = finding.knob.rsplit('.').next().unwrap().to_lowercase();
        let name = name.trim_start_matches("scaling_");
        assert!(readme.contains(name), "{name} is not in tuning/README.md");
    }
}

#[test]
fn check_prints_json() {
    let (status, text) = check(&["--connections=99999999999", "--sources=3", "--json"]);
    let review: Review = serde_json::from_str(&text).unwrap();
    let load = review.load.unwrap();
    assert_eq!((status, load.sources, review.is_sufficient()), (1, 3, false));
    assert_eq!(review.findings[0].severity, Severity::Needed);
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
