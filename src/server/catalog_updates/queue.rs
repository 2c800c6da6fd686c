//! The catalog updates that local handlers of one shard have requested, on their way to the
//! writer.
//!
//! A shard must not wait for the writer, so the blocking pool makes the update and its result
//! returns as a message. The shard reads that message after the one with the new catalog: a handler
//! that has awaited its update finds it offered. [`super::UpdateJob`]s can go to a channel instead.
//!
//! Invariants: a requested update is made whether or not its handler still waits, unless the server
//! ends first; a panic in an update reaches only the handler that waits for it.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use super::CatalogWriter;
use super::job::{UpdateJob, UpdateReply};
use crate::base::slab::{Key, Slab};
use crate::base::time::Instant;
use crate::engine::blocking::{BlockingPool, Job};
use crate::engine::mesh::{Sender, ShardId};
use crate::server::handlers::pending_update::PendingUpdate;
use crate::server::shard_message::{ShardMessage, UpdateResult};

/// Where updates are made.
#[derive(Clone, Debug)]
pub(in crate::server) enum UpdateExecutor {
    /// On the threads for blocking handlers, which may wait.
    Pool(Arc<BlockingPool>),
    /// By the receiver of this channel.
    Channel(mpsc::Sender<UpdateJob>),
}

/// The updates that one shard waits for: at most one per running call.
pub(in crate::server) struct PendingUpdates {
    writer: Arc<CatalogWriter>,
    executor: UpdateExecutor,
    sender: Sender<ShardMessage>,
    shard: ShardId,
    awaited: Slab<Rc<PendingUpdate>>,
    /// Jobs that the full pool has rejected, and when they are submitted again.
    rejected_jobs: VecDeque<Job>,
    retry_at: Option<Instant>,
}

impl PendingUpdates {
    pub(in crate::server) fn new(
        writer: Arc<CatalogWriter>,
        executor: UpdateExecutor,
        sender: Sender<ShardMessage>,
        shard: ShardId,
    ) -> Self {
        let (awaited, rejected) = (Slab::new(usize::MAX), VecDeque::new());
        Self { writer, executor, sender, shard, awaited, rejected_jobs: rejected, retry_at: None }
    }

    /// Starts an update, or queues it while the pool is full.
    pub(in crate::server) fn start(&mut self, pending_update: Rc<PendingUpdate>, now: Instant) {
        let Some(update) = pending_update.take_update() else { return };
        let key = self.awaited.insert(pending_update).ok();
        let reply = UpdateReply::new(self.sender.clone(), self.shard, key);
        let pending = UpdateJob::new(Arc::clone(&self.writer), update, reply);
        match &self.executor {
            // Without a receiver the job is dropped, which completes it without a result.
            UpdateExecutor::Channel(sender) => drop(sender.send(pending)),
            UpdateExecutor::Pool(_) => {
                self.rejected_jobs.push_back(Box::new(move || pending.run()));
                self.submit_jobs(now);
            }
        }
    }

    /// Returns whether updates are in progress.
    pub(in crate::server) const fn has_awaited(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// Completes the update `key` with its result.
    pub(in crate::server) fn complete(&mut self, key: Key, result: UpdateResult) {
        if let Some(pending_update) = self.awaited.remove(key) {
            pending_update.complete(result);
        }
    }

    /// Submits queued jobs again once the retry interval has passed.
    pub(in crate::server) fn retry_due(&mut self, now: Instant) {
        if self.retry_at.is_some_and(|retry_at| retry_at <= now) {
            self.submit_jobs(now);
        }
    }

    pub(in crate::server) const fn next_deadline(&self) -> Option<Instant> {
        self.retry_at
    }

    fn submit_jobs(&mut self, now: Instant) {
        self.retry_at = None;
        let UpdateExecutor::Pool(pool) = &self.executor else { return };
        while let Some(job) = self.rejected_jobs.pop_front() {
            if let Err(rejected) = pool.spawn(job) {
                self.rejected_jobs.push_front(rejected);
                self.retry_at = Some(now.after(RETRY_INTERVAL));
                return;
            }
        }
    }
}

/// How long a job waits before it is submitted to a full pool again.
const RETRY_INTERVAL: Duration = Duration::from_millis(5);
