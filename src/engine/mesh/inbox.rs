//! A shard's endpoint of the mesh: sending, receiving and parking.
//!
//! Invariants: every message that waits here at the end of a turn is handled in the next turn, in
//! either direction; the channels take turns in being read first, so that a busy neighbour cannot
//! starve the others; messages of one channel stay in order, including those in the send queue.

use std::thread::yield_now;

use super::read_order::ReadSchedule;
use super::send_queue::SendQueue;
use super::{AliveGuard, Endpoint, ShardEntry, ShardId, TrySendError};
use crate::mesh::queue::{Consumer, Producer};
use crate::mesh::sync::Ordering;
use crate::ring::Waker;

/// A shard's endpoint of the mesh.
#[derive(Debug)]
pub struct Inbox<M> {
    alive: AliveGuard<M>,
    /// By target; `None` for the shard itself.
    outgoing: Vec<Option<Producer<M>>>,
    incoming: Vec<Consumer<M>>,
    /// Messages that found their channel full.
    send_queue: SendQueue<M>,
    /// Targets that received messages in this turn and have not been woken yet, without duplicates.
    unwoken: Vec<ShardId>,
    /// By target: whether it is in `unwoken`.
    is_unwoken: Vec<bool>,
    /// The order of sources; the queue for other threads is the last one.
    schedule: ReadSchedule,
    has_announced: bool,
    counts: InboxCounts,
}

/// Counters of an [`Inbox`] since start.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct InboxCounts {
    /// Messages sent to other shards.
    pub sent: u64,
    /// Attempts to send to another shard that found its channel full.
    pub channel_full: u64,
    /// Messages that had to wait in the send queue.
    pub queued: u64,
    /// Messages dropped because the target shard had ended.
    pub dropped: u64,
    /// Messages received from other shards and other threads.
    pub received: u64,
    /// Messages from other threads that were refused because this shard's inbox was full.
    pub inbox_full: u64,
    /// Wake-ups of other shards that had parked.
    pub wakes: u64,
}

impl<M: Send> Inbox<M> {
    pub(super) fn new(endpoint: Endpoint<M>) -> Self {
        let shards = endpoint.alive.entries.len();
        Self {
            schedule: ReadSchedule::new(
                endpoint.read_order,
                endpoint.incoming.len(),
                endpoint.alive.shard.0,
            ),
            send_queue: SendQueue::new(shards),
            alive: endpoint.alive,
            outgoing: endpoint.outgoing,
            incoming: endpoint.incoming,
            unwoken: Vec::with_capacity(shards),
            is_unwoken: vec![false; shards],
            has_announced: false,
            counts: InboxCounts::default(),
        }
    }

    /// Sends `message` to another shard. Refuses it if the channel is full, if earlier messages to
    /// the same shard are queued, or if the shard has ended. The target is woken by the next
    /// [`Inbox::wake_targets`]. Never blocks and never allocates.
    ///
    /// # Errors
    ///
    /// [`TrySendError`], with the message.
    ///
    /// # Panics
    ///
    /// If `target` is this shard or does not exist.
    #[inline]
    pub fn try_send(&mut self, target: ShardId, message: M) -> Result<(), TrySendError<M>> {
        if self.send_queue.has_messages_for(target) {
            self.counts.channel_full += 1;
            return Err(TrySendError::Full(message));
        }
        self.push(target, message)
    }

    /// Sends a message that must not be lost: if the channel is full, the message waits in the send
    /// queue, in order, and is sent at the end of a later turn. Callers must limit the number of
    /// their outstanding messages; [`Inbox::queued`] is the length of the queue.
    ///
    /// # Panics
    ///
    /// As for [`Inbox::try_send`].
    #[inline]
    pub fn send(&mut self, target: ShardId, message: M) {
        match self.try_send(target, message) {
            Ok(()) => {}
            Err(TrySendError::Full(message)) => {
                self.counts.queued += 1;
                self.send_queue.push(target, message);
            }
            Err(TrySendError::Closed(_)) => self.counts.dropped += 1,
        }
    }

    /// Returns the number of messages in the send queue. Until it is zero the shard does not park.
    pub const fn queued(&self) -> usize {
        self.send_queue.len()
    }

