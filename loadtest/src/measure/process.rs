//! What a process costs: CPU time and memory, from `/proc`.
//!
//! What it does not do: fail a run. A process that has gone, or a system without `/proc`, has no
//! figures, and the report says so.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::param::clock_ticks_per_second;
use rustix::time::{ClockId, clock_gettime};

/// A look at a process.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Sample {
    /// CPU time of all threads that it has, so far.
    pub cpu: Duration,
    /// Resident memory, in bytes (`VmRSS`).
    pub resident_bytes: u64,
    /// What of it is its own, in bytes (`RssAnon`): heap and stacks, without files.
    pub own_bytes: u64,
}

/// A process that is looked at from time to time.
#[derive(Clone, Debug)]
pub struct Process {
    folder: PathBuf,
}

impl Process {
    /// The process of this number; it need not exist.
    pub fn of(pid: u32) -> Self {
        Self { folder: PathBuf::from(format!("/proc/{pid}")) }
    }

    /// This process.
    pub fn own() -> Self {
        Self { folder: PathBuf::from("/proc/self") }
    }

    /// CPU time of this process so far, threads that have ended included.
    pub fn own_cpu() -> Duration {
        let spent = clock_gettime(ClockId::ProcessCPUTime);
        let whole = Duration::from_secs(u64::try_from(spent.tv_sec).unwrap_or_default());
        whole + Duration::from_nanos(u64::try_from(spent.tv_nsec).unwrap_or_default())
    }

    /// What it costs so far; none where the system does not tell.
    pub fn sample(&self) -> Option<Sample> {
        let status = std::fs::read_to_string(self.folder.join("status")).ok()?;
        let bytes = |name: &str| kibibytes(&status, name).map(|kibibytes| kibibytes * 1024);
        Some(Sample {
            cpu: self.cpu()?,
            resident_bytes: bytes("VmRSS:")?,
            own_bytes: bytes("RssAnon:").unwrap_or_default(),
        })
    }

    /// CPU time of all threads that it has, from the scheduler's own nanosecond counters. The
    /// counter of a thread that runs is behind by at most one tick.
    fn cpu(&self) -> Option<Duration> {
        let tasks = std::fs::read_dir(self.folder.join("task")).ok()?;
        let nanoseconds = tasks.flatten().map(|task| {
            // A thread may have ended since it was listed.
            let text = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
            text.split_whitespace().next().and_then(|spent| spent.parse().ok()).unwrap_or(0)
        });
        Some(Duration::from_nanos(nanoseconds.sum()))
    }

    /// CPU time of all threads that it has or had, and of the processes that it has started and
    /// waited for; also of one that has ended and was not waited for itself. What has ended is
    /// counted in ticks of the system, a hundredth of a second most often.
    pub fn whole_cpu(&self) -> Option<Duration> {
        let account = Account::read(&self.folder)?;
        let own = self.cpu().unwrap_or_default().max(account.own);
        Some(own + account.waited)
    }
}

/// What the system has booked on a process (`/proc/PID/stat`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Account {
    /// The process that has started it, or inherited it.
    pub(super) parent: u32,
    /// CPU time of its threads, those included that have ended.
    own: Duration,
    /// CPU time of the processes that it has started and waited for.
    waited: Duration,
}

impl Account {
    /// That of a process; none where it has gone.
    pub(super) fn of(pid: u32) -> Option<Self> {
        Self::read(&Process::of(pid).folder)
    }

    fn read(folder: &Path) -> Option<Self> {
        Self::parse(&std::fs::read_to_string(folder.join("stat")).ok()?)
    }

    /// Reads the line (proc(5), `/proc/pid/stat`): the number, the name in brackets, the state, the
    /// parent, and the four times as the fields 14 to 17.
    fn parse(line: &str) -> Option<Self> {
        // A name may hold brackets and spaces itself.
        let (_, behind) = line.rsplit_once(')')?;
        let fields: Vec<&str> = behind.split_whitespace().take(15).collect();
        let ticks_a_second = u32::try_from(clock_ticks_per_second()).ok()?.max(1);
        let span = |user: usize, system: usize| {
            let ticks = |field: usize| fields.get(field)?.parse::<u64>().ok();
            let sum = Duration::from_secs(ticks(user)?.checked_add(ticks(system)?)?);
            Some(sum / ticks_a_second)
        };
        let parent = fields.get(1)?.parse().ok()?;
        Some(Self { parent, own: span(11, 12)?, waited: span(13, 14)? })
    }
}

fn kibibytes(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn work_shows_as_cpu_time_and_memory_as_memory() {
        let before = Process::own().sample().unwrap();
        let mut memory = vec![1_u8; 64 << 20];
        for round in 0..20_u8 {
            std::hint::black_box(&mut memory).fill(round);
        }
        let after = Process::own().sample().unwrap();
        assert!(after.cpu > before.cpu);
        assert!(after.own_bytes > before.own_bytes + (32 << 20));
        assert!(after.resident_bytes >= after.own_bytes);
        drop(memory);
    }

    #[test]
    fn the_work_of_a_thread_that_has_ended_counts() {
        let before = Process::own_cpu();
        let work = || (0..2_000_000_u64).fold(0, |sum, number| std::hint::black_box(sum ^ number));
        std::thread::spawn(work).join().unwrap();
        assert!(Process::own_cpu() > before + Duration::from_millis(1));
    }

    #[test]
    fn an_account_is_read_whatever_the_name_of_its_process() {
        let rest = "7 7 7 0 -1 0 1 2 3 4 100 50 30 20 0 0 1 0 9";
        let account = Account::parse(&format!("5 (a) b) (c) S {rest}")).unwrap();
        let ticks =
            |count| Duration::from_secs(count) / u32::try_from(clock_ticks_per_second()).unwrap();
        assert_eq!(account, Account { parent: 7, own: ticks(150), waited: ticks(50) });
        assert_eq!(Account::parse("5 (a) S 7 7"), None);
        assert_eq!(Account::parse(""), None);
        assert!(Process::own().whole_cpu().is_some());
    }

    #[test]
    fn a_process_that_is_not_there_has_no_figures() {
        assert_eq!(Process::of(u32::MAX).sample(), None);
        assert_eq!(Process::of(u32::MAX).whole_cpu(), None);
    }
}
