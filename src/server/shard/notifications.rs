//! Notifications to subscribers: list changes, resource updates, task status, end of streams.
//!
//! Invariants: every shard offers a catalog version before any notifies of it; a notification is
//! encoded once and written to every stream that requested it, after the acknowledgement of that
//! stream; a slow peer costs no queue: above `outgoing_bytes_max` notifications are skipped, and
//! sent once when half of that has drained.

use std::rc::Rc;
use std::sync::Arc;

use super::Shard;
use crate::base::slab::Key;
use crate::base::time::Instant;
use crate::connection::{Codec, Connections};
use crate::engine::mesh::SharedCounter;
use crate::engine::ring::{Ring, Socket};
use crate::protocol::eras::Lifecycle;
use crate::protocol::jsonrpc::{Id, IdBuf};
use crate::protocol::model::{self, ChangeNotification, TaskDetail, TaskStatus, TaskView};
use crate::protocol::revision::Revision;
use crate::server::connection_state::ConnectionState;
use crate::server::dispatch::Dispatcher;
use crate::server::reply_to::{Outcome, PeerId, ReplyTo};
use crate::server::shard_message::{BroadcastMessage, ShardMessage};
use crate::server::subscriptions::{
    CatalogList, CatalogLists, ConnectionSubscriptions, EncodedNotification, PendingNotification,
    SubscriptionRegistry, SubscriptionStream, TopicKind,
};
use crate::server::tasks::TaskId;
use crate::server::websocket::WebSocketFrontend;
use crate::service::Catalog;
use crate::telemetry::counters::Counters;
use crate::transport::http::date::Date;
use crate::transport::ndjson;
use crate::transport::websocket::writer;

impl Shard {
    /// Installs the next catalog version. The last shard has all shards notify their clients, who
    /// then find it on every shard.
    pub(super) fn install_catalog<R: Ring>(
        &mut self,
        ring: &mut R,
        catalog: Arc<Catalog>,
        (changes, installed): (CatalogLists, &SharedCounter),
        now: Instant,
    ) {
        self.dispatcher.catalog = catalog;
        if installed.acquire() < usize::from(self.dispatcher.shard_count) {
            return;
        }
        for shard in self.inbox.other_shards() {
            self.inbox
                .send(shard, ShardMessage::Broadcast(BroadcastMessage::ListsChanged(changes)));
        }
        self.notify_lists_changed(ring, changes, now);
    }

    pub(super) fn notify_lists_changed<R: Ring>(
        &mut self,
        ring: &mut R,
        changes: CatalogLists,
        now: Instant,
    ) {
        for list in CatalogList::ALL.into_iter().filter(|list| changes.contains(*list)) {
            self.publish(ring, &list.change_notification(), now);
            if self.dispatcher.notifies_list_changed(list) {
                self.notify_sessions(ring, list, now);
            }
        }
    }

    /// Notifies every legacy session of a list change, without subscription.
    ///
    /// Source: 2025-11-25, server/tools, "List Changed Notification", and its like.
    fn notify_sessions<R: Ring>(&mut self, ring: &mut R, list: CatalogList, now: Instant) {
        let is_ready =
            |state: &ConnectionState| matches!(state.lifecycle, Lifecycle::Initialized(_));
        let connections = self.connections.table.iter();
        let ready = connections.filter(|(_, connection)| is_ready(&connection.state));
        let ready: Vec<Key> = ready.map(|(key, _)| key).collect();
        // Encoded for sessions already if one of them subscribed.
        let mut broadcaster = self.broadcaster();
        for key in ready {
            broadcaster.notify_session(list, key);
        }
        let members = self.http.sessions.iter_mut();
        let ready = members.filter(|(_, http_session)| is_ready(&http_session.state));
        let ready: Vec<Key> = ready.map(|(key, _)| key).collect();
        for key in ready {
            if self.http.sessions.has_listener(key) {
                self.notified_sessions.push((key, None));
            } else if let Some(http_session) = self.http.sessions.get_mut(key) {
                // Sent once when it opens its stream, however often the list has changed.
                let is_news = http_session.state.subscriptions.mark_list_dirty(list);
                self.dispatcher.counters.subscriptions.notifications_deferred += u64::from(is_news);
            }
        }
        self.send_to_notified_sessions(&list.change_notification());
        self.check_notified_memory(ring, now);
    }

