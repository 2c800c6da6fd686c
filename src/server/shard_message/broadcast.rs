//! The broadcast to all shards.
//!
//! Invariants: a [`BroadcastMessage`] reaches every running shard once, and all shards receive all
//! of them in the same order, whichever threads send them. A full inbox delays a message and loses
//! none.

use std::fmt;
use std::sync::TryLockError;
use std::time::Duration;

use corelane_engine::mesh::{SendQueue, Sender};

use super::{BroadcastMessage, ShardMessage};

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

/// Time between two attempts to send to a full inbox: a few turns of a busy shard.
const RETRY_INTERVAL: Duration = Duration::from_micros(50);

/// Locked for one pass over the shards, and never waited for.
#[expect(clippy::disallowed_types, reason = "steering threads share it, and no shard's turn does")]
type Mutex<T> = std::sync::Mutex<T>;

/// The broadcast to all shards: one per server, shared by every thread that controls it.
///
/// At most one message is in delivery. So at most one message per shard is buffered, and no two
/// shards receive two messages in different orders.
#[derive(Debug)]
pub struct Broadcast {
    sender: Sender<ShardMessage>,
    /// The copies of the message in delivery that found their inbox full.
    send_queue: Mutex<SendQueue<ShardMessage>>,
}

impl Broadcast {
    pub fn new(sender: Sender<ShardMessage>) -> Self {
        let send_queue = Mutex::new(SendQueue::new(sender.shards().count()));
        Self { sender, send_queue }
    }

    /// Returns the sender of messages to a single shard.
    pub const fn sender(&self) -> &Sender<ShardMessage> {
        &self.sender
    }

    /// Number of shards, those that have ended included.
    pub fn shard_count(&self) -> usize {
        self.sender.shards().count()
    }

    /// Sends a message to every shard, if none is in delivery. A copy that finds its inbox full is
    /// sent by a later call of any kind. Never waits.
    ///
    /// # Errors
    ///
    /// [`Busy`]: an earlier message is in delivery, and this one was not sent.
    pub fn try_send(&self, message: &BroadcastMessage) -> Result<(), Busy> {
        self.try_send_with(|| Some(message.clone()))
    }

    /// Sends the message that `make` returns, if any. `make` is called only if none is in delivery.
    ///
    /// # Errors
    ///
    /// [`Busy`], as [`Broadcast::try_send`]; `make` was not called.
    pub fn try_send_with(
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
    pub fn try_flush(&self) -> Result<(), Busy> {
        self.flush_with(|_| {})
    }

    /// Sends a message to every shard and returns when every inbox has it. For threads that may
    /// wait: a shard's own thread would wait for itself.
    pub fn send(&self, message: &BroadcastMessage) {
        while self.try_send(message).is_err() {
            std::thread::park_timeout(RETRY_INTERVAL);
        }
        while self.try_flush().is_err() {
            std::thread::park_timeout(RETRY_INTERVAL);
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
    use std::sync::Arc;

    use corelane_engine::mesh::ShardId;
    use corelane_engine::mesh::{Inbox, MeshOptions, build_mesh};
    use corelane_engine::ring::Waker;

    use super::*;
    use crate::server::options::Options;
    use crate::server::shard_message::send_blocking;
    use crate::server::start;

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
            ShardMessage::Broadcast(BroadcastMessage::Limits(limits, _)) => {
                limits.connections_max.tcp
            }
            other => panic!("unexpected message {other:?}"),
        });
        limits.collect()
    }

    fn limits_message(connections_max: usize) -> BroadcastMessage {
        let mut limits = start::shard_limits(&Options::default(), 1);
        limits.connections_max.tcp = connections_max;
        BroadcastMessage::Limits(Arc::new(limits), Arc::default())
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
