//! Messages from other threads to a shard.
//!
//! Invariants: a [`BroadcastMessage`] reaches every running shard once, and all shards receive all
//! of them in the same order, whichever threads send them. A full inbox delays a message and loses
//! none.

use std::fmt;
use std::sync::{Arc, TryLockError, Weak};
use std::time::Duration;

use super::client_requests::Requester;
use super::handlers::local_context::LogFilter;
use super::handlers::pending_update::UpdateResult;
use super::handlers::{LogMessage, Progress};
use super::http::{self, HttpMessage};
use super::subscriptions::{CatalogLists, SubscriptionLimits};
use super::tasks::{self, TaskMessage};
use super::websocket;
use crate::base::slab::Key;
use crate::connection::ConnectionOptions;
use crate::engine::mesh::{SendQueue, Sender, ShardId, SharedCounter};
use crate::protocol::eras::LoggingLevel;
use crate::service::{
    BlockingHost, Catalog, CatalogError, CatalogUpdate, ClientInfo, HandlerError, HandlerOutput,
};
use crate::transport::http::limits::RequestLimits;

/// One message to a shard.
#[derive(Debug)]
pub(super) enum ShardMessage {
    /// A message to every shard.
    Broadcast(BroadcastMessage),
    /// A log message of a blocking handler.
    Log(Box<LogMessage>),
    /// The progress of a blocking handler.
    Progress(Progress),
    /// About an HTTP exchange or session.
    Http(Box<HttpMessage>),
    Task(Box<TaskMessage>),
    Finished {
        call_id: Key,
        result: Result<HandlerOutput, HandlerError>,
    },
    /// A catalog update that a local handler awaits has ended.
    CatalogUpdated {
        key: Key,
        result: UpdateResult,
    },
}

/// Access of blocking handlers to the catalog and to all shards.
pub(super) trait CatalogAccess: fmt::Debug + Send + Sync {
    /// Updates the catalog; see [`crate::service::BlockingContext`].
    fn update_catalog(&self, edit: CatalogUpdate) -> Result<(), CatalogError>;

    /// Notifies the subscribers of a resource that it has changed.
    fn notify_resource_updated(&self, uri: &str);
}

/// A message to every shard; each receives a copy.
#[derive(Clone, Debug)]
pub(super) enum BroadcastMessage {
    /// Complete what is in flight, accept nothing more, end.
    Drain,
    /// Offer this catalog; calls in flight complete with the one they started with. The last shard
    /// to install it has all shards notify their clients, who then find it on every shard.
    Catalog {
        catalog: Arc<Catalog>,
        /// The lists that differ from the version before.
        changes: CatalogLists,
        /// Number of shards that have installed it.
        installed: Arc<SharedCounter>,
    },
    /// Every shard has installed a version in which these lists differ from the one before.
    ListsChanged(CatalogLists),
    /// Apply these limits. Boxed, because the largest variant sets the size of every inbox slot.
    Limits(Arc<ShardLimits>),
    /// The resource with this URI has changed.
    ResourceUpdated(Arc<str>),
}

impl BroadcastMessage {
    /// Returns the message for the next catalog version.
    pub(super) fn new_catalog(catalog: &Arc<Catalog>, changes: CatalogLists) -> Self {
        Self::Catalog { catalog: Arc::clone(catalog), changes, installed: Arc::default() }
    }
}

/// The limits that can change while a shard runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShardLimits {
    pub(super) connections: ConnectionOptions,
    pub(super) connections_max: usize,
    pub(super) http_connections_max: usize,
    /// Limits of one HTTP request.
    pub(super) http_request: RequestLimits,
    pub(super) http_timeouts: http::HttpTimeouts,
    /// Limits of WebSocket messages.
    pub(super) websocket: websocket::MessageRules,
    pub(super) sessions: http::SessionLimits,
    pub(super) requests_in_flight_max: usize,
    pub(super) request_timeout: Duration,
    pub(super) client_request_timeout: Duration,
    pub(super) request_state_ttl: Duration,
    pub(super) drain_timeout: Duration,
    pub(super) tasks: tasks::TaskLimits,
    pub(super) subscriptions: SubscriptionLimits,
}

/// The connection from one blocking handler to the shard of its call.
#[derive(Debug)]
pub(super) struct BlockingHandle {
    pub(super) sender: Sender<ShardMessage>,
    pub(super) shard: ShardId,
    pub(super) call_id: Key,
    /// Alive until the call is cancelled.
    pub(super) alive: Weak<()>,
    pub(super) client: ClientInfo,
    pub(super) log_filter: LogFilter,
    pub(super) catalog: Arc<dyn CatalogAccess>,
}

