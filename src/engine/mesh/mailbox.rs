//! A shard's end of the mesh: what it sends, what it receives, and how it goes to sleep.
//!
//! What it keeps true: nothing waits here between turns that the next turn does not see, in either
//! direction; the lanes take turns in being read first, so that one busy neighbour cannot starve
//! the others; a letter never overtakes one of the same lane that waits in the outbox.

use std::thread::yield_now;

use super::outbox::Outbox;
use super::reading::Order;
use super::{Door, Refusal, Seat, ShardId, Tenure};
use crate::engine::mesh::queue::{Consumer, Producer};
use crate::engine::mesh::sync::Ordering;
use crate::engine::ring::Waker;

/// The mesh as one shard sees it.
#[derive(Debug)]
pub struct Mailbox<L> {
    tenure: Tenure<L>,
    /// By target; none to oneself.
    lanes_out: Vec<Option<Producer<L>>>,
    lanes_in: Vec<Consumer<L>>,
    /// Letters that found their lane full.
    outbox: Outbox<L>,
    /// Targets that have letters of this turn and have not been woken yet, each once.
    unrung: Vec<ShardId>,
    /// By target: whether it stands in `unrung`.
    is_unrung: Vec<bool>,
    /// Whom to read first; the inbox counts as the last of the sources.
    order: Order,
    announced: bool,
    counts: MailboxCounts,
}

/// What has passed through a mailbox since the start.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct MailboxCounts {
    /// Letters to other shards.
    pub sent: u64,
    /// Times that a letter to another shard found the lane full.
    pub refused: u64,
    /// Letters to other shards that had to wait in the outbox.
    pub postponed: u64,
    /// Letters that were dropped because the shard that they were for had ended.
    pub undeliverable: u64,
    /// Letters from other shards and from the post.
    pub received: u64,
    /// Letters from the post that found this shard's inbox full and were handed back.
    pub refused_post: u64,
    /// Other shards that had parked and were woken.
    pub woken: u64,
}

impl<L: Send> Mailbox<L> {
    pub(super) fn new(seat: Seat<L>) -> Self {
        let shards = seat.tenure.doors.len();
        Self {
            order: Order::new(seat.reading, seat.lanes_in.len() + 1, seat.tenure.shard.0),
            outbox: Outbox::new(shards),
            tenure: seat.tenure,
            lanes_out: seat.lanes_out,
            lanes_in: seat.lanes_in,
            unrung: Vec::with_capacity(shards),
            is_unrung: vec![false; shards],
            announced: false,
            counts: MailboxCounts::default(),
        }
    }

    /// Leaves `letter` for another shard, or hands it back when the lane is full, when earlier
    /// letters wait for it to have room, or when the shard has ended. The target is woken by the
    /// next [`Mailbox::wake_targets`], not before. Never waits and never allocates.
    ///
    /// # Errors
    ///
    /// [`Refusal`], with the letter.
    ///
    /// # Panics
    ///
    /// When there is no such shard, or it is this one: a shard does not write to itself.
    #[inline]
    pub fn try_send(&mut self, target: ShardId, letter: L) -> Result<(), Refusal<L>> {
        if self.outbox.holds_for(target) {
            self.counts.refused += 1;
            return Err(Refusal::Full(letter));
        }
        self.push(target, letter)
    }

    /// The same for a letter that must not be lost: where the lane is full it waits in the outbox,
    /// behind those that wait already, and goes with the end of a later turn. Whoever sends so
    /// bounds how many of its letters are out; [`Mailbox::waiting`] tells how many wait.
    ///
    /// # Panics
    ///
    /// As [`Mailbox::try_send`].
    #[inline]
    pub fn send(&mut self, target: ShardId, letter: L) {
        match self.try_send(target, letter) {
            Ok(()) => {}
            Err(Refusal::Full(letter)) => {
                self.counts.postponed += 1;
                self.outbox.put(target, letter);
            }
            Err(Refusal::Ended(_)) => self.counts.undeliverable += 1,
        }
    }

    /// Letters in the outbox: while there are some the shard neither parks nor ends.
    pub const fn waiting(&self) -> usize {
        self.outbox.len()
    }

