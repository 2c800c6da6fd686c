//! Readings of the memory of the process and its control group, off the request path.
//!
//! Invariants: the thread runs only while the memory guard is on; shards receive a step when it has
//! changed, and again with each reading while connections have to be closed.
//!
//! Readings come from the control groups of the process, or the machine.
//!
//! Both versions of control groups are read, wherever they are mounted. Source: Linux,
//! `Documentation/admin-guide/cgroup-v2.rst`, `Documentation/admin-guide/cgroup-v1/memory.rst`,
//! `Documentation/accounting/psi.rst`; `cgroups(7)`, `proc_pid_mountinfo(5)`, `proc_pid_statm(5)`,
//! `proc_meminfo(5)`.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, PoisonError};
use std::{fs, io, thread};

use crate::guard::pressure::{MemoryReading, PressureGuard, PressureRules, PressureStep};
use crate::server::options::MemoryGuardOptions;
use crate::telemetry::event::{Event, OverloadEvent};

#[expect(clippy::disallowed_types, reason = "locked for each reading, by no shard")]
type Mutex<T> = std::sync::Mutex<T>;

/// The memory guard of a server.
#[derive(Debug, Default)]
pub struct MemoryWatch(Mutex<WatchState>);

#[derive(Debug, Default)]
struct WatchState {
    rules: PressureRules,
    guard: PressureGuard,
    /// Ends the thread when it is dropped.
    thread: Option<SyncSender<()>>,
    has_ended: bool,
}

impl MemoryWatch {
    /// Applies options: starts the thread of the guard, or ends it.
    ///
    /// # Errors
    ///
    /// The system refuses a thread.
    pub fn set_options(
        self: &Arc<Self>,
        options: &MemoryGuardOptions,
        publish: impl Fn(PressureStep) + Send + Sync + 'static,
    ) -> io::Result<()> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // One with another interval is replaced.
        state.thread = None;
        state.rules = pressure_rules(options);
        if !state.rules.is_enabled() || state.has_ended {
            // The shards end its steps with the reload.
            state.guard = PressureGuard::default();
            return Ok(());
        }
        let (stop, stopped) = sync_channel::<()>(0);
        let (watch, interval) = (Arc::downgrade(self), options.interval);
        let run = move || {
            let source = MemorySource::system();
            while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                let Some(watch) = watch.upgrade() else { return };
                watch.apply(&source.read(), &publish);
            }
        };
        thread::Builder::new().name("corelane-memory".into()).spawn(run)?;
        state.thread = Some(stop);
        Ok(())
    }

    /// Applies a reading.
    pub fn apply(&self, reading: &MemoryReading, publish: &impl Fn(PressureStep)) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let WatchState { rules, guard, .. } = &mut *state;
        let has_changed = guard.update(*rules, reading);
        let step = guard.step();
        drop(state);
        if has_changed {
            let (used_percent, stalled_percent) = (reading.used_percent(), reading.stalled_percent);
            let step = step.as_str();
            let event = OverloadEvent::PressureChanged { step, used_percent, stalled_percent };
            Event::from(event).emit();
        }
        if has_changed || step == PressureStep::CloseSlowest {
            publish(step);
        }
    }

    /// Ends the thread for good.
    pub fn end(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (state.thread, state.has_ended) = (None, true);
    }
}

/// Returns the rules of `options`.
pub(super) fn pressure_rules(options: &MemoryGuardOptions) -> PressureRules {
    PressureRules {
        begins_at: [
            options.refuse_connections_percent,
            options.refuse_messages_percent,
            options.end_streams_percent,
            options.close_slowest_percent,
        ],
        stalled_percent: options.stalled_percent,
    }
}

/// Ends the thread of a memory guard when it is dropped.
#[derive(Debug)]
pub struct EndWatch(pub Arc<MemoryWatch>);

