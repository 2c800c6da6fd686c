//! Connect times, and results of connects.
//!
//! Invariants: each attempt counts once, as opened or as failed. A planned reconnect counts from
//! its due time, so that a server that accepts no connection for a second shows in the times of all
//! that waited.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::outcome::Failure;
use crate::schedule::ReconnectReason;

/// Significant digits of recorded values: three, an error of at most 0.1 %.
const DIGITS: u8 = 3;

/// Connects in a part of a run. An empty histogram takes 16 KiB, one with values about 200 KiB.
#[derive(Clone, Debug)]
pub struct ConnectMetrics {
    /// Time from the start of the connect until open, handshakes included, in nanoseconds; for
    /// first connects and for reconnects of lost connections.
    pub connect: Histogram<u64>,
    /// Time from the due time of a churn reconnect until open, in nanoseconds. Includes closing the
    /// old connection.
    pub churn: Histogram<u64>,
    /// The same for reconnects of a storm.
    pub storm: Histogram<u64>,
    /// Connections that opened.
    pub opened: u64,
    /// Open connections that ended unexpectedly.
    pub lost: u64,
    /// Reconnects that were due and had not opened at the end of the run.
    pub not_reopened: u64,
    /// Sessions that the server did not delete on request.
    pub sessions_not_deleted: u64,
    /// Requests that were sent again over a new connection, since the server closed theirs before
    /// it read them.
    pub repeated: u64,
    failures: [u64; Failure::ALL.len()],
}

impl ConnectMetrics {
    /// Creates empty metrics.
    pub fn new() -> Self {
        Self {
            connect: histogram(),
            churn: histogram(),
            storm: histogram(),
            opened: 0,
            lost: 0,
            not_reopened: 0,
            sessions_not_deleted: 0,
            repeated: 0,
            failures: [0; Failure::ALL.len()],
        }
    }

    /// Records a first connect, or a reconnect of a lost connection.
    pub fn record_connect(&mut self, took: Duration) {
        self.opened += 1;
        record(&mut self.connect, took);
    }

    /// Records a planned reconnect.
    pub fn record_reconnect(&mut self, occasion: ReconnectReason, took: Duration) {
        self.opened += 1;
        match occasion {
            ReconnectReason::Churn => record(&mut self.churn, took),
            ReconnectReason::Storm => record(&mut self.storm, took),
            // The connection of a new user.
            ReconnectReason::Leave => {}
        }
    }

    /// Records a failed attempt.
    pub const fn record_failure(&mut self, failure: Failure) {
        self.failures[failure.index()] += 1;
    }

    /// Returns the number of attempts that failed in this way.
    pub const fn failures(&self, failure: Failure) -> u64 {
        self.failures[failure.index()]
    }

    /// Adds the metrics of another load thread or second.
    pub fn add(&mut self, other: &Self) {
        for (all, some) in [
            (&mut self.connect, &other.connect),
            (&mut self.churn, &other.churn),
            (&mut self.storm, &other.storm),
        ] {
            if all.add(some).is_err() {
                debug_assert!(false, "two histograms that grow");
            }
        }
        self.opened += other.opened;
        self.lost += other.lost;
        self.not_reopened += other.not_reopened;
        self.sessions_not_deleted += other.sessions_not_deleted;
        self.repeated += other.repeated;
        for (all, some) in self.failures.iter_mut().zip(other.failures) {
            *all += some;
        }
    }

    /// Resets all metrics without freeing memory.
    pub fn clear(&mut self) {
        for histogram in [&mut self.connect, &mut self.churn, &mut self.storm] {
            if !histogram.is_empty() {
                histogram.reset();
            }
        }
        (self.opened, self.lost) = (0, 0);
        (self.not_reopened, self.sessions_not_deleted, self.repeated) = (0, 0, 0);
        self.failures = [0; Failure::ALL.len()];
    }
}

impl Default for ConnectMetrics {
    fn default() -> Self {
        Self::new()
    }
}

/// Creates an auto-resizing histogram: most runs need only one of the three.
fn histogram() -> Histogram<u64> {
    Histogram::new(DIGITS).expect("at most five digits are allowed")
}

fn record(histogram: &mut Histogram<u64>, took: Duration) {
    let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
    if histogram.record(nanoseconds).is_err() {
        debug_assert!(false, "a histogram that grows");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    #[test]
    fn connects_are_recorded_by_reason() {
        let mut openings = ConnectMetrics::new();
        openings.record_connect(MILLISECOND);
        openings.record_reconnect(ReconnectReason::Churn, MILLISECOND * 2);
        openings.record_reconnect(ReconnectReason::Storm, Duration::from_hours(2));
        openings.record_failure(Failure::Http5xx);
        let counts =
            [&openings.connect, &openings.churn, &openings.storm].map(Histogram::<u64>::len);
        assert_eq!((counts, openings.opened), ([1, 1, 1], 3));
        assert!(openings.storm.max() >= 7_200_000_000_000);
        let refused = [Failure::Http5xx, Failure::Connect].map(|kind| openings.failures(kind));
        assert_eq!(refused, [1, 0]);
    }

    #[test]
    fn connect_metrics_add_up_and_clear() {
        let (mut one, mut other) = (ConnectMetrics::new(), ConnectMetrics::new());
        one.record_connect(MILLISECOND);
        other.record_connect(MILLISECOND * 500);
        other.record_failure(Failure::Connect);
        other.not_reopened = 2;
        one.add(&other);
        assert_eq!((one.connect.len(), one.opened, one.not_reopened), (2, 2, 2));
        assert_eq!(one.failures(Failure::Connect), 1);
        one.clear();
        assert!(one.connect.is_empty());
        assert_eq!((one.opened, one.not_reopened, one.failures(Failure::Connect)), (0, 0, 0));
    }
}
