//! Notifications to subscribers: list changes, resource updates, task status, end of streams.
//!
//! Invariants: every shard offers a catalog version before any notifies of it; a notification is
//! encoded once and written to every stream that requested it, after the acknowledgement of that
//! stream; a slow peer costs no queue: above `outgoing_bytes_max` notifications are skipped, and
//! sent once when half of that has drained.

use std::collections::VecDeque;
use std::rc::Rc;

use corelane_base::principal::Principal;
use corelane_base::slab::Key;
use corelane_base::time::Instant;
use corelane_protocol::jsonrpc::{Id, IdBuf};
use corelane_protocol::model::{ChangeNotification, TaskDetail, TaskStatus, TaskView};

use super::transports::Transports;
use crate::server::connection_state::ConnectionState;
use crate::server::outbox::{NotificationKind, Outbox};
use crate::server::owner_id::TaskId;
use crate::server::reply_to::{Outcome, PeerId, ReplyTo};
use crate::server::subscriptions::{
    CatalogList, ConnectionSubscriptions, EncodedNotification, PendingNotification,
    SubscriptionRegistry, SubscriptionStream, TopicKind,
};

/// Encodes notifications and writes them to the streams of subscribers.
#[derive(Debug, Default)]
pub struct Broadcaster {
    /// The notification that is being published.
    notification: EncodedNotification,
    notified: Notified,
}

/// The peers that were notified since the last call of [`Broadcaster::take_notified`].
#[derive(Debug, Default)]
struct Notified {
    /// Connections whose memory is to be checked.
    connections: VecDeque<Key>,
    /// Legacy HTTP sessions that receive the same notification, with their stream ids.
    sessions: Vec<(Key, Option<IdBuf>)>,
}

/// What the notifications of a shard are written to.
pub struct Recipients<'a> {
    pub transports: &'a mut Transports,
    pub outbox: &'a mut Outbox,
    pub now: Instant,
}

impl Broadcaster {
    /// Notifies of changed lists: every subscribed stream, and every legacy session that is ready,
    /// without subscription.
    ///
    /// Source: 2025-11-25, server/tools, "List Changed Notification", and its like.
    pub fn publish_list(
        &mut self,
        list: CatalogList,
        notifies_sessions: bool,
        registry: &mut SubscriptionRegistry,
        recipients: &mut Recipients<'_>,
    ) {
        self.publish(&list.change_notification(), registry, recipients);
        if !notifies_sessions {
            return;
        }
        // Lists are read as soon as `initialize` is answered.
        let is_ready = |state: &ConnectionState| state.lifecycle.revision().is_some();
        let connections = recipients.transports.connections.table.iter();
        let ready = connections.filter(|(_, connection)| is_ready(&connection.state));
        let ready: Vec<Key> = ready.map(|(key, _)| key).collect();
        // Encoded for sessions already if one of them subscribed.
        for key in ready {
            self.notify_session(list, key, recipients);
        }
        let sessions = &mut recipients.transports.http.sessions;
        let ready = sessions.iter_mut().filter(|(_, http_session)| is_ready(&http_session.state));
        let ready: Vec<Key> = ready.map(|(key, _)| key).collect();
        for key in ready {
            if sessions.has_listener(key) {
                self.notified.sessions.push((key, None));
            } else if let Some(http_session) = sessions.get_mut(key) {
                // Sent once when it opens its stream, however often the list has changed.
                let is_news = http_session.state.subscriptions.mark_list_dirty(list);
                recipients.outbox.counters.subscriptions.notifications_deferred +=
                    u64::from(is_news);
            }
        }
        self.send_to_sessions(&list.change_notification(), recipients.outbox);
    }