impl Drop for EndWatch {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Where readings come from.
#[derive(Debug)]
struct MemorySource {
    /// The control group of the process and those above it, of both versions.
    groups: Vec<ControlGroup>,
    proc: PathBuf,
    page_bytes: u64,
}

/// A directory of a control group.
#[derive(Debug)]
struct ControlGroup {
    version: GroupVersion,
    directory: PathBuf,
}

/// A version of control groups.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum GroupVersion {
    /// The hierarchy of the controller `memory`.
    V1,
    /// The unified hierarchy.
    V2,
}

/// The files of a control group that a reading takes.
struct GroupFiles {
    limit: &'static str,
    usage: &'static str,
    /// Key of the file cache that is reclaimed first, in `memory.stat`.
    cache: &'static str,
}

impl MemorySource {
    pub(super) fn system() -> Self {
        Self::below(Path::new("/"), rustix::param::page_size() as u64)
    }

    /// Reads the files of a system whose root is `root`.
    fn below(root: &Path, page_bytes: u64) -> Self {
        let proc = root.join("proc");
        let read = |file| fs::read_to_string(proc.join("self").join(file)).unwrap_or_default();
        let (membership, mounts) = (read("cgroup"), read("mountinfo"));
        let versions = [GroupVersion::V2, GroupVersion::V1].into_iter();
        let groups = versions.flat_map(|version| version.groups(root, &membership, &mounts));
        Self { groups: groups.collect(), proc, page_bytes }
    }

    /// Reads the group that is nearest to its limit; without a limit, the process and the memory of
    /// the machine.
    pub(super) fn read(&self) -> MemoryReading {
        let stalled_percent = self.groups.iter().find_map(ControlGroup::stalled_percent);
        let of_groups = self.groups.iter().filter_map(ControlGroup::read);
        let reading = of_groups.max_by_key(MemoryReading::used_permille);
        let reading = reading.or_else(|| self.process_reading()).unwrap_or_default();
        MemoryReading { stalled_percent: stalled_percent.unwrap_or_default(), ..reading }
    }

    fn process_reading(&self) -> Option<MemoryReading> {
        let pages = fs::read_to_string(self.proc.join("self/statm")).ok()?;
        let resident: u64 = pages.split_ascii_whitespace().nth(1)?.parse().ok()?;
        let machine = fs::read_to_string(self.proc.join("meminfo")).ok()?;
        let total = value_of(&machine, "MemTotal:")?;
        let limit_bytes = total.saturating_mul(1_024);
        let used_bytes = resident.saturating_mul(self.page_bytes);
        Some(MemoryReading { used_bytes, limit_bytes, stalled_percent: 0 })
    }
}

impl ControlGroup {
    /// Returns the use of a group with a limit, without the file cache that is reclaimed first.
    fn read(&self) -> Option<MemoryReading> {
        let files = self.version.files();
        let read = |file: &str| fs::read_to_string(self.directory.join(file)).ok();
        let number = |file: &str| read(file)?.trim().parse::<u64>().ok();
        let limit_bytes = number(files.limit).filter(|bytes| *bytes < UNLIMITED_BYTES)?;
        let usage = number(files.usage)?;
        let statistics = read("memory.stat").unwrap_or_default();
        let cache = value_of(&statistics, files.cache).unwrap_or_default();
        let used_bytes = usage.saturating_sub(cache);
        Some(MemoryReading { used_bytes, limit_bytes, stalled_percent: 0 })
    }

    /// Returns the percentage of the last 10 seconds in which some task of the group waited for
    /// memory. Version 1 does not have it.
    fn stalled_percent(&self) -> Option<u8> {
        let text = fs::read_to_string(self.directory.join("memory.pressure")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("some avg10="))?;
        let whole = line.split(['.', ' ']).next()?;
        whole.parse().ok()
    }
}

impl GroupVersion {
    const fn files(self) -> GroupFiles {
        match self {
            Self::V1 => GroupFiles {
                limit: "memory.limit_in_bytes",
                usage: "memory.usage_in_bytes",
                // With the groups below it, as the use is.
                cache: "total_inactive_file ",
            },
            Self::V2 => {
                GroupFiles { limit: "memory.max", usage: "memory.current", cache: "inactive_file " }
            }
        }
    }

