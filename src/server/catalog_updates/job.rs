//! One catalog update that a local handler has requested, until its shard has the result.
//!
//! Invariants: the shard receives the result once, after the new catalog, also if the update
//! panicked or was never made.

use std::fmt;
use std::sync::Arc;

use corelane_base::slab::Key;
use corelane_engine::mesh::TrySendError;
use corelane_engine::mesh::{Sender, ShardId};

use super::CatalogWriter;
use crate::server::shard_message::{self, ShardMessage, UpdateResult};
use crate::service::CatalogUpdate;

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
