//! The single writer of the catalog.
//!
//! Invariants: updates are serialized, each applied to the result of the one before it; every
//! version reaches every shard once, in the same order on all shards; an update that fails
//! validation changes nothing.
//!
//! Updates do not run on a shard: one takes as long as encoding what is new and waits for those
//! before it. Handlers on a shard hand theirs to the blocking pool.

mod shard_state;

mod queue;

use std::sync::{Arc, MutexGuard, PoisonError, TryLockError};

pub use self::queue::UpdateJob;
pub(super) use self::queue::{PendingUpdates, UpdateExecutor};
pub(super) use self::shard_state::{ServerFacts, StateFactory};
use super::shard_message::{Broadcast, BroadcastMessage, Busy};
use super::subscriptions::CatalogLists;
use crate::server::handlers::CatalogAccess;
use crate::service::{Catalog, CatalogBuilder, CatalogError, CatalogUpdate};

#[expect(clippy::disallowed_types, reason = "threads that change share it, and no shard does")]
type Mutex<T> = std::sync::Mutex<T>;

/// The current catalog version and the broadcast that distributes the next one.
#[derive(Debug)]
pub(super) struct CatalogWriter {
    broadcast: Arc<Broadcast>,
    /// Locked while a version is made and sent, which serializes updates. No shard locks it and
    /// waits.
    current: Mutex<Arc<Catalog>>,
    /// What the server has for the entries.
    facts: ServerFacts,
}

impl CatalogWriter {
    /// Returns the writer of the initial catalog.
    pub(super) const fn new(
        broadcast: Arc<Broadcast>,
        catalog: Arc<Catalog>,
        facts: ServerFacts,
    ) -> Self {
        Self { broadcast, current: Mutex::new(catalog), facts }
    }

    fn build(&self, next: CatalogBuilder) -> Result<Catalog, CatalogError> {
        let next = next.build()?;
        self.facts.check(&next)?;
        Ok(next)
    }

    /// Applies `update` to the current catalog and sends the result to every shard. Waits for
    /// updates in progress: not for a shard's own thread, and not from within an update.
    ///
    /// # Errors
    ///
    /// If the resulting catalog is invalid; the current one stays.
    pub(super) fn update(
        &self,
        update: impl FnOnce(CatalogBuilder) -> CatalogBuilder,
    ) -> Result<(), CatalogError> {
        let mut current = self.current();
        let next = Arc::new(self.build(update(current.to_builder()))?);
        let changes = CatalogLists::from(next.changes_from(&current));
        self.broadcast.send(&BroadcastMessage::new_catalog(&next, changes));
        *current = next;
        Ok(())
    }

    /// Applies an update without waiting, from any thread. Takes `update` if it was applied.
    ///
    /// # Errors
    ///
    /// [`Busy`], as [`CatalogWriter::try_replace`]; `update` is not taken.
    fn try_update(
        &self,
        update: &mut Option<CatalogUpdate>,
    ) -> Result<Result<(), CatalogError>, Busy> {
        let mut current = self.try_current()?;
        let mut result = Ok(());
        self.broadcast.try_send_with(|| {
            let update = update.take()?;
            match self.build(update(current.to_builder())) {
                Ok(next) => {
                    let changes = CatalogLists::from(next.changes_from(&current));
                    *current = Arc::new(next);
                    Some(BroadcastMessage::new_catalog(&current, changes))
                }
                Err(error) => {
                    result = Err(error);
                    None
                }
            }
        })?;
        Ok(result)
    }

    /// Sends messages that found an inbox full, without waiting.
    ///
    /// # Errors
    ///
    /// [`Busy`]: some inbox is still full.
    fn try_flush(&self) -> Result<(), Busy> {
        self.broadcast.try_flush()
    }

    /// Replaces the current catalog with `catalog`. Waits as [`CatalogWriter::update`].
    pub(super) fn replace(&self, catalog: Arc<Catalog>) {
        let mut current = self.current();
        let changes = CatalogLists::from(catalog.changes_from(&current));
        self.broadcast.send(&BroadcastMessage::new_catalog(&catalog, changes));
        *current = catalog;
    }

