//! Messages by which shards share rate limits.

use std::sync::Arc;

use corelane_engine::mesh::ShardId;

use crate::guard::rate::limiter::{ShareGift, ShareRequest};

/// A message about shares of rate limits. Each request is answered, so that a shard has at most one
/// request and one answer under way to each other shard.
#[derive(Debug)]
pub enum RateMessage {
    /// A shard is short of requests for these keys.
    Request {
        /// The shard.
        from: ShardId,
        /// The keys.
        requests: Arc<[ShareRequest]>,
    },
    /// The answer, with what there is to spare.
    Gifts {
        /// The shard that gives.
        from: ShardId,
        /// What it gives.
        gifts: Vec<ShareGift>,
    },
}
