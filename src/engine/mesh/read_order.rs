//! The order in which a shard reads its message sources.
//!
//! Invariants: no source is starved, and messages of one source stay in order.

use crate::base::random::Random;

/// Which sources a shard reads first.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ReadOrder {
    /// Sources take turns in being read first, and all waiting messages are read. The default.
    #[default]
    RoundRobin,
    /// The order, the number of messages read and occasional delays are random, from this seed. For
    /// simulations, to find dependencies on the order of messages from different senders.
    Random(u64),
}

/// Iterates over the sources of one shard in rounds.
#[derive(Debug)]
pub(super) struct ReadSchedule {
    sources: usize,
    /// The source that comes first in this round (round-robin).
    first: usize,
    random: Option<RandomOrder>,
}

#[derive(Debug)]
struct RandomOrder {
    random: Random,
    order: Vec<usize>,
}

impl ReadSchedule {
    /// Creates the schedule of `sources` sources, at least one, for shard number `shard`.
    pub(super) fn new(reading: ReadOrder, sources: usize, shard: u16) -> Self {
        let random = match reading {
            ReadOrder::RoundRobin => None,
            ReadOrder::Random(seed) => Some(RandomOrder {
                random: Random::seeded(seed ^ (u64::from(shard) + 1) << 40),
                order: (0..sources).collect(),
            }),
        };
        // `begin` advances it first, so that the first round starts with source 0.
        Self { sources, first: sources - 1, random }
    }

    /// Starts a round, in which every source is read once.
    pub(super) fn start_round(&mut self) {
        match &mut self.random {
            None => self.first = (self.first + 1) % self.sources,
            Some(RandomOrder { random, order }) => {
                for index in (1..order.len()).rev() {
                    order.swap(index, random.below(index + 1));
                }
            }
        }
    }

    /// Returns the source at index `step` of the round, and how many of its messages may be read if
    /// `capacity` messages may be read in total.
    pub(super) fn source_at(&mut self, step: usize, capacity: usize) -> (usize, usize) {
        match &mut self.random {
            None => ((self.first + step) % self.sources, capacity),
            Some(RandomOrder { random, order }) => {
                let count_max = match random.below(4) {
                    0 => 0,
                    1 => capacity.min(1 + random.below(3)),
                    _ => capacity,
                };
                (order[step], count_max)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(order: &mut ReadSchedule) -> Vec<(usize, usize)> {
        order.start_round();
        (0..order.sources).map(|step| order.source_at(step, 10)).collect()
    }

    #[test]
    fn round_robin_starts_with_each_source_once() {
        let mut order = ReadSchedule::new(ReadOrder::RoundRobin, 3, 0);
        let firsts: Vec<_> = (0..3).map(|_| round(&mut order)[0]).collect();
        assert_eq!(firsts, [(0, 10), (1, 10), (2, 10)]);
    }

    #[test]
    fn random_order_is_repeatable_and_reads_every_source() {
        let rounds = |seed| {
            let mut order = ReadSchedule::new(ReadOrder::Random(seed), 4, 1);
            (0..50).map(|_| round(&mut order)).collect::<Vec<_>>()
        };
        assert_eq!(rounds(7), rounds(7));
        assert_ne!(rounds(7), rounds(8));
        for round in rounds(7) {
            let mut sources: Vec<_> = round.iter().map(|step| step.0).collect();
            sources.sort_unstable();
            assert_eq!(sources, [0, 1, 2, 3]);
        }
        for source in 0..4 {
            assert!(rounds(7).iter().flatten().any(|&step| step == (source, 0)));
            assert!(rounds(7).iter().flatten().any(|&step| step == (source, 10)));
        }
    }
}
