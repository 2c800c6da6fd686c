//! The mesh: bounded messages between shards, and from other threads to a shard.
//!
//! Each ordered pair of shards has an SPSC channel (`queue`), and each shard has one MPSC inbox for
//! all other threads (signal thread, blocking pool, helper threads). Everything is allocated at
//! start; [`Inbox::try_send`] and receiving allocate nothing.
//!
//! Invariants:
//!
//! - Messages from one sender to one shard arrive once and in order, or are returned to the sender:
//!   a full channel refuses and counts, it never blocks.
//! - A message to all shards is read before what follows from it: a shard reads its inbox first,
//!   and its channels after it.
//! - A shard never blocks on another one and loses no message to a full channel: [`Inbox::send`]
//!   queues it, and the queue is retried at the end of every turn. The shard does not park before
//!   the queue is empty.
//! - Other threads choose: [`Sender::try_send`] refuses, [`Sender::send_while`] retries.
//! - A shard that has ended refuses all messages ([`TrySendError::Closed`]). Those of other threads
//!   that it has not read are dropped then, those of shards with the mesh.
//! - A shard that parked after [`Inbox::prepare_park`] is woken by the next message; sending to a
//!   shard that is awake costs no wake-up (see `event_count`).
//! - Wake-ups are batched: [`Inbox::wake_targets`], called once at the end of a turn, fences and
//!   wakes once for each target, however many messages were sent to it.
//!
//! Also holds the other state that shards share: a bounded count ([`SharedCounter`]), the numbers
//! that were redeemed ([`ReplayFilter`]) and the digests that were seen ([`ExpiringSet`]).
//!
//! There is no reply mechanism: a request carries what its response needs, and its sender limits
//! the number of requests in flight, and with it the send queue.
//!
//! Memory: shards × (shards − 1) × [`MeshOptions::channel_messages_max`] messages, and shards ×
//! [`MeshOptions::inbox_messages_max`].

mod sync;

pub(crate) mod event_count;
mod queue;

mod read_order;
mod send_queue;

#[cfg(all(target_os = "linux", feature = "glommio"))]
pub(crate) mod eventfd_waker;
mod inbox;
mod shared_counter;
mod single_use;

use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crossbeam::queue::ArrayQueue;

use self::event_count::EventCount;
pub use self::inbox::Inbox;
use self::queue::{Consumer, Producer};
pub use self::read_order::ReadOrder;
pub use self::send_queue::SendQueue;
pub use self::shared_counter::SharedCounter;
pub use self::single_use::{ExpiringSet, InsertResult, ReplayFilter, UseResult};
use self::sync::{Arc, AtomicU64, Ordering, fence};
use crate::ring::Waker;

/// Time between two attempts of a thread to send to a full inbox.
const RETRY_INTERVAL: Duration = Duration::from_micros(50);

/// Identifies a shard of the process, counted from zero.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ShardId(pub u16);

impl ShardId {
    /// Returns the id as an index into tables of shards.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl std::fmt::Display for ShardId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Capacities of a mesh, fixed at start.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MeshOptions {
    /// Capacity of the channel from one shard to another, rounded up to a power of two; at least 1.
    /// Cost: the size of a message each, for every ordered pair of shards. Default 1,024.
    pub channel_messages_max: u32,
    /// Capacity of a shard's inbox for messages from other threads; at least 1. Cost: the size of a
    /// message and 8 bytes each. Default 4,096; at most 256 over stdio and in-process.
    pub inbox_messages_max: u32,
    /// The order in which a shard reads the channels of other shards. Default
    /// [`ReadOrder::RoundRobin`].
    pub read_order: ReadOrder,
}

/// Capacity of the inbox in a server of one client.
const SMALL_INBOX_MESSAGES_MAX: u32 = 256;

impl MeshOptions {
    /// Returns these options with an inbox of at most 256 messages, for a server of one client: an
    /// inbox is written as a whole at start.
    #[doc(hidden)]
    #[must_use]
    pub const fn with_small_inbox(self) -> Self {
        let is_small = self.inbox_messages_max < SMALL_INBOX_MESSAGES_MAX;
        let max = if is_small { self.inbox_messages_max } else { SMALL_INBOX_MESSAGES_MAX };
        Self { inbox_messages_max: max, ..self }
    }
}

impl Default for MeshOptions {
    fn default() -> Self {
        Self {
            channel_messages_max: 1_024,
            inbox_messages_max: 4_096,
            read_order: ReadOrder::RoundRobin,
        }
    }
}

