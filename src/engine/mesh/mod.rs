//! The mesh: bounded letters between shards, and from other threads to a shard.
//!
//! Each pair of shards has a lane of its own in each direction (`queue`), each shard has one
//! inbox for everybody else (the signal thread, the blocking pool, helper threads). All of it is
//! made at start; sending and receiving allocate nothing.
//!
//! What it keeps true:
//!
//! - Letters of one sender to one shard arrive once and in order, or the sender has them back: a
//!   full lane refuses and counts, it never waits.
//! - A shard never blocks on another, and loses nothing to a full lane: what [`Mailbox::send`]
//!   finds no room for waits in the shard's outbox and is tried again at the end of every turn.
//!   Until it is gone the shard does not park, which takes no longer than a turn of its neighbour.
//! - Threads that are no shards choose: [`Post::try_send`] refuses, and who may wait tries again.
//! - Nobody waits for a shard that has ended: it refuses for good ([`Refusal::Ended`]). What had
//!   reached it unread is dropped with the mesh.
//! - A shard that parks with [`Mailbox::prepare_park`] is woken by the next letter, and a shard
//!   that is awake costs its senders no wake (`parking` tells why).
//! - A shard gathers its wakes over a turn: [`Mailbox::wake_targets`], called once at its end,
//!   fences and wakes once a target however many letters went there.
//!
//! Beside the letters, two things are shared by all shards: a count of places ([`Tally`]) and a
//! table of what was redeemed ([`Spent`]).
//!
//! What it does not do: give credit to services, or answer. Whoever asks by letter puts into it
//! what the answer needs, and bounds how many questions are out, and with them the outbox.
//!
//! Memory: shards × (shards − 1) × [`MeshOptions::lane_letters_max`] letters, and shards ×
//! [`MeshOptions::post_letters_max`].

mod sync;

pub(crate) mod parking;
mod queue;

mod outbox;
mod reading;

#[cfg(all(target_os = "linux", feature = "glommio"))]
pub(crate) mod bell;
mod mailbox;
mod spent;
mod tally;

use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use crossbeam::queue::ArrayQueue;

pub use self::mailbox::{Mailbox, MailboxCounts};
pub use self::outbox::Outbox;
use self::parking::Parking;
use self::queue::{Consumer, Producer};
pub use self::reading::Reading;
pub use self::spent::{Redeemed, Spent};
use self::sync::{Arc, AtomicU64, Ordering};
pub use self::tally::Tally;
use crate::base::random::Random;
use crate::engine::ring::Waker;
use crate::engine::ring::sim::{Fault, Faults};

/// Names one shard of a process: shards are counted from zero.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ShardId(pub u16);

impl ShardId {
    /// The name as an index: tables of shards are indexed by it.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl std::fmt::Display for ShardId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(formatter)
    }
}

/// The sizes of a mesh, fixed at start.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MeshOptions {
    /// Letters that may wait from one shard to one other, rounded up to a power of two; at least
    /// one. Cost: the size of a letter each, for every ordered pair of shards. Default 1,024.
    pub lane_letters_max: u32,
    /// Letters that may wait for one shard from all threads that are none; at least one. Cost: the
    /// size of a letter and 8 bytes each. Default 4,096.
    pub post_letters_max: u32,
    /// Whose letters a shard reads first. Default [`Reading::InTurn`].
    pub reading: Reading,
}

impl Default for MeshOptions {
    fn default() -> Self {
        Self { lane_letters_max: 1_024, post_letters_max: 4_096, reading: Reading::InTurn }
    }
}

impl MeshOptions {
    /// The mesh of a simulated world with these faults: a few letters where it is to be full, and
    /// letters in an order of chance where they are to be mixed.
    #[must_use]
    pub fn simulated(faults: Faults, random: &mut Random) -> Self {
        let mut options = Self::default();
        if faults.has(Fault::FullMesh) {
            options.lane_letters_max = [1, 2, 4][random.below(3)];
            options.post_letters_max = [1, 2, 3, 4][random.below(4)];
        }
        if faults.has(Fault::MixedLetters) {
            options.reading = Reading::Drawn(random.next_u64());
        }
        options
    }
}

/// Why a letter comes back, with the letter.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refusal<L> {
    /// There is no room at the moment: the same letter may go later.
    Full(L),
    /// The shard has ended and will never read again.
    Ended(L),
}

