//! Which shard runs on which cpu.
//!
//! One shard a core by default, on the cpus that the process may use; second threads of a core
//! (SMT siblings) come only when more shards are asked for than there are cores, and shards share
//! cpus only when there are more of them than cpus. The placement names siblings and memory nodes
//! so that the log shows what a measurement ran on.
//!
//! What it does not do: bind memory. A shard's memory is first touched by its own pinned thread,
//! which is where the kernel then puts it.
//!
//! Sources: `Documentation/admin-guide/cputopology.rst` and
//! `Documentation/ABI/stable/sysfs-devices-node` of Linux. Where the files are missing every cpu
//! counts as a core of its own. Other systems than Linux cannot pin, and are not asked to.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use crate::engine::mesh::ShardId;

/// The cpus of all shards, in the order of shards.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Placement {
    /// Empty places where the system cannot pin.
    spots: Vec<Option<Spot>>,
    /// Whether somebody chose the cpus, so that a shard that cannot be pinned must not start.
    chosen: bool,
}

/// One cpu as the system describes it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Spot {
    /// Its number.
    pub cpu: u16,
    /// The lowest number among the cpus that share its core.
    pub core: u16,
    /// Its memory node, where the system tells.
    pub node: Option<u16>,
}

impl Placement {
    /// Places `shards` shards (by default one for each cpu named, or for each core of the
    /// process's) on `cpus` (by default those that the process may use).
    ///
    /// # Errors
    ///
    /// No shards, no cpus, or a cpu that the process may not use; the text names the remedy.
    pub fn choose(cpus: Option<&[u16]>, shards: Option<u16>) -> io::Result<Self> {
        match allowed()? {
            Some(allowed) => Self::plan(&spots(Path::new(SYSTEM), &allowed), cpus, shards),
            None if cpus.is_some() => Err(refusal("this system cannot pin: leave the cpus out")),
            None => {
                let cpus = std::thread::available_parallelism().map_or(1, usize::from);
                let shards = shards.map_or(cpus, usize::from);
                Ok(Self { spots: vec![None; shards], chosen: false })
            }
        }
    }

    /// Leaves `shards` shards wherever the system runs them: for a process that is one of many on
    /// its machine, as a server behind pipes is.
    pub fn unpinned(shards: u16) -> Self {
        Self { spots: vec![None; usize::from(shards)], chosen: false }
    }

    /// The plan over the cpus of a known machine.
    fn plan(allowed: &[Spot], cpus: Option<&[u16]>, shards: Option<u16>) -> io::Result<Self> {
        let (spots, default) = match cpus {
            Some(cpus) => {
                let find = |cpu: &u16| {
                    let spot = allowed.iter().find(|spot| spot.cpu == *cpu).copied();
                    spot.ok_or_else(|| not_allowed(*cpu, allowed))
                };
                (cpus.iter().map(find).collect::<io::Result<Vec<Spot>>>()?, cpus.len())
            }
            None => by_core(allowed),
        };
        let shards = shards.map_or(default, usize::from);
        if shards == 0 || spots.is_empty() {
            return Err(refusal("a server needs at least one shard and one cpu"));
        }
        let spots = spots.into_iter().map(Some).cycle().take(shards).collect();
        Ok(Self { spots, chosen: cpus.is_some() })
    }

    /// Pins the calling thread to the cpu of `shard`.
    ///
    /// # Errors
    ///
    /// Where the system refuses and the cpus were chosen by hand. Where they were not the thread
    /// stays unpinned.
    pub fn pin(&self, shard: ShardId) -> io::Result<()> {
        let Some(Some(spot)) = self.spots.get(shard.index()) else { return Ok(()) };
        match pin(spot.cpu) {
            Err(error) if self.chosen => Err(io::Error::new(
                error.kind(),
                format!("cannot pin to cpu {}: {error}; leave the cpus out", spot.cpu),
            )),
            _ => Ok(()),
        }
    }

