//! What the results of blocking handlers take from the end of the handler until the shard has
//! written them to the output of their peers.
//!
//! Invariant: once they take an eighth of the memory limit, no job starts for an owner whose
//! results take more than its share; those that run, one for each thread of the pool, add theirs.

use std::sync::Arc;

use corelane_base::client_address::ClientAddress;
use corelane_base::heap_bytes::HeapBytes;
use corelane_engine::blocking::{BudgetLimits, ByteBudget, OwnerGate, Reservation};
use corelane_engine::mesh::ShardId;

use super::MemoryLimit;
use crate::server::reply_to::PeerId;
use crate::service::{HandlerError, HandlerOutput};

/// The memory of the results that go from blocking handlers to one shard.
#[derive(Clone, Debug)]
pub struct ResultMemory {
    budget: Arc<ByteBudget<JobOwner>>,
}

/// Size up to which a result is not charged: an inbox is full before such results take much.
const RESULT_BYTES_UNCHARGED_MAX: usize = 4 << 10;

impl ResultMemory {
    /// Returns the memory of the results of jobs that `gate` starts.
    pub fn new(limit: MemoryLimit, gate: Arc<dyn OwnerGate<JobOwner>>) -> Self {
        Self { budget: Arc::new(ByteBudget::new(budget_limits(limit), gate)) }
    }

    /// Applies a new limit.
    pub fn set_limit(&self, limit: MemoryLimit) {
        self.budget.set_limits(budget_limits(limit));
    }

    /// Returns the bytes of the results that are charged.
    #[inline]
    pub fn held_bytes(&self) -> usize {
        self.budget.reserved()
    }

    /// Charges a result to the owner of its job. Returns `None` for a small one.
    pub fn charge(&self, owner: JobOwner, result: &HandlerResult) -> Option<ResultCharge> {
        let bytes =
            result.as_ref().map_or_else(HandlerError::heap_bytes, HandlerOutput::heap_bytes);
        let is_charged = bytes > RESULT_BYTES_UNCHARGED_MAX;
        is_charged.then(|| Box::new(self.budget.reserve(owner, bytes)))
    }
}

const fn budget_limits(limit: MemoryLimit) -> BudgetLimits {
    BudgetLimits { bytes_max: limit.results(), share: limit.share() }
}

/// The result of a handler.
pub type HandlerResult = Result<HandlerOutput, HandlerError>;

/// The charge for the result of one handler, released when it is dropped. Boxed to keep messages
/// short.
pub type ResultCharge = Box<Reservation<JobOwner>>;

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
