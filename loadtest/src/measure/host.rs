//! What the host of a virtual machine keeps from it.
//!
//! A host that is shared lets a machine's cores wait while others run: the kernel counts that as
//! stolen time (`proc_stat(5)`, `steal`). Inside such a pause shows only as a request that took
//! long, or a generator that was late, so a run that lost much of its time says so.
//!
//! What it does not do: mend anything. Latencies stay as they were measured.

/// The time of all cores so far, in ticks of the kernel.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CoreTime {
    all: u64,
    stolen: u64,
}

impl CoreTime {
    /// As it stands; none where the system does not tell.
    pub fn look() -> Option<Self> {
        Self::read(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    fn read(text: &str) -> Option<Self> {
        let line = text.lines().next()?.strip_prefix("cpu ")?;
        // user, nice, system, idle, iowait, irq, softirq, steal; what follows is part of these.
        let ticks: Option<Vec<u64>> =
            line.split_whitespace().take(8).map(|ticks| ticks.parse().ok()).collect();
        let ticks = ticks.filter(|ticks| ticks.len() == 8)?;
        Some(Self { all: ticks.iter().sum(), stolen: ticks[7] })
    }

    /// The part of the time since `before` that was stolen, from zero to one.
    #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
    pub fn stolen_since(self, before: Self) -> f64 {
        let all = self.all.saturating_sub(before.all).max(1);
        self.stolen.saturating_sub(before.stolen) as f64 / all as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_that_was_stolen_is_that_of_all_time_of_all_cores() {
        let before = CoreTime::read("cpu  10 0 10 70 0 0 5 5 3 0\ncpu0 1 2 3").unwrap();
        let after = CoreTime::read("cpu  60 0 30 80 0 0 5 25 53 0\n").unwrap();
        assert!((after.stolen_since(before) - 0.2).abs() < 1e-9);
        assert!(after.stolen_since(after).abs() < 1e-9, "no time, nothing stolen");
    }

    #[test]
    fn what_tells_nothing_of_it_is_no_reading() {
        for text in ["", "intr 1 2", "cpu  1 2 3", "cpu  1 2 3 4 5 6 7 x"] {
            assert_eq!(CoreTime::read(text), None, "{text}");
        }
    }
}