/// What everybody knows of one shard: how to leave it a letter and how to wake it.
#[derive(Debug)]
struct Door<L> {
    parking: Parking,
    /// Known once the shard has its ring; before that it needs no wake, because it looks for
    /// letters before it parks for the first time.
    waker: OnceLock<Waker>,
    inbox: ArrayQueue<L>,
    /// Letters that the full inbox refused.
    refused: AtomicU64,
    /// Nobody reads here any more.
    has_ended: AtomicBool,
}

impl<L> Door<L> {
    fn has_ended(&self) -> bool {
        // Relaxed: whoever sees it too late leaves a letter that is dropped with the mesh.
        self.has_ended.load(Ordering::Relaxed)
    }
}

/// A shard's hold on its place: once it is dropped the shard has ended, on whatever way.
#[derive(Debug)]
struct Tenure<L> {
    shard: ShardId,
    doors: Arc<[Door<L>]>,
}

impl<L> Tenure<L> {
    fn door(&self) -> &Door<L> {
        &self.doors[self.shard.index()]
    }
}

impl<L> Drop for Tenure<L> {
    fn drop(&mut self) {
        self.door().has_ended.store(true, Ordering::Relaxed);
    }
}

/// Makes the mesh of `shards` shards: a seat for each, in order, and the post for everybody else.
///
/// # Panics
///
/// When there are more shards than [`ShardId`] can name.
pub fn mesh<L: Send>(shards: usize, options: &MeshOptions) -> (Vec<Seat<L>>, Post<L>) {
    assert!(u16::try_from(shards).is_ok(), "shards are named by 16 bits");
    let doors: Arc<[Door<L>]> = (0..shards)
        .map(|_| Door {
            parking: Parking::new(),
            waker: OnceLock::new(),
            inbox: ArrayQueue::new(options.post_letters_max.max(1) as usize),
            refused: AtomicU64::new(0),
            has_ended: AtomicBool::new(false),
        })
        .collect();
    let mut seats: Vec<Seat<L>> = (0..u16::MAX)
        .take(shards)
        .map(|shard| Seat {
            tenure: Tenure { shard: ShardId(shard), doors: Arc::clone(&doors) },
            reading: options.reading,
            lanes_out: Vec::with_capacity(shards),
            lanes_in: Vec::with_capacity(shards),
        })
        .collect();
    for source in 0..shards {
        for target in 0..shards {
            let lane = (source != target).then(|| queue::lane(options.lane_letters_max as usize));
            let (producer, consumer) = lane.unzip();
            seats[source].lanes_out.push(producer);
            seats[target].lanes_in.extend(consumer);
        }
    }
    (seats, Post { doors })
}

/// A shard's place in the mesh before the shard has a ring: made on the thread that starts,
/// opened on the shard's own.
#[derive(Debug)]
pub struct Seat<L> {
    tenure: Tenure<L>,
    reading: Reading,
    lanes_out: Vec<Option<Producer<L>>>,
    lanes_in: Vec<Consumer<L>>,
}

impl<L: Send> Seat<L> {
    /// Which shard sits here.
    pub const fn shard(&self) -> ShardId {
        self.tenure.shard
    }

    /// Takes the seat: from now on the others can wake the ring behind `waker`.
    pub fn open(self, waker: Waker) -> Mailbox<L> {
        self.tenure.door().waker.get_or_init(|| waker);
        Mailbox::new(self)
    }
}

/// How threads that are no shards leave letters. Any number of clones, from any thread.
#[derive(Debug)]
pub struct Post<L> {
    doors: Arc<[Door<L>]>,
}

impl<L> Clone for Post<L> {
    fn clone(&self) -> Self {
        Self { doors: Arc::clone(&self.doors) }
    }
}

impl<L: Send> Post<L> {
    /// Leaves `letter` for a shard and wakes it where it has parked, or hands the letter back when
    /// its inbox is full or the shard has ended. Never waits. Cost: a compare-and-swap and a fence;
    /// a system call where it wakes.
    ///
    /// # Errors
    ///
    /// [`Refusal`], with the letter.
    ///
    /// # Panics
    ///
    /// When there is no such shard.
    pub fn try_send(&self, target: ShardId, letter: L) -> Result<(), Refusal<L>> {
        let door = &self.doors[target.index()];
        if door.has_ended() {
            return Err(Refusal::Ended(letter));
        }
        if let Err(letter) = door.inbox.push(letter) {
            door.refused.fetch_add(1, Ordering::Relaxed);
            return Err(Refusal::Full(letter));
        }
        if door.parking.rouse()
            && let Some(waker) = door.waker.get()
        {
            waker.wake();
        }
        Ok(())
    }