    /// Notifies every subscribed stream of this shard.
    pub fn publish(
        &mut self,
        change: &ChangeNotification<'_>,
        registry: &mut SubscriptionRegistry,
        recipients: &mut Recipients<'_>,
    ) {
        self.notification.reset();
        let notify = |stream: &SubscriptionStream| self.notify_stream(change, stream, recipients);
        match change {
            ChangeNotification::ToolListChanged => {
                registry.notify_list_changed(CatalogList::Tools, notify);
            }
            ChangeNotification::PromptListChanged => {
                registry.notify_list_changed(CatalogList::Prompts, notify);
            }
            ChangeNotification::ResourceListChanged => {
                registry.notify_list_changed(CatalogList::Resources, notify);
            }
            ChangeNotification::ResourceUpdated { uri } => {
                registry.notify_updated(TopicKind::Resource, uri, notify);
            }
            ChangeNotification::TaskStatus { task, .. } => {
                registry.notify_updated(TopicKind::Task, task.task_id, notify);
            }
        }
        self.send_to_sessions(change, recipients.outbox);
    }

    /// Notifies the subscribers of a resource, each with the URI that it has subscribed with.
    pub fn publish_resource(
        &mut self,
        uri: &str,
        registry: &mut SubscriptionRegistry,
        recipients: &mut Recipients<'_>,
    ) {
        self.publish(&ChangeNotification::ResourceUpdated { uri }, registry, recipients);
        for uri in registry.other_spellings(uri) {
            self.publish(&ChangeNotification::ResourceUpdated { uri: &uri }, registry, recipients);
        }
    }

    /// Sends the status of a task (`tail`, encoded by the shard that owns the task) to every
    /// subscribed stream of this shard, opened by the caller of the task, that has not received
    /// `version`.
    pub fn publish_task(
        &mut self,
        task: TaskId,
        version: u32,
        caller: Option<&Principal>,
        tail: &[u8],
        registry: &mut SubscriptionRegistry,
        recipients: &mut Recipients<'_>,
    ) {
        let name = task.to_string();
        let task = TaskView {
            task_id: &name,
            status: TaskStatus::Working,
            status_message: None,
            created_at_ms: 0,
            last_updated_at_ms: 0,
            ttl_ms: None,
            poll_interval_ms: 0,
        };
        // Only the kind of the change is read: the content is in the tail.
        let change = ChangeNotification::TaskStatus { task, detail: TaskDetail::None };
        self.notification.set_task_change(&change, tail);
        let notify = |stream: &SubscriptionStream| self.notify_stream(&change, stream, recipients);
        registry.notify_task(&name, version, caller, notify);
        self.send_to_sessions(&change, recipients.outbox);
    }

    /// Notifies the streams of a connection whose queue has drained to half of what they missed.
    /// Returns the tasks whose status they missed: the shards that own them send it.
    pub fn send_missed(
        &mut self,
        key: Key,
        registry: &mut SubscriptionRegistry,
        recipients: &mut Recipients<'_>,
    ) -> Vec<Rc<str>> {
        let mut missed_tasks: Vec<Rc<str>> = Vec::new();
        let Some(connection) = recipients.transports.connections.table.get(key) else {
            return missed_tasks;
        };
        let mut subscriber = connection.state.subscriptions;
        let drained_bytes =
            connection.queue_bytes_max(&recipients.transports.connections.shared.options) / 2;
        if !subscriber.is_dirty() || connection.queued_bytes() > drained_bytes {
            return missed_tasks;
        }
        while let Some(list) = subscriber.take_dirty_list() {
            self.notification.reset();
            recipients.outbox.counters.subscriptions.deferred_sent += 1;
            self.write_notification(&list.change_notification(), key, None, recipients);
        }
        let mut list_before = None;
        registry.send_pending(&mut subscriber, |stream, missed| {
            let (change, list) = match missed {
                PendingNotification::List(list) => (list.change_notification(), Some(list)),
                PendingNotification::Topic(TopicKind::Resource, uri) => {
                    (ChangeNotification::ResourceUpdated { uri }, None)
                }
                PendingNotification::Topic(TopicKind::Task, name) => {
                    missed_tasks.push(name.clone());
                    return true;
                }
            };
            // Usually every stream of a connection has missed the same change.
            if list.is_none() || list != list_before {
                self.notification.reset();
                list_before = list;
            }
            let is_written = self.notify_stream(&change, stream, recipients);
            recipients.outbox.counters.subscriptions.deferred_sent += u64::from(is_written);
            is_written
        });
        if let Some(connection) = recipients.transports.connections.table.get_mut(key) {
            connection.state.subscriptions = subscriber;
        }
        recipients.outbox.counters.subscriptions.notifications_encoded =
            self.notification.encoded_frames;
        missed_tasks
    }

