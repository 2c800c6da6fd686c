//! The log of messages to other shards that were refused because their queue is full.

use corelane_base::time::Instant;
use corelane_engine::mesh::ShardId;

use crate::telemetry::event::Event;
use crate::telemetry::throttle::EventThrottle;

/// Logs how many messages were refused, at the end of a turn.
#[derive(Debug, Default)]
pub struct UnsentMessages {
    /// The count that was logged last.
    logged: u64,
    throttle: EventThrottle,
}

impl UnsentMessages {
    /// Logs what was added to `total`, the messages refused since the start.
    #[inline]
    pub fn report(&mut self, ShardId(shard): ShardId, total: u64, now: Instant) {
        if total != self.logged {
            let refused = total - self.logged;
            self.logged = total;
            Event::MessagesNotSent { shard, refused }.emit_within(&mut self.throttle, now);
        }
    }
}