    /// How many shards there are.
    pub const fn len(&self) -> usize {
        self.spots.len()
    }

    /// Never: a placement has at least one shard.
    pub const fn is_empty(&self) -> bool {
        self.spots.is_empty()
    }

    /// The cpu of `shard`, where it has one.
    pub fn spot(&self, shard: ShardId) -> Option<Spot> {
        self.spots.get(shard.index()).copied().flatten()
    }
}

/// `2 shards on cpus 0 (node 0), 1 (node 0, sibling of 0)`.
impl fmt::Display for Placement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.spots.len();
        write!(formatter, "{count} shard{}", if count == 1 { "" } else { "s" })?;
        let spots: Vec<Spot> = self.spots.iter().flatten().copied().collect();
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

/// The cpus in the order in which shards take them, first one of each core, node by node, then
/// their siblings; and how many cores there are.
fn by_core(allowed: &[Spot]) -> (Vec<Spot>, usize) {
    let mut ranked: Vec<(usize, Spot)> = Vec::with_capacity(allowed.len());
    for spot in allowed {
        let rank = ranked.iter().filter(|(_, other)| other.core == spot.core).count();
        ranked.push((rank, *spot));
    }
    let cores = ranked.iter().filter(|(rank, _)| *rank == 0).count();
    ranked.sort_by_key(|(rank, spot)| (*rank, spot.node, spot.cpu));
    (ranked.into_iter().map(|(_, spot)| spot).collect(), cores)
}

/// What the system tells of each of `cpus`, in ascending order.
fn spots(system: &Path, cpus: &[u16]) -> Vec<Spot> {
    let nodes = nodes(system);
    let describe = |cpu: u16| {
        let siblings = system.join(format!("cpu/cpu{cpu}/topology/thread_siblings_list"));
        let core = read_list(&siblings).into_iter().min().unwrap_or(cpu);
        let node = nodes.iter().find(|(_, members)| members.contains(&cpu));
        Spot { cpu, core, node: node.map(|(node, _)| *node) }
    };
    cpus.iter().copied().map(describe).collect()
}

/// Each memory node with its cpus.
fn nodes(system: &Path) -> Vec<(u16, Vec<u16>)> {
    let Ok(entries) = fs::read_dir(system.join("node")) else { return Vec::new() };
    let mut nodes: Vec<(u16, Vec<u16>)> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name();
            let node = name.to_str()?.strip_prefix("node")?.parse().ok()?;
            Some((node, read_list(&entry.path().join("cpulist"))))
        })
        .collect();
    nodes.sort_unstable();
    nodes
}

/// A file of the form `0-3,8`; nothing where it is missing or has another form.
fn read_list(path: &Path) -> Vec<u16> {
    fs::read_to_string(path).ok().and_then(|text| parse_list(&text)).unwrap_or_default()
}

fn parse_list(text: &str) -> Option<Vec<u16>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(first.parse::<u16>().ok()?..=last.parse().ok()?);
    }
    Some(cpus)
}