    /// Collects into `shards` those with at least `messages_max` messages in the send queue: they
    /// are slow to read, so optional messages to them should be dropped. Cost: one comparison if
    /// fewer messages are queued in total.
    pub fn collect_slow_shards(&self, messages_max: usize, shards: &mut Vec<ShardId>) {
        shards.clear();
        if self.queued() >= messages_max.max(1) {
            let is_slow = |shard: &ShardId| self.send_queue.len_for(*shard) >= messages_max;
            shards.extend(self.other_shards().filter(is_slow));
        }
    }

    #[inline]
    fn push(&mut self, target: ShardId, message: M) -> Result<(), TrySendError<M>> {
        let channel = self.outgoing[target.index()].as_mut();
        let channel = channel.unwrap_or_else(|| panic!("shard {target} sent a message to itself"));
        if self.alive.entries[target.index()].has_ended() {
            return Err(TrySendError::Closed(message));
        }
        if let Err(message) = channel.push(message) {
            self.counts.channel_full += 1;
            return Err(TrySendError::Full(message));
        }
        self.counts.sent += 1;
        if !std::mem::replace(&mut self.is_unwoken[target.index()], true) {
            self.unwoken.push(target);
        }
        Ok(())
    }

    /// Retries the messages of the send queue.
    fn flush_send_queue(&mut self) {
        if self.send_queue.is_empty() {
            return;
        }
        // Moved out because `push` borrows `self`; an empty queue allocates nothing.
        let mut queue = std::mem::replace(&mut self.send_queue, SendQueue::new(0));
        let undeliverable = queue.flush(|target, message| self.push(target, message));
        self.counts.dropped += undeliverable;
        self.send_queue = queue;
    }

    /// Retries the send queue, then passes to `wake` the waker of every shard that received
    /// messages since the last call and has parked, for [`crate::ring::Ring::wake`]. To be
    /// called at the end of a turn ([`crate::shard_loop::Driver::flush`]).
    pub fn wake_targets(&mut self, mut wake: impl FnMut(&Waker)) {
        self.flush_send_queue();
        for target in self.unwoken.drain(..) {
            self.is_unwoken[target.index()] = false;
            let entry = &self.alive.entries[target.index()];
            if entry.event_count.wake()
                && let Some(waker) = entry.waker.get()
            {
                self.counts.wakes += 1;
                wake(waker);
            }
        }
    }

    /// Appends messages to `messages`: at most `messages_max` of other threads, then at most
    /// `messages_max` of other shards. Returns whether more may be waiting.
    ///
    /// Messages of one sender stay in order. Those of other threads come first, so that a message
    /// of a shard that follows one to all shards is read after it.
    pub fn receive(&mut self, messages: &mut Vec<M>, messages_max: usize) -> bool {
        if std::mem::take(&mut self.has_announced) {
            self.own_entry().event_count.cancel_wait();
        }
        if !self.schedule.start_round() {
            return self.has_messages();
        }
        let before = messages.len();
        let inbox = &self.alive.own_entry().queue;
        messages.extend(std::iter::from_fn(|| inbox.pop()).take(messages_max));
        let of_threads = messages.len() - before;
        for step in 0..self.incoming.len() {
            let capacity = messages_max - (messages.len() - before - of_threads);
            let (channel, count_max) = self.schedule.channel_at(step, capacity);
            self.incoming[channel].pop_into(messages, count_max);
        }
        let received = messages.len() - before;
        self.counts.received += received as u64;
        received >= messages_max && self.has_messages()
    }

    /// Announces that the shard is about to park. Returns `false`, so that it must not park, if a
    /// message has arrived or is in the send queue. Pending wake-ups are made from this thread.
    pub fn prepare_park(&mut self) -> bool {
        self.wake_targets(Waker::wake);
        if self.queued() > 0 {
            // The shard whose channel is full may share this core.
            yield_now();
            return false;
        }
        self.own_entry().event_count.prepare_wait();
        let parks = !self.has_messages();
        if !parks {
            self.own_entry().event_count.cancel_wait();
        }
        self.has_announced = parks;
        parks
    }

    /// Returns the number of messages that wait to be received at this moment.
    pub fn waiting(&self) -> usize {
        self.incoming.iter().map(Consumer::len).sum::<usize>() + self.own_entry().queue.len()
    }

