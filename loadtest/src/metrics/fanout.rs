//! Delivery of notifications: when publications were planned, and when each stream received them.
//!
//! Publications are planned at a constant interval from the beginning of a run. The first
//! notification that a stream receives between two planned times counts for the earlier one, with
//! its delay from the planned time, even if the publication was late.
//!
//! Invariants: a stream receives a publication at most once; duplicate and late notifications do
//! not count. Limitation: notifications carry no publication number, so one that arrives after the
//! next planned time counts for the next publication, and its own counts as missed.

use std::collections::BTreeMap;
use std::time::Duration;

use corelane_base::time::Instant;

use super::outcome::{Failure, Outcomes};

/// Planned times of the publications of a run.
#[derive(Clone, Copy, Debug)]
pub struct PublishSchedule {
    /// Time of the first publication.
    pub start: Instant,
    /// No publication is planned at this time or later.
    pub end: Instant,
    /// Interval between publications.
    pub interval: Duration,
    /// Time in which a notification counts as delivered; at most `interval` has an effect.
    pub delivery_timeout: Duration,
    /// Publications planned before this are not measured.
    pub measured_from: Instant,
}

impl PublishSchedule {
    /// Returns the time of publication `number`, from 1, or `None` after the last.
    pub fn planned_at(&self, number: u32) -> Option<Instant> {
        let before = self.interval.saturating_mul(number.checked_sub(1)?);
        let planned = self.start.after(before);
        (planned < self.end).then_some(planned)
    }
}

/// Delivery of one publication to the streams of one load thread.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Delivery {
    /// Number of the publication, from 1.
    pub number: u32,
    /// Delay of each stream that received it, from the planned time, in nanoseconds.
    pub delays: Vec<u64>,
}

/// Tracks which streams of a load thread received the current publication. Takes 12 bytes a stream.
#[derive(Debug)]
pub struct DeliveryTracker {
    schedule: Option<PublishSchedule>,
    /// Last publication received by each stream; 0 for none.
    last_received: Vec<u32>,
    /// Number of the current publication; 0 before the first.
    number: u32,
    planned_at: Instant,
    delays: Vec<u64>,
}

impl DeliveryTracker {
    /// Creates a tracker of `streams` streams.
    pub fn new(streams: usize) -> Self {
        let (last_received, delays) = (vec![0; streams], Vec::new());
        Self { schedule: None, last_received, number: 0, planned_at: Instant::ORIGIN, delays }
    }

    /// Starts the schedule.
    pub const fn start(&mut self, schedule: PublishSchedule) {
        self.schedule = Some(schedule);
    }

    /// Returns the number of the current publication; 0 before the first.
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// Returns the planned time of publication `number`.
    pub fn planned_at(&self, number: u32) -> Option<Instant> {
        self.schedule.as_ref()?.planned_at(number)
    }

    /// Returns whether events at this time are measured.
    pub fn is_measured(&self, moment: Instant) -> bool {
        self.schedule.is_some_and(|schedule| moment >= schedule.measured_from)
    }

    /// Advances to the publication that is current at `now`; appends the finished ones to
    /// `finished`.
    #[inline]
    pub fn advance(&mut self, now: Instant, finished: &mut Vec<Delivery>) {
        while let Some(planned) = self.planned_at(self.number + 1)
            && planned <= now
        {
            self.finish_current(finished);
            (self.number, self.planned_at) = (self.number + 1, planned);
            self.delays = Vec::with_capacity(self.last_received.len());
        }
    }

    /// Records a notification on a stream; returns whether it counts.
    #[inline]
    pub fn receive(&mut self, stream: usize, now: Instant) -> bool {
        let Some(schedule) = &self.schedule else { return false };
        let took = now.since(self.planned_at);
        match self.last_received.get_mut(stream) {
            Some(last) if *last < self.number && took <= schedule.delivery_timeout => {
                *last = self.number;
                self.delays.push(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
                true
            }
            _ => false,
        }
    }

    /// Returns whether the last publication was delivered to all streams, or its time is over.
    pub fn is_complete(&self, now: Instant) -> bool {
        let Some(schedule) = &self.schedule else { return true };
        let is_last = schedule.planned_at(self.number + 1).is_none();
        let span = schedule.delivery_timeout.min(schedule.interval);
        let is_delivered =
            self.delays.len() == self.last_received.len() || now >= self.planned_at.after(span);
        is_last && (is_delivered || self.number == 0)
    }

    /// Finishes the current publication.
    pub fn finish_current(&mut self, finished: &mut Vec<Delivery>) {
        let times = std::mem::take(&mut self.delays);
        if self.number > 0 && self.is_measured(self.planned_at) {
            finished.push(Delivery { number: self.number, delays: times });
        }
    }
}

/// Measurements of subscriptions of one or all load threads in a part of a run.
#[derive(Clone, Debug, Default)]
pub struct FanoutMetrics {
    /// Results of the publish requests.
    pub publish_outcomes: Outcomes,
    /// Notifications that were duplicate, late or not subscribed to.
    pub stray: u64,
    /// Streams that ended.
    pub lost: u64,
    /// Bytes received over subscriber connections.
    pub bytes: u64,
    /// Finished publications.
    pub deliveries: Vec<Delivery>,
}

impl FanoutMetrics {
    /// Records the result of a publish request.
    #[cold]
    pub fn record_publish(&mut self, failure: Option<Failure>) {
        match failure {
            None => self.publish_outcomes.answered += 1,
            Some(failure) => self.publish_outcomes.record_failure(failure),
        }
    }