impl BlockingHost for BlockingHandle {
    fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        if !self.is_cancelled() {
            let message = message.map(str::to_owned);
            let progress = Progress { call_id: self.call_id, progress, total, message };
            // Progress is best effort: if the inbox is full, a later value will do.
            drop(self.sender.try_send(self.shard, ShardMessage::Progress(progress)));
        }
    }

    fn is_cancelled(&self) -> bool {
        self.alive.strong_count() == 0
    }

    fn client(&self) -> ClientInfo {
        self.client
    }

    fn log(&self, level: LoggingLevel, logger: Option<&str>, data: serde_json::Value) {
        if self.log_filter.accepts(level) && !self.is_cancelled() {
            let logger = logger.map(str::to_owned);
            let message =
                LogMessage { requester: Requester::Call(self.call_id), level, logger, data };
            // Best effort: a log message is worthless after the response.
            drop(self.sender.try_send(self.shard, ShardMessage::Log(Box::new(message))));
        }
    }

    fn notify_resource_updated(&self, uri: &str) {
        self.catalog.notify_resource_updated(uri);
    }

    fn update_catalog(&self, update: CatalogUpdate) -> Result<(), CatalogError> {
        self.catalog.update_catalog(update)
    }
}

/// Sends a message that must not be lost, from a thread that may wait: a shard empties its inbox
/// once per turn, so a full one has space again within microseconds. Returns without sending if the
/// shard has ended. The result of a handler is sent this way even if the call was cancelled: until
/// then it occupies its slot.
pub(super) fn send_blocking(sender: &Sender<ShardMessage>, shard: ShardId, message: ShardMessage) {
    // A shard that has ended needs no message.
    drop(sender.send_while(shard, message, || true));
}

/// Rejected: an earlier broadcast still waits for space in the inbox of a shard, or another thread
/// is sending one. Nothing was sent; try again after a turn of the shards.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Busy;

impl fmt::Display for Busy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an earlier broadcast is still being delivered; try again")
    }
}

impl std::error::Error for Busy {}

/// Locked for one pass over the shards, and never waited for.
#[expect(clippy::disallowed_types, reason = "steering threads share it, and no shard's turn does")]
type Mutex<T> = std::sync::Mutex<T>;

/// The broadcast to all shards: one per server, shared by every thread that controls it.
///
/// At most one message is in delivery. So at most one message per shard is buffered, and no two
/// shards receive two messages in different orders.
#[derive(Debug)]
pub(super) struct Broadcast {
    sender: Sender<ShardMessage>,
    /// The copies of the message in delivery that found their inbox full.
    send_queue: Mutex<SendQueue<ShardMessage>>,
}

impl Broadcast {
    pub(super) fn new(sender: Sender<ShardMessage>) -> Self {
        let send_queue = Mutex::new(SendQueue::new(sender.shards().count()));
        Self { sender, send_queue }
    }

    #[cfg(test)]
    pub(super) const fn sender(&self) -> &Sender<ShardMessage> {
        &self.sender
    }

    /// Number of shards, those that have ended included.
    pub(super) fn shard_count(&self) -> usize {
        self.sender.shards().count()
    }

    /// Sends a message to every shard, if none is in delivery. A copy that finds its inbox full is
    /// sent by a later call of any kind. Never waits.
    ///
    /// # Errors
    ///
    /// [`Busy`]: an earlier message is in delivery, and this one was not sent.
    pub(super) fn try_send(&self, message: &BroadcastMessage) -> Result<(), Busy> {
        self.try_send_with(|| Some(message.clone()))
    }

    /// Sends the message that `make` returns, if any. `make` is called only if none is in delivery.
    ///
    /// # Errors
    ///
    /// [`Busy`], as [`Broadcast::try_send`]; `make` was not called.
    pub(super) fn try_send_with(
        &self,
        make: impl FnOnce() -> Option<BroadcastMessage>,
    ) -> Result<(), Busy> {
        self.flush_with(|outbox| {
            let Some(message) = make() else { return };
            for shard in self.sender.shards() {
                outbox.push(shard, ShardMessage::Broadcast(message.clone()));
            }
        })
    }

    /// Sends copies that found an inbox full. Never waits.
    ///
    /// # Errors
    ///
    /// [`Busy`]: some inbox is still full.
    pub(super) fn try_flush(&self) -> Result<(), Busy> {
        self.flush_with(|_| {})
    }

    /// Sends a message to every shard and returns when every inbox has it. For threads that may
    /// wait: a shard's own thread would wait for itself.
    pub(super) fn send(&self, message: &BroadcastMessage) {
        while self.try_send(message).is_err() {
            std::thread::yield_now();
        }
        while self.try_flush().is_err() {
            std::thread::yield_now();
        }
    }