    /// Puts into `shards` those to which at least `letters_max` letters wait in the outbox: they
    /// are slow, and whoever can do without writing to them had better not. Cost: a comparison
    /// where fewer wait in all.
    pub fn find_slow(&self, letters_max: usize, shards: &mut Vec<ShardId>) {
        shards.clear();
        if self.waiting() >= letters_max.max(1) {
            let is_slow = |shard: &ShardId| self.outbox.len_for(*shard) >= letters_max;
            shards.extend(self.neighbours().filter(is_slow));
        }
    }

    #[inline]
    fn push(&mut self, target: ShardId, letter: L) -> Result<(), Refusal<L>> {
        let lane = self.lanes_out[target.index()].as_mut();
        let lane = lane.unwrap_or_else(|| panic!("shard {target} wrote to itself"));
        if self.tenure.doors[target.index()].has_ended() {
            return Err(Refusal::Ended(letter));
        }
        if let Err(letter) = lane.push(letter) {
            self.counts.refused += 1;
            return Err(Refusal::Full(letter));
        }
        self.counts.sent += 1;
        if !std::mem::replace(&mut self.is_unrung[target.index()], true) {
            self.unrung.push(target);
        }
        Ok(())
    }

    /// Tries the letters of the outbox again.
    fn empty_outbox(&mut self) {
        if self.outbox.is_empty() {
            return;
        }
        // Taken out, because sending needs the rest; an empty one allocates nothing.
        let mut outbox = std::mem::replace(&mut self.outbox, Outbox::new(0));
        let undeliverable = outbox.send_with(|target, letter| self.push(target, letter));
        self.counts.undeliverable += undeliverable;
        self.outbox = outbox;
    }

    /// Tries the letters of the outbox again, then hands out the waker of every shard that got
    /// letters since the last time and has parked, to be passed to
    /// [`crate::engine::ring::Ring::wake`]. Belongs at the end of a turn
    /// ([`crate::engine::shard::Driver::flush`]).
    pub fn wake_targets(&mut self, mut wake: impl FnMut(&Waker)) {
        self.empty_outbox();
        for target in self.unrung.drain(..) {
            self.is_unrung[target.index()] = false;
            let door = &self.tenure.doors[target.index()];
            if door.parking.rouse()
                && let Some(waker) = door.waker.get()
            {
                self.counts.woken += 1;
                wake(waker);
            }
        }
    }

    /// Moves at most `letters_max` waiting letters to the end of `letters`; `true` where more
    /// wait. Order is kept for each sender.
    pub fn receive(&mut self, letters: &mut Vec<L>, letters_max: usize) -> bool {
        if std::mem::take(&mut self.announced) {
            self.door().parking.withdraw();
        }
        let before = letters.len();
        self.order.begin();
        for step in 0..=self.lanes_in.len() {
            let room = letters_max - (letters.len() - before);
            let (source, room) = self.order.step(step, room);
            if let Some(lane) = self.lanes_in.get_mut(source) {
                lane.pop_into(letters, room);
            } else {
                let inbox = &self.tenure.door().inbox;
                letters.extend(std::iter::from_fn(|| inbox.pop()).take(room));
            }
        }
        let received = letters.len() - before;
        self.counts.received += received as u64;
        received == letters_max && self.has_letters()
    }

    /// Announces that the shard is about to park; `false` where a letter came meanwhile or waits in
    /// the outbox, so that it must not. Wakes that were not handed out yet are made here, from this
    /// thread.
    pub fn prepare_park(&mut self) -> bool {
        self.wake_targets(Waker::wake);
        if self.waiting() > 0 {
            // Whoever has no room may share this core: it needs it to make some.
            yield_now();
            return false;
        }
        self.door().parking.announce();
        let parks = !self.has_letters();
        if !parks {
            self.door().parking.withdraw();
        }
        self.announced = parks;
        parks
    }

    /// Which shard this is.
    pub const fn shard(&self) -> ShardId {
        self.tenure.shard
    }

    /// Every other shard of the mesh, in order.
    pub fn neighbours(&self) -> impl Iterator<Item = ShardId> + use<L> {
        let own = self.tenure.shard;
        let shards = self.tenure.doors.len();
        (0..u16::MAX).map(ShardId).take(shards).filter(move |shard| *shard != own)
    }