/// Why a message was not sent; contains the message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TrySendError<M> {
    /// The channel or inbox is full; a later attempt may succeed.
    Full(M),
    /// The shard has ended, and will receive nothing more.
    Closed(M),
}

/// The shared state of one shard: its MPSC inbox, and how to wake it.
#[derive(Debug)]
struct ShardEntry<M> {
    event_count: EventCount,
    /// Set once the shard has its ring. Before that no wake-up is needed, because a shard checks
    /// for messages before it parks for the first time.
    waker: OnceLock<Waker>,
    queue: ArrayQueue<M>,
    /// Messages refused because the inbox was full.
    refused_messages: AtomicU64,
    /// The shard has ended and reads no more messages.
    has_ended: AtomicBool,
}

impl<M> ShardEntry<M> {
    fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    /// Drops the messages of other threads to a shard that has ended.
    #[cold]
    fn discard_messages(&self) {
        while let Some(message) = self.queue.pop() {
            drop(message);
        }
    }
}

/// Marks the shard as ended when it is dropped.
#[derive(Debug)]
struct AliveGuard<M> {
    shard: ShardId,
    entries: Arc<[ShardEntry<M>]>,
}

impl<M> AliveGuard<M> {
    fn own_entry(&self) -> &ShardEntry<M> {
        &self.entries[self.shard.index()]
    }
}

impl<M> Drop for AliveGuard<M> {
    fn drop(&mut self) {
        let entry = self.own_entry();
        entry.has_ended.store(true, Ordering::Relaxed);
        // Sequentially consistent, as in `Sender::try_send`: a message that is sent meanwhile is
        // dropped here, or its sender sees the end and drops it.
        fence(Ordering::SeqCst);
        entry.discard_messages();
    }
}

/// Creates the mesh of `shards` shards: an endpoint for each, in order, and the sender for all
/// other threads.
///
/// # Panics
///
/// When there are more shards than [`ShardId`] can name.
pub fn build_mesh<M: Send>(shards: usize, options: &MeshOptions) -> (Vec<Endpoint<M>>, Sender<M>) {
    assert!(u16::try_from(shards).is_ok(), "shards are named by 16 bits");
    let entries: Arc<[ShardEntry<M>]> = (0..shards)
        .map(|_| ShardEntry {
            event_count: EventCount::new(),
            waker: OnceLock::new(),
            queue: ArrayQueue::new(options.inbox_messages_max.max(1) as usize),
            refused_messages: AtomicU64::new(0),
            has_ended: AtomicBool::new(false),
        })
        .collect();
    let mut endpoints: Vec<Endpoint<M>> = (0..u16::MAX)
        .take(shards)
        .map(|shard| Endpoint {
            alive: AliveGuard { shard: ShardId(shard), entries: Arc::clone(&entries) },
            read_order: options.read_order,
            outgoing: Vec::with_capacity(shards),
            incoming: Vec::with_capacity(shards),
        })
        .collect();
    for source in 0..shards {
        for target in 0..shards {
            let channel =
                (source != target).then(|| queue::channel(options.channel_messages_max as usize));
            let (producer, consumer) = channel.unzip();
            endpoints[source].outgoing.push(producer);
            endpoints[target].incoming.extend(consumer);
        }
    }
    (endpoints, Sender { entries })
}

/// A shard's endpoint before the shard has a ring: created on the starting thread, opened on the
/// shard's own.
#[derive(Debug)]
pub struct Endpoint<M> {
    alive: AliveGuard<M>,
    read_order: ReadOrder,
    outgoing: Vec<Option<Producer<M>>>,
    incoming: Vec<Consumer<M>>,
}

impl<M: Send> Endpoint<M> {
    /// Returns the shard that this endpoint belongs to.
    pub const fn shard(&self) -> ShardId {
        self.alive.shard
    }

    /// Opens the endpoint; from now on messages wake the ring behind `waker`.
    pub fn open(self, waker: Waker) -> Inbox<M> {
        self.alive.own_entry().waker.get_or_init(|| waker);
        Inbox::new(self)
    }
}

/// Sends messages to shards from other threads. May be cloned and used from any thread.
#[derive(Debug)]
pub struct Sender<M> {
    entries: Arc<[ShardEntry<M>]>,
}

impl<M> Clone for Sender<M> {
    fn clone(&self) -> Self {
        Self { entries: Arc::clone(&self.entries) }
    }
}

