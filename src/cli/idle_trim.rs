//! Returns the free memory of an idle process to the system.

use std::fs;
use std::io;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use corelane_engine::buffer::allocator;
use rustix::time::{ClockId, clock_gettime};

/// Time between two measurements of a busy process. It doubles while the process is idle.
const INTERVAL_MIN: Duration = Duration::from_secs(1);
const INTERVAL_MAX: Duration = Duration::from_secs(64);
/// A process that uses less than this fraction of a processor is idle.
const IDLE_FRACTION: u32 = 100;
/// Growth of resident memory since the last trim from which there is something to return.
const GROWTH_BYTES_MIN: u64 = 4 << 20;

/// A thread that trims the heaps when the process becomes idle and its resident memory has grown.
/// Ends when dropped.
#[derive(Debug)]
pub(super) struct IdleTrim {
    /// Its end is the end of the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl IdleTrim {
    /// # Errors
    ///
    /// If the thread cannot be started.
    pub(super) fn start() -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel::<()>();
        let builder = thread::Builder::new().name("corelane-trim".into());
        let thread = builder.spawn(move || {
            let Ok(resident) = resident_bytes() else { return };
            let mut trigger = TrimTrigger::new(resident, processor_time());
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(trigger.interval) {
                let Ok(resident) = resident_bytes() else { return };
                if trigger.is_due(resident, processor_time()) {
                    allocator::trim();
                    trigger.resident = resident_bytes().unwrap_or(resident);
                }
            }
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for IdleTrim {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // Its panic, if any, has been printed.
            drop(thread.join());
        }
    }
}

/// Decides when a trim is due.
#[derive(Debug)]
struct TrimTrigger {
    /// The least resident memory since the last trim.
    resident: u64,
    /// Processor time of the process at the last measurement.
    processor_time: Duration,
    /// Time until the next measurement.
    interval: Duration,
}

impl TrimTrigger {
    const fn new(resident: u64, processor_time: Duration) -> Self {
        Self { resident, processor_time, interval: INTERVAL_MIN }
    }

    /// Takes the measurements of an interval's end. Returns whether the process was idle in the
    /// interval and holds more memory than after the last trim.
    fn is_due(&mut self, resident: u64, processor_time: Duration) -> bool {
        let used = processor_time.saturating_sub(self.processor_time);
        let is_idle = used * IDLE_FRACTION <= self.interval;
        self.processor_time = processor_time;
        self.resident = self.resident.min(resident);
        self.interval = if is_idle { (2 * self.interval).min(INTERVAL_MAX) } else { INTERVAL_MIN };
        is_idle && resident - self.resident >= GROWTH_BYTES_MIN
    }
}

/// Returns the processor time that all threads of the process have used.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}

/// Returns the resident memory of the process.
fn resident_bytes() -> io::Result<u64> {
    let statm = fs::read_to_string("/proc/self/statm")?;
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    let pages = pages.ok_or_else(|| io::Error::other("/proc/self/statm has no resident pages"))?;
    Ok(pages * rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn trigger() -> TrimTrigger {
        TrimTrigger::new(20 * MIB, Duration::from_secs(1))
    }

    #[test]
    fn idle_process_that_has_grown_is_trimmed() {
        assert!(trigger().is_due(24 * MIB, Duration::from_millis(1_010)));
    }

    #[test]
    fn busy_process_is_not_trimmed() {
        let mut trigger = trigger();
        assert!(!trigger.is_due(100 * MIB, Duration::from_millis(1_011)));
        assert!(trigger.is_due(100 * MIB, Duration::from_millis(1_011)));
    }

    #[test]
    fn growth_counts_from_the_least_memory() {
        let mut trigger = trigger();
        assert!(!trigger.is_due(23 * MIB, Duration::from_secs(1)));
        assert!(!trigger.is_due(10 * MIB, Duration::from_secs(1)));
        assert!(trigger.is_due(14 * MIB, Duration::from_secs(1)));
    }

    #[test]
    fn idle_process_is_measured_less_often() {
        let mut trigger = trigger();
        let mut intervals = Vec::new();
        for _ in 0..8 {
            trigger.is_due(20 * MIB, Duration::from_secs(1));
            intervals.push(trigger.interval.as_secs());
        }
        assert_eq!(intervals, [2, 4, 8, 16, 32, 64, 64, 64]);
        trigger.is_due(20 * MIB, Duration::from_secs(2));
        assert_eq!(trigger.interval, INTERVAL_MIN);
    }
}
