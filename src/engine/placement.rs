//! Placement of shards on CPUs.
//!
//! By default one shard runs on each core that the process may use. SMT siblings are used only if
//! more shards than cores are requested, and CPUs are shared only if more shards than CPUs are. The
//! description names siblings and NUMA nodes, so that the log shows what a measurement ran on.
//!
//! Memory is not bound: each shard's memory is first touched by its pinned thread, so the kernel
//! allocates it on that node.
//!
//! Sources: Linux `Documentation/admin-guide/cputopology.rst` and
//! `Documentation/ABI/stable/sysfs-devices-node`. If these files are missing, every CPU counts as a
//! core. Threads are pinned on Linux only.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use crate::mesh::ShardId;

/// The CPUs of all shards, by shard.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Placement {
    /// `None` where the system cannot pin.
    cpus: Vec<Option<CpuTopology>>,
    /// Whether the CPUs were configured, so that a failure to pin is an error.
    is_explicit: bool,
}

/// A CPU and its place in the topology.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CpuTopology {
    /// Number of the CPU, as in `/sys/devices/system/cpu`.
    pub cpu: u16,
    /// Lowest CPU number among the SMT siblings of this core.
    pub core: u16,
    /// NUMA node, if known.
    pub node: Option<u16>,
}

impl Placement {
    /// Places `shards` shards (default: one for each CPU given, or for each usable core) on `cpus`
    /// (default: those that the process may use).
    ///
    /// # Errors
    ///
    /// If there are no shards or CPUs, or a CPU is not allowed; the text contains a hint.
    pub fn choose(cpus: Option<&[u16]>, shards: Option<u16>) -> io::Result<Self> {
        match allowed_cpus()? {
            Some(allowed) => {
                Self::plan(&read_topology(Path::new(SYSFS_ROOT), &allowed), cpus, shards)
            }
            None if cpus.is_some() => {
                Err(invalid_input("this system cannot pin threads: remove the list of CPUs"))
            }
            None => {
                let cpus = std::thread::available_parallelism().map_or(1, usize::from);
                let shards = shards.map_or(cpus, usize::from);
                Ok(Self { cpus: vec![None; shards], is_explicit: false })
            }
        }
    }

    /// Places `shards` shards without pinning, for a process that is one of many on its machine,
    /// such as a stdio server.
    pub fn unpinned(shards: u16) -> Self {
        Self { cpus: vec![None; usize::from(shards)], is_explicit: false }
    }

    /// Places shards on a machine of known topology.
    fn plan(
        allowed: &[CpuTopology],
        cpus: Option<&[u16]>,
        shards: Option<u16>,
    ) -> io::Result<Self> {
        let (spots, default) = match cpus {
            Some(cpus) => {
                let find = |cpu: &u16| {
                    let spot = allowed.iter().find(|spot| spot.cpu == *cpu).copied();
                    spot.ok_or_else(|| not_allowed(*cpu, allowed))
                };
                (cpus.iter().map(find).collect::<io::Result<Vec<CpuTopology>>>()?, cpus.len())
            }
            None => order_by_core(allowed),
        };
        let shards = shards.map_or(default, usize::from);
        if shards == 0 || spots.is_empty() {
            return Err(invalid_input("at least one shard and one CPU are required"));
        }
        let spots = spots.into_iter().map(Some).cycle().take(shards).collect();
        Ok(Self { cpus: spots, is_explicit: cpus.is_some() })
    }

    /// Pins the calling thread to the CPU of `shard`.
    ///
    /// # Errors
    ///
    /// If the system refuses and the CPUs were configured; otherwise the thread stays unpinned.
    pub fn pin(&self, shard: ShardId) -> io::Result<()> {
        let Some(Some(spot)) = self.cpus.get(shard.index()) else { return Ok(()) };
        match pin_thread(spot.cpu) {
            Err(error) if self.is_explicit => Err(io::Error::new(
                error.kind(),
                format!("cannot pin to cpu {}: {error}; remove the list of CPUs", spot.cpu),
            )),
            _ => Ok(()),
        }
    }

