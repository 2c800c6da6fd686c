//! Reading a machine: the only place of this room that asks the system.
//!
//! Sources: proc(5), and below `Documentation` of Linux `admin-guide/pm/cpufreq.rst`,
//! `admin-guide/pm/cpuidle.rst`, `admin-guide/mm/transhuge.rst`,
//! `ABI/testing/sysfs-devices-system-cpu`.

use std::fs;
use std::path::{Path, PathBuf};

use super::machine::Machine;
use super::profile::{PROFILE, settings};

/// Settings that are judged beside those of the profile.
const FURTHER: [&str; 7] = [
    "fs.file-max",
    "fs.file-nr",
    "fs.nr_open",
    "kernel.io_uring_disabled",
    "kernel.sched_rt_runtime_us",
    "net.ipv4.tcp_syncookies",
    "net.netfilter.nf_conntrack_max",
];

/// Looks at the machine whose `/proc` and `/sys` stand below `root`; that of this process is `/`.
/// A file that is not there leaves its value empty.
pub fn look(root: &Path) -> Machine {
    let names = settings(PROFILE).map(|setting| setting.name).chain(FURTHER);
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
        files_max: hard_limit(&limits, "Max open files"),
        locked_bytes_max: hard_limit(&limits, "Max locked memory"),
        available_bytes: memory_bytes(&memory, "MemAvailable:"),
        swap_bytes: memory_bytes(&memory, "SwapTotal:").unwrap_or_default(),
        governors: governors(root),
        wake_us_max: wake_us_max(root),
        huge_pages: chosen(&huge_pages),
        nodes: folders(root, "sys/devices/system/node", "node").len(),
        mitigations: mitigations(root),
    }
}

/// A file, or nothing.
fn read(root: &Path, path: impl AsRef<Path>) -> String {
    fs::read_to_string(root.join(path)).unwrap_or_default()
}

/// The hard limit in `/proc/self/limits`; "unlimited" is the largest number.
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

/// What the kernel has in brackets: `always [madvise] never`.
fn chosen(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.into())
}

/// The folders below `path` that are called `name` and a number, in order.
fn folders(root: &Path, path: &str, name: &str) -> Vec<PathBuf> {
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

fn cores(root: &Path) -> Vec<PathBuf> {
    folders(root, "sys/devices/system/cpu", "cpu")
}

fn governors(root: &Path) -> Vec<String> {
    let of = |core: PathBuf| fs::read_to_string(core.join("cpufreq/scaling_governor")).ok();
    let mut found: Vec<String> =
        cores(root).into_iter().filter_map(of).map(|text| text.trim().into()).collect();
    found.sort();
    found.dedup();
    found
}

/// The longest exit latency of all states that are not disabled.
fn wake_us_max(root: &Path) -> Option<u64> {
    let number = |path: PathBuf| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let states = cores(root).into_iter().flat_map(|core| folders(&core, "cpuidle", "state"));
    let allowed = states.filter(|state| number(state.join("disable")) != Some(1));
    allowed.filter_map(|state| number(state.join("latency"))).max()
}

/// The faults that the kernel works around, of those that this processor has.
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

    /// A machine of files, in a folder of this test alone.
    fn made_up(name: &str, files: &[(&str, &str)]) -> PathBuf {
        let root = std::env::temp_dir().join(format!("corelane-{name}-{}", std::process::id()));
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn a_machine_is_read_as_the_kernel_shows_it() {
        let root = made_up(
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
        let machine = look(&root);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(machine.settings["net.ipv4.ip_local_port_range"], "32768 60999");
        assert_eq!((machine.files_max, machine.locked_bytes_max), (Some(20_000), Some(u64::MAX)));
        assert_eq!((machine.available_bytes, machine.swap_bytes), (Some(2 << 20), 4_096));
        assert_eq!(machine.huge_pages.as_deref(), Some("madvise"));
        assert_eq!((machine.nodes, machine.wake_us_max), (2, Some(133)));
        assert_eq!(
            (machine.governors, machine.mitigations),
            (vec!["powersave".into()], vec!["meltdown".into()])
        );
    }

    #[test]
    fn a_machine_that_tells_nothing_is_empty() {
        assert_eq!(look(Path::new("/nowhere/at/all")), Machine::default());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_machine_tells_its_limits() {
        let machine = look(Path::new("/"));
        assert!(machine.files_max.is_some() && machine.available_bytes.is_some());
        assert!(machine.ports().is_some_and(|ports| ports > 0));
    }
}