    /// Sends the buffered copies; if none is left, lets `fill` add more and sends those.
    fn flush_with(&self, fill: impl FnOnce(&mut SendQueue<ShardMessage>)) -> Result<(), Busy> {
        let mut outbox = match self.send_queue.try_lock() {
            Ok(outbox) => outbox,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Another thread is sending.
            Err(TryLockError::WouldBlock) => return Err(Busy),
        };
        // A shard that has ended needs no message.
        let mut send = |shard, message| self.sender.try_send(shard, message);
        outbox.flush(&mut send);
        if !outbox.is_empty() {
            return Err(Busy);
        }
        fill(&mut outbox);
        outbox.flush(&mut send);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::mesh::{Inbox, MeshOptions, build_mesh};
    use crate::engine::ring::Waker;
    use crate::server::options::Options;
    use crate::server::shard_builder;

    fn broadcast_and_inboxes(
        shards: usize,
        post_letters_max: u32,
    ) -> (Broadcast, Vec<Inbox<ShardMessage>>) {
        let options =
            MeshOptions { inbox_messages_max: post_letters_max, ..MeshOptions::default() };
        let (endpoints, sender) = build_mesh(shards, &options);
        let inboxes = endpoints.into_iter().map(|endpoint| endpoint.open(Waker::new(|| {})));
        (Broadcast::new(sender), inboxes.collect())
    }

    /// Returns the connection limit of each received message.
    fn received_limits(inbox: &mut Inbox<ShardMessage>) -> Vec<usize> {
        let mut messages = Vec::new();
        inbox.receive(&mut messages, usize::MAX);
        let limits = messages.into_iter().map(|message| match message {
            ShardMessage::Broadcast(BroadcastMessage::Limits(limits)) => limits.connections_max,
            other => panic!("unexpected message {other:?}"),
        });
        limits.collect()
    }

    fn limits_message(connections_max: usize) -> BroadcastMessage {
        let limits = shard_builder::shard_limits(&Options::default(), 1);
        BroadcastMessage::Limits(Arc::new(ShardLimits { connections_max, ..limits }))
    }

    #[test]
    fn broadcast_to_full_inbox_is_delivered_later_once() {
        let (broadcast, mut inboxes) = broadcast_and_inboxes(2, 1);
        assert_eq!(broadcast.try_send(&limits_message(1)), Ok(()));
        assert_eq!(broadcast.try_flush(), Ok(()));
        assert_eq!(received_limits(&mut inboxes[1]), [1]);
        assert_eq!(broadcast.try_send(&limits_message(2)), Ok(()));
        assert_eq!(broadcast.try_flush(), Err(Busy));
        assert_eq!(broadcast.try_send(&limits_message(3)), Err(Busy));
        assert_eq!(received_limits(&mut inboxes[1]), [2]);
        assert_eq!(received_limits(&mut inboxes[0]), [1]);
        assert_eq!(broadcast.try_flush(), Ok(()));
        assert_eq!(
            (received_limits(&mut inboxes[0]), received_limits(&mut inboxes[1])),
            (vec![2], vec![])
        );
    }

    #[test]
    fn handler_result_is_delivered_after_cancellation() {
        let (broadcast, mut inboxes) = broadcast_and_inboxes(1, 1);
        assert_eq!(broadcast.try_send(&limits_message(1)), Ok(()));
        let mut all = Vec::new();
        std::thread::scope(|scope| {
            let handler = scope.spawn(|| {
                send_blocking(
                    &broadcast.sender,
                    ShardId(0),
                    ShardMessage::Broadcast(limits_message(2)),
                );
            });
            while inboxes[0].counts().inbox_full == 0 {
                std::thread::yield_now();
            }
            while !handler.is_finished() {
                all.extend(received_limits(&mut inboxes[0]));
            }
        });
        all.extend(received_limits(&mut inboxes[0]));
        assert_eq!(all, [1, 2]);
    }

    #[test]
    fn shard_message_size_is_bounded() {
        // The cost per inbox slot in the documentation of the options.
        assert!(size_of::<ShardMessage>() <= 112, "{}", size_of::<ShardMessage>());
    }

    #[test]
    fn ended_shard_does_not_block_broadcast() {
        let (broadcast, mut inboxes) = broadcast_and_inboxes(2, 1);
        broadcast.send(&limits_message(1));
        drop(inboxes.remove(0));
        assert_eq!(received_limits(&mut inboxes[0]), [1]);
        broadcast.send(&limits_message(2));
        assert_eq!(received_limits(&mut inboxes[0]), [2]);
    }

    #[test]
    fn broadcasts_of_many_threads_have_one_order() {
        let (broadcast, mut inboxes) = broadcast_and_inboxes(3, 2);
        let received_orders = std::thread::scope(|scope| {
            for thread in 0..4 {
                let broadcast = &broadcast;
                scope.spawn(move || {
                    (0..50).for_each(|n| broadcast.send(&limits_message(thread * 100 + n)));
                });
            }
            let mut orders: Vec<Vec<usize>> = vec![Vec::new(); inboxes.len()];
            while orders.iter().any(|order| order.len() < 200) {
                for (order, inbox) in orders.iter_mut().zip(&mut inboxes) {
                    order.extend(received_limits(inbox));
                }
                std::thread::yield_now();
            }
            orders
        });
        assert!(received_orders.iter().all(|order| *order == received_orders[0]));
    }
}