    /// Returns the number of shards.
    pub const fn shard_count(&self) -> usize {
        self.cpus.len()
    }

    /// Returns the CPU of `shard`, if it is pinned.
    pub fn cpu_of(&self, shard: ShardId) -> Option<CpuTopology> {
        self.cpus.get(shard.index()).copied().flatten()
    }
}

/// Formats the placement, such as `2 shards on cpus 0 (node 0), 1 (node 0, sibling of 0)`.
impl fmt::Display for Placement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.cpus.len();
        write!(formatter, "{count} shard{}", if count == 1 { "" } else { "s" })?;
        let spots: Vec<CpuTopology> = self.cpus.iter().flatten().copied().collect();
        if spots.is_empty() {
            return formatter.write_str(", not pinned");
        }
        write!(formatter, " on cpu{} ", if count == 1 { "" } else { "s" })?;
        for (index, spot) in spots.iter().enumerate() {
            let earlier = &spots[..index];
            let mut facts: Vec<String> = Vec::new();
            facts.extend(spot.node.map(|node| format!("node {node}")));
            if earlier.iter().any(|other| other.cpu == spot.cpu) {
                facts.push("shared".to_owned());
            } else if let Some(other) = earlier.iter().find(|other| other.core == spot.core) {
                facts.push(format!("sibling of {}", other.cpu));
            }
            let comma = if index == 0 { "" } else { ", " };
            write!(formatter, "{comma}{}", spot.cpu)?;
            if !facts.is_empty() {
                write!(formatter, " ({})", facts.join(", "))?;
            }
        }
        Ok(())
    }
}

/// Returns the CPUs in the order in which shards take them (one of each core, node by node, then
/// the siblings) and the number of cores.
fn order_by_core(allowed: &[CpuTopology]) -> (Vec<CpuTopology>, usize) {
    let mut ranked: Vec<(usize, CpuTopology)> = Vec::with_capacity(allowed.len());
    for spot in allowed {
        let rank = ranked.iter().filter(|(_, other)| other.core == spot.core).count();
        ranked.push((rank, *spot));
    }
    let cores = ranked.iter().filter(|(rank, _)| *rank == 0).count();
    ranked.sort_by_key(|(rank, spot)| (*rank, spot.node, spot.cpu));
    (ranked.into_iter().map(|(_, spot)| spot).collect(), cores)
}

/// Reads the topology of `cpus`, in the same order.
fn read_topology(system: &Path, cpus: &[u16]) -> Vec<CpuTopology> {
    let nodes = read_nodes(system);
    let describe = |cpu: u16| {
        let siblings = system.join(format!("cpu/cpu{cpu}/topology/thread_siblings_list"));
        let core = read_cpu_list(&siblings).into_iter().min().unwrap_or(cpu);
        let node = nodes.iter().find(|(_, members)| members.contains(&cpu));
        CpuTopology { cpu, core, node: node.map(|(node, _)| *node) }
    };
    cpus.iter().copied().map(describe).collect()
}

/// Reads the CPUs of each NUMA node.
fn read_nodes(system: &Path) -> Vec<(u16, Vec<u16>)> {
    let Ok(entries) = fs::read_dir(system.join("node")) else { return Vec::new() };
    let mut nodes: Vec<(u16, Vec<u16>)> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name();
            let node = name.to_str()?.strip_prefix("node")?.parse().ok()?;
            Some((node, read_cpu_list(&entry.path().join("cpulist"))))
        })
        .collect();
    nodes.sort_unstable();
    nodes
}

/// Reads a file of the form `0-3,8`; returns an empty list if it is missing or malformed.
fn read_cpu_list(path: &Path) -> Vec<u16> {
    fs::read_to_string(path).ok().and_then(|text| parse_cpu_list(&text)).unwrap_or_default()
}

fn parse_cpu_list(text: &str) -> Option<Vec<u16>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(first.parse::<u16>().ok()?..=last.parse().ok()?);
    }
    Some(cpus)
}