    /// Replaces the current catalog without waiting, from any thread.
    ///
    /// # Errors
    ///
    /// [`Busy`]: an update is in progress, or an earlier broadcast is incomplete.
    pub(super) fn try_replace(&self, catalog: &Arc<Catalog>) -> Result<(), Busy> {
        let mut current = self.try_current()?;
        let changes = CatalogLists::from(catalog.changes_from(&current));
        self.broadcast.try_send(&BroadcastMessage::new_catalog(catalog, changes))?;
        current.clone_from(catalog);
        Ok(())
    }

    /// Notifies every shard that the resource `uri` has changed. Waits for space in the inboxes of
    /// the shards, which takes microseconds: not for a shard's own thread.
    pub(super) fn notify_resource_updated(&self, uri: &str) {
        self.broadcast.send(&BroadcastMessage::ResourceUpdated(uri.into()));
    }

    /// A poisoned lock is fine: the current version is replaced last, also if an update panics.
    fn current(&self) -> MutexGuard<'_, Arc<Catalog>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_current(&self) -> Result<MutexGuard<'_, Arc<Catalog>>, Busy> {
        match self.current.try_lock() {
            Ok(current) => Ok(current),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => Err(Busy),
        }
    }
}

impl CatalogAccess for CatalogWriter {
    fn update_catalog(&self, update: CatalogUpdate) -> Result<(), CatalogError> {
        Self::update(self, update)
    }

    fn notify_resource_updated(&self, uri: &str) {
        Self::notify_resource_updated(self, uri);
    }
}

#[cfg(test)]
mod tests {
    use corelane_base::slab::Key;
    use corelane_engine::mesh::{Inbox, MeshOptions, ShardId, build_mesh};
    use corelane_engine::ring::Waker;
    use corelane_protocol::model::Implementation;

    use super::queue::UpdateReply;
    use super::*;
    use crate::server::shard_message::ShardMessage;
    use crate::server::subscriptions::CatalogList;
    use crate::service::{NoArguments, StateType, Tool};

    fn writer_and_inboxes() -> (CatalogWriter, Vec<Inbox<ShardMessage>>) {
        writer_with_capacity(MeshOptions::default().inbox_messages_max)
    }

    fn writer_with_capacity(post_letters_max: u32) -> (CatalogWriter, Vec<Inbox<ShardMessage>>) {
        let options =
            MeshOptions { inbox_messages_max: post_letters_max, ..MeshOptions::default() };
        let (endpoints, sender) = build_mesh(2, &options);
        let inboxes = endpoints.into_iter().map(|endpoint| endpoint.open(Waker::new(|| {})));
        let catalog = Catalog::builder(Implementation::new("editor", "1")).build().unwrap();
        let writer = CatalogWriter::new(
            Arc::new(Broadcast::new(sender)),
            Arc::new(catalog),
            ServerFacts { state_type: StateType::of::<()>(), knows_callers: false },
        );
        (writer, inboxes.collect())
    }

    fn tool(name: &str) -> Tool {
        Tool::new(name).inline_writer(|NoArguments {}, _, _| Ok(()))
    }

    /// Returns the number of tools of each received version, and whether it changed the tools.
    fn received_versions(inbox: &mut Inbox<ShardMessage>) -> Vec<(usize, bool)> {
        let mut messages = Vec::new();
        inbox.receive(&mut messages, usize::MAX);
        let versions = messages.into_iter().map(|message| match message {
            ShardMessage::Broadcast(BroadcastMessage::Catalog { catalog, changes, .. }) => {
                (catalog.tools().len(), changes.contains(CatalogList::Tools))
            }
            other => panic!("unexpected message {other:?}"),
        });
        versions.collect()
    }