    /// Adds other measurements, except the deliveries, which are collected separately.
    pub fn add(&mut self, other: &Self) {
        self.publish_outcomes.add(&other.publish_outcomes);
        self.stray += other.stray;
        self.lost += other.lost;
        self.bytes += other.bytes;
    }

    /// Resets all measurements without freeing memory.
    pub fn clear(&mut self) {
        let mut reaches = std::mem::take(&mut self.deliveries);
        reaches.clear();
        *self = Self { deliveries: reaches, ..Self::default() };
    }
}

/// Delivery of one publication to all streams; delays in nanoseconds from its planned time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Publication {
    /// Number of the publication, from 1, warm-up included.
    pub number: u32,
    /// Streams that received it.
    pub received: u64,
    /// Shortest delay; `None` if no stream received it, also below.
    pub first: Option<u64>,
    /// Median delay of the streams that received it.
    pub median: Option<u64>,
    /// Longest delay of the streams that received it.
    pub last: Option<u64>,
}

impl Publication {
    fn from_delays(number: u32, mut times: Vec<u64>) -> Self {
        times.sort_unstable();
        Self {
            number,
            received: times.len() as u64,
            first: times.first().copied(),
            median: times.get(times.len().saturating_sub(1) / 2).copied(),
            last: times.last().copied(),
        }
    }
}

/// Merges the deliveries of all load threads. Delays are stored until all load threads have
/// reported, 8 bytes per stream.
#[derive(Debug, Default)]
pub struct DeliveryCollector {
    parts: BTreeMap<u32, (usize, Vec<u64>)>,
    publications: Vec<Publication>,
}

impl DeliveryCollector {
    /// Adds the deliveries of one of `threads` load threads.
    pub fn add(&mut self, reaches: &mut Vec<Delivery>, threads: usize) {
        for Delivery { number, delays: times } in reaches.drain(..) {
            let (reports, all) = self.parts.entry(number).or_default();
            *reports += 1;
            all.extend(times);
            if *reports >= threads {
                let times = std::mem::take(all);
                self.parts.remove(&number);
                self.publications.push(Publication::from_delays(number, times));
            }
        }
    }

    /// Returns all publications in order. Load threads that did not report count as no delivery.
    pub fn finish(mut self) -> Vec<Publication> {
        let rest = self.parts.into_iter();
        self.publications
            .extend(rest.map(|(number, (_, times))| Publication::from_delays(number, times)));
        self.publications.sort_unstable_by_key(|publication| publication.number);
        self.publications
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Instant {
        Instant::from_milliseconds(milliseconds)
    }

    /// Creates a tracker of two streams with publications planned at 1,000, 1,100 and 1,200 ms.
    fn tracker(heard_max_ms: u64, measured_from: u64) -> DeliveryTracker {
        let mut tracker = DeliveryTracker::new(2);
        tracker.start(PublishSchedule {
            start: at(1_000),
            end: at(1_300),
            interval: Duration::from_millis(100),
            delivery_timeout: Duration::from_millis(heard_max_ms),
            measured_from: at(measured_from),
        });
        tracker
    }

    fn reach(number: u32, times_ms: &[u64]) -> Delivery {
        Delivery { number, delays: times_ms.iter().map(|ms| ms * 1_000_000).collect() }
    }

    /// Delivers to these streams at these times; returns what counts, and the finished
    /// publications.
    fn deliver(
        tracker: &mut DeliveryTracker,
        notifications: &[(usize, u64)],
    ) -> (Vec<bool>, Vec<Delivery>) {
        let mut finished = Vec::new();
        let counts = notifications.iter().map(|(stream, ms)| {
            tracker.advance(at(*ms), &mut finished);
            tracker.receive(*stream, at(*ms))
        });
        (counts.collect(), finished)
    }

    #[test]
    fn notification_counts_once_from_planned_time() {
        let mut tracker = tracker(1_000, 0);
        let (counts, over) =
            deliver(&mut tracker, &[(0, 999), (1, 1_005), (1, 1_006), (0, 1_099), (1, 1_100)]);
        assert_eq!(counts, [false, true, false, true, true]);
        assert_eq!(over, [reach(1, &[5, 99])]);
        assert!(!tracker.receive(2, at(1_101)), "there are two streams");
    }

    #[test]
    fn late_or_warm_up_notification_is_not_counted() {
        let mut tracker = tracker(10, 1_100);
        let (counts, over) = deliver(&mut tracker, &[(0, 1_010), (1, 1_011), (0, 1_200)]);
        assert_eq!(counts, [true, false, true]);
        assert_eq!(over, [reach(2, &[])]);
    }

    #[test]
    fn delivery_completes_when_received_or_timed_out() {
        let mut tracker = tracker(50, 0);
        deliver(&mut tracker, &[(0, 1_200)]);
        assert!(!tracker.is_complete(at(1_249)) && tracker.is_complete(at(1_250)));
        deliver(&mut tracker, &[(1, 1_201)]);
        assert!(tracker.is_complete(at(1_201)));
        assert_eq!(tracker.planned_at(4), None);
    }

    #[test]
    fn publication_merges_deliveries_of_all_threads() {
        let mut collector = DeliveryCollector::default();
        collector.add(&mut vec![reach(2, &[]), reach(1, &[3, 9])], 2);
        collector.add(&mut vec![reach(1, &[1, 4])], 2);
        let ms = |number: u64| Some(number * 1_000_000);
        let first =
            Publication { number: 1, received: 4, first: ms(1), median: ms(3), last: ms(9) };
        let second = Publication { number: 2, received: 0, first: None, median: None, last: None };
        assert_eq!(collector.finish(), [first, second]);
    }
}