/// The inverse of [`parse_cpu_list`], for cpus in ascending order.
fn format_cpu_list(cpus: impl Iterator<Item = u16>) -> String {
    let mut ranges: Vec<(u16, u16)> = Vec::new();
    for cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(cpu) => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let write = |(first, last)| {
        if first == last { format!("{first}") } else { format!("{first}-{last}") }
    };
    ranges.into_iter().map(write).collect::<Vec<_>>().join(",")
}

fn not_allowed(cpu: u16, allowed: &[CpuTopology]) -> io::Error {
    let allowed = format_cpu_list(allowed.iter().map(|spot| spot.cpu));
    invalid_input(&format!(
        "cpu {cpu} is not allowed for this process (allowed: {allowed}): use an allowed cpu, or \
         extend its CPU affinity (taskset, or the container's cpuset)"
    ))
}

fn invalid_input(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

/// The CPUs that a thread may use.
#[derive(Debug)]
pub struct Affinity {
    #[cfg(target_os = "linux")]
    cpus: Option<rustix::thread::CpuSet>,
}

impl Affinity {
    /// Reads the affinity of the calling thread.
    #[cfg(target_os = "linux")]
    pub fn of_calling_thread() -> Self {
        Self { cpus: rustix::thread::sched_getaffinity(None).ok() }
    }

    /// Gives the calling thread this affinity. If the system refuses, it keeps its own.
    #[cfg(target_os = "linux")]
    pub fn apply(&self) {
        if let Some(cpus) = &self.cpus {
            rustix::thread::sched_setaffinity(None, cpus).ok();
        }
    }

    /// Reads the affinity of the calling thread.
    #[cfg(not(target_os = "linux"))]
    pub const fn of_calling_thread() -> Self {
        Self {}
    }

    /// Does nothing: threads are not pinned here.
    #[cfg(not(target_os = "linux"))]
    pub const fn apply(&self) {}
}

/// By how much the niceness of a thread in the background is higher: it has about a quarter of a
/// CPU that another thread keeps busy, and a thread that wakes up interrupts it.
#[cfg(target_os = "linux")]
const BACKGROUND_NICENESS: i32 = 5;

/// Has the calling thread yield to others, if the system allows it.
#[cfg(target_os = "linux")]
pub fn yield_to_others() {
    use rustix::process::{getpriority_process, setpriority_process};
    // On Linux this is the thread only (setpriority(2)).
    if let Ok(niceness) = getpriority_process(None) {
        setpriority_process(None, niceness + BACKGROUND_NICENESS).ok();
    }
}

/// Does nothing: the priority is that of the process here.
#[cfg(not(target_os = "linux"))]
pub const fn yield_to_others() {}

/// Returns the CPUs that this process may use, or `None` if the system does not report them.
#[cfg(target_os = "linux")]
fn allowed_cpus() -> io::Result<Option<Vec<u16>>> {
    use rustix::thread::{CpuSet, sched_getaffinity};
    let set = sched_getaffinity(None)?;
    let cpus = (0_u16..).take(CpuSet::MAX_CPU);
    Ok(Some(cpus.filter(|cpu| set.is_set(usize::from(*cpu))).collect()))
}

#[cfg(target_os = "linux")]
fn pin_thread(cpu: u16) -> io::Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    set.set(usize::from(cpu));
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

#[cfg(not(target_os = "linux"))]
fn allowed_cpus() -> io::Result<Option<Vec<u16>>> {
    Ok(None)
}

#[cfg(not(target_os = "linux"))]
fn pin_thread(_cpu: u16) -> io::Result<()> {
    Ok(())
}

#[cfg(target_os = "linux")]
const SYSFS_ROOT: &str = "/sys/devices/system";

#[cfg(not(target_os = "linux"))]
const SYSFS_ROOT: &str = "";

#[cfg(test)]
mod tests {
    use super::*;

    /// Four cores with two threads each on two nodes, numbered as on most servers: 0 and 4 share a
    /// core, cores 0 and 1 are on node 0.
    fn machine() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for cpu in 0..8 {
            let topology = root.path().join(format!("cpu/cpu{cpu}/topology"));
            fs::create_dir_all(&topology).unwrap();
            let core = cpu % 4;
            fs::write(topology.join("thread_siblings_list"), format!("{core},{}\n", core + 4))
                .unwrap();
        }
        for (node, cpus) in [("node0", "0-1,4-5\n"), ("node1", "2-3,6-7\n")] {
            fs::create_dir_all(root.path().join("node").join(node)).unwrap();
            fs::write(root.path().join("node").join(node).join("cpulist"), cpus).unwrap();
        }
        fs::write(root.path().join("node/possible"), "0-1\n").unwrap();
        root
    }

    fn plan(allowed: &[u16], cpus: Option<&[u16]>, shards: Option<u16>) -> io::Result<String> {
        let spots = read_topology(machine().path(), allowed);
        Placement::plan(&spots, cpus, shards).map(|placement| placement.to_string())
    }

    const ALL: &[u16] = &[0, 1, 2, 3, 4, 5, 6, 7];

    #[test]
    fn default_placement_is_one_shard_a_core() {
        let text = "4 shards on cpus 0 (node 0), 1 (node 0), 2 (node 1), 3 (node 1)";
        assert_eq!(plan(ALL, None, None).unwrap(), text);
        assert_eq!(plan(&[1, 5], None, None).unwrap(), "1 shard on cpu 1 (node 0)");
        assert_eq!(plan(&[6, 7], None, None).unwrap(), "2 shards on cpus 6 (node 1), 7 (node 1)");
    }

    #[test]
    fn siblings_follow_cores_and_sharing_follows_cpus() {
        let text = "3 shards on cpus 0 (node 0), 1 (node 0), 4 (node 0, sibling of 0)";
        assert_eq!(plan(&[0, 1, 4], None, Some(3)).unwrap(), text);
        let text = "2 shards on cpus 0 (node 0), 0 (node 0, shared)";
        assert_eq!(plan(&[0], None, Some(2)).unwrap(), text);
    }

    #[test]
    fn configured_cpus_are_used_in_order() {
        let text = "2 shards on cpus 6 (node 1), 2 (node 1, sibling of 6)";
        assert_eq!(plan(ALL, Some(&[6, 2]), None).unwrap(), text);
        assert_eq!(plan(ALL, Some(&[6, 2]), Some(1)).unwrap(), "1 shard on cpu 6 (node 1)");
    }

    #[test]
    fn disallowed_cpu_error_lists_allowed_cpus() {
        let error = plan(&[0, 1, 2, 5], Some(&[1, 3]), None).unwrap_err().to_string();
        assert!(error.contains("cpu 3") && error.contains("0-2,5)"), "{error}");
        assert!(plan(ALL, Some(&[]), None).is_err());
        assert!(plan(ALL, None, Some(0)).is_err());
    }

    #[test]
    fn missing_topology_counts_cpus_as_cores() {
        let root = tempfile::tempdir().unwrap();
        let spots = read_topology(root.path(), &[0, 1]);
        let placement = Placement::plan(&spots, None, None).unwrap();
        assert_eq!(placement.to_string(), "2 shards on cpus 0, 1");
    }

    #[test]
    fn cpu_lists_use_the_kernel_format() {
        assert_eq!(parse_cpu_list("0-3,8\n"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(parse_cpu_list("\n"), Some(vec![]));
        assert_eq!(parse_cpu_list("0-"), None);
        assert_eq!(format_cpu_list([0, 1, 2, 3, 8].into_iter()), "0-3,8");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn pinned_thread_runs_only_on_its_cpu() {
        let placement = Placement::choose(None, Some(1)).unwrap();
        let spot = placement.cpu_of(ShardId(0)).unwrap();
        std::thread::spawn(move || {
            placement.pin(ShardId(0)).unwrap();
            assert_eq!(allowed_cpus().unwrap(), Some(vec![spot.cpu]));
        })
        .join()
        .unwrap();
    }
}
