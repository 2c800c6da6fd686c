//! How many sessions and streams all shards have together, for whoever asks how the server stands.
//!
//! What it keeps true: a shard tells its own numbers at the end of a turn in which they changed,
//! and before it answers with the sums. So these are exact on one shard, and on several they lag by
//! a turn of each of the others. Nothing is decided by them.

use std::sync::Arc;

use crate::engine::mesh::Tally;

/// What one shard has told, and the sums over all shards.
#[derive(Clone, Debug, Default)]
pub(in crate::server) struct Census {
    sessions: Arc<Tally>,
    streams: Arc<Tally>,
    told: Population,
}

/// How one shard stands, or all of them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(in crate::server) struct Population {
    /// Legacy sessions.
    pub(in crate::server) sessions: usize,
    /// Streams of notifications, and streams of legacy sessions that a connection carries.
    pub(in crate::server) streams: usize,
}

impl Census {
    /// The shard stands like this from here on. Costs nothing where it did before.
    #[inline]
    pub(in crate::server) fn tell(&mut self, population: Population) {
        if population != self.told {
            self.sessions.recount(self.told.sessions, population.sessions);
            self.streams.recount(self.told.streams, population.streams);
            self.told = population;
        }
    }

    /// How all shards stand.
    pub(in crate::server) fn all(&self) -> Population {
        Population { sessions: self.sessions.taken(), streams: self.streams.taken() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shard_sees_the_sum_of_what_all_have_told() {
        let census = Census::default();
        let mut shards = [(); 3].map(|()| census.clone());
        for (place, shard) in shards.iter_mut().enumerate() {
            shard.tell(Population { sessions: 1 + place, streams: 10 });
        }
        assert!(shards.iter().all(|it| it.all() == Population { sessions: 6, streams: 30 }));
        shards[2].tell(Population { sessions: 0, streams: 11 });
        shards[2].tell(Population { sessions: 0, streams: 11 });
        assert_eq!(shards[0].all(), Population { sessions: 3, streams: 31 });
        for shard in &mut shards {
            shard.tell(Population::default());
        }
        assert_eq!(census.all(), Population::default());
    }
}
