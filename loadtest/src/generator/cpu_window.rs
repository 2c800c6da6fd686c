//! CPU time of the measured window, read at its borders.
//!
//! The window begins at the end of the warm-up and ends at the end of the schedule, so that neither
//! opening the connections nor the drain counts. A closed loop with a number of requests has no
//! schedule; its window ends with the last response. A reading may be late, so that each has its
//! time.

use std::time::Duration;

use corelane_base::time::Instant;

use crate::metrics::host::CoreTime;

/// CPU time so far.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct CpuReading {
    /// When it was read.
    pub(super) at: Instant,
    /// Of the generator.
    pub(super) generator: Duration,
    /// Of the server, if it is observed.
    pub(super) server: Option<Duration>,
    /// Of all cores of the machine, if the system provides it.
    pub(super) cores: Option<CoreTime>,
    /// Time for which the generator had to wait because its control group has a CPU limit.
    pub(super) throttled: Option<Duration>,
}

/// Readings at the borders of the window.
#[derive(Debug)]
pub(super) struct CpuWindow {
    /// Beginning and end; no end if the window ends with the last response.
    borders: [Option<Instant>; 2],
    readings: [Option<CpuReading>; 2],
}

impl CpuWindow {
    /// Returns a window with these borders and no readings.
    pub(super) const fn new(begin: Instant, end: Option<Instant>) -> Self {
        Self { borders: [Some(begin), end], readings: [None; 2] }
    }

    /// Returns the next border that was not read.
    pub(super) fn next_border(&self) -> Option<Instant> {
        let borders = self.borders.iter().zip(&self.readings);
        borders.filter(|(_, reading)| reading.is_none()).find_map(|(border, _)| *border)
    }

    /// Ends the window of a run that was stopped, if that is before its end.
    pub(super) fn end_at(&mut self, now: Instant) {
        let [_, end] = &mut self.borders;
        *end = end.map(|end| end.min(now));
    }

    /// Reads at the borders that have passed at `now`.
    pub(super) fn pass(&mut self, now: Instant, read: impl Fn() -> CpuReading) {
        for (border, reading) in self.borders.iter().zip(&mut self.readings) {
            if border.is_some_and(|border| border <= now) && reading.is_none() {
                *reading = Some(read());
            }
        }
    }

    /// Returns the readings at the beginning and at the end; borders that have not passed are read
    /// now.
    pub(super) fn finish(self, read: impl Fn() -> CpuReading) -> [CpuReading; 2] {
        self.readings.map(|reading| reading.unwrap_or_else(&read))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(milliseconds: u64) -> Instant {
        Instant::from_milliseconds(milliseconds)
    }

    fn read_at(milliseconds: u64) -> impl Fn() -> CpuReading {
        move || CpuReading { at: at(milliseconds), ..CpuReading::default() }
    }

    #[test]
    fn cpu_is_read_once_at_each_border() {
        let mut window = CpuWindow::new(at(2_000), Some(at(5_000)));
        window.pass(at(1_999), || unreachable!("the warm-up is not over"));
        assert_eq!(window.next_border(), Some(at(2_000)));
        window.pass(at(2_001), read_at(2_001));
        window.pass(at(4_999), || unreachable!("the window has not ended"));
        assert_eq!(window.next_border(), Some(at(5_000)));
        window.pass(at(5_003), read_at(5_003));
        window.pass(at(9_000), || unreachable!("the drain does not count"));
        assert_eq!(window.next_border(), None);
        let [begin, end] = window.finish(|| unreachable!("both are read"));
        assert_eq!([begin.at, end.at], [at(2_001), at(5_003)]);
    }

    #[test]
    fn window_ends_when_the_run_is_stopped() {
        let mut window = CpuWindow::new(at(0), Some(at(5_000)));
        window.pass(at(0), read_at(0));
        window.end_at(at(1_200));
        window.pass(at(1_200), read_at(1_200));
        // Later calls change nothing.
        window.end_at(at(1_900));
        assert_eq!(window.finish(|| unreachable!("both are read"))[1].at, at(1_200));
    }

    #[test]
    fn window_without_schedule_ends_with_last_response() {
        let mut window = CpuWindow::new(at(0), None);
        window.pass(at(0), read_at(0));
        assert_eq!(window.next_border(), None);
        assert_eq!(window.finish(read_at(700))[1].at, at(700));
    }
}