impl<M: Send> Sender<M> {
    /// Sends `message` to a shard and wakes it if it has parked. Refuses the message if the inbox
    /// is full or the shard has ended. A message that the shard has not read when it ends is
    /// dropped. Never blocks. Cost: a compare-and-swap and a fence, and a system call for a
    /// wake-up.
    ///
    /// # Errors
    ///
    /// [`TrySendError`], with the message.
    ///
    /// # Panics
    ///
    /// If `target` does not exist.
    pub fn try_send(&self, target: ShardId, message: M) -> Result<(), TrySendError<M>> {
        let entry = &self.entries[target.index()];
        if entry.has_ended() {
            return Err(TrySendError::Closed(message));
        }
        if let Err(message) = entry.queue.push(message) {
            entry.refused_messages.fetch_add(1, Ordering::Relaxed);
            return Err(TrySendError::Full(message));
        }
        if entry.event_count.wake()
            && let Some(waker) = entry.waker.get()
        {
            waker.wake();
        }
        // After the fence of `EventCount::wake`.
        if entry.has_ended() {
            entry.discard_messages();
        }
        Ok(())
    }

    /// Sends `message`, yielding the thread while the inbox is full, as long as `retry` returns
    /// `true`. Must not be called on a shard. A shard reads its inbox every turn, so the wait is
    /// normally microseconds.
    ///
    /// # Errors
    ///
    /// The message, if the shard has ended or `retry` returned `false`.
    ///
    /// # Panics
    ///
    /// If `target` does not exist.
    pub fn send_while(
        &self,
        target: ShardId,
        message: M,
        mut retry: impl FnMut() -> bool,
    ) -> Result<(), M> {
        let mut unsent = message;
        loop {
            match self.try_send(target, unsent) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Full(message)) if retry() => unsent = message,
                Err(TrySendError::Full(message) | TrySendError::Closed(message)) => {
                    return Err(message);
                }
            }
            std::thread::park_timeout(RETRY_INTERVAL);
        }
    }

    /// Returns whether a shard has ended and reads no more messages.
    ///
    /// # Panics
    ///
    /// If `target` does not exist.
    pub fn has_ended(&self, target: ShardId) -> bool {
        self.entries[target.index()].has_ended()
    }

    /// Iterates over all shards, in order.
    pub fn shards(&self) -> impl Iterator<Item = ShardId> + use<M> {
        (0..u16::MAX).map(ShardId).take(self.entries.len())
    }
}

#[cfg(test)]
mod tests {
    use super::single_use::KEPT_UNITS_MAX;
    use super::*;
    use crate::mesh::queue::channel;

    #[test]
    fn full_channel_returns_the_message() {
        let (mut producer, mut consumer) = channel(3);
        assert!((0..4).all(|message| producer.push(message).is_ok()));
        assert_eq!(producer.push(4), Err(4));
        let mut messages = Vec::new();
        assert_eq!(consumer.pop_into(&mut messages, 1), 1);
        assert_eq!(producer.push(4), Ok(()));
        assert_eq!(consumer.pop_into(&mut messages, 10), 4);
        assert_eq!(messages, [0, 1, 2, 3, 4]);
        assert!(consumer.is_empty());
    }

    #[test]
    fn unread_messages_are_dropped_with_the_channel() {
        let probe = Arc::new(());
        let (mut producer, mut consumer) = channel(4);
        for _ in 0..3 {
            producer.push(Arc::clone(&probe)).unwrap();
        }
        let mut messages = Vec::new();
        consumer.pop_into(&mut messages, 1);
        drop((producer, consumer));
        assert_eq!(Arc::strong_count(&probe), 2);
    }

    #[test]
    fn ended_shard_drops_unread_messages() {
        let (endpoints, sender) = build_mesh(1, &MeshOptions::default());
        let probe = Arc::new(());
        assert_eq!(sender.try_send(ShardId(0), Arc::clone(&probe)), Ok(()));
        drop(endpoints);
        assert_eq!(Arc::strong_count(&probe), 1);
        let refused = sender.try_send(ShardId(0), Arc::clone(&probe));
        assert!(matches!(refused, Err(TrySendError::Closed(_))), "{refused:?}");
    }

    #[test]
    fn messages_cross_threads_once_in_order() {
        const MESSAGES: usize = 20_000;
        let (mut producer, mut consumer) = channel(64);
        let sender = std::thread::spawn(move || {
            for mut message in (0..MESSAGES).map(Box::new) {
                while let Err(refused) = producer.push(message) {
                    message = refused;
                    std::thread::yield_now();
                }
            }
        });
        let mut messages = Vec::new();
        while messages.len() < MESSAGES {
            if consumer.pop_into(&mut messages, 50) == 0 {
                std::thread::yield_now();
            }
        }
        sender.join().unwrap();
        assert!(messages.iter().enumerate().all(|(index, message)| index == **message));
    }

