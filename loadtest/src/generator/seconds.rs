//! Assembles the seconds of a run from the reports of the load threads.
//!
//! Invariants: a second is complete when every load thread has reported it. It is then added to the
//! total and reduced to a few figures. Full measurements exist only for the seconds by which load
//! threads are apart, so memory does not limit the length of a run.

use std::collections::VecDeque;
use std::time::Duration;

use super::period::Period;
use super::second_summary::{ProcessSamples, SecondSummarizer};
use crate::metrics::second::SecondResult;

/// One second of a run, over all load threads.
#[derive(Clone, Debug)]
pub struct Second {
    /// Measurements of the second.
    pub period: Period,
    /// Samples of the processes at its end.
    pub(super) samples: ProcessSamples,
    /// Summary of the second.
    pub summary: SecondResult,
}

impl Second {
    /// Creates an empty second.
    pub fn new() -> Self {
        Self {
            period: Period::new(),
            samples: ProcessSamples::default(),
            summary: SecondResult::default(),
        }
    }
}

impl Default for Second {
    fn default() -> Self {
        Self::new()
    }
}

/// Totals of the measured window: from the end of the warm-up to the end of the schedule.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct WindowTotals {
    /// Requests that were due.
    pub due: u64,
    /// Requests that were due and completed.
    pub completed: u64,
    /// Successful responses, also to requests of the warm-up.
    pub answered: u64,
    /// The same of each kind of request in a mix, by the index of its template.
    pub answered_by_call: Vec<u64>,
    /// End of the window, from the beginning of the run, warm-up included.
    pub until: Duration,
    /// Time the generator spun while waiting for the next due request.
    pub spun: Duration,
}

impl WindowTotals {
    fn add(&mut self, period: &Period) {
        self.due += period.due;
        self.completed += period.outcomes.requests();
        self.answered += period.outcomes.answered + period.outcomes.earlier_answered;
        let by_call = &mut self.answered_by_call;
        for (index, answered) in period.latencies.calls().answered().enumerate() {
            by_call.resize(by_call.len().max(index + 1), 0);
            by_call[index] += answered;
        }
        self.until = self.until.max(period.until);
        self.spun += period.window_spun;
    }
}

/// The last report of a load thread.
#[derive(Clone, Copy, Debug, Default)]
struct LastReport {
    /// Number of reports.
    reports: usize,
    /// Connections open at its end.
    open: u64,
}

/// Collector of the seconds of a run.
#[derive(Debug)]
pub(super) struct SecondCollector {
    /// The last report of each load thread.
    last_reports: Vec<LastReport>,
    /// Sum of the complete seconds.
    pub(super) total: Period,
    /// The part of the total that lies in the measured window.
    pub(super) window: WindowTotals,
    /// The total at the time slow readers began, if they began after the warm-up.
    pub(super) before_slow_readers: Option<Box<Period>>,
    before_seconds: usize,
    pub(super) seconds: Vec<SecondResult>,
    /// Highest resident memory of the server, in bytes, if it is observed.
    pub(super) resident_bytes_max: Option<u64>,
    /// Incomplete seconds from the first on, each with its number of reports.
    incomplete: VecDeque<(usize, Second)>,
    summarizer: SecondSummarizer,
    spare: Vec<Second>,
}

impl SecondCollector {
    /// Creates a collector for so many load threads. Measurements up to `before` are also kept
    /// separately.
    pub(super) fn new(threads: usize, warm_up: Duration, before: Option<Duration>) -> Self {
        let before_seconds =
            before.map_or(0, |before| usize::try_from(before.as_secs()).unwrap_or(usize::MAX));
        Self {
            last_reports: vec![LastReport::default(); threads],
            total: Period::new(),
            window: WindowTotals::default(),
            before_slow_readers: None,
            before_seconds,
            seconds: Vec::new(),
            resident_bytes_max: None,
            incomplete: VecDeque::new(),
            summarizer: SecondSummarizer::new(warm_up),
            spare: Vec::new(),
        }
    }

