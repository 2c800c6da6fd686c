//! The shards of the server, as one of them sees them.

use corelane_engine::mesh::{Inbox, ShardId};

/// The id of this shard, the number of shards, and those that are slow to read messages.
#[derive(Debug)]
pub struct ShardSet {
    own: ShardId,
    count: u16,
    /// Shards with a full queue, for which requests are rejected.
    slow: Vec<ShardId>,
    /// Queue length from which a shard counts as slow.
    queued_messages_max: usize,
}

impl ShardSet {
    pub const fn new(own: ShardId, count: u16, queued_messages_max: usize) -> Self {
        Self { own, count, slow: Vec::new(), queued_messages_max }
    }

    pub const fn own(&self) -> ShardId {
        self.own
    }

    pub const fn count(&self) -> u16 {
        self.count
    }

    /// Returns whether optional messages to `shard` should be dropped.
    pub fn is_slow(&self, shard: ShardId) -> bool {
        self.slow.contains(&shard)
    }

    /// Notes which shards have not read what was sent to them.
    #[inline]
    pub fn update_slow<M: Send>(&mut self, inbox: &Inbox<M>) {
        inbox.collect_slow_shards(self.queued_messages_max, &mut self.slow);
    }
}