    #[test]
    fn replay_filter_redeems_each_number_once() {
        let filter = ReplayFilter::new(1000);
        let numbers: Vec<u64> = (0..1000).map(|_| filter.issue()).collect();
        assert!(numbers.iter().all(|&number| filter.mark_used(number) == UseResult::First));
        assert!(numbers.iter().all(|&number| filter.mark_used(number) == UseResult::Replayed));
    }

    #[test]
    fn replay_filter_refuses_evicted_numbers() {
        let filter = ReplayFilter::new(64);
        let (old, unused, later) = (3, 4, 3 + 64);
        assert_eq!(filter.mark_used(old), UseResult::First);
        assert_eq!(filter.mark_used(later), UseResult::First);
        assert_eq!(filter.mark_used(old), UseResult::Expired);
        assert_eq!(filter.mark_used(unused), UseResult::Expired);
        assert_eq!(filter.mark_used(later), UseResult::Replayed);
        // Numbers of other words are unaffected.
        assert_eq!(filter.mark_used(40), UseResult::First);
    }

    #[test]
    fn replay_filter_redeems_once_across_threads() {
        let filter = Arc::new(ReplayFilter::new(4096));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let filter = Arc::clone(&filter);
                std::thread::spawn(move || {
                    (0..4096).filter(|&number| filter.mark_used(number) == UseResult::First).count()
                })
            })
            .collect();
        let redeemed: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!(redeemed, 4096);
    }

    const NOW: u64 = 1_000_000;

    /// A digest of the first bucket of any set.
    fn digest(tag: u64) -> u128 {
        u128::from(2 * tag) << 64
    }

    #[test]
    fn digest_is_present_until_its_time() {
        let set = ExpiringSet::new(100);
        assert_eq!(set.insert(digest(1), NOW, NOW + 10), InsertResult::First);
        assert_eq!(set.insert(digest(2), NOW, NOW + 10), InsertResult::First);
        assert_eq!(set.insert(digest(1), NOW, NOW + 10), InsertResult::Present);
        assert_eq!(set.insert(digest(1), NOW + 9, NOW + 10), InsertResult::Present);
        assert_eq!(set.insert(digest(1), NOW + 10, NOW + 20), InsertResult::First);
        // One whose time has passed is kept for a second.
        assert_eq!(set.insert(digest(3), NOW, NOW - 1), InsertResult::First);
        assert_eq!(set.insert(digest(3), NOW, NOW - 1), InsertResult::Present);
        assert_eq!(set.insert(digest(3), NOW + 1, NOW + 2), InsertResult::First);
    }

    #[test]
    fn full_bucket_is_free_after_its_time() {
        let set = ExpiringSet::new(1);
        for tag in 0..16 {
            assert_eq!(set.insert(digest(tag), NOW, NOW + 10), InsertResult::First);
        }
        assert_eq!(set.insert(digest(99), NOW, NOW + 10), InsertResult::Full);
        assert_eq!(set.insert(digest(3), NOW, NOW + 10), InsertResult::Present);
        assert_eq!(set.insert(digest(99), NOW + 10, NOW + 20), InsertResult::First);
    }

    #[test]
    fn time_of_a_digest_is_bounded() {
        let set = ExpiringSet::new(1);
        assert_eq!(set.insert(digest(1), NOW, u64::MAX), InsertResult::First);
        let end = NOW + KEPT_UNITS_MAX;
        assert_eq!(set.insert(digest(1), end - 1, end), InsertResult::Present);
        assert_eq!(set.insert(digest(1), end, end + 1), InsertResult::First);
    }

    #[test]
    fn digest_is_first_once_across_threads() {
        let set = ExpiringSet::new(4_096);
        let firsts = std::thread::scope(|scope| {
            let insert_all = || {
                let mixed =
                    |number: u128| number.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced);
                let first = |number: &u128| {
                    set.insert(mixed(*number), NOW, NOW + 10) == InsertResult::First
                };
                (0..4_096).filter(first).count()
            };
            let threads = [(); 4].map(|()| scope.spawn(insert_all));
            threads.map(|thread| thread.join().unwrap()).iter().sum::<usize>()
        });
        assert!(firsts <= 4_096, "{firsts}");
        assert!(firsts > 4_000, "{firsts}");
    }
}
