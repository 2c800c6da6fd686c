//! The order in which a shard reads those who write to it.
//!
//! What it keeps true: every source is read sooner or later, whatever the others send, and nothing
//! here can change the order of the letters of one source.

use crate::base::random::Random;

/// Which sources a shard reads first.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Reading {
    /// They take turns in being first, and whatever waits is read. The default.
    #[default]
    InTurn,
    /// Chance decides, each time anew: which is first, how much of it is read, and now and then
    /// that it has to wait. For simulations, which find with it what depends on the order of
    /// letters of different senders. The number is the seed.
    Drawn(u64),
}

/// The order of one shard's sources.
#[derive(Debug)]
pub(super) struct Order {
    sources: usize,
    /// Which is first next time, where they take turns.
    first: usize,
    drawn: Option<Drawn>,
}

#[derive(Debug)]
struct Drawn {
    random: Random,
    order: Vec<usize>,
}

impl Order {
    /// The order of so many sources, at least one, for the shard with this number.
    pub(super) fn new(reading: Reading, sources: usize, shard: u16) -> Self {
        let drawn = match reading {
            Reading::InTurn => None,
            Reading::Drawn(seed) => Some(Drawn {
                random: Random::seeded(seed ^ (u64::from(shard) + 1) << 40),
                order: (0..sources).collect(),
            }),
        };
        // The first round begins with the first source.
        Self { sources, first: sources - 1, drawn }
    }

    /// Begins a round in which every source comes once.
    pub(super) fn begin(&mut self) {
        match &mut self.drawn {
            None => self.first = (self.first + 1) % self.sources,
            Some(Drawn { random, order }) => {
                for place in (1..order.len()).rev() {
                    order.swap(place, random.below(place + 1));
                }
            }
        }
    }

    /// The source at this step of the round, and how many of its letters may be read of the `room`
    /// that is left.
    pub(super) fn step(&mut self, step: usize, room: usize) -> (usize, usize) {
        match &mut self.drawn {
            None => ((self.first + step) % self.sources, room),
            Some(Drawn { random, order }) => {
                let room = match random.below(4) {
                    0 => 0,
                    1 => room.min(1 + random.below(3)),
                    _ => room,
                };
                (order[step], room)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(order: &mut Order) -> Vec<(usize, usize)> {
        order.begin();
        (0..order.sources).map(|step| order.step(step, 10)).collect()
    }

    #[test]
    fn in_turn_each_source_is_first_once() {
        let mut order = Order::new(Reading::InTurn, 3, 0);
        let firsts: Vec<_> = (0..3).map(|_| round(&mut order)[0]).collect();
        assert_eq!(firsts, [(0, 10), (1, 10), (2, 10)]);
    }

    #[test]
    fn a_seed_draws_rounds_of_every_source_that_another_run_repeats() {
        let rounds = |seed| {
            let mut order = Order::new(Reading::Drawn(seed), 4, 1);
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
