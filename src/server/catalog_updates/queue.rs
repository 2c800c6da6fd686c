//! The catalog updates that local handlers of one shard have requested, on their way to the
//! writer.
//!
//! A shard must not wait for the writer, so the blocking pool makes the update and its result
//! returns as a message. The shard reads that message after the one with the new catalog: a handler
//! that has awaited its update finds it offered. [`super::UpdateJob`]s can go to a channel instead.
//!
//! Invariants: a requested update is made whether or not its handler still waits, unless the server
//! ends first; the pool has at most one update of each shard at a time; a panic in an update
//! reaches only the handler that waits for it.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use corelane_base::slab::{Key, Slab};
use corelane_base::time::Instant;
use corelane_engine::mesh::{Sender, ShardId};

use super::CatalogWriter;
use super::job::{UpdateJob, UpdateReply};
use crate::server::blocking_jobs::{BlockingJob, BlockingPool};
use crate::server::handlers::local_context::PendingUpdate;
use crate::server::memory::result_memory::JobOwner;
use crate::server::outbox::Outbox;
use crate::server::shard_message::{ShardMessage, UpdateResult};

/// Where updates are made.
#[derive(Clone, Debug)]
pub enum UpdateExecutor {
    /// On the threads for blocking handlers, which may wait.
    Pool(Arc<BlockingPool>),
    /// By the receiver of this channel.
    Channel(mpsc::Sender<UpdateJob>),
}

/// The updates that one shard waits for: at most one per running call.
pub struct PendingUpdates {
    writer: Arc<CatalogWriter>,
    executor: UpdateExecutor,
    sender: Sender<ShardMessage>,
    shard: ShardId,
    awaited: Slab<Rc<PendingUpdate>>,
    /// Jobs for the pool, in order.
    queued_jobs: VecDeque<BlockingJob>,
    /// The pool has a job whose result has not arrived.
    is_submitted: bool,
    /// When a job that the full pool has refused is submitted again.
    retry_at: Option<Instant>,
}

impl PendingUpdates {
    pub fn new(
        writer: Arc<CatalogWriter>,
        executor: UpdateExecutor,
        sender: Sender<ShardMessage>,
        shard: ShardId,
    ) -> Self {
        Self {
            writer,
            executor,
            sender,
            shard,
            awaited: Slab::new(usize::MAX),
            queued_jobs: VecDeque::new(),
            is_submitted: false,
            retry_at: None,
        }
    }

    /// Starts an update, or queues it while the pool is full or has another one.
    pub fn start(&mut self, pending_update: Rc<PendingUpdate>, now: Instant, outbox: &mut Outbox) {
        let Some(update) = pending_update.take_update() else { return };
        let key = match self.awaited.insert(pending_update) {
            Ok(key) => key,
            Err(pending_update) => return pending_update.complete(None),
        };
        let reply = UpdateReply::new(self.sender.clone(), self.shard, Some(key));
        let pending = UpdateJob::new(Arc::clone(&self.writer), update, reply);
        match &self.executor {
            // Without a receiver the job is dropped, which completes it without a result.
            UpdateExecutor::Channel(sender) => drop(sender.send(pending)),
            UpdateExecutor::Pool(_) => {
                self.queued_jobs.push_back(BlockingJob::catalog_update(move || pending.run()));
                self.submit_job(now, outbox);
            }
        }
    }

    /// Returns whether updates are in progress.
    pub const fn has_awaited(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// Completes the update `key` with its result, and submits the next one.
    pub fn complete(
        &mut self,
        (key, result): (Key, UpdateResult),
        now: Instant,
        outbox: &mut Outbox,
    ) {
        if let Some(pending_update) = self.awaited.remove(key) {
            pending_update.complete(result);
        }
        self.is_submitted = false;
        self.submit_job(now, outbox);
    }

    /// Submits a refused job again once the retry interval has passed.
    pub fn retry_due(&mut self, now: Instant, outbox: &mut Outbox) {
        if self.retry_at.is_some_and(|retry_at| retry_at <= now) {
            self.submit_job(now, outbox);
        }
    }

    pub const fn next_deadline(&self) -> Option<Instant> {
        self.retry_at
    }

    /// Submits the next job unless the pool has one.
    fn submit_job(&mut self, now: Instant, outbox: &mut Outbox) {
        if self.is_submitted {
            return;
        }
        self.retry_at = None;
        let UpdateExecutor::Pool(pool) = &self.executor else { return };
        let Some(job) = self.queued_jobs.pop_front() else { return };
        match job.spawn(pool, JobOwner::CatalogUpdates(self.shard), None, outbox) {
            Ok(_) => self.is_submitted = true,
            Err(refused) => {
                self.queued_jobs.push_front(refused);
                self.retry_at = Some(now.after(RETRY_INTERVAL));
            }
        }
    }
}

/// How long a job waits before it is submitted to a full pool again.
const RETRY_INTERVAL: Duration = Duration::from_millis(5);
