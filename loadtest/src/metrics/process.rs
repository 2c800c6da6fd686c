//! CPU time and memory of a process, from `/proc`.
//!
//! A process that has exited, or a system without `/proc`, has no figures; the run does not fail.

use std::time::Duration;

#[cfg(target_os = "linux")]
use nix::{time::clock_getcpuclockid, unistd::Pid};
use procfs_core::FromRead as _;
use procfs_core::process::{Stat, StatM};
use rustix::param::{clock_ticks_per_second, page_size};
use rustix::time::{ClockId, clock_gettime};

/// Resource usage of a process.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Sample {
    /// CPU time of all threads so far, including those that ended.
    pub cpu: Duration,
    /// Resident memory, in bytes.
    pub resident_bytes: u64,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Memory {
    /// Private memory in bytes: heap and stacks.
    pub(super) private_bytes: u64,
    /// Memory shared with other processes, in bytes: mapped files such as the program.
    pub(super) shared_bytes: u64,
}

/// A process to sample.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    pid: u32,
}

impl Process {
    /// Creates it from a PID, which need not exist.
    pub const fn from_pid(pid: u32) -> Self {
        Self { pid }
    }

    /// Returns this process.
    pub fn current() -> Self {
        Self::from_pid(std::process::id())
    }

    /// Returns the CPU time of this process so far, including threads that ended.
    pub fn current_cpu() -> Duration {
        let spent = clock_gettime(ClockId::ProcessCPUTime);
        let whole = Duration::from_secs(u64::try_from(spent.tv_sec).unwrap_or_default());
        whole + Duration::from_nanos(u64::try_from(spent.tv_nsec).unwrap_or_default())
    }

    /// Returns the current usage, or `None` if the system does not provide it.
    pub fn sample(self) -> Option<Sample> {
        let Memory { private_bytes: own_bytes, shared_bytes } = self.memory()?;
        Some(Sample { cpu: self.cpu()?, resident_bytes: own_bytes + shared_bytes })
    }

    /// Returns the memory, or `None` for a process that does not exist; zero for a zombie.
    pub(super) fn memory(self) -> Option<Memory> {
        let pages = StatM::from_file(format!("/proc/{}/statm", self.pid)).ok()?;
        let page_bytes = u64::try_from(page_size()).ok()?;
        Some(Memory {
            private_bytes: pages.resident.saturating_sub(pages.shared) * page_bytes,
            shared_bytes: pages.shared * page_bytes,
        })
    }

    /// Returns the CPU time of all threads so far, including those that ended; also of a zombie.
    #[cfg(target_os = "linux")]
    pub(super) fn cpu(self) -> Option<Duration> {
        // PID 0 would mean the calling process.
        let pid = i32::try_from(self.pid).ok().filter(|pid| *pid > 0)?;
        let clock = clock_getcpuclockid(Pid::from_raw(pid)).ok()?;
        Some(clock.now().ok()?.into())
    }

    #[cfg(not(target_os = "linux"))]
    #[expect(clippy::unused_self, reason = "same signature as on Linux")]
    pub(super) const fn cpu(self) -> Option<Duration> {
        None
    }
}

/// Fields of `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct ProcessStat {
    /// Parent process.
    pub(super) parent: u32,
    /// Process group.
    pub(super) group: u32,
    /// CPU time of the children that it has waited for; resolution is a clock tick, usually 10 ms.
    pub(super) waited_cpu: Duration,
}

impl ProcessStat {
    /// Reads the fields of a process, or `None` if it has exited.
    pub(super) fn read(pid: u32) -> Option<Self> {
        let stat = Stat::from_file(format!("/proc/{pid}/stat")).ok()?;
        let ticks_a_second = u32::try_from(clock_ticks_per_second()).ok()?.max(1);
        let ticks = u64::try_from(stat.cutime.checked_add(stat.cstime)?).ok()?;
        Some(Self {
            parent: u32::try_from(stat.ppid).ok()?,
            group: u32::try_from(stat.pgrp).ok()?,
            waited_cpu: Duration::from_secs(ticks) / ticks_a_second,
        })
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn process_sample_shows_cpu_and_memory() {
        let before = Process::current().sample().unwrap();
        let mut memory = vec![1_u8; 64 << 20];
        for round in 0..20_u8 {
            std::hint::black_box(&mut memory).fill(round);
        }
        let after = Process::current().sample().unwrap();
        assert!(after.cpu > before.cpu);
        assert!(after.resident_bytes > before.resident_bytes + (32 << 20));
        drop(memory);
    }

    #[test]
    fn process_cpu_includes_ended_threads() {
        let before = Process::current_cpu();
        let work = || (0..2_000_000_u64).fold(0, |sum, number| std::hint::black_box(sum ^ number));
        std::thread::spawn(work).join().unwrap();
        assert!(Process::current_cpu() > before + Duration::from_millis(1));
    }

    #[test]
    fn missing_process_has_no_sample() {
        assert_eq!(Process::from_pid(u32::MAX).sample(), None);
        assert_eq!(Process::from_pid(0).sample(), None);
    }
}