    /// Notifies a legacy session that has opened its stream of the lists that have changed.
    pub fn send_missed_lists(
        &mut self,
        key: Key,
        subscriptions: &mut ConnectionSubscriptions,
        outbox: &mut Outbox,
    ) {
        while let Some(list) = subscriptions.take_dirty_list() {
            self.notification.reset();
            self.notified.sessions.push((key, None));
            outbox.counters.subscriptions.deferred_sent += 1;
            self.send_to_sessions(&list.change_notification(), outbox);
        }
    }

    /// Takes a connection that was notified; its memory is to be checked.
    pub fn take_notified(&mut self) -> Option<Key> {
        self.notified.connections.pop_front()
    }

    /// Sends `change` to the legacy sessions in the list.
    fn send_to_sessions(&mut self, change: &ChangeNotification<'_>, outbox: &mut Outbox) {
        for (key, id) in self.notified.sessions.drain(..) {
            let to = ReplyTo::standalone(PeerId::HttpSession(key));
            outbox.counters.subscriptions.notifications_sent += 1;
            outbox.notify(to, NotificationKind::Required, |text| {
                self.notification.write_frame(change, id.as_ref().map(IdBuf::as_id), text);
            });
        }
        outbox.counters.subscriptions.notifications_encoded = self.notification.encoded_frames;
    }

    /// Notifies one stream. Returns `false` if its peer is too slow.
    #[inline]
    fn notify_stream(
        &mut self,
        change: &ChangeNotification<'_>,
        stream: &SubscriptionStream,
        recipients: &mut Recipients<'_>,
    ) -> bool {
        let Recipients { transports, outbox, .. } = recipients;
        let key = match stream.peer {
            PeerId::Connection(key) => key,
            PeerId::HttpSession(key) => {
                self.notified.sessions.push((key, stream.id().map(IdBuf::from)));
                return true;
            }
            // The dialect has no subscriptions.
            PeerId::Parity(_) => return true,
        };
        let connections = &mut transports.connections;
        let Some(connection) = connections.table.get_mut(key) else { return true };
        if connection.queued_bytes() > connection.queue_bytes_max(&connections.shared.options) {
            connection.state.subscriptions.mark_dirty();
            outbox.counters.subscriptions.notifications_deferred += 1;
            return false;
        }
        self.write_notification(change, key, stream.id(), recipients);
        true
    }

    /// Notifies one legacy session of a list change.
    fn notify_session(&mut self, list: CatalogList, key: Key, recipients: &mut Recipients<'_>) {
        let Recipients { transports, outbox, .. } = recipients;
        let connections = &mut transports.connections;
        let Some(connection) = connections.table.get_mut(key) else { return };
        if connection.queued_bytes() > connection.queue_bytes_max(&connections.shared.options) {
            let is_news = connection.state.subscriptions.mark_list_dirty(list);
            outbox.counters.subscriptions.notifications_deferred += u64::from(is_news);
        } else {
            self.write_notification(&list.change_notification(), key, None, recipients);
        }
    }

    /// Writes one notification. A closing connection is skipped.
    #[inline]
    fn write_notification(
        &mut self,
        change: &ChangeNotification<'_>,
        key: Key,
        id: Option<Id<'_>>,
        recipients: &mut Recipients<'_>,
    ) {
        let Recipients { transports, outbox, now } = recipients;
        let write = |out: &mut Vec<u8>| self.notification.write_frame(change, id, out);
        if transports.write_message(key, Outcome::Notification, outbox, *now, write) {
            outbox.counters.subscriptions.notifications_sent += 1;
            self.mark_notified(key);
        }
    }

    fn mark_notified(&mut self, key: Key) {
        // The streams of one connection are often adjacent: most duplicates are found here.
        if self.notified.connections.back() != Some(&key) {
            self.notified.connections.push_back(key);
        }
    }
}