    /// Returns the shard that this inbox belongs to.
    pub const fn shard(&self) -> ShardId {
        self.alive.shard
    }

    /// Iterates over all other shards, in order.
    pub fn other_shards(&self) -> impl Iterator<Item = ShardId> + use<M> {
        let own = self.alive.shard;
        let shards = self.alive.entries.len();
        (0..u16::MAX).map(ShardId).take(shards).filter(move |shard| *shard != own)
    }

    /// Returns what was sent, received and refused since start.
    pub fn counts(&self) -> InboxCounts {
        let inbox_full = self.own_entry().refused_messages.load(Ordering::Relaxed);
        InboxCounts { inbox_full, ..self.counts }
    }

    /// Returns whether a message waits to be received.
    pub fn has_messages(&self) -> bool {
        !self.incoming.iter().all(Consumer::is_empty) || !self.own_entry().queue.is_empty()
    }

    fn own_entry(&self) -> &ShardEntry<M> {
        self.alive.own_entry()
    }
}

#[cfg(test)]
mod tests {
    use crossbeam::channel::{Receiver, unbounded};

    use super::*;
    use crate::mesh::{MeshOptions, Sender, build_mesh};

    fn options(channel_max: u32, inbox_max: u32) -> MeshOptions {
        MeshOptions {
            channel_messages_max: channel_max,
            inbox_messages_max: inbox_max,
            ..MeshOptions::default()
        }
    }

    /// Inboxes whose wakers send their shard's number to the returned channel.
    fn inboxes(
        shards: usize,
        options: &MeshOptions,
    ) -> (Vec<Inbox<u32>>, Sender<u32>, Receiver<u16>) {
        let (endpoints, sender) = build_mesh(shards, options);
        let (wake_tx, wake_rx) = unbounded();
        let open = |endpoint: Endpoint<u32>| {
            let (shard, wake_tx) = (endpoint.shard().0, wake_tx.clone());
            endpoint.open(Waker::new(move || wake_tx.send(shard).unwrap()))
        };
        (endpoints.into_iter().map(open).collect(), sender, wake_rx)
    }

    fn received(inbox: &mut Inbox<u32>) -> Vec<u32> {
        let mut messages = Vec::new();
        assert!(!inbox.receive(&mut messages, usize::MAX));
        messages
    }

    #[test]
    fn every_shard_reaches_every_other() {
        let (mut inboxes, _, _) = inboxes(4, &options(8, 8));
        for inbox in &mut inboxes {
            for target in inbox.other_shards() {
                let message = u32::from(inbox.shard().0) * 10 + u32::from(target.0);
                assert_eq!(inbox.try_send(target, message), Ok(()));
            }
        }
        for (shard, inbox) in (0..).zip(&mut inboxes) {
            let mut messages = received(inbox);
            messages.sort_unstable();
            let from = (0..4).filter(|&source| source != shard);
            assert_eq!(messages, from.map(|source| source * 10 + shard).collect::<Vec<_>>());
            assert_eq!((inbox.counts().sent, inbox.counts().received), (3, 3));
        }
    }

    #[test]
    fn full_channel_refuses_messages_others_continue() {
        let (mut inboxes, sender, _) = inboxes(3, &options(2, 1));
        assert_eq!(inboxes[0].try_send(ShardId(1), 1), Ok(()));
        assert_eq!(inboxes[0].try_send(ShardId(1), 2), Ok(()));
        assert_eq!(inboxes[0].try_send(ShardId(1), 3), Err(TrySendError::Full(3)));
        assert_eq!(inboxes[0].try_send(ShardId(2), 4), Ok(()));
        assert_eq!(inboxes[2].try_send(ShardId(1), 5), Ok(()));
        assert_eq!(sender.try_send(ShardId(1), 6), Ok(()));
        assert_eq!(sender.try_send(ShardId(1), 7), Err(TrySendError::Full(7)));
        assert_eq!(inboxes[1].waiting(), 4);
        assert_eq!(received(&mut inboxes[1]), [6, 1, 2, 5]);
        assert_eq!((inboxes[1].waiting(), inboxes[2].waiting()), (0, 1));
        assert_eq!(inboxes[0].counts().channel_full, 1);
        assert_eq!(inboxes[1].counts().inbox_full, 1);
    }

