//! What a process costs: CPU time and memory, from `/proc`.
//!
//! What it does not do: fail a run. A process that has gone, or a system without `/proc`, has no
//! figures, and the report says so.

use std::time::Duration;

#[cfg(target_os = "linux")]
use nix::{time::clock_getcpuclockid, unistd::Pid};
use rustix::param::{clock_ticks_per_second, page_size};
use rustix::time::{ClockId, clock_gettime};

/// A look at a process.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Sample {
    /// CPU time of all threads that it has or had, so far.
    pub cpu: Duration,
    /// Resident memory, in bytes.
    pub resident_bytes: u64,
}

/// What a process has in memory.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Memory {
    /// Its own, in bytes: heap and stacks.
    pub(super) own_bytes: u64,
    /// What it may share with others, in bytes: files, its program among them.
    pub(super) shared_bytes: u64,
}

impl Memory {
    /// From `/proc/PID/statm` (proc(5)): in pages the whole, what is resident, and what of that is
    /// files.
    fn parse(sizes: &str, page_bytes: u64) -> Option<Self> {
        let mut pages = sizes.split_whitespace().skip(1).map(|field| field.parse::<u64>().ok());
        let (resident, shared) = (pages.next()??, pages.next()??);
        let own_bytes = resident.saturating_sub(shared) * page_bytes;
        Some(Self { own_bytes, shared_bytes: shared * page_bytes })
    }
}

/// A process that is looked at from time to time.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    pid: u32,
}

impl Process {
    /// The process of this number; it need not exist.
    pub const fn of(pid: u32) -> Self {
        Self { pid }
    }

    /// This process.
    pub fn own() -> Self {
        Self::of(std::process::id())
    }

    /// CPU time of this process so far, threads that have ended included.
    pub fn own_cpu() -> Duration {
        let spent = clock_gettime(ClockId::ProcessCPUTime);
        let whole = Duration::from_secs(u64::try_from(spent.tv_sec).unwrap_or_default());
        whole + Duration::from_nanos(u64::try_from(spent.tv_nsec).unwrap_or_default())
    }

    /// What it costs so far; none where the system does not tell.
    pub fn sample(self) -> Option<Sample> {
        let Memory { own_bytes, shared_bytes } = self.memory()?;
        Some(Sample { cpu: self.cpu()?, resident_bytes: own_bytes + shared_bytes })
    }

    /// What it has in memory; nothing where it has ended and was not waited for.
    pub(super) fn memory(self) -> Option<Memory> {
        let sizes = std::fs::read_to_string(format!("/proc/{}/statm", self.pid)).ok()?;
        Memory::parse(&sizes, u64::try_from(page_size()).ok()?)
    }

    /// CPU time of all threads that it has or had, in nanoseconds; also of a process that has ended
    /// and was not waited for.
    #[cfg(target_os = "linux")]
    pub(super) fn cpu(self) -> Option<Duration> {
        // Of number 0 every process would be the one that asks.
        let pid = i32::try_from(self.pid).ok().filter(|pid| *pid > 0)?;
        let clock = clock_getcpuclockid(Pid::from_raw(pid)).ok()?;
        Some(clock.now().ok()?.into())
    }

    #[cfg(not(target_os = "linux"))]
    #[expect(clippy::unused_self, reason = "its twin for Linux asks the system")]
    pub(super) const fn cpu(self) -> Option<Duration> {
        None
    }
}

/// What the system has booked on a process (`/proc/PID/stat`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Account {
    /// The process that has started it, or inherited it.
    pub(super) parent: u32,
    /// CPU time of the processes that it has started and waited for, in ticks of the system: a
    /// hundredth of a second most often.
    pub(super) waited: Duration,
}

impl Account {
    /// That of a process; none where it has gone.
    pub(super) fn of(pid: u32) -> Option<Self> {
        Self::parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Reads the line (proc(5), `/proc/pid/stat`): the number, the name in brackets, the state, the
    /// parent, and as the fields 16 and 17 the two times of what was waited for.
    fn parse(line: &str) -> Option<Self> {
        // A name may hold brackets and spaces itself.
        let (_, behind) = line.rsplit_once(')')?;
        let fields: Vec<&str> = behind.split_whitespace().take(15).collect();
        let ticks_a_second = u32::try_from(clock_ticks_per_second()).ok()?.max(1);
        let ticks = |field: usize| fields.get(field)?.parse::<u64>().ok();
        let waited = Duration::from_secs(ticks(13)?.checked_add(ticks(14)?)?) / ticks_a_second;
        Some(Self { parent: fields.get(1)?.parse().ok()?, waited })
    }
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
        assert!(after.resident_bytes > before.resident_bytes + (32 << 20));
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
        assert_eq!(account, Account { parent: 7, waited: ticks(50) });
        assert_eq!(Account::parse("5 (a) S 7 7"), None);
        assert_eq!(Account::parse(""), None);
    }

    #[test]
    fn a_process_that_is_not_there_has_no_figures() {
        assert_eq!(Process::of(u32::MAX).sample(), None);
        assert_eq!(Process::of(0).sample(), None);
        assert_eq!((Memory::parse("", 1), Memory::parse("9 4", 1)), (None, None));
        let memory = Memory { own_bytes: 12_288, shared_bytes: 4_096 };
        assert_eq!(Memory::parse("9 4 1 0 0 0 0\n", 4_096), Some(memory));
    }
}