    #[test]
    fn catalog_versions_reach_shards_once_in_order() {
        let (writer, mut inboxes) = writer_and_inboxes();
        writer.update(|catalog| catalog.tool(tool("one"))).unwrap();
        writer.update(|catalog| catalog).unwrap();
        writer.update(|catalog| catalog.tool(tool("two"))).unwrap();
        let other = Catalog::builder(Implementation::new("other", "1")).tool(tool("three"));
        writer.try_replace(&Arc::new(other.build().unwrap())).unwrap();
        writer.update(|catalog| catalog.tool(tool("four"))).unwrap();
        for inbox in &mut inboxes {
            let versions = [(1, true), (1, false), (2, true), (1, true), (2, true)];
            assert_eq!(received_versions(inbox), versions);
        }
    }

    /// Returns a job whose result goes to the first shard.
    fn job(writer: &Arc<CatalogWriter>, update: CatalogUpdate) -> UpdateJob {
        let key = Some(Key::from_bits(1));
        let reply = UpdateReply::new(writer.broadcast.sender().clone(), ShardId(0), key);
        UpdateJob::new(Arc::clone(writer), update, reply)
    }

    fn received_messages(inbox: &mut Inbox<ShardMessage>) -> Vec<&'static str> {
        let mut messages = Vec::new();
        inbox.receive(&mut messages, usize::MAX);
        let names = messages.into_iter().map(|message| match message {
            ShardMessage::Broadcast(BroadcastMessage::Catalog { .. }) => "edition",
            ShardMessage::CatalogUpdated { result: Some(Ok(())), .. } => "made",
            ShardMessage::CatalogUpdated { result: Some(Err(_)), .. } => "failed",
            ShardMessage::CatalogUpdated { result: None, .. } => "nothing",
            other => panic!("unexpected message {other:?}"),
        });
        names.collect()
    }

    #[test]
    fn catalog_update_job_sends_as_inboxes_drain() {
        let (writer, mut inboxes) = writer_with_capacity(1);
        let writer = Arc::new(writer);
        writer.update(|catalog| catalog).unwrap();
        let update = job(&writer, Box::new(|catalog| catalog.tool(tool("one"))));
        let update = update.try_run().expect_err("every inbox is full");
        assert_eq!(writer.current().tools().len(), 1);
        assert_eq!(received_messages(&mut inboxes[0]), ["edition"]);
        let update = update.try_run().expect_err("the second inbox is full");
        assert_eq!(received_messages(&mut inboxes[0]), ["edition"]);
        assert_eq!(received_messages(&mut inboxes[1]), ["edition"]);
        assert!(update.try_run().is_ok());
        assert_eq!(received_messages(&mut inboxes[0]), ["made"]);
        assert_eq!(received_messages(&mut inboxes[1]), ["edition"]);
        assert_eq!(writer.current().tools().len(), 1);
    }

    #[test]
    fn failed_or_dropped_update_reaches_its_shard_only() {
        let (writer, mut inboxes) = writer_and_inboxes();
        let writer = Arc::new(writer);
        let twice = job(&writer, Box::new(|it| it.tools([tool("one"), tool("one")])));
        assert!(twice.try_run().is_ok());
        drop(job(&writer, Box::new(|catalog| catalog)));
        assert_eq!(received_messages(&mut inboxes[0]), ["failed", "nothing"]);
        assert!(received_messages(&mut inboxes[1]).is_empty());
    }

    #[test]
    fn failed_catalog_update_is_not_broadcast() {
        let (writer, mut inboxes) = writer_and_inboxes();
        let twice = |catalog: CatalogBuilder| catalog.tools([tool("one"), tool("one")]);
        assert!(writer.update(twice).is_err());
        assert!(inboxes.iter_mut().all(|inbox| received_versions(inbox).is_empty()));
    }

    #[test]
    fn try_replace_during_catalog_update_is_busy() {
        let (writer, mut inboxes) = writer_and_inboxes();
        let catalog = Arc::clone(&writer.current());
        let refused = writer.update(|builder| {
            assert_eq!(writer.try_replace(&catalog), Err(Busy));
            builder
        });
        assert_eq!(refused, Ok(()));
        assert_eq!(received_versions(&mut inboxes[1]), [(0, false)]);
    }
}