    /// Returns the group of the process and those above it that are mounted, given the texts of
    /// `/proc/self/cgroup` and `/proc/self/mountinfo`.
    fn groups(self, root: &Path, membership: &str, mounts: &str) -> Vec<ControlGroup> {
        let path = membership.lines().find_map(|line| self.path_of(line)).unwrap_or("/");
        let mounts: Vec<_> = mounts.lines().filter_map(|line| self.mount_of(line)).collect();
        let mounted = mounts.iter().find_map(|(top, directory)| {
            let below = Path::new(path).strip_prefix(top).ok()?;
            (!below.starts_with("..")).then_some((*directory, below))
        });
        // A container may not see its group; then only what is mounted is there.
        let top = mounts.first().map(|(_, directory)| (*directory, Path::new("")));
        let Some((directory, below)) = mounted.or(top) else { return Vec::new() };
        let directory = root.join(directory.trim_start_matches('/'));
        let groups = below.ancestors().map(|path| directory.join(path));
        groups.map(|directory| ControlGroup { version: self, directory }).collect()
    }

    /// Returns the path in a line `NUMBER:CONTROLLERS:PATH` of `/proc/self/cgroup` if it is that of
    /// this version.
    fn path_of(self, line: &str) -> Option<&str> {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let is_own = match self {
            Self::V1 => controllers.split(',').any(|name| name == "memory"),
            Self::V2 => controllers.is_empty(),
        };
        is_own.then_some(path)
    }

    /// Returns the group at the top of a mount and its directory, given a line of
    /// `/proc/self/mountinfo`, if it is a mount of this version.
    fn mount_of(self, line: &str) -> Option<(&str, &str)> {
        let (mount, file_system) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let (top, directory) = (mount.next()?, mount.next()?);
        let mut file_system = file_system.split(' ');
        let (kind, options) = (file_system.next()?, file_system.nth(1)?);
        let is_own = match self {
            Self::V1 => kind == "cgroup" && options.split(',').any(|name| name == "memory"),
            Self::V2 => kind == "cgroup2",
        };
        is_own.then_some((top, directory))
    }
}

