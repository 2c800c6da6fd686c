//! When streams heard of what was published: the moments of publications, and who heard when.
//!
//! Publications are planned for moments that follow each other evenly from the beginning of a run
//! on. What a stream hears first between two of them counts for the earlier, from the moment for
//! which that was planned, however late it was really published.
//!
//! What it keeps true: a stream hears of a publication once; whatever it hears besides, or too
//! late, is not counted as heard. What it cannot tell: a notification that comes behind the next
//! planned moment counts for the next publication, since nothing in it names one. The one that it
//! belongs to is then counted as missed.

use std::collections::BTreeMap;
use std::time::Duration;

use corelane::base::time::Moment;

use super::outcome::{Failure, Outcomes};

/// The moments of the publications of a run.
#[derive(Clone, Copy, Debug)]
pub struct Course {
    /// The moment of the first.
    pub begin: Moment,
    /// No publication is planned for this moment or a later one.
    pub end: Moment,
    /// From one to the next.
    pub every: Duration,
    /// How long one may be heard of; no longer than `every` counts.
    pub heard_max: Duration,
    /// What is planned before this is not measured.
    pub measured_from: Moment,
}

impl Course {
    /// The moment of one of them, counted from one; none behind the last.
    pub fn planned(&self, number: u32) -> Option<Moment> {
        let before = self.every.saturating_mul(number.checked_sub(1)?);
        let planned = self.begin.after(before);
        (planned < self.end).then_some(planned)
    }
}

/// How one publication reached the streams of one worker.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Reach {
    /// Which publication, counted from one.
    pub number: u32,
    /// How long after its planned moment each stream heard of it that did, in nanoseconds.
    pub times: Vec<u64>,
}

/// Which streams of a worker have heard. Takes 12 bytes a stream.
#[derive(Debug)]
pub struct Roll {
    course: Option<Course>,
    /// The publication that each stream heard of last; zero for none.
    heard: Vec<u32>,
    /// The publication under way; zero before the first.
    number: u32,
    planned: Moment,
    times: Vec<u64>,
}

impl Roll {
    /// So many streams; nothing is published yet.
    pub fn new(streams: usize) -> Self {
        let (heard, times) = (vec![0; streams], Vec::new());
        Self { course: None, heard, number: 0, planned: Moment::ORIGIN, times }
    }

    /// The run begins.
    pub const fn begin(&mut self, course: Course) {
        self.course = Some(course);
    }

    /// The number of the publication under way; zero before the first.
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// The moment of one of the publications.
    pub fn planned(&self, number: u32) -> Option<Moment> {
        self.course.as_ref()?.planned(number)
    }

    /// Whether what happens at this moment is measured.
    pub fn is_measured(&self, moment: Moment) -> bool {
        self.course.is_some_and(|course| moment >= course.measured_from)
    }

    /// Goes on to the publication that is under way at `now`; those before are over.
    #[inline]
    pub fn advance(&mut self, now: Moment, over: &mut Vec<Reach>) {
        while let Some(planned) = self.planned(self.number + 1)
            && planned <= now
        {
            self.close(over);
            (self.number, self.planned) = (self.number + 1, planned);
            self.times = Vec::with_capacity(self.heard.len());
        }
    }

    /// A stream was told of a change; whether that counts.
    #[inline]
    pub fn hear(&mut self, stream: usize, now: Moment) -> bool {
        let Some(course) = &self.course else { return false };
        let took = now.since(self.planned);
        match self.heard.get_mut(stream) {
            Some(heard) if *heard < self.number && took <= course.heard_max => {
                *heard = self.number;
                self.times.push(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
                true
            }
            _ => false,
        }
    }

    /// Whether nothing more can be heard: the last publication has reached all, or its time is
    /// over.
    pub fn is_over(&self, now: Moment) -> bool {
        let Some(course) = &self.course else { return true };
        let is_last = course.planned(self.number + 1).is_none();
        let span = course.heard_max.min(course.every);
        let is_heard = self.times.len() == self.heard.len() || now >= self.planned.after(span);
        is_last && (is_heard || self.number == 0)
    }

    /// The publication under way is over.
    pub fn close(&mut self, over: &mut Vec<Reach>) {
        let times = std::mem::take(&mut self.times);
        if self.number > 0 && self.is_measured(self.planned) {
            over.push(Reach { number: self.number, times });
        }
    }
}

/// What else the listening of a worker, or of all, came to in a part of a run.
#[derive(Clone, Debug, Default)]
pub struct Listened {
    /// What became of the requests that were to publish.
    pub publishing: Outcomes,
    /// Notifications that came twice, too late, or for nothing.
    pub stray: u64,
    /// Streams that ended.
    pub lost: u64,
    /// Bytes that came over connections that listen.
    pub bytes: u64,
    /// Publications that are over.
    pub reaches: Vec<Reach>,
}

impl Listened {
    /// A request that was to publish is over.
    #[cold]
    pub fn published(&mut self, failure: Option<Failure>) {
        match failure {
            None => self.publishing.answered += 1,
            Some(failure) => self.publishing.fail(failure),
        }
    }

    /// Takes in what another worker, or another second, has counted; reaches are gathered apart.
    pub fn add(&mut self, other: &Self) {
        self.publishing.add(&other.publishing);
        self.stray += other.stray;
        self.lost += other.lost;
        self.bytes += other.bytes;
    }