/// The inverse of [`parse_list`], for cpus in ascending order.
fn write_list(cpus: impl Iterator<Item = u16>) -> String {
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

fn not_allowed(cpu: u16, allowed: &[Spot]) -> io::Error {
    let allowed = write_list(allowed.iter().map(|spot| spot.cpu));
    refusal(&format!(
        "cpu {cpu} is not among those that this process may use ({allowed}): name one of them, or \
         widen its affinity (taskset, the container's cpuset)"
    ))
}

fn refusal(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

/// The cpus that this process may use; `None` where the system does not tell.
#[cfg(target_os = "linux")]
fn allowed() -> io::Result<Option<Vec<u16>>> {
    use rustix::thread::{CpuSet, sched_getaffinity};
    let set = sched_getaffinity(None)?;
    let cpus = (0_u16..).take(CpuSet::MAX_CPU);
    Ok(Some(cpus.filter(|cpu| set.is_set(usize::from(*cpu))).collect()))
}

#[cfg(target_os = "linux")]
fn pin(cpu: u16) -> io::Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    set.set(usize::from(cpu));
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

#[cfg(not(target_os = "linux"))]
fn allowed() -> io::Result<Option<Vec<u16>>> {
    Ok(None)
}

#[cfg(not(target_os = "linux"))]
fn pin(_cpu: u16) -> io::Result<()> {
    Ok(())
}

#[cfg(target_os = "linux")]
const SYSTEM: &str = "/sys/devices/system";

#[cfg(not(target_os = "linux"))]
const SYSTEM: &str = "";

#[cfg(test)]
mod tests {
    use super::*;

    /// Four cores of two threads each on two nodes, numbered as most servers do: 0 and 4 share a
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
        let spots = spots(machine().path(), allowed);
        Placement::plan(&spots, cpus, shards).map(|placement| placement.to_string())
    }

    const ALL: &[u16] = &[0, 1, 2, 3, 4, 5, 6, 7];

    #[test]
    fn the_default_is_one_shard_a_core_on_the_cpus_of_the_process() {
        let text = "4 shards on cpus 0 (node 0), 1 (node 0), 2 (node 1), 3 (node 1)";
        assert_eq!(plan(ALL, None, None).unwrap(), text);
        assert_eq!(plan(&[1, 5], None, None).unwrap(), "1 shard on cpu 1 (node 0)");
        assert_eq!(plan(&[6, 7], None, None).unwrap(), "2 shards on cpus 6 (node 1), 7 (node 1)");
    }

    #[test]
    fn siblings_come_after_all_cores_and_sharing_after_all_cpus() {
        let text = "3 shards on cpus 0 (node 0), 1 (node 0), 4 (node 0, sibling of 0)";
        assert_eq!(plan(&[0, 1, 4], None, Some(3)).unwrap(), text);
        let text = "2 shards on cpus 0 (node 0), 0 (node 0, shared)";
        assert_eq!(plan(&[0], None, Some(2)).unwrap(), text);
    }

    #[test]
    fn chosen_cpus_are_taken_in_their_order() {
        let text = "2 shards on cpus 6 (node 1), 2 (node 1, sibling of 6)";
        assert_eq!(plan(ALL, Some(&[6, 2]), None).unwrap(), text);
        assert_eq!(plan(ALL, Some(&[6, 2]), Some(1)).unwrap(), "1 shard on cpu 6 (node 1)");
    }

    #[test]
    fn a_cpu_that_the_process_may_not_use_is_refused_with_the_remedy() {
        let error = plan(&[0, 1, 2, 5], Some(&[1, 3]), None).unwrap_err().to_string();
        assert!(error.contains("cpu 3") && error.contains("(0-2,5)"), "{error}");
        assert!(plan(ALL, Some(&[]), None).is_err());
        assert!(plan(ALL, None, Some(0)).is_err());
    }

    #[test]
    fn a_system_without_topology_counts_every_cpu_as_a_core() {
        let root = tempfile::tempdir().unwrap();
        let spots = spots(root.path(), &[0, 1]);
        let placement = Placement::plan(&spots, None, None).unwrap();
        assert_eq!(placement.to_string(), "2 shards on cpus 0, 1");
    }

    #[test]
    fn lists_of_cpus_are_read_as_the_kernel_writes_them() {
        assert_eq!(parse_list("0-3,8\n"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(parse_list("\n"), Some(vec![]));
        assert_eq!(parse_list("0-"), None);
        assert_eq!(write_list([0, 1, 2, 3, 8].into_iter()), "0-3,8");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_pinned_thread_may_use_its_cpu_and_no_other() {
        let placement = Placement::choose(None, Some(1)).unwrap();
        let spot = placement.spot(ShardId(0)).unwrap();
        std::thread::spawn(move || {
            placement.pin(ShardId(0)).unwrap();
            assert_eq!(allowed().unwrap(), Some(vec![spot.cpu]));
        })
        .join()
        .unwrap();
    }
}
