//! The jobs of the blocking pool.
//!
//! Invariants: the pool serves clients in turns, whatever the number of their connections; a call
//! or task whose job has lost its place in the queue receives the same error as one that the queue
//! refuses.

use std::fmt;

use corelane_base::time::Instant;
use corelane_engine::blocking::{self, Job, Reservation, Spawned};
use corelane_engine::mesh::ShardId;
use corelane_protocol::error::{Error, ErrorKind};

use super::memory::MemoryLimit;
use super::memory::handler_memory::{JobOwner, reserved_bytes};
use super::memory::result_sizes::ExpectedSize;
use super::options::Options;
use super::outbox::Outbox;
use super::overload::Overload;
use super::shard_message::{Requester, ShardMessage};
use crate::service::HandlerError;
use crate::telemetry::event::OverloadEvent;

/// The thread pool of blocking handlers and catalog updates.
pub(super) type BlockingPool = blocking::BlockingPool<BlockingJob>;

/// Returns the thread pool of a server.
pub(super) fn blocking_pool(options: &Options) -> BlockingPool {
    let Options { engine, limits, .. } = options;
    let threads = engine.blocking_threads.into();
    let pool = BlockingPool::new(threads, engine.blocking_queue_max as usize);
    limit_results(&pool, MemoryLimit::new(limits.memory_bytes_max));
    pool
}

/// Has the results of all handlers take what the limit of the server allows them.
pub(super) fn limit_results(pool: &BlockingPool, limit: MemoryLimit) {
    pool.set_bytes_max(limit.results());
}

/// A job that waits for a thread, or has waited.
pub(super) type WaitingJob = blocking::WaitingJob<BlockingJob>;

/// A job of the pool.
pub(super) struct BlockingJob {
    work: Box<dyn FnOnce(Reservation) + Send>,
    /// How large its result can be; `None` if it hands on none.
    result_size: Option<ExpectedSize>,
    /// The handler that it runs, and the shard of that.
    handler: Option<(ShardId, Requester)>,
}

impl BlockingJob {
    /// The job that runs a handler.
    pub(super) fn handler(
        shard: ShardId,
        requester: Requester,
        result_size: ExpectedSize,
        work: impl FnOnce(Reservation) + Send + 'static,
    ) -> Self {
        let handler = Some((shard, requester));
        Self { work: Box::new(work), result_size: Some(result_size), handler }
    }

    /// The job that makes a catalog update. At most one of a shard waits, so that it never loses
    /// its place in the queue.
    pub(super) fn catalog_update(work: impl FnOnce() + Send + 'static) -> Self {
        Self { work: Box::new(|_| work()), result_size: None, handler: None }
    }

    /// Queues the job in `pool`, or returns it as an error if the queue is full. A job that loses
    /// its place is refused.
    pub(super) fn spawn(
        self,
        pool: &BlockingPool,
        owner: JobOwner,
        queue: Option<(&Overload, Instant)>,
        outbox: &mut Outbox,
    ) -> Result<WaitingJob, Self> {
        let spawned = match queue.filter(|(overload, _)| overload.measures_delay()) {
            Some((overload, now)) => {
                pool.spawn_timed(owner, self, |delay| overload.sheds(delay, now))
            }
            None => pool.spawn(owner, self),
        };
        let Spawned { waiting, displaced } = spawned?;
        if let Some((shard, requester)) = displaced.and_then(|job| job.handler) {
            let result = Err(HandlerError::Rpc(refuse(shard, outbox)));
            outbox.forward(shard, ShardMessage::Finished { requester, result, charge: None });
        }
        Ok(waiting)
    }
}

impl Job for BlockingJob {
    type Owner = JobOwner;

    fn bytes(&self) -> usize {
        self.result_size.as_ref().map_or(0, |size| reserved_bytes(size.bytes()))
    }

    fn run(self, reserved: Reservation) {
        (self.work)(reserved);
    }
}

impl fmt::Debug for BlockingJob {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("BlockingJob")
            .field("handler", &self.handler)
            .finish_non_exhaustive()
    }
}

/// Counts and logs a refused job, and returns the error of its call or task.
#[cold]
pub(super) fn refuse(ShardId(shard): ShardId, outbox: &mut Outbox) -> Error {
    outbox.counters.shard.blocking_refused += 1;
    outbox.log(OverloadEvent::CallRefused { shard, limit: "blocking_queue_max" }.into());
    Error::new(
        ErrorKind::TooManyRequests,
        "all blocking threads are busy and their queue is full; try again later",
    )
}
