//! Notifications to subscribers.

use super::Shard;
use crate::base::slab::Key;
use crate::base::time::Instant;
use crate::engine::ring::{Ring, Socket};
use crate::protocol::model::ChangeNotification;
use crate::server::broadcaster::{Broadcaster, Recipients};
use crate::server::dispatch::notifies_list_changed;
use crate::server::subscriptions::{CatalogList, CatalogLists, ConnectionSubscriptions};
use crate::server::tasks::TaskId;

impl Shard {
    /// Notifies of changed lists.
    pub(super) fn notify_lists_changed<R: Ring>(
        &mut self,
        ring: &mut R,
        changes: CatalogLists,
        now: Instant,
    ) {
        for list in CatalogList::ALL.into_iter().filter(|list| changes.contains(*list)) {
            let notifies = notifies_list_changed(&self.dispatcher.catalog, list);
            let (broadcaster, mut recipients) = self.recipients();
            broadcaster.publish_list(list, notifies, &mut recipients);
            self.check_notified_memory(ring, now);
        }
    }

    /// Notifies every subscribed stream of this shard.
    pub(super) fn publish<R: Ring>(
        &mut self,
        ring: &mut R,
        change: &ChangeNotification<'_>,
        now: Instant,
    ) {
        let (broadcaster, mut recipients) = self.recipients();
        broadcaster.publish(change, &mut recipients);
        self.check_notified_memory(ring, now);
    }

    /// Sends the status of a task to the subscribed streams of this shard.
    pub(super) fn publish_task<R: Ring>(
        &mut self,
        ring: &mut R,
        change: (TaskId, u32),
        tail: &[u8],
        now: Instant,
    ) {
        let (broadcaster, mut recipients) = self.recipients();
        broadcaster.publish_task(change, tail, &mut recipients);
        self.check_notified_memory(ring, now);
    }

    /// After a send: notifies the streams of a connection whose queue has drained to half of what
    /// they missed. Does nothing before the first skipped notification.
    #[inline]
    pub(super) fn send_missed<R: Ring>(&mut self, ring: &mut R, socket: Socket, now: Instant) {
        if self.outbox.counters.subscriptions.notifications_deferred > 0
            && let Some(key) = self.connections.key_of(socket)
        {
            let (broadcaster, mut recipients) = self.recipients();
            for task in broadcaster.send_missed(key, &mut recipients) {
                self.dispatcher.deferred.tasks.watch(&task, &mut self.outbox);
            }
            self.check_notified_memory(ring, now);
        }
    }

    /// Accounts the memory of the connections that were notified.
    fn check_notified_memory<R: Ring>(&mut self, ring: &mut R, now: Instant) {
        while let Some(key) = self.broadcaster.take_notified() {
            self.check_memory_or_close(ring, key, now);
        }
    }

    /// Completes the streams of a connection with their results, because the server drains.
    pub(super) fn complete_streams(&mut self, key: Key) {
        let catalog = self.dispatcher.catalog.clone();
        self.recipients().1.complete_streams(key, &catalog);
    }

    /// Removes the streams of a connection without a response.
    pub(super) fn cancel_streams(&mut self, key: Key) {
        self.recipients().1.cancel_streams(key);
    }

    pub(super) fn remove_streams(&mut self, subscriber: &mut ConnectionSubscriptions) {
        self.recipients().1.remove_streams(subscriber);
    }

    /// Notifies a legacy session that has opened its stream of the lists that have changed.
    pub(super) fn send_missed_lists(&mut self, key: Key) {
        if let Some(http_session) = self.http.sessions.get_mut(key) {
            let subscriptions = &mut http_session.state.subscriptions;
            self.broadcaster.send_missed_lists(key, subscriptions, &mut self.outbox);
        }
    }

    fn recipients(&mut self) -> (&mut Broadcaster, Recipients<'_>) {
        let Self { broadcaster, connections, http, websockets, dispatcher, outbox, .. } = self;
        let registry = &mut dispatcher.subscriptions;
        (broadcaster, Recipients { registry, connections, http, websockets, outbox })
    }
}