    #[test]
    fn queued_messages_stay_ordered_and_prevent_parking() {
        let (mut inboxes, _, _) = inboxes(2, &options(2, 1));
        for message in 0..5 {
            inboxes[0].send(ShardId(1), message);
        }
        assert_eq!(inboxes[0].queued(), 3);
        assert!(!inboxes[0].prepare_park());
        assert_eq!(received(&mut inboxes[1]), [0, 1]);
        // The channel has room, but earlier messages are queued.
        assert_eq!(inboxes[0].try_send(ShardId(1), 5), Err(TrySendError::Full(5)));
        inboxes[0].wake_targets(Waker::wake);
        assert_eq!((inboxes[0].queued(), received(&mut inboxes[1])), (1, vec![2, 3]));
        assert!(inboxes[0].prepare_park());
        assert_eq!(received(&mut inboxes[1]), [4]);
        let counts = inboxes[0].counts();
        assert_eq!((counts.sent, counts.queued, counts.dropped), (5, 3, 0));
    }

    #[test]
    fn messages_to_ended_shard_are_dropped() {
        let (mut inboxes, sender, _) = inboxes(2, &options(1, 1));
        for message in 0..3 {
            inboxes[0].send(ShardId(1), message);
        }
        assert_eq!(sender.try_send(ShardId(1), 3), Ok(()));
        assert_eq!(sender.send_while(ShardId(1), 4, || false), Err(4));
        drop(inboxes.pop());
        assert_eq!(sender.try_send(ShardId(1), 4), Err(TrySendError::Closed(4)));
        assert_eq!(sender.send_while(ShardId(1), 5, || true), Err(5));
        assert!(inboxes[0].prepare_park());
        inboxes[0].send(ShardId(1), 6);
        assert_eq!((inboxes[0].queued(), inboxes[0].counts().dropped), (0, 3));
    }

    #[test]
    fn bounded_receive_reports_more_and_is_fair() {
        let (mut inboxes, sender, _) = inboxes(2, &options(8, 8));
        for message in 0..4 {
            inboxes[0].try_send(ShardId(1), message).unwrap();
            sender.try_send(ShardId(1), 10 + message).unwrap();
        }
        let mut messages = Vec::new();
        assert!(inboxes[1].receive(&mut messages, 2));
        assert_eq!(messages, [10, 11, 0, 1]);
        assert!(!inboxes[1].receive(&mut messages, 4));
        assert_eq!(messages[4..], [12, 13, 2, 3]);
    }

    #[test]
    fn parked_shard_is_woken_exactly_once() {
        let (mut inboxes, sender, wake_rx) = inboxes(2, &options(8, 8));
        inboxes[0].try_send(ShardId(1), 1).unwrap();
        inboxes[0].wake_targets(Waker::wake);
        assert!(wake_rx.is_empty());
        assert!(!inboxes[1].prepare_park());
        assert_eq!(received(&mut inboxes[1]), [1]);
        assert!(inboxes[1].prepare_park());
        inboxes[0].try_send(ShardId(1), 2).unwrap();
        inboxes[0].try_send(ShardId(1), 3).unwrap();
        inboxes[0].wake_targets(Waker::wake);
        sender.try_send(ShardId(1), 4).unwrap();
        assert_eq!(wake_rx.try_iter().collect::<Vec<_>>(), [1]);
        assert_eq!(inboxes[0].counts().wakes, 1);
        assert_eq!(received(&mut inboxes[1]).len(), 3);
        sender.try_send(ShardId(1), 5).unwrap();
        assert!(wake_rx.is_empty());
    }

    #[test]
    fn pending_wakes_are_made_before_parking() {
        let (mut inboxes, _, wake_rx) = inboxes(2, &options(8, 8));
        assert!(inboxes[1].prepare_park());
        inboxes[0].try_send(ShardId(1), 1).unwrap();
        assert!(inboxes[0].prepare_park());
        assert_eq!(wake_rx.try_iter().collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn messages_sent_before_open_are_received() {
        let (endpoints, sender) = build_mesh(1, &MeshOptions::default());
        sender.try_send(ShardId(0), 7).unwrap();
        let mut inbox = endpoints.into_iter().next().unwrap().open(Waker::new(|| {}));
        assert!(!inbox.prepare_park());
        assert_eq!(received(&mut inbox), [7]);
    }
}