/// Returns the number behind a word at the begin of a line.
fn value_of(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// From here on a limit of version 1 is none: its largest value, rounded to pages.
const UNLIMITED_BYTES: u64 = 1 << 60;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU8, Ordering};

    use super::*;

    #[test]
    fn shards_receive_changed_steps_only() {
        let watch = MemoryWatch::default();
        let rules = PressureRules { begins_at: [50, 0, 0, 90], stalled_percent: 0 };
        watch.0.lock().unwrap().rules = rules;
        let published = AtomicU8::new(0);
        let publish = |_| _ = published.fetch_add(1, Ordering::Relaxed);
        for used_bytes in [10, 60, 60, 95, 95, 10, 10] {
            watch.apply(
                &MemoryReading { used_bytes, limit_bytes: 100, stalled_percent: 0 },
                &publish,
            );
        }
        assert_eq!(published.into_inner(), 4);
    }

    /// Returns the reading of a machine with these files.
    fn reading(files: &[(&str, &str)]) -> MemoryReading {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        MemorySource::below(root.path(), 4_096).read()
    }

    const MACHINE: [(&str, &str); 2] = [
        ("proc/self/statm", "900 50 20 1 0 100 0\n"),
        ("proc/meminfo", "MemTotal:         1000 kB\nMemFree:  1 kB\n"),
    ];
    const UNIFIED: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";

    fn used(used_bytes: u64, limit_bytes: u64) -> MemoryReading {
        MemoryReading { used_bytes, limit_bytes, stalled_percent: 0 }
    }

    #[test]
    fn group_nearest_to_its_limit_counts() {
        let files = [
            ("proc/self/cgroup", "0::/a/b\n"),
            ("proc/self/mountinfo", UNIFIED),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("sys/fs/cgroup/a/b/memory.current", "700\n"),
            (
                "sys/fs/cgroup/a/b/memory.pressure",
                "some avg10=12.34 avg60=0.00 total=5\nfull avg10=9.00\n",
            ),
            ("sys/fs/cgroup/a/memory.max", "1000\n"),
            ("sys/fs/cgroup/a/memory.current", "900\n"),
            ("sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 100\n"),
            ("sys/fs/cgroup/memory.max", "10000\n"),
            ("sys/fs/cgroup/memory.current", "950\n"),
        ];
        assert_eq!(reading(&files), MemoryReading { stalled_percent: 12, ..used(800, 1_000) });
    }

    #[test]
    fn version_one_is_read_where_it_is_mounted() {
        let mounts = "24 23 0:21 / /proc rw - proc proc rw\n\
                      31 30 0:27 / /groups/cpu rw shared:5 - cgroup cgroup rw,cpu,cpuacct\n\
                      33 30 0:28 / /groups/memory rw shared:6 - cgroup cgroup rw,memory\n";
        let files = [
            ("proc/self/cgroup", "5:memory:/a/b\n3:cpu,cpuacct:/c\n1:name=systemd:/x\n"),
            ("proc/self/mountinfo", mounts),
            ("groups/memory/a/b/memory.limit_in_bytes", "2000\n"),
            ("groups/memory/a/b/memory.usage_in_bytes", "900\n"),
            ("groups/memory/a/memory.limit_in_bytes", "1000\n"),
            ("groups/memory/a/memory.usage_in_bytes", "900\n"),
            ("groups/memory/a/memory.stat", "inactive_file 9\ntotal_inactive_file 200\n"),
            ("groups/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("groups/memory/memory.usage_in_bytes", "5000\n"),
        ];
        assert_eq!(reading(&files), used(700, 1_000));
        let unlimited = [&files[..2], &files[7..], &MACHINE].concat();
        assert_eq!(reading(&unlimited), used(50 * 4_096, 1_024_000));
    }

    #[test]
    fn version_one_is_read_beside_version_two() {
        let mounts = "33 30 0:28 / /cg/memory rw - cgroup cgroup rw,memory\n\
                      34 30 0:29 / /cg/unified rw - cgroup2 cgroup2 rw\n";
        let files = [
            ("proc/self/cgroup", "5:memory:/a\n0::/a\n"),
            ("proc/self/mountinfo", mounts),
            ("cg/unified/a/memory.pressure", "some avg10=7.00 avg60=0.00 total=5\n"),
            ("cg/memory/a/memory.limit_in_bytes", "1000\n"),
            ("cg/memory/a/memory.usage_in_bytes", "300\n"),
        ];
        assert_eq!(reading(&files), MemoryReading { stalled_percent: 7, ..used(300, 1_000) });
    }

    #[test]
    fn container_reads_what_is_mounted() {
        let limits = [
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "1000\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "600\n"),
        ];
        // Without and with a namespace of its own, and with the group of another container.
        for (membership, top) in [
            ("4:memory:/docker/1\n", "/docker/1"),
            ("4:memory:/\n", "/"),
            ("4:memory:/../2\n", "/"),
            ("4:memory:/docker/1\n", "/docker/2"),
        ] {
            let mount = format!("40 39 0:28 {top} /sys/fs/cgroup/memory ro - cgroup c rw,memory\n");
            let texts = [("proc/self/cgroup", membership), ("proc/self/mountinfo", &mount)];
            assert_eq!(reading(&[texts, limits].concat()), used(600, 1_000), "{mount}");
        }
    }

    #[test]
    fn process_counts_without_limit_of_group() {
        assert_eq!(reading(&MACHINE), used(50 * 4_096, 1_024_000));
        assert_eq!(reading(&[]), MemoryReading::default());
    }
}