    /// Notifies every subscribed stream of this shard.
    pub(super) fn publish<R: Ring>(
        &mut self,
        ring: &mut R,
        change: &ChangeNotification<'_>,
        now: Instant,
    ) {
        self.notification.reset();
        let (mut broadcaster, subscriptions) = self.broadcaster_and_subscriptions();
        let say = |stream: &SubscriptionStream| broadcaster.notify_stream(change, stream);
        match change {
            ChangeNotification::ToolListChanged => {
                subscriptions.notify_list_changed(CatalogList::Tools, say);
            }
            ChangeNotification::PromptListChanged => {
                subscriptions.notify_list_changed(CatalogList::Prompts, say);
            }
            ChangeNotification::ResourceListChanged => {
                subscriptions.notify_list_changed(CatalogList::Resources, say);
            }
            ChangeNotification::ResourceUpdated { uri } => {
                subscriptions.notify_updated(TopicKind::Resource, uri, say);
            }
            ChangeNotification::TaskStatus { task, .. } => {
                subscriptions.notify_updated(TopicKind::Task, task.task_id, say);
            }
        }
        self.send_to_notified_sessions(change);
        self.check_notified_memory(ring, now);
    }

    /// Sends the status of a task (`tail`, encoded by the shard that owns the task) to every
    /// subscribed stream of this shard that has not received `version`.
    pub(super) fn publish_task<R: Ring>(
        &mut self,
        ring: &mut R,
        (task, version): (TaskId, u32),
        tail: &[u8],
        now: Instant,
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
        let (mut broadcaster, subscriptions) = self.broadcaster_and_subscriptions();
        let say = |stream: &SubscriptionStream| broadcaster.notify_stream(&change, stream);
        subscriptions.notify_task(&name, version, say);
        self.send_to_notified_sessions(&change);
        self.check_notified_memory(ring, now);
    }

    /// Publishes on all shards the resources that local handlers have marked as updated. While
    /// messages to another shard are queued, the marks stay, each resource once.
    pub(super) fn publish_resource_updates<R: Ring>(&mut self, ring: &mut R, now: Instant) {
        if !self.dispatcher.handler_queue.has_updated_resources() || self.inbox.queued() > 0 {
            return;
        }
        for uri in self.dispatcher.handler_queue.take_updated_resources() {
            for shard in self.inbox.other_shards() {
                let message =
                    ShardMessage::Broadcast(BroadcastMessage::ResourceUpdated(Arc::clone(&uri)));
                self.inbox.send(shard, message);
            }
            self.publish(ring, &ChangeNotification::ResourceUpdated { uri: &uri }, now);
        }
    }

    /// After a send: notifies the streams of a connection whose queue has drained to half of what
    /// they missed. Does nothing before the first skipped notification.
    #[inline]
    pub(super) fn send_missed<R: Ring>(&mut self, ring: &mut R, socket: Socket, now: Instant) {
        if self.dispatcher.counters.subscriptions.notifications_deferred > 0
            && let Some(key) = self.connections.key_of(socket)
        {
            self.send_missed_to(ring, key, now);
        }
    }

    fn send_missed_to<R: Ring>(&mut self, ring: &mut R, key: Key, now: Instant) {
        let Some(connection) = self.connections.table.get(key) else { return };
        let mut subscriber = connection.state.subscriptions;
        let drained_bytes = connection.queue_bytes_max(&self.connections.options) / 2;
        if !subscriber.is_dirty() || connection.queued_bytes() > drained_bytes {
            return;
        }
        let (mut broadcaster, subscriptions) = self.broadcaster_and_subscriptions();
        while let Some(list) = subscriber.take_dirty_list() {
            broadcaster.notification.reset();
            broadcaster.counters.subscriptions.deferred_sent += 1;
            broadcaster.write_notification(&list.change_notification(), key, None);
        }
        let mut list_before = None;
        let mut late: Vec<Rc<str>> = Vec::new();
        subscriptions.send_pending(&mut subscriber, |stream, missed| {
            let (change, list) = match missed {
                PendingNotification::List(list) => (list.change_notification(), Some(list)),
                PendingNotification::Topic(TopicKind::Resource, uri) => {
                    (ChangeNotification::ResourceUpdated { uri }, None)
                }
                // The shard that owns it sends the current status.
                PendingNotification::Topic(TopicKind::Task, name) => {
                    late.push(name.clone());
                    return true;
                }
            };
            // Usually every stream of a connection has missed the same change.
            if list.is_none() || list != list_before {
                broadcaster.notification.reset();
                list_before = list;
            }
            let is_written = broadcaster.notify_stream(&change, stream);
            broadcaster.counters.subscriptions.deferred_sent += u64::from(is_written);
            is_written
        });
        for name in late {
            self.dispatcher.watch_task(&name);
        }
        if let Some(connection) = self.connections.table.get_mut(key) {
            connection.state.subscriptions = subscriber;
        }
        self.check_notified_memory(ring, now);
    }

