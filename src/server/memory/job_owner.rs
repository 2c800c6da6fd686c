//! Whose jobs run on the thread pool.

use corelane_base::client_address::ClientAddress;
use corelane_engine::mesh::ShardId;

use crate::server::reply_to::PeerId;

/// For whom a job runs. All owners have the same share of the pool, and of the memory for results.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum JobOwner {
    /// The clients at an address.
    Address(ClientAddress),
    /// A connection or session of a shard whose address is exempt.
    Peer(ShardId, PeerId),
    /// The catalog updates that local handlers of a shard request.
    CatalogUpdates(ShardId),
}

impl JobOwner {
    /// Returns the owner of the calls of a peer of `shard`.
    pub fn new(client: Option<ClientAddress>, shard: ShardId, peer_id: PeerId) -> Self {
        client.map_or(Self::Peer(shard, peer_id), Self::Address)
    }
}
