//! What one worker has seen in about a second.

use std::time::Duration;

use corelane::base::time::Moment;
use hdrhistogram::Histogram;

use crate::dialogue::Concluded;
use crate::measure::fanout::Listened;
use crate::measure::latency::{Latencies, Times, histogram};
use crate::measure::openings::Openings;
use crate::measure::outcome::{Outcomes, SlowOutcomes};

/// What happened in a part of a run. Takes about 800 KiB, whatever is recorded, and what its
/// openings take.
#[derive(Clone, Debug)]
pub struct Period {
    /// Of the requests that were answered well.
    pub latencies: Latencies,
    /// What became of requests.
    pub outcomes: Outcomes,
    /// How late the generator itself was: from the moment at which a request was due to the moment
    /// at which it was looked at, in nanoseconds. A wait for a connection with room is none of it.
    pub lag: Histogram<u64>,
    /// Requests that were due.
    pub due: u64,
    /// Requests that were sent.
    pub sent: u64,
    /// How long the generator was awake for nothing but the next request that was due.
    pub spun: Duration,
    /// Connections that were open at its end.
    pub open: u64,
    /// Connections that ended without our doing.
    pub lost: u64,
    /// Connections that opened; those from before the first request are in the first second.
    pub openings: Openings,
    /// What became of the connections that read slowly.
    pub slow: SlowOutcomes,
    /// Why the last connection that did not open, or ended without our doing, did so, or what
    /// broke the encryption of one.
    pub refused: Option<String>,
    /// When it ended, counted from the beginning of the run, warm-up included.
    pub until: Duration,
    /// What those that listen have heard.
    pub listened: Listened,
}

impl Period {
    /// Nothing yet.
    pub fn new() -> Self {
        Self {
            latencies: Latencies::new(),
            outcomes: Outcomes::default(),
            lag: histogram(),
            due: 0,
            sent: 0,
            spun: Duration::ZERO,
            open: 0,
            lost: 0,
            openings: Openings::new(),
            slow: SlowOutcomes::default(),
            refused: None,
            until: Duration::ZERO,
            listened: Listened::default(),
        }
    }

    /// Takes in what another worker has seen in the same time.
    pub fn add(&mut self, other: &Self) {
        self.open += other.open;
        self.append(other);
    }

    /// Takes in what came after. The connections that are open are those of the later one.
    pub fn follow(&mut self, later: &Self) {
        self.open = later.open;
        self.append(later);
    }

    fn append(&mut self, other: &Self) {
        self.latencies.add(&other.latencies);
        self.outcomes.add(&other.outcomes);
        if self.lag.add(&other.lag).is_err() {
            debug_assert!(false, "two histograms of the same bounds");
        }
        self.due += other.due;
        self.sent += other.sent;
        self.spun += other.spun;
        self.lost += other.lost;
        self.until = self.until.max(other.until);
        self.openings.add(&other.openings);
        self.slow.add(&other.slow);
        self.listened.add(&other.listened);
        if other.refused.is_some() {
            self.refused.clone_from(&other.refused);
        }
    }

    /// Forgets all, and keeps the memory.
    pub fn clear(&mut self) {
        self.latencies.clear();
        self.lag.reset();
        self.outcomes = Outcomes::default();
        (self.due, self.sent, self.open, self.lost) = (0, 0, 0, 0);
        self.spun = Duration::ZERO;
        self.openings.clear();
        self.slow = SlowOutcomes::default();
        self.refused = None;
        self.until = Duration::ZERO;
        self.listened.clear();
    }
}

/// The period under way.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) period: Box<Period>,
    /// Requests that were meant to leave before this are not measured.
    pub(super) measured_from: Moment,
    /// The kind of request that publishes, which is counted apart.
    pub(super) publishing: Option<u16>,
}

impl Tally {
    /// A request is over.
    #[inline]
    pub(super) fn conclude(&mut self, concluded: Concluded, answered: Moment) {
        let Concluded { call, intended, sent, failure } = concluded;
        if intended < self.measured_from {
            return;
        }
        if self.publishing == Some(call) {
            return self.period.listened.published(failure);
        }
        match failure {
            None => {
                self.period.outcomes.answered += 1;
                self.period.latencies.record(Times { intended, sent, answered });
            }
            Some(failure) => self.period.outcomes.fail(failure),
        }
    }
}

impl Default for Period {
    fn default() -> Self {
        Self::new()
    }
}