    /// Accounts the memory of the connections that were notified.
    fn check_notified_memory<R: Ring>(&mut self, ring: &mut R, now: Instant) {
        self.dispatcher.counters.subscriptions.notifications_encoded =
            self.notification.encoded_frames;
        let mut notified = std::mem::take(&mut self.notified_connections);
        for key in notified.drain(..) {
            self.check_memory_or_close(ring, key, now);
        }
        self.notified_connections = notified;
    }

    /// Completes the streams of a connection with their results, because the server drains.
    ///
    /// Source: 2026-07-28, basic/patterns/subscriptions, "Ending a subscription".
    pub(super) fn complete_streams(&mut self, key: Key) {
        let Some(mut subscriber) = self.take_subscriptions(key) else { return };
        let mut ended = Vec::new();
        self.dispatcher
            .subscriptions
            .close_all_streams(&mut subscriber, |stream| ended.push(stream));
        for stream in ended {
            self.dispatcher.counters.subscriptions.closed += 1;
            let Some(id) = stream.id() else { continue };
            if let Some(connection) = self.connections.table.get_mut(key) {
                connection.state.in_flight.remove(id);
            }
            let mut text = self.take_text_buffer();
            let suffix = self.dispatcher.catalog.result_suffix(Revision::LATEST);
            model::begin_response(&mut text, id);
            model::write_subscriptions_listen_result(&mut text, id, suffix);
            model::end_response(&mut text);
            self.send_message(
                ReplyTo::standalone(PeerId::Connection(key)),
                Outcome::Response,
                text,
            );
        }
    }

    /// Removes the streams of a connection without a response: it is gone or was cancelled.
    pub(super) fn cancel_streams(&mut self, key: Key) {
        if let Some(mut subscriber) = self.take_subscriptions(key) {
            self.remove_streams(&mut subscriber);
        }
    }

    pub(super) fn remove_streams(&mut self, subscriber: &mut ConnectionSubscriptions) {
        let Dispatcher { subscriptions, counters, .. } = &mut self.dispatcher;
        subscriptions.close_all_streams(subscriber, |_| counters.subscriptions.closed += 1);
    }

    /// Notifies a legacy session that has opened its stream of the lists that have changed.
    pub(super) fn send_missed_lists(&mut self, key: Key) {
        while let Some(http_session) = self.http.sessions.get_mut(key)
            && let Some(list) = http_session.state.subscriptions.take_dirty_list()
        {
            self.notification.reset();
            self.notified_sessions.push((key, None));
            self.dispatcher.counters.subscriptions.deferred_sent += 1;
            self.send_to_notified_sessions(&list.change_notification());
        }
    }

    /// Sends `change` to the legacy sessions in the list.
    fn send_to_notified_sessions(&mut self, change: &ChangeNotification<'_>) {
        for (key, id) in std::mem::take(&mut self.notified_sessions) {
            let mut text = self.take_text_buffer();
            self.notification.write_frame(change, id.as_ref().map(IdBuf::as_id), &mut text);
            self.dispatcher.counters.subscriptions.notifications_sent += 1;
            self.send_message(
                ReplyTo::standalone(PeerId::HttpSession(key)),
                Outcome::Notification,
                text,
            );
        }
    }

    fn broadcaster(&mut self) -> Broadcaster<'_> {
        self.broadcaster_and_subscriptions().0
    }

    fn broadcaster_and_subscriptions(&mut self) -> (Broadcaster<'_>, &mut SubscriptionRegistry) {
        let Self {
            connections,
            http,
            websockets,
            dispatcher,
            notification,
            notified_connections: notified,
            notified_sessions: told_sessions,
            ..
        } = self;
        let Dispatcher { subscriptions, counters, .. } = dispatcher;
        let date = *http.date();
        let (now, touched) = (http.now(), &mut http.dirty_connections);
        let broadcaster = Broadcaster {
            connections,
            websockets,
            notification,
            counters,
            notified_connections: notified,
            notified_sessions: told_sessions,
            dirty_connections: touched,
            date,
            now,
        };
        (broadcaster, subscriptions)
    }

    fn take_subscriptions(&mut self, key: Key) -> Option<ConnectionSubscriptions> {
        let connection = self.connections.table.get_mut(key)?;
        connection.pending_work.has_open_stream = false;
        Some(std::mem::take(&mut connection.state.subscriptions))
    }
}

