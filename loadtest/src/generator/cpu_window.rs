//! CPU time of the measured time: that of opening the connections and of the warm-up is left out.

use std::time::Duration;

/// CPU time so far.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct CpuReading {
    /// Of the generator.
    pub(super) generator: Duration,
    /// Of the busy polling in it.
    pub(super) spun: Duration,
    /// Of the server, if it is observed.
    pub(super) server: Option<Duration>,
}

/// The part of a run for which CPU time is counted.
///
/// Invariant: it begins at the last whole second of the warm-up that is complete.
#[derive(Debug)]
pub(super) struct CpuWindow {
    warm_up_seconds: usize,
    skipped: Duration,
    begin: CpuReading,
}

/// CPU time of the measured time, and what lies before it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct WindowCpu {
    /// Time from the first request until the CPU time counts.
    pub(super) skipped: Duration,
    /// CPU time.
    pub(super) cpu: CpuReading,
}

impl CpuWindow {
    /// Begins at the first request, with the `reading` of that time.
    pub(super) fn new(warm_up: Duration, reading: CpuReading) -> Self {
        let warm_up_seconds = usize::try_from(warm_up.as_secs()).unwrap_or(usize::MAX);
        Self { warm_up_seconds, skipped: Duration::ZERO, begin: reading }
    }

    /// Begins anew once the warm-up is over, after so many `complete` seconds.
    pub(super) fn pass_second(&mut self, complete: usize, read: impl FnOnce() -> CpuReading) {
        let is_over = complete >= self.warm_up_seconds && complete > 0;
        if is_over && self.skipped.is_zero() && self.warm_up_seconds > 0 {
            self.skipped = Duration::from_secs(u64::try_from(complete).unwrap_or_default());
            self.begin = read();
        }
    }

    /// Ends with the `reading` of the last response.
    pub(super) fn end(&self, reading: CpuReading) -> WindowCpu {
        let Self { skipped, begin, .. } = self;
        let server = begin.server.zip(reading.server);
        WindowCpu {
            skipped: *skipped,
            cpu: CpuReading {
                generator: reading.generator.saturating_sub(begin.generator),
                spun: reading.spun.saturating_sub(begin.spun),
                server: server.map(|(before, after)| after.saturating_sub(before)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn reading(generator: u64, spun: u64, server: u64) -> CpuReading {
        let milliseconds = Duration::from_millis;
        CpuReading {
            generator: milliseconds(generator),
            spun: milliseconds(spun),
            server: Some(milliseconds(server)),
        }
    }

    #[test]
    fn cpu_of_warm_up_is_not_counted() {
        let mut window = CpuWindow::new(Duration::from_millis(2_500), reading(100, 0, 50));
        window.pass_second(1, || unreachable!("the warm-up is not over"));
        window.pass_second(2, || reading(900, 40, 1_950));
        window.pass_second(3, || unreachable!("the measured time has begun"));
        let expected = WindowCpu { skipped: Duration::from_secs(2), cpu: reading(100, 10, 50) };
        assert_eq!(window.end(reading(1_000, 50, 2_000)), expected);
    }

    #[test]
    fn cpu_counts_from_first_request_without_warm_up() {
        for warm_up in [Duration::ZERO, Duration::from_millis(999)] {
            let mut window = CpuWindow::new(warm_up, reading(100, 0, 50));
            window.pass_second(1, || unreachable!("there is no whole second"));
            let expected = WindowCpu { skipped: Duration::ZERO, cpu: reading(900, 50, 1_950) };
            assert_eq!(window.end(reading(1_000, 50, 2_000)), expected);
        }
    }

    #[test]
    fn server_without_readings_has_no_cpu() {
        let none = CpuReading { server: None, ..reading(1, 0, 0) };
        assert_eq!(CpuWindow::new(Duration::ZERO, none).end(none).cpu.server, None);
    }
}
