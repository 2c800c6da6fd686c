//! The seconds of a run, put together from what the workers tell.
//!
//! What it keeps true: a second is whole when every worker has told its part; then it is added to
//! the total and kept as a handful of figures. What was measured in full is kept for as many
//! seconds as workers are apart, and no longer, so that a run may last for days.

use std::collections::VecDeque;
use std::time::Duration;

use super::period::Period;
use super::sight::Sight;
use crate::measure::process::Sample;
use crate::measure::second::SecondResult;

/// A second of a run, of all workers together.
#[derive(Clone, Debug)]
pub struct Second {
    /// What happened in it.
    pub period: Period,
    /// The server's process at its end, where it is watched.
    pub server: Option<Sample>,
    /// The generator's own process at its end, where the system tells.
    pub generator: Option<Sample>,
    /// What it comes to, beside the second before.
    pub figures: SecondResult,
}

impl Second {
    /// One in which nothing happened.
    pub fn new() -> Self {
        Self {
            period: Period::new(),
            server: None,
            generator: None,
            figures: SecondResult::default(),
        }
    }
}

impl Default for Second {
    fn default() -> Self {
        Self::new()
    }
}

/// The seconds of a run.
#[derive(Debug)]
pub(super) struct Seconds {
    workers: usize,
    /// What went by in the seconds that are whole.
    pub(super) total: Period,
    /// The total as it was when slow readers began, where there are any who begin later.
    pub(super) before: Option<Box<Period>>,
    before_length: usize,
    pub(super) kept: Vec<SecondResult>,
    /// The most resident memory that the server was seen with.
    pub(super) resident_bytes_max: u64,
    /// Seconds that are not whole, each with how many workers have told it, from the first on.
    begun: VecDeque<(usize, Second)>,
    sight: Sight,
    spare: Vec<Second>,
}

impl Seconds {
    /// None yet, of so many workers, with so much warm-up. What went by before `before` is kept
    /// apart.
    pub(super) fn new(workers: usize, warm_up: Duration, before: Option<Duration>) -> Self {
        let before_length =
            before.map_or(0, |before| usize::try_from(before.as_secs()).unwrap_or(usize::MAX));
        Self {
            workers,
            total: Period::new(),
            before: None,
            before_length,
            kept: Vec::new(),
            resident_bytes_max: 0,
            begun: VecDeque::new(),
            sight: Sight::new(warm_up),
            spare: Vec::new(),
        }
    }

    /// Takes in what a worker tells of a second. `sample` looks at the server and at the generator;
    /// `tell` hears of each second that is whole by it, with its number.
    pub(super) fn add(
        &mut self,
        (number, period): (usize, &Period),
        sample: impl Fn() -> [Option<Sample>; 2],
        tell: &mut impl FnMut(usize, &Second),
    ) {
        // Each worker tells its seconds in their order, so that no whole one is told of again.
        let Some(place) = number.checked_sub(self.kept.len()) else { return };
        while self.begun.len() <= place {
            self.begun.push_back((0, self.spare.pop().unwrap_or_default()));
        }
        let (told, second) = &mut self.begun[place];
        second.period.add(period);
        *told += 1;
        if *told == self.workers {
            [second.server, second.generator] = sample();
        }
        while self.begun.front().is_some_and(|(told, _)| *told >= self.workers) {
            self.keep_first(tell);
        }
    }

    /// Takes what is left when all workers have ended, whole or not.
    pub(super) fn finish(&mut self, tell: &mut impl FnMut(usize, &Second)) {
        while !self.begun.is_empty() {
            self.keep_first(tell);
        }
    }

    fn keep_first(&mut self, tell: &mut impl FnMut(usize, &Second)) {
        let Some((_, mut second)) = self.begun.pop_front() else { return };
        second.figures = self.sight.see(&second.period, [second.server, second.generator]);
        tell(self.kept.len(), &second);
        self.total.follow(&second.period);
        let resident_bytes = second.server.map(|sample| sample.resident_bytes);
        self.resident_bytes_max = self.resident_bytes_max.max(resident_bytes.unwrap_or_default());
        self.kept.push(std::mem::take(&mut second.figures));
        if self.kept.len() == self.before_length {
            self.before = Some(Box::new(self.total.clone()));
        }
        second.period.clear();
        (second.server, second.generator) = (None, None);
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

    /// What is told of these seconds, each of a worker.
    fn told(seconds: &mut Seconds, parts: &[(usize, u64)]) -> Vec<(usize, u64)> {
        let mut told = Vec::new();
        let mut tell =
            |number, second: &Second| told.push((number, second.period.outcomes.answered));
        for (number, answered) in parts {
            seconds.add((*number, &period(*answered, 1)), || [None, None], &mut tell);
        }
        told
    }

    #[test]
    fn a_second_is_told_when_every_worker_has_told_its_part() {
        let mut seconds = Seconds::new(2, Duration::ZERO, None);
        assert!(told(&mut seconds, &[(0, 1), (1, 10)]).is_empty());
        assert_eq!(told(&mut seconds, &[(0, 2), (1, 20), (2, 5)]), [(0, 3), (1, 30)]);
        let mut rest = Vec::new();
        seconds.finish(&mut |number, _| rest.push(number));
        assert_eq!(rest, [2], "one worker was ready before the other");
        let kept: Vec<u64> = seconds.kept.iter().map(|second| second.answered).collect();
        assert_eq!((kept, seconds.total.outcomes.answered), (vec![3, 30, 5], 38));
        assert_eq!(seconds.kept[0].open, 2);
    }

    #[test]
    fn what_was_measured_in_full_is_used_again_second_by_second() {
        let mut seconds = Seconds::new(1, Duration::ZERO, None);
        let parts: Vec<(usize, u64)> = (0..100).map(|number| (number, 1)).collect();
        assert_eq!(told(&mut seconds, &parts).len(), 100);
        assert_eq!((seconds.spare.len(), seconds.begun.len()), (1, 0));
        assert_eq!(seconds.total.outcomes.answered, 100);
    }

    #[test]
    fn what_went_by_before_a_moment_is_kept_apart() {
        let mut seconds = Seconds::new(1, Duration::ZERO, Some(Duration::from_millis(2_500)));
        told(&mut seconds, &[(0, 1), (1, 2), (2, 4)]);
        assert_eq!(seconds.before.unwrap().outcomes.answered, 3);
    }
}