/// Writes notifications to streams.
struct Broadcaster<'a> {
    connections: &'a mut Connections<ConnectionState>,
    websockets: &'a mut WebSocketFrontend,
    notification: &'a mut EncodedNotification,
    counters: &'a mut Counters,
    notified_connections: &'a mut Vec<Key>,
    /// Legacy HTTP sessions to be notified after the connections.
    notified_sessions: &'a mut Vec<(Key, Option<IdBuf>)>,
    /// HTTP connections that were written to.
    dirty_connections: &'a mut Vec<Key>,
    date: Date,
    now: Instant,
}

impl Broadcaster<'_> {
    /// Notifies one stream. Returns `false` if its peer is too slow.
    #[inline]
    fn notify_stream(
        &mut self,
        change: &ChangeNotification<'_>,
        stream: &SubscriptionStream,
    ) -> bool {
        let key = match stream.peer {
            PeerId::Connection(key) => key,
            PeerId::HttpSession(key) => {
                self.notified_sessions.push((key, stream.id().map(IdBuf::from)));
                return true;
            }
        };
        let Some(connection) = self.connections.table.get_mut(key) else { return true };
        if connection.queued_bytes() > connection.queue_bytes_max(&self.connections.options) {
            connection.state.subscriptions.mark_dirty();
            self.counters.subscriptions.notifications_deferred += 1;
            return false;
        }
        self.write_notification(change, key, stream.id());
        true
    }

    /// Notifies one legacy session of a list change.
    fn notify_session(&mut self, list: CatalogList, key: Key) {
        let Some(connection) = self.connections.table.get_mut(key) else { return };
        if connection.queued_bytes() > connection.queue_bytes_max(&self.connections.options) {
            let is_news = connection.state.subscriptions.mark_list_dirty(list);
            self.counters.subscriptions.notifications_deferred += u64::from(is_news);
        } else {
            self.write_notification(&list.change_notification(), key, None);
        }
    }

    /// Writes one notification. A closing connection is skipped.
    #[inline]
    fn write_notification(
        &mut self,
        change: &ChangeNotification<'_>,
        key: Key,
        id: Option<Id<'_>>,
    ) {
        let Some(connection) = self.connections.table.get(key) else { return };
        let compression = connection.state.compression;
        let framing = self.connections.codec(key);
        if framing == Codec::Http {
            return self.write_event(change, key, id);
        }
        let Some(out) = self.connections.outgoing(key) else { return };
        if framing == Codec::WebSocket {
            let mark = writer::begin_message(out);
            self.notification.write_frame(change, id, out);
            self.websockets.end_frame(out, mark, compression);
        } else {
            self.notification.write_frame(change, id, out);
            ndjson::end_line(out);
        }
        self.counters.traffic.messages_out += 1;
        self.counters.subscriptions.notifications_sent += 1;
        self.mark_notified(key);
    }

    /// Writes one notification as an SSE event.
    fn write_event(&mut self, change: &ChangeNotification<'_>, key: Key, id: Option<Id<'_>>) {
        let Some(connection) = self.connections.table.get_mut(key) else { return };
        let Some(mut exchange) = connection.state.exchange.take() else { return };
        if let Some(out) = self.connections.outgoing(key) {
            let notification = &mut *self.notification;
            exchange.write_message(out, (Outcome::Notification, None), &self.date, |out| {
                notification.write_frame(change, id, out);
            });
            exchange.last_output = self.now;
        }
        if let Some(connection) = self.connections.table.get_mut(key) {
            connection.state.exchange = Some(exchange);
        }
        self.dirty_connections.push(key);
        self.counters.traffic.messages_out += 1;
        self.counters.subscriptions.notifications_sent += 1;
    }

    fn mark_notified(&mut self, key: Key) {
        // The streams of one connection are often adjacent: most duplicates are found here.
        if self.notified_connections.last() != Some(&key) {
            self.notified_connections.push(key);
        }
    }
}
