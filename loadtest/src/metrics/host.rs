//! CPU steal time of a virtual machine.
//!
//! A hypervisor that runs other machines on the same cores makes this one wait, which the kernel
//! counts as steal time (`proc_stat(5)`, `steal`). Within the machine it looks like a slow response
//! or a late generator, so a run reports it. Latencies are not corrected.

use std::thread;
use std::time::Duration;

use corelane_engine::clock::Clock;
use rustix::param::clock_ticks_per_second;

/// CPU time of all cores so far, in kernel ticks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CoreTime {
    /// Number of cores.
    cores: u32,
    all: u64,
    idle: u64,
    stolen: u64,
}

/// Use of all cores of the machine over a time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MachineUse {
    /// Number of cores.
    pub cores: u32,
    /// How many of them programs used.
    pub busy_cores: f64,
    /// CPU steal: the part of the time of all cores taken by the hypervisor, from 0 to 1.
    pub steal_ratio: f64,
}

/// Time of an observation. The kernel counts in ticks of 10 ms.
const OBSERVED: Duration = Duration::from_millis(40);

impl MachineUse {
    /// Observes the machine for 40 ms, in which this thread sleeps; `None` without `/proc/stat`.
    pub fn observe() -> Option<Self> {
        let clock = Clock::start();
        let (before, started) = (CoreTime::read_current()?, clock.now());
        thread::park_timeout(OBSERVED);
        let after = CoreTime::read_current()?;
        Some(Self {
            cores: after.cores,
            busy_cores: after.busy_cores_over(before, clock.now().since(started)),
            steal_ratio: after.steal_ratio_since(before),
        })
    }

    /// Returns the use from `before` to `after`.
    pub fn between(before: CoreTime, after: CoreTime) -> Self {
        Self {
            cores: after.cores,
            busy_cores: after.busy_cores_since(before),
            steal_ratio: after.steal_ratio_since(before),
        }
    }
}

impl CoreTime {
    /// Reads the current times; returns `None` if the system does not provide them.
    pub fn read_current() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let line = text.lines().next()?.strip_prefix("cpu ")?;
        let cores = text.lines().skip(1).take_while(|line| line.starts_with("cpu")).count();
        // user, nice, system, idle, iowait, irq, softirq, steal; guest times are included in these.
        let ticks: Option<Vec<u64>> =
            line.split_whitespace().take(8).map(|ticks| ticks.parse().ok()).collect();
        let ticks = ticks.filter(|ticks| ticks.len() == 8)?;
        Some(Self {
            cores: u32::try_from(cores).ok()?,
            all: ticks.iter().sum(),
            idle: ticks[3] + ticks[4],
            stolen: ticks[7],
        })
    }

    /// Returns how many of the cores programs used since `before`.
    #[expect(clippy::cast_precision_loss, reason = "displayed ratio")]
    fn busy_cores_since(self, before: Self) -> f64 {
        let all = self.all.saturating_sub(before.all).max(1);
        let unused = (self.idle + self.stolen).saturating_sub(before.idle + before.stolen);
        f64::from(self.cores) * (1.0 - unused as f64 / all as f64)
    }

    /// Returns how many of the cores programs used in the `time` since `before`, from the idle time
    /// alone: over a few ticks the sum of all times is imprecise.
    #[expect(clippy::cast_precision_loss, reason = "displayed figure")]
    fn busy_cores_over(self, before: Self, time: Duration) -> f64 {
        let unused = (self.idle + self.stolen).saturating_sub(before.idle + before.stolen) as f64;
        let ticks = time.as_secs_f64() * clock_ticks_per_second() as f64;
        (f64::from(self.cores) - unused / ticks.max(1.0)).max(0.0)
    }

    /// Returns the fraction of CPU time stolen since `before`, from 0 to 1.
    #[expect(clippy::cast_precision_loss, reason = "displayed ratio")]
    fn steal_ratio_since(self, before: Self) -> f64 {
        let all = self.all.saturating_sub(before.all).max(1);
        self.stolen.saturating_sub(before.stolen) as f64 / all as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_ratio_covers_all_cores() {
        let before = CoreTime::parse("cpu  10 0 10 70 0 0 5 5 3 0\ncpu0 1 2 3").unwrap();
        let after =
            CoreTime::parse("cpu  60 0 30 80 0 0 5 25 53 0\ncpu0 1\ncpu1 1\nintr 1").unwrap();
        assert!((after.steal_ratio_since(before) - 0.2).abs() < 1e-9);
        assert!((after.busy_cores_since(before) - 1.4).abs() < 1e-9);
        // 30 of 50 ticks unused.
        let ticks = u32::try_from(clock_ticks_per_second()).unwrap();
        let used = after.busy_cores_over(before, Duration::from_secs(50) / ticks);
        assert!((used - 1.4).abs() < 1e-6, "{used}");
        assert!(after.steal_ratio_since(after).abs() < 1e-9, "no time passed");
    }

    #[test]
    fn invalid_proc_stat_has_no_core_time() {
        for text in ["", "intr 1 2", "cpu  1 2 3", "cpu  1 2 3 4 5 6 7 x"] {
            assert_eq!(CoreTime::parse(text), None, "{text}");
        }
    }
}