    /// What has passed through so far.
    pub fn counts(&self) -> MailboxCounts {
        let refused_post = self.door().refused.load(Ordering::Relaxed);
        MailboxCounts { refused_post, ..self.counts }
    }

    fn has_letters(&self) -> bool {
        !self.lanes_in.iter().all(Consumer::is_empty) || !self.door().inbox.is_empty()
    }

    fn door(&self) -> &Door<L> {
        self.tenure.door()
    }
}

#[cfg(test)]
mod tests {
    use crossbeam::channel::{Receiver, unbounded};

    use super::*;
    use crate::engine::mesh::{MeshOptions, Post, mesh};

    fn options(lane_letters_max: u32, post_letters_max: u32) -> MeshOptions {
        MeshOptions { lane_letters_max, post_letters_max, ..MeshOptions::default() }
    }

    /// Mailboxes whose wakers put their shard's number into a channel.
    fn mailboxes(
        shards: usize,
        options: &MeshOptions,
    ) -> (Vec<Mailbox<u32>>, Post<u32>, Receiver<u16>) {
        let (seats, post) = mesh(shards, options);
        let (woken, wakes) = unbounded();
        let open = |seat: Seat<u32>| {
            let (shard, woken) = (seat.shard().0, woken.clone());
            seat.open(Waker::new(move || woken.send(shard).unwrap()))
        };
        (seats.into_iter().map(open).collect(), post, wakes)
    }

    fn received(mailbox: &mut Mailbox<u32>) -> Vec<u32> {
        let mut letters = Vec::new();
        assert!(!mailbox.receive(&mut letters, usize::MAX));
        letters
    }

    #[test]
    fn every_shard_reaches_every_other() {
        let (mut mailboxes, _, _) = mailboxes(4, &options(8, 8));
        for mailbox in &mut mailboxes {
            for target in mailbox.neighbours() {
                let letter = u32::from(mailbox.shard().0) * 10 + u32::from(target.0);
                assert_eq!(mailbox.try_send(target, letter), Ok(()));
            }
        }
        for (shard, mailbox) in (0..).zip(&mut mailboxes) {
            let mut letters = received(mailbox);
            letters.sort_unstable();
            let from = (0..4).filter(|&source| source != shard);
            assert_eq!(letters, from.map(|source| source * 10 + shard).collect::<Vec<_>>());
            assert_eq!((mailbox.counts().sent, mailbox.counts().received), (3, 3));
        }
    }

    #[test]
    fn a_full_lane_refuses_and_counts_and_the_others_go_on() {
        let (mut mailboxes, post, _) = mailboxes(3, &options(2, 1));
        assert_eq!(mailboxes[0].try_send(ShardId(1), 1), Ok(()));
        assert_eq!(mailboxes[0].try_send(ShardId(1), 2), Ok(()));
        assert_eq!(mailboxes[0].try_send(ShardId(1), 3), Err(Refusal::Full(3)));
        assert_eq!(mailboxes[0].try_send(ShardId(2), 4), Ok(()));
        assert_eq!(mailboxes[2].try_send(ShardId(1), 5), Ok(()));
        assert_eq!(post.try_send(ShardId(1), 6), Ok(()));
        assert_eq!(post.try_send(ShardId(1), 7), Err(Refusal::Full(7)));
        assert_eq!(received(&mut mailboxes[1]), [1, 2, 5, 6]);
        assert_eq!(mailboxes[0].counts().refused, 1);
        assert_eq!(mailboxes[1].counts().refused_post, 1);
    }

