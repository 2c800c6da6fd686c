//! Readings of the memory of the process and its control group, off the request path.
//!
//! Invariants: the thread runs only while the memory guard is on; shards receive a step when it has
//! changed, and again with each reading while connections have to be closed.
//!
//! Source: Linux, `Documentation/admin-guide/cgroup-v2.rst`, `Documentation/accounting/psi.rst`;
//! `proc_pid_statm(5)`, `proc_meminfo(5)`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, PoisonError};
use std::thread;

use crate::guard::pressure::{MemoryReading, PressureGuard, PressureRules, PressureStep};
use crate::server::options::MemoryGuardOptions;
use crate::telemetry::event::{Event, OverloadEvent};

#[expect(clippy::disallowed_types, reason = "locked for each reading, by no shard")]
type Mutex<T> = std::sync::Mutex<T>;

/// The memory guard of a server.
#[derive(Debug, Default)]
pub(in crate::server) struct MemoryWatch(Mutex<WatchState>);

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
    pub(in crate::server) fn set_options(
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
    pub(in crate::server) fn apply(
        &self,
        reading: &MemoryReading,
        publish: &impl Fn(PressureStep),
    ) {
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
    pub(in crate::server) fn end(&self) {
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

/// Where readings come from.
#[derive(Debug)]
struct MemorySource {
    /// The control group of the process and those above it (version 2).
    groups: Vec<PathBuf>,
    proc: PathBuf,
    page_bytes: u64,
}

impl MemorySource {
    fn system() -> Self {
        let page_bytes = rustix::param::page_size() as u64;
        Self::below(Path::new("/sys/fs/cgroup"), Path::new("/proc"), page_bytes)
    }

    /// Reads below the mount points of control groups and of `/proc`.
    fn below(groups: &Path, proc: &Path, page_bytes: u64) -> Self {
        let membership = fs::read_to_string(proc.join("self/cgroup")).unwrap_or_default();
        let path = membership.lines().find_map(|line| line.strip_prefix("0::/"));
        // A container may not see its group; then only the root is there.
        let path = Path::new(path.unwrap_or_default());
        let groups = path.ancestors().map(|path| groups.join(path)).collect();
        Self { groups, proc: proc.to_owned(), page_bytes }
    }

    /// Reads the group that is nearest to its limit; without a limit, the process and the memory of
    /// the machine.
    fn read(&self) -> MemoryReading {
        let stalled_percent = self.groups.iter().find_map(|group| stalled_percent(group));
        let of_groups = self.groups.iter().filter_map(|group| group_reading(group));
        let reading = of_groups.max_by_key(MemoryReading::used_percent);
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

/// Returns the use of a control group with a limit, without the file cache that is reclaimed first.
fn group_reading(group: &Path) -> Option<MemoryReading> {
    let number = |file: &str| fs::read_to_string(group.join(file)).ok()?.trim().parse().ok();
    let limit_bytes: u64 = number("memory.max")?;
    let current: u64 = number("memory.current")?;
    let statistics = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let cache = value_of(&statistics, "inactive_file").unwrap_or_default();
    let used_bytes = current.saturating_sub(cache);
    Some(MemoryReading { used_bytes, limit_bytes, stalled_percent: 0 })
}

/// Returns the percentage of the last 10 seconds in which some task of the group waited for memory.
fn stalled_percent(group: &Path) -> Option<u8> {
    let text = fs::read_to_string(group.join("memory.pressure")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("some avg10="))?;
    let whole = line.split(['.', ' ']).next()?;
    whole.parse().ok()
}

/// Returns the number behind a word at the begin of a line.
fn value_of(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Ends the thread of a memory guard when it is dropped.
#[derive(Debug)]
pub(in crate::server) struct EndWatch(pub(in crate::server) Arc<MemoryWatch>);

impl Drop for EndWatch {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU8, Ordering};

    use super::*;

    /// Returns the reading of a machine with these files.
    fn reading(files: &[(&str, &str)]) -> MemoryReading {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        MemorySource::below(&root.path().join("cg"), &root.path().join("proc"), 4_096).read()
    }

    const MACHINE: [(&str, &str); 2] = [
        ("proc/self/statm", "900 50 20 1 0 100 0\n"),
        ("proc/meminfo", "MemTotal:         1000 kB\nMemFree:  1 kB\n"),
    ];

    #[test]
    fn group_nearest_to_its_limit_counts() {
        let files = [
            ("proc/self/cgroup", "0::/a/b\n"),
            ("cg/a/b/memory.max", "max\n"),
            ("cg/a/b/memory.current", "700\n"),
            ("cg/a/b/memory.pressure", "some avg10=12.34 avg60=0.00 total=5\nfull avg10=9.00\n"),
            ("cg/a/memory.max", "1000\n"),
            ("cg/a/memory.current", "900\n"),
            ("cg/a/memory.stat", "anon 1\ninactive_file 100\n"),
            ("cg/memory.max", "10000\n"),
            ("cg/memory.current", "950\n"),
        ];
        let expected = MemoryReading { used_bytes: 800, limit_bytes: 1_000, stalled_percent: 12 };
        assert_eq!(reading(&files), expected);
    }

    #[test]
    fn process_counts_without_limit_of_group() {
        let expected =
            MemoryReading { used_bytes: 50 * 4_096, limit_bytes: 1_024_000, stalled_percent: 0 };
        assert_eq!(reading(&MACHINE), expected);
        assert_eq!(reading(&[]), MemoryReading::default());
    }

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
}
