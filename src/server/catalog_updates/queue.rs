//! The catalog updates that local handlers of one shard have requested, on their way to the writer.
//!
//! A shard must not wait for the writer, so the blocking pool makes the update and its result
//! returns as a message. The shard reads that message after the one with the new catalog: a handler
//! that has awaited its update finds it offered. [`super::UpdateJob`]s can go to a channel instead.
//!
//! Invariants: a requested update is made whether or not its handler still waits, unless the server
//! ends first; the pool has at most one update of each shard at a time; a panic in an update
//! reaches only the handler that waits for it.
//!
//! The shard receives the result of an update once, after the new catalog, also if the update
//! panicked or was never made.

use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use corelane_base::slab::{Key, Slab};
use corelane_base::time::Instant;
use corelane_engine::mesh::{Sender, ShardId, TrySendError};

use super::CatalogWriter;
use crate::server::blocking_jobs::{BlockingJob, BlockingPool};
use crate::server::handlers::contexts::PendingUpdate;
use crate::server::memory::handler_memory::JobOwner;
use crate::server::outbox::Outbox;
use crate::server::shard_message::{self, ShardMessage, UpdateResult};
use crate::service::CatalogUpdate;

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
    pub fn complete(&mut self, key: Key, result: UpdateResult, now: Instant, outbox: &mut Outbox) {
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

/// A catalog update that a handler has requested by [`crate::service::RequestContext`] and awaits,
/// as [`crate::server::Server::send_updates_to`] delivers it.
///
/// Dropped before it has run, it changes nothing, and its handler ends as if the update panicked.
pub struct UpdateJob {
    writer: Arc<CatalogWriter>,
    /// `None` once it was made.
    update: Option<CatalogUpdate>,
    reply: UpdateReply,
}

impl UpdateJob {
    pub(super) const fn new(
        writer: Arc<CatalogWriter>,
        update: CatalogUpdate,
        reply: UpdateReply,
    ) -> Self {
        Self { writer, update: Some(update), reply }
    }

    /// Makes the update on a thread that may wait for updates in progress and for space in the
    /// inboxes of the shards.
    pub(super) fn run(mut self) {
        if let Some(update) = self.update.take() {
            self.reply.result = Some(self.writer.update(update));
        }
    }

    /// Makes the update as far as possible without waiting: the new catalog, the message to every
    /// shard, the message to the handler. Any thread may call it, also one that runs shards.
    ///
    /// # Errors
    ///
    /// The rest of the job, to be tried again after a turn of the shards: another update is in
    /// progress, or an inbox is full.
    pub fn try_run(mut self) -> Result<(), Self> {
        if self.update.is_some() {
            match self.writer.try_update(&mut self.update) {
                Ok(result) => self.reply.result = Some(result),
                Err(shard_message::Busy) => return Err(self),
            }
        }
        // The handler's result must follow the new catalog.
        if self.writer.try_flush().is_ok() && self.reply.try_send() { Ok(()) } else { Err(self) }
    }
}

impl fmt::Debug for UpdateJob {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_made = self.update.is_none();
        formatter.debug_struct("UpdateJob").field("is_made", &is_made).finish_non_exhaustive()
    }
}

/// Sends the result of an update to the shard, on drop at the latest: also if the update panicked.
pub(super) struct UpdateReply {
    sender: Sender<ShardMessage>,
    shard: ShardId,
    /// `None` once the result is sent, or if no handler waits.
    key: Option<Key>,
    result: UpdateResult,
}

impl UpdateReply {
    pub(super) const fn new(
        sender: Sender<ShardMessage>,
        shard: ShardId,
        key: Option<Key>,
    ) -> Self {
        Self { sender, shard, key, result: None }
    }

    /// Sends the result. Returns `false` while the inbox is full.
    fn try_send(&mut self) -> bool {
        let Some(key) = self.key.take() else { return true };
        let result = self.result.take();
        match self.sender.try_send(self.shard, ShardMessage::CatalogUpdated { key, result }) {
            Err(TrySendError::Full(ShardMessage::CatalogUpdated { key, result })) => {
                (self.key, self.result) = (Some(key), result);
                false
            }
            // A shard that has ended needs no result.
            Ok(()) | Err(_) => true,
        }
    }
}

impl Drop for UpdateReply {
    fn drop(&mut self) {
        let Some(key) = self.key else { return };
        let result = self.result.take();
        shard_message::send_blocking(
            &self.sender,
            self.shard,
            ShardMessage::CatalogUpdated { key, result },
        );
    }
}