    #[test]
    fn letters_that_find_no_room_wait_in_order_and_keep_their_shard_awake() {
        let (mut mailboxes, _, _) = mailboxes(2, &options(2, 1));
        for letter in 0..5 {
            mailboxes[0].send(ShardId(1), letter);
        }
        assert_eq!(mailboxes[0].waiting(), 3);
        assert!(!mailboxes[0].prepare_park());
        assert_eq!(received(&mut mailboxes[1]), [0, 1]);
        // There is room, but not for one that would overtake.
        assert_eq!(mailboxes[0].try_send(ShardId(1), 5), Err(Refusal::Full(5)));
        mailboxes[0].wake_targets(Waker::wake);
        assert_eq!((mailboxes[0].waiting(), received(&mut mailboxes[1])), (1, vec![2, 3]));
        assert!(mailboxes[0].prepare_park());
        assert_eq!(received(&mut mailboxes[1]), [4]);
        let counts = mailboxes[0].counts();
        assert_eq!((counts.sent, counts.postponed, counts.undeliverable), (5, 3, 0));
    }

    #[test]
    fn a_shard_that_has_ended_is_waited_for_by_nobody() {
        let (mut mailboxes, post, _) = mailboxes(2, &options(1, 1));
        for letter in 0..3 {
            mailboxes[0].send(ShardId(1), letter);
        }
        assert_eq!(post.try_send(ShardId(1), 3), Ok(()));
        assert_eq!(post.send_while(ShardId(1), 4, || false), Err(4));
        drop(mailboxes.pop());
        assert_eq!(post.try_send(ShardId(1), 4), Err(Refusal::Ended(4)));
        assert_eq!(post.send_while(ShardId(1), 5, || true), Err(5));
        assert!(mailboxes[0].prepare_park());
        mailboxes[0].send(ShardId(1), 6);
        assert_eq!((mailboxes[0].waiting(), mailboxes[0].counts().undeliverable), (0, 3));
    }

    #[test]
    fn a_bounded_receive_tells_that_more_waits_and_starves_nobody() {
        let (mut mailboxes, post, _) = mailboxes(2, &options(8, 8));
        for letter in 0..4 {
            mailboxes[0].try_send(ShardId(1), letter).unwrap();
            post.try_send(ShardId(1), 10 + letter).unwrap();
        }
        let mut letters = Vec::new();
        assert!(mailboxes[1].receive(&mut letters, 2));
        assert!(mailboxes[1].receive(&mut letters, 2));
        assert_eq!(letters, [0, 1, 10, 11]);
        assert!(!mailboxes[1].receive(&mut letters, 4));
        assert_eq!(letters[4..], [2, 3, 12, 13]);
    }

    #[test]
    fn a_parked_shard_is_woken_once_and_an_awake_one_never() {
        let (mut mailboxes, post, wakes) = mailboxes(2, &options(8, 8));
        mailboxes[0].try_send(ShardId(1), 1).unwrap();
        mailboxes[0].wake_targets(Waker::wake);
        assert!(wakes.is_empty());
        assert!(!mailboxes[1].prepare_park());
        assert_eq!(received(&mut mailboxes[1]), [1]);
        assert!(mailboxes[1].prepare_park());
        mailboxes[0].try_send(ShardId(1), 2).unwrap();
        mailboxes[0].try_send(ShardId(1), 3).unwrap();
        mailboxes[0].wake_targets(Waker::wake);
        post.try_send(ShardId(1), 4).unwrap();
        assert_eq!(wakes.try_iter().collect::<Vec<_>>(), [1]);
        assert_eq!(mailboxes[0].counts().woken, 1);
        assert_eq!(received(&mut mailboxes[1]).len(), 3);
        post.try_send(ShardId(1), 5).unwrap();
        assert!(wakes.is_empty());
    }

    #[test]
    fn a_wake_that_was_forgotten_is_made_before_the_sender_parks() {
        let (mut mailboxes, _, wakes) = mailboxes(2, &options(8, 8));
        assert!(mailboxes[1].prepare_park());
        mailboxes[0].try_send(ShardId(1), 1).unwrap();
        assert!(mailboxes[0].prepare_park());
        assert_eq!(wakes.try_iter().collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn letters_that_came_before_a_seat_was_taken_are_found_there() {
        let (seats, post) = mesh(1, &MeshOptions::default());
        post.try_send(ShardId(0), 7).unwrap();
        let mut mailbox = seats.into_iter().next().unwrap().open(Waker::new(|| {}));
        assert!(!mailbox.prepare_park());
        assert_eq!(received(&mut mailbox), [7]);
    }
}
