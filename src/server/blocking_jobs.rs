//! The jobs of the blocking pool.
//!
//! Invariants: the pool serves clients in turns, whatever the number of their connections; a call
//! or task whose job has lost its place in the queue receives the same error as one that the queue
//! refuses.

use std::fmt;

use corelane_base::time::Instant;
use corelane_engine::blocking::{self, Job, Spawned};
use corelane_engine::mesh::ShardId;
use corelane_protocol::error::{Error, ErrorKind};

use super::memory::handler_memory::JobOwner;
use super::outbox::Outbox;
use super::overload::Overload;
use super::shard_message::{Requester, ShardMessage};
use crate::service::HandlerError;
use crate::telemetry::event::OverloadEvent;

/// The thread pool of blocking handlers and catalog updates.
pub(super) type BlockingPool = blocking::BlockingPool<JobOwner, BlockingJob>;

/// A job that waits for a thread, or has waited.
pub(super) type WaitingJob = blocking::WaitingJob<JobOwner, BlockingJob>;

/// A job of the pool.
pub(super) struct BlockingJob {
    work: Box<dyn FnOnce() + Send>,
    /// The handler that it runs, and the shard of that.
    handler: Option<(ShardId, Requester)>,
}

impl BlockingJob {
    /// The job that runs a handler.
    pub(super) fn handler(
        shard: ShardId,
        requester: Requester,
        work: impl FnOnce() + Send + 'static,
    ) -> Self {
        Self { work: Box::new(work), handler: Some((shard, requester)) }
    }

    /// The job that makes a catalog update. At most one of a shard waits, so that it never loses
    /// its place in the queue.
    pub(super) fn catalog_update(work: impl FnOnce() + Send + 'static) -> Self {
        Self { work: Box::new(work), handler: None }
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
    fn run(self) {
        (self.work)();
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