    /// Adds the report of the next second of load thread `thread`. `sample` samples the server and
    /// the generator; `on_second` is called for each second that this completes, with its number.
    pub(super) fn add(
        &mut self,
        thread: usize,
        period: &Period,
        sample: impl Fn() -> ProcessSamples,
        on_second: &mut impl FnMut(usize, &Second),
    ) {
        let Some(LastReport { reports: number, open }) = self.last_reports.get_mut(thread) else {
            return;
        };
        // A second without the report of this thread is not complete.
        let place = *number - self.seconds.len();
        (*number, *open) = (*number + 1, period.open);
        while self.incomplete.len() <= place {
            self.incomplete.push_back((0, self.spare.pop().unwrap_or_default()));
        }
        let (reports, second) = &mut self.incomplete[place];
        second.period.add(period);
        *reports += 1;
        if *reports == self.last_reports.len() {
            second.samples = sample();
        }
        while self
            .incomplete
            .front()
            .is_some_and(|(reports, _)| *reports >= self.last_reports.len())
        {
            self.complete_first(on_second);
        }
    }

    /// Completes the remaining seconds after all load threads have ended.
    pub(super) fn finish(&mut self, on_second: &mut impl FnMut(usize, &Second)) {
        while !self.incomplete.is_empty() {
            self.complete_first(on_second);
        }
    }

    fn complete_first(&mut self, on_second: &mut impl FnMut(usize, &Second)) {
        let Some((_, mut second)) = self.incomplete.pop_front() else { return };
        // The connections of threads whose drain was shorter stay open.
        let number = self.seconds.len();
        let ended = self.last_reports.iter().filter(|last| last.reports <= number);
        second.period.open += ended.map(|last| last.open).sum::<u64>();
        second.summary = self.summarizer.summarize(&second.period, second.samples);
        on_second(self.seconds.len(), &second);
        self.total.append_later(&second.period);
        if !second.period.is_drain {
            self.window.add(&second.period);
        }
        let resident_bytes = second.samples.server.map(|sample| sample.resident_bytes);
        self.resident_bytes_max = self.resident_bytes_max.max(resident_bytes);
        self.seconds.push(std::mem::take(&mut second.summary));
        if self.seconds.len() == self.before_seconds {
            self.before_slow_readers = Some(Box::new(self.total.clone()));
        }
        second.period.clear();
        second.samples = ProcessSamples::default();
        self.spare.push(second);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn period(answered: u64, open: u64) -> Period {
        let mut period = Period::new();
        period.outcomes.answered = answered;
        period.open = open;
        period
    }

    /// Adds reports, each with its thread and responses; returns the seconds that completed.
    fn completed(seconds: &mut SecondCollector, reports: &[(usize, u64)]) -> Vec<(usize, u64)> {
        let mut completed = Vec::new();
        let mut on_second =
            |number, second: &Second| completed.push((number, second.period.outcomes.answered));
        for (thread, answered) in reports {
            let samples = ProcessSamples::default;
            seconds.add(*thread, &period(*answered, 1), samples, &mut on_second);
        }
        completed
    }

    #[test]
    fn second_completes_when_all_threads_reported() {
        let mut seconds = SecondCollector::new(2, Duration::ZERO, None);
        assert!(completed(&mut seconds, &[(0, 1), (0, 10)]).is_empty());
        assert_eq!(completed(&mut seconds, &[(1, 2), (1, 20), (1, 5)]), [(0, 3), (1, 30)]);
        let mut rest = Vec::new();
        seconds.finish(&mut |number, _| rest.push(number));
        assert_eq!(rest, [2], "one thread reported one second more");
        let kept: Vec<u64> = seconds.seconds.iter().map(|second| second.answered).collect();
        assert_eq!((kept, seconds.total.outcomes.answered), (vec![3, 30, 5], 38));
        assert!(seconds.seconds.iter().all(|second| second.open == 2), "{:?}", seconds.seconds);
        assert_eq!(seconds.total.open, 2);
    }

    #[test]
    fn second_buffers_are_reused() {
        let mut seconds = SecondCollector::new(1, Duration::ZERO, None);
        let parts = [(0, 1); 100];
        assert_eq!(completed(&mut seconds, &parts).len(), 100);
        assert_eq!((seconds.spare.len(), seconds.incomplete.len()), (1, 0));
        assert_eq!(seconds.total.outcomes.answered, 100);
    }

    #[test]
    fn seconds_before_slow_readers_are_separate() {
        let mut seconds =
            SecondCollector::new(1, Duration::ZERO, Some(Duration::from_millis(2_500)));
        completed(&mut seconds, &[(0, 1), (0, 2), (0, 4)]);
        assert_eq!(seconds.before_slow_readers.unwrap().outcomes.answered, 3);
    }
}