    /// The same from a thread that may wait, which a shard's never may: gives its time away while
    /// the inbox is full. A shard reads once a turn, so there is room again within microseconds.
    ///
    /// # Errors
    ///
    /// The letter, where the shard has ended, or where `waits` said no after a refusal.
    ///
    /// # Panics
    ///
    /// When there is no such shard.
    pub fn send_while(
        &self,
        target: ShardId,
        letter: L,
        mut waits: impl FnMut() -> bool,
    ) -> Result<(), L> {
        let mut unsent = letter;
        loop {
            match self.try_send(target, unsent) {
                Ok(()) => return Ok(()),
                Err(Refusal::Full(letter)) if waits() => unsent = letter,
                Err(Refusal::Full(letter) | Refusal::Ended(letter)) => return Err(letter),
            }
            std::thread::yield_now();
        }
    }

    /// Every shard of the mesh, in order.
    pub fn shards(&self) -> impl Iterator<Item = ShardId> + use<L> {
        (0..u16::MAX).map(ShardId).take(self.doors.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::mesh::queue::lane;

    #[test]
    fn a_full_lane_hands_the_letter_back_until_there_is_room() {
        let (mut producer, mut consumer) = lane(3);
        assert!((0..4).all(|letter| producer.push(letter).is_ok()));
        assert_eq!(producer.push(4), Err(4));
        let mut letters = Vec::new();
        assert_eq!(consumer.pop_into(&mut letters, 1), 1);
        assert_eq!(producer.push(4), Ok(()));
        assert_eq!(consumer.pop_into(&mut letters, 10), 4);
        assert_eq!(letters, [0, 1, 2, 3, 4]);
        assert!(consumer.is_empty());
    }

    #[test]
    fn letters_nobody_read_are_dropped_with_the_lane() {
        let witness = Arc::new(());
        let (mut producer, mut consumer) = lane(4);
        for _ in 0..3 {
            producer.push(Arc::clone(&witness)).unwrap();
        }
        let mut letters = Vec::new();
        consumer.pop_into(&mut letters, 1);
        drop((producer, consumer));
        assert_eq!(Arc::strong_count(&witness), 2);
    }

    #[test]
    fn letters_cross_threads_once_and_in_order() {
        const LETTERS: usize = 20_000;
        let (mut producer, mut consumer) = lane(64);
        let sender = std::thread::spawn(move || {
            for mut letter in (0..LETTERS).map(Box::new) {
                while let Err(refused) = producer.push(letter) {
                    letter = refused;
                    std::thread::yield_now();
                }
            }
        });
        let mut letters = Vec::new();
        while letters.len() < LETTERS {
            if consumer.pop_into(&mut letters, 50) == 0 {
                std::thread::yield_now();
            }
        }
        sender.join().unwrap();
        assert!(letters.iter().enumerate().all(|(place, letter)| place == **letter));
    }

    #[test]
    fn each_number_is_redeemed_once() {
        let spent = Spent::new(1000);
        let numbers: Vec<u64> = (0..1000).map(|_| spent.issue()).collect();
        assert!(numbers.iter().all(|&number| spent.redeem(number) == Redeemed::First));
        assert!(numbers.iter().all(|&number| spent.redeem(number) == Redeemed::Again));
    }

    #[test]
    fn a_number_whose_place_has_gone_to_a_later_one_is_refused() {
        let spent = Spent::new(64);
        let (old, unused, later) = (3, 4, 3 + 64);
        assert_eq!(spent.redeem(old), Redeemed::First);
        assert_eq!(spent.redeem(later), Redeemed::First);
        assert_eq!(spent.redeem(old), Redeemed::Forgotten);
        assert_eq!(spent.redeem(unused), Redeemed::Forgotten);
        assert_eq!(spent.redeem(later), Redeemed::Again);
        // Its neighbours in another word are not touched.
        assert_eq!(spent.redeem(40), Redeemed::First);
    }

    #[test]
    fn threads_that_redeem_the_same_numbers_share_them_out() {
        let spent = Arc::new(Spent::new(4096));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let spent = Arc::clone(&spent);
                std::thread::spawn(move || {
                    (0..4096).filter(|&number| spent.redeem(number) == Redeemed::First).count()
                })
            })
            .collect();
        let redeemed: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!(redeemed, 4096);
    }
}