    /// Forgets all, and keeps the memory.
    pub fn clear(&mut self) {
        let mut reaches = std::mem::take(&mut self.reaches);
        reaches.clear();
        *self = Self { reaches, ..Self::default() };
    }
}

/// How one publication reached all streams, in nanoseconds after its planned moment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Publication {
    /// Which one, counted from one, the warm-up included.
    pub number: u32,
    /// Streams that heard of it.
    pub heard: u64,
    /// Until the first did; none where none did, here and below.
    pub first: Option<u64>,
    /// Until the one in the middle did, of those that did.
    pub median: Option<u64>,
    /// Until the last did, of those that did.
    pub last: Option<u64>,
}

impl Publication {
    fn of(number: u32, mut times: Vec<u64>) -> Self {
        times.sort_unstable();
        Self {
            number,
            heard: times.len() as u64,
            first: times.first().copied(),
            median: times.get(times.len().saturating_sub(1) / 2).copied(),
            last: times.last().copied(),
        }
    }
}

/// Puts together what workers tell of publications. What each stream heard is kept until all
/// workers have told, 8 bytes each.
#[derive(Debug, Default)]
pub struct Gathering {
    parts: BTreeMap<u32, (usize, Vec<u64>)>,
    publications: Vec<Publication>,
}

impl Gathering {
    /// Takes in what one of so many workers tells.
    pub fn add(&mut self, reaches: &mut Vec<Reach>, workers: usize) {
        for Reach { number, times } in reaches.drain(..) {
            let (told, all) = self.parts.entry(number).or_default();
            *told += 1;
            all.extend(times);
            if *told >= workers {
                let times = std::mem::take(all);
                self.parts.remove(&number);
                self.publications.push(Publication::of(number, times));
            }
        }
    }

    /// All publications in their order; what a worker never told nobody of its streams has heard.
    pub fn finish(mut self) -> Vec<Publication> {
        let rest = self.parts.into_iter();
        self.publications.extend(rest.map(|(number, (_, times))| Publication::of(number, times)));
        self.publications.sort_unstable_by_key(|publication| publication.number);
        self.publications
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Moment {
        Moment::from_milliseconds(milliseconds)
    }

    /// A roll of two streams whose publications are planned for 1,000, 1,100 and 1,200 ms.
    fn roll(heard_max_ms: u64, measured_from: u64) -> Roll {
        let mut roll = Roll::new(2);
        roll.begin(Course {
            begin: at(1_000),
            end: at(1_300),
            every: Duration::from_millis(100),
            heard_max: Duration::from_millis(heard_max_ms),
            measured_from: at(measured_from),
        });
        roll
    }

    fn reach(number: u32, times_ms: &[u64]) -> Reach {
        Reach { number, times: times_ms.iter().map(|ms| ms * 1_000_000).collect() }
    }

    /// Says of each of these streams and moments whether it counts, and what is over then.
    fn hear(roll: &mut Roll, said: &[(usize, u64)]) -> (Vec<bool>, Vec<Reach>) {
        let mut over = Vec::new();
        let counts = said.iter().map(|(stream, ms)| {
            roll.advance(at(*ms), &mut over);
            roll.hear(*stream, at(*ms))
        });
        (counts.collect(), over)
    }

    #[test]
    fn a_stream_hears_once_from_the_planned_moment_on() {
        let mut roll = roll(1_000, 0);
        let (counts, over) =
            hear(&mut roll, &[(0, 999), (1, 1_005), (1, 1_006), (0, 1_099), (1, 1_100)]);
        assert_eq!(counts, [false, true, false, true, true]);
        assert_eq!(over, [reach(1, &[5, 99])]);
        assert!(!roll.hear(2, at(1_101)), "there are two streams");
    }

    #[test]
    fn what_is_heard_too_late_or_of_the_warm_up_is_not_counted() {
        let mut roll = roll(10, 1_100);
        let (counts, over) = hear(&mut roll, &[(0, 1_010), (1, 1_011), (0, 1_200)]);
        assert_eq!(counts, [true, false, true]);
        assert_eq!(over, [reach(2, &[])]);
    }

    #[test]
    fn a_run_is_over_when_the_last_publication_was_heard_or_missed() {
        let mut roll = roll(50, 0);
        hear(&mut roll, &[(0, 1_200)]);
        assert!(!roll.is_over(at(1_249)) && roll.is_over(at(1_250)));
        hear(&mut roll, &[(1, 1_201)]);
        assert!(roll.is_over(at(1_201)));
        assert_eq!(roll.planned(4), None);
    }

    #[test]
    fn a_publication_is_what_all_workers_tell_of_it() {
        let mut gathering = Gathering::default();
        gathering.add(&mut vec![reach(2, &[]), reach(1, &[3, 9])], 2);
        gathering.add(&mut vec![reach(1, &[1, 4])], 2);
        let ms = |number: u64| Some(number * 1_000_000);
        let first = Publication { number: 1, heard: 4, first: ms(1), median: ms(3), last: ms(9) };
        let second = Publication { number: 2, heard: 0, first: None, median: None, last: None };
        assert_eq!(gathering.finish(), [first, second]);
    }
}
