//! What the results of blocking handlers take from the end of the handler until the shard has
//! written them to the output of their peers.
//!
//! Invariants: beyond a share for each owner they take an eighth of the memory limit at most, or
//! one takes more alone; besides, each thread of the pool has at most one result that waits to be
//! charged, and for a bounded time, because all shards share the threads.

use std::sync::Arc;
use std::time::Duration;

use super::job_owner::JobOwner;
use super::memory::{MemoryLimit, short_of_memory};
use crate::base::heap_bytes::HeapBytes;
use crate::engine::blocking::{BudgetLimits, ByteBudget, Reservation};
use crate::service::{HandlerError, HandlerOutput};

/// The memory of the results that go from blocking handlers to one shard.
#[derive(Clone, Debug)]
pub(super) struct ResultMemory {
    budget: Arc<ByteBudget<JobOwner>>,
    /// How long a thread of the pool waits for the shard to write other results.
    timeout: Duration,
}

/// Size up to which a result is not charged: an inbox is full before such results take much.
const RESULT_BYTES_UNCHARGED_MAX: usize = 4 << 10;

/// A shard takes milliseconds to write what fits into the budget.
const RESULT_TIMEOUT: Duration = Duration::from_secs(1);

impl ResultMemory {
    pub(super) fn new(limit: MemoryLimit) -> Self {
        let budget = Arc::new(ByteBudget::new(budget_limits(limit)));
        Self { budget, timeout: RESULT_TIMEOUT }
    }

    /// Applies a new limit.
    pub(super) fn set_limit(&self, limit: MemoryLimit) {
        self.budget.set_limits(budget_limits(limit));
    }

    /// Returns the bytes of the results that are charged.
    #[inline]
    pub(super) fn held_bytes(&self) -> usize {
        self.budget.reserved()
    }

    /// Charges a result to the owner of its job. Waits while the limit is reached and `is_awaited`:
    /// not for the thread of a shard. Returns the result, or the error that replaces it.
    pub(super) fn charge(
        &self,
        (owner, result): (JobOwner, HandlerResult),
        is_awaited: impl Fn() -> bool,
    ) -> (HandlerResult, ResultCharge) {
        let bytes =
            result.as_ref().map_or_else(HandlerError::heap_bytes, HandlerOutput::heap_bytes);
        if bytes <= RESULT_BYTES_UNCHARGED_MAX {
            return (result, ResultCharge::Small);
        }
        let reservation = self.budget.reserve((owner, bytes), self.timeout, &is_awaited);
        match reservation {
            Some(reservation) => (result, ResultCharge::Reserved(Box::new(reservation))),
            None if is_awaited() => (Err(short_of_memory().into()), ResultCharge::Refused),
            None => (Err(HandlerError::Cancelled), ResultCharge::Small),
        }
    }
}

const fn budget_limits(limit: MemoryLimit) -> BudgetLimits {
    BudgetLimits { bytes_max: limit.results(), share: limit.share() }
}

/// The result of a handler.
pub(super) type HandlerResult = Result<HandlerOutput, HandlerError>;

/// The charge for the result of one handler.
#[derive(Debug)]
pub(super) enum ResultCharge {
    /// None: the result is small.
    Small,
    /// Released when this is dropped. Boxed to keep messages short.
    Reserved(Box<Reservation<JobOwner>>),
    /// The result did not fit: an error has replaced it.
    Refused,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::mesh::ShardId;
    use crate::service::CallToolResult;

    /// An owner of its own for each number.
    const fn owner(number: u16) -> JobOwner {
        JobOwner::CatalogUpdates(ShardId(number))
    }

    fn text(bytes: usize) -> HandlerOutput {
        CallToolResult::text("x".repeat(bytes)).into()
    }

    /// A memory of 1 MiB, of which a thread does not wait.
    fn memory() -> ResultMemory {
        let memory = ResultMemory::new(MemoryLimit::new(8 << 20));
        ResultMemory { timeout: Duration::ZERO, ..memory }
    }

    #[test]
    fn large_results_are_charged_until_written() {
        let memory = memory();
        let charge = |number, result| memory.charge((owner(number), result), || true);
        let (result, small) = charge(1, Ok(text(1 << 10)));
        assert!(result.is_ok() && matches!(small, ResultCharge::Small));
        assert_eq!(memory.held_bytes(), 0);
        let (result, reserved) = charge(1, Ok(text(900 << 10)));
        assert!(result.is_ok() && matches!(reserved, ResultCharge::Reserved(_)));
        assert!(memory.held_bytes() >= 900 << 10);
        let (result, refused) = charge(2, Ok(text(200 << 10)));
        assert!(matches!(result, Err(HandlerError::Rpc(error)) if error.code == -32603));
        assert!(matches!(refused, ResultCharge::Refused));
        drop(reserved);
        assert_eq!(memory.held_bytes(), 0);
        // A large one passes alone.
        let failed = Err(HandlerError::failed("x".repeat(2 << 20)));
        let (result, reserved) = charge(1, failed);
        assert!(matches!(result, Err(HandlerError::Failed(_))), "{reserved:?}");
        assert!(memory.held_bytes() >= 2 << 20);
        // So does one below the share of its owner.
        let (result, _share) = charge(2, Ok(text(60 << 10)));
        assert!(result.is_ok());
        assert!(charge(2, Ok(text(60 << 10))).0.is_err());
    }

    #[test]
    fn unawaited_result_that_does_not_fit_is_dropped() {
        let memory = memory();
        let _all = memory.charge((owner(1), Ok(text(2 << 20))), || true);
        let held_bytes = memory.held_bytes();
        let (result, charge) = memory.charge((owner(2), Ok(text(1 << 19))), || false);
        assert!(matches!(result, Err(HandlerError::Cancelled)));
        assert!(matches!(charge, ResultCharge::Small));
        assert_eq!(memory.held_bytes(), held_bytes);
    }
}
