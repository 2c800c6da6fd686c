//! The order in which a shard reads the channels of other shards.
//!
//! Invariants: no channel is starved, and messages of one channel stay in order.

use corelane_base::random::Random;

/// Which channels a shard reads first, after the messages of other threads.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ReadOrder {
    /// Channels take turns in being read first, and all waiting messages are read. The default.
    #[default]
    RoundRobin,
    /// The order, the number of messages read and occasional delays are random, from this seed. For
    /// simulations, to find dependencies on the order of messages from different shards.
    Random(u64),
}

/// Iterates over the channels to one shard in rounds.
#[derive(Debug)]
pub(super) struct ReadSchedule {
    channels: usize,
    /// The channel that comes first in this round (round-robin).
    first: usize,
    random: Option<RandomOrder>,
}

#[derive(Debug)]
struct RandomOrder {
    random: Random,
    order: Vec<usize>,
}

impl ReadSchedule {
    /// Creates the schedule of `channels` channels for shard number `shard`.
    pub(super) fn new(reading: ReadOrder, channels: usize, shard: u16) -> Self {
        let random = match reading {
            ReadOrder::RoundRobin => None,
            ReadOrder::Random(seed) => Some(RandomOrder {
                random: Random::seeded(seed ^ (u64::from(shard) + 1) << 40),
                order: (0..channels).collect(),
            }),
        };
        // `start_round` advances it first, so that the first round starts with channel 0.
        Self { channels, first: channels.saturating_sub(1), random }
    }

    /// Starts a round, in which every channel is read once. Returns `false` if nothing is read in
    /// it, a random delay.
    pub(super) fn start_round(&mut self) -> bool {
        match &mut self.random {
            None => {
                self.first = if self.first + 1 < self.channels { self.first + 1 } else { 0 };
                true
            }
            Some(RandomOrder { random, order }) => {
                for index in (1..order.len()).rev() {
                    order.swap(index, random.below(index + 1));
                }
                !random.chance(1, 4)
            }
        }
    }

    /// Returns the channel at index `step` of the round, and how many of its messages may be read
    /// if `capacity` messages may be read in total.
    pub(super) fn channel_at(&mut self, step: usize, capacity: usize) -> (usize, usize) {
        match &mut self.random {
            None => ((self.first + step) % self.channels, capacity),
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

    fn round(order: &mut ReadSchedule) -> Option<Vec<(usize, usize)>> {
        let is_read = order.start_round();
        is_read.then(|| (0..order.channels).map(|step| order.channel_at(step, 10)).collect())
    }

    #[test]
    fn round_robin_starts_with_each_channel_once() {
        let mut order = ReadSchedule::new(ReadOrder::RoundRobin, 3, 0);
        let firsts: Vec<_> = (0..3).filter_map(|_| Some(round(&mut order)?[0])).collect();
        assert_eq!(firsts, [(0, 10), (1, 10), (2, 10)]);
    }

    #[test]
    fn random_order_is_repeatable_and_reads_every_channel() {
        let rounds = |seed| {
            let mut order = ReadSchedule::new(ReadOrder::Random(seed), 4, 1);
            (0..80).map(|_| round(&mut order)).collect::<Vec<_>>()
        };
        assert_eq!(rounds(7), rounds(7));
        assert_ne!(rounds(7), rounds(8));
        assert!(rounds(7).contains(&None));
        for round in rounds(7).into_iter().flatten() {
            let mut channels: Vec<_> = round.iter().map(|step| step.0).collect();
            channels.sort_unstable();
            assert_eq!(channels, [0, 1, 2, 3]);
        }
        for channel in 0..4 {
            assert!(rounds(7).iter().flatten().flatten().any(|&step| step == (channel, 0)));
            assert!(rounds(7).iter().flatten().flatten().any(|&step| step == (channel, 10)));
        }
    }
}
