//! How long connections took to open, and what became of those that did not.
//!
//! What it keeps true: every attempt is counted once, as opened or as refused in some way; a
//! replacement that was due counts from the moment at which it was due, so that a server that lets
//! nobody in for a second shows in the times of all who waited.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::outcome::Failure;
use crate::schedule::Occasion;

/// Significant digits of every value: three, an error of at most a thousandth.
const DIGITS: u8 = 3;

/// Connections that were opened in a part of a run. A histogram takes 16 KiB until the first value
/// and about 200 KiB from then on.
#[derive(Clone, Debug)]
pub struct Openings {
    /// From the beginning of the connect to being open, handshake included, in nanoseconds: all
    /// that opened for the first time, or again after they were lost.
    pub connect: Histogram<u64>,
    /// The same of the connections of a churn, but from the moment at which they were due: what
    /// the one that they replace took to leave is in it.
    pub churn: Histogram<u64>,
    /// The same of the connections of storms, from the moment of the storm.
    pub storm: Histogram<u64>,
    /// Connections that opened.
    pub opened: u64,
    /// Replacements that were due and had not opened when the run was over.
    pub unopened: u64,
    /// Sessions that the server did not end though it was asked to.
    pub undeleted: u64,
    refused: [u64; Failure::ALL.len()],
}

impl Openings {
    /// None yet.
    pub fn new() -> Self {
        Self {
            connect: histogram(),
            churn: histogram(),
            storm: histogram(),
            opened: 0,
            unopened: 0,
            undeleted: 0,
            refused: [0; Failure::ALL.len()],
        }
    }

    /// Counts a connection that has opened for the first time, or again after it was lost.
    pub fn open(&mut self, took: Duration) {
        self.opened += 1;
        record(&mut self.connect, took);
    }

    /// Counts a connection that has opened in the place of another.
    pub fn replace(&mut self, occasion: Occasion, took: Duration) {
        self.opened += 1;
        match occasion {
            Occasion::Churn => record(&mut self.churn, took),
            Occasion::Storm => record(&mut self.storm, took),
        }
    }

    /// Counts an attempt that came to nothing.
    pub const fn refuse(&mut self, failure: Failure) {
        self.refused[failure as usize] += 1;
    }

    /// How many attempts came to nothing in this way.
    pub const fn refused(&self, failure: Failure) -> u64 {
        self.refused[failure as usize]
    }

    /// Takes in what another worker, or another second, has seen.
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
        self.unopened += other.unopened;
        self.undeleted += other.undeleted;
        for (all, some) in self.refused.iter_mut().zip(other.refused) {
            *all += some;
        }
    }

    /// Forgets all, and keeps the memory.
    pub fn clear(&mut self) {
        for histogram in [&mut self.connect, &mut self.churn, &mut self.storm] {
            if !histogram.is_empty() {
                histogram.reset();
            }
        }
        (self.opened, self.unopened, self.undeleted) = (0, 0, 0);
        self.refused = [0; Failure::ALL.len()];
    }
}

impl Default for Openings {
    fn default() -> Self {
        Self::new()
    }
}

/// An empty histogram that grows with its values: most runs need one of the three.
fn histogram() -> Histogram<u64> {
    Histogram::new(DIGITS).expect("the digits are at most five")
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
    fn connections_are_told_apart_by_what_they_were_opened_for() {
        let mut openings = Openings::new();
        openings.open(MILLISECOND);
        openings.replace(Occasion::Churn, MILLISECOND * 2);
        openings.replace(Occasion::Storm, Duration::from_hours(2));
        openings.refuse(Failure::HttpFailed);
        let counts =
            [&openings.connect, &openings.churn, &openings.storm].map(Histogram::<u64>::len);
        assert_eq!((counts, openings.opened), ([1, 1, 1], 3));
        assert!(openings.storm.max() >= 7_200_000_000_000);
        let refused = [Failure::HttpFailed, Failure::Connect].map(|kind| openings.refused(kind));
        assert_eq!(refused, [1, 0]);
    }

    #[test]
    fn what_workers_have_seen_adds_up_and_is_forgotten() {
        let (mut one, mut other) = (Openings::new(), Openings::new());
        one.open(MILLISECOND);
        other.open(MILLISECOND * 500);
        other.refuse(Failure::Connect);
        other.unopened = 2;
        one.add(&other);
        assert_eq!((one.connect.len(), one.opened, one.unopened), (2, 2, 2));
        assert_eq!(one.refused(Failure::Connect), 1);
        one.clear();
        assert!(one.connect.is_empty());
        assert_eq!((one.opened, one.unopened, one.refused(Failure::Connect)), (0, 0, 0));
    }
}
