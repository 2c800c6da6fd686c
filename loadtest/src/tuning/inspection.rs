//! Inspection of a machine by `/proc` and `/sys`.
//!
//! Sources: proc(5), and below `Documentation` of Linux `admin-guide/pm/cpufreq.rst`,
//! `admin-guide/pm/cpuidle.rst`, `admin-guide/mm/transhuge.rst`,
//! `ABI/testing/sysfs-devices-system-cpu`.

use std::fs;
use std::path::{Path, PathBuf};

use super::listeners::Listeners;
use super::machine::Machine;
use super::profile::{PROFILE, settings};

/// Settings that are checked besides those of the profile.
const ADDITIONAL_SETTINGS: [&str; 7] = [
    "fs.file-max",
    "fs.file-nr",
    "fs.nr_open",
    "kernel.io_uring_disabled",
    "kernel.sched_rt_runtime_us",
    "net.ipv4.tcp_syncookies",
    "net.netfilter.nf_conntrack_max",
];

/// Reads the properties of the machine whose `/proc` and `/sys` are below `root`, `/` for this
/// machine. Missing files leave their values empty.
pub fn inspect(root: &Path) -> Machine {
    let names = settings(PROFILE).map(|setting| setting.name).chain(ADDITIONAL_SETTINGS);
    let found = names.filter_map(|name| {
        let path = format!("proc/sys/{}", name.replace('.', "/"));
        let value = fs::read_to_string(root.join(path)).ok()?;
        Some((name.to_owned(), value.split_whitespace().collect::<Vec<_>>().join(" ")))
    });
    let limits = read(root, "proc/self/limits");
    let memory = read(root, "proc/meminfo");
    let huge_pages = read(root, "sys/kernel/mm/transparent_hugepage/enabled");
    Machine {
        kernel: read(root, "proc/sys/kernel/osrelease").trim().into(),
        settings: found.collect(),
        open_files_max: hard_limit(&limits, "Max open files"),
        locked_bytes_max: hard_limit(&limits, "Max locked memory"),
        available_bytes: memory_bytes(&memory, "MemAvailable:"),
        swap_bytes: memory_bytes(&memory, "SwapTotal:").unwrap_or_default(),
        governors: governors(root),
        exit_latency_us_max: wake_us_max(root),
        huge_pages: bracketed_word(&huge_pages),
        nodes: numbered_directories(root, "sys/devices/system/node", "node").len(),
        mitigations: mitigations(root),
        listeners: Listeners::read(root),
    }
}

/// Returns the contents of a file, or an empty string.
fn read(root: &Path, path: impl AsRef<Path>) -> String {
    fs::read_to_string(root.join(path)).unwrap_or_default()
}

/// Returns a hard limit of `/proc/self/limits`; "unlimited" is `u64::MAX`.
fn hard_limit(limits: &str, name: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    match line.split_whitespace().nth(1)? {
        "unlimited" => Some(u64::MAX),
        limit => limit.parse().ok(),
    }
}

fn memory_bytes(memory: &str, name: &str) -> Option<u64> {
    let line = memory.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    kibibytes.checked_mul(1_024)
}

/// Returns the word in brackets: `always [madvise] never`.
fn bracketed_word(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.into())
}

/// Returns the directories below `path` whose name is `name` and a number, in order.
fn numbered_directories(root: &Path, path: &str, name: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(root.join(path)) else { return Vec::new() };
    let is_one = |path: &PathBuf| {
        let file = path.file_name().and_then(|file| file.to_str()).unwrap_or_default();
        let number = file.strip_prefix(name).unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    let mut found: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(is_one).collect();
    found.sort();
    found
}

fn core_directories(root: &Path) -> Vec<PathBuf> {
    numbered_directories(root, "sys/devices/system/cpu", "cpu")
}

fn governors(root: &Path) -> Vec<String> {
    let of = |core: PathBuf| fs::read_to_string(core.join("cpufreq/scaling_governor")).ok();
    let mut found: Vec<String> =
        core_directories(root).into_iter().filter_map(of).map(|text| text.trim().into()).collect();
    found.sort();
    found.dedup();
    found
}

/// Returns the longest exit latency of all enabled idle states.
fn wake_us_max(root: &Path) -> Option<u64> {
    let number = |path: PathBuf| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let states = core_directories(root)
        .into_iter()
        .flat_map(|core| numbered_directories(&core, "cpuidle", "state"));
    let allowed = states.filter(|state| number(state.join("disable")) != Some(1));
    allowed.filter_map(|state| number(state.join("latency"))).max()
}

/// Returns the active mitigations.
fn mitigations(root: &Path) -> Vec<String> {
    let folder = root.join("sys/devices/system/cpu/vulnerabilities");
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let is_worked_around =
        |path: &PathBuf| fs::read_to_string(path).is_ok_and(|text| text.starts_with("Mitigation"));
    let paths = entries.flatten().map(|entry| entry.path()).filter(is_worked_around);
    let mut found: Vec<String> =
        paths.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates the files of a test machine in a directory of this test.
    fn create_files(name: &str, files: &[(&str, &str)]) -> PathBuf {
        let root = std::env::temp_dir().join(format!("corelane-{name}-{}", std::process::id()));
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn machine_is_read_from_proc_and_sys() {
        let root = create_files(
            "machine",
            &[
                ("proc/sys/kernel/osrelease", "6.1.0\n"),
                ("proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n"),
                (
                    "proc/self/limits",
                    "Max open files 1024 20000 files\nMax locked memory 64 unlimited bytes\n",
                ),
                ("proc/meminfo", "MemTotal: 9 kB\nMemAvailable:   2048 kB\nSwapTotal: 4 kB\n"),
                ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
                ("sys/devices/system/node/node0/cpulist", "0"),
                ("sys/devices/system/node/node1/cpulist", "1"),
                ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
                ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n"),
                ("sys/devices/system/cpu/cpu0/cpuidle/state0/latency", "0\n"),
                ("sys/devices/system/cpu/cpu0/cpuidle/state1/latency", "133\n"),
                ("sys/devices/system/cpu/cpu0/cpuidle/state2/latency", "900\n"),
                ("sys/devices/system/cpu/cpu0/cpuidle/state2/disable", "1\n"),
                ("sys/devices/system/cpu/vulnerabilities/meltdown", "Mitigation: PTI\n"),
                ("sys/devices/system/cpu/vulnerabilities/mds", "Not affected\n"),
            ],
        );
        let machine = inspect(&root);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(machine.settings["net.ipv4.ip_local_port_range"], "32768 60999");
        assert_eq!(
            (machine.open_files_max, machine.locked_bytes_max),
            (Some(20_000), Some(u64::MAX))
        );
        assert_eq!((machine.available_bytes, machine.swap_bytes), (Some(2 << 20), 4_096));
        assert_eq!(machine.huge_pages.as_deref(), Some("madvise"));
        assert_eq!((machine.nodes, machine.exit_latency_us_max), (2, Some(133)));
        assert_eq!(
            (machine.governors, machine.mitigations),
            (vec!["powersave".into()], vec!["meltdown".into()])
        );
    }

    #[test]
    fn missing_proc_yields_empty_machine() {
        assert_eq!(inspect(Path::new("/nowhere/at/all")), Machine::default());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_machine_reports_its_limits() {
        let machine = inspect(Path::new("/"));
        assert!(machine.open_files_max.is_some() && machine.available_bytes.is_some());
        assert!(machine.ports().is_some_and(|ports| ports > 0));
    }
}
