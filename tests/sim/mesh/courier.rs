//! A mesh of simulated shards that write to each other: the seed decides its sizes, who writes how
//! much to whom and when, who naps meanwhile, and whose letters are read first.
//!
//! Only shards that are awake get a turn, so that a forgotten wake leaves its letters unread.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use corelane::base::random::Random;
use corelane::base::time::Moment;
use corelane::engine::mesh::{Mailbox, MeshOptions, Outbox, Post, ShardId, mesh};
use corelane::engine::ring::sim::{Faults, SimRing, World};
use corelane::engine::ring::{Completion, Patience, Ring, RingOptions};
use corelane::engine::shard::{Driver, Shard, Turn};

use crate::mesh::correspondence::{Correspondence, Parcel};
use crate::tally::Tally;

type Books = Rc<RefCell<Correspondence>>;

/// The driver of one shard: it writes floods of letters and reads what comes.
struct Courier {
    mailbox: Mailbox<Parcel>,
    books: Books,
    random: Random,
    neighbours: Vec<ShardId>,
    letters: Vec<Parcel>,
    floods_left: usize,
    /// When it writes next.
    next: Option<Moment>,
    /// It ends when it has written everything, whoever still writes to it.
    quits: bool,
    failure: Option<String>,
}

impl Courier {
    /// Writes many letters to one neighbour, or some to all of them.
    fn flood(&mut self, now: Moment) {
        let favourite = self.random.below(self.neighbours.len());
        let has_favourite = self.random.chance(1, 2);
        for _ in 0..=self.random.below(12) {
            let drawn = self.random.below(self.neighbours.len());
            let to = self.neighbours[if has_favourite { favourite } else { drawn }];
            let from = self.mailbox.shard().index();
            let parcel = self.books.borrow().write(from, to.index());
            if self.random.chance(1, 3) {
                // Refused, it was never written.
                if self.mailbox.try_send(to, parcel).is_err() {
                    continue;
                }
            } else {
                self.mailbox.send(to, parcel);
            }
            self.books.borrow_mut().sent(parcel);
        }
        self.floods_left -= 1;
        let pause = Duration::from_micros(self.random.below(400) as u64);
        self.next = (self.floods_left > 0).then(|| now.after(pause));
    }

    fn tally(&self) -> Tally {
        let counts = self.mailbox.counts();
        Tally {
            letters_refused: counts.refused_post,
            lanes_full: counts.refused,
            letters_postponed: counts.postponed,
            letters_undeliverable: counts.undeliverable,
            shards_woken: counts.woken,
            ..Tally::default()
        }
    }
}

impl Driver<SimRing> for Courier {
    fn arrive(&mut self, _: &mut SimRing, _: Completion, _: Moment) {}

    fn expire(&mut self, _: &mut SimRing, now: Moment) {
        if self.next.is_some_and(|next| next <= now) {
            self.flood(now);
        }
    }

    fn take_letters(&mut self, _: &mut SimRing, now: Moment) -> bool {
        let letters_max = 1 + self.random.below(8);
        let more = self.mailbox.receive(&mut self.letters, letters_max);
        for parcel in self.letters.drain(..) {
            let heard = self.books.borrow_mut().arrive(self.mailbox.shard().index(), parcel);
            self.failure = self.failure.take().or_else(|| heard.err());
        }
        if more && self.floods_left > 0 && self.random.chance(1, 4) {
            self.flood(now);
        }
        more
    }

    fn run_ready(&mut self, _: &mut SimRing, _: Moment) -> bool {
        false
    }

    fn flush(&mut self, ring: &mut SimRing, _: Moment) {
        self.mailbox.wake_targets(|waker| ring.wake(waker));
    }

    fn deadline(&self) -> Option<Moment> {
        self.next
    }

    fn prepare_park(&mut self) -> bool {
        self.mailbox.prepare_park()
    }

    fn is_finished(&self) -> bool {
        self.quits && self.floods_left == 0 && self.mailbox.waiting() == 0
    }
}

/// One run.
struct Run {
    world: World,
    random: Random,
    books: Books,
    shards: Vec<Option<Shard<SimRing, Courier>>>,
    /// Until when each of them gets no turn.
    naps: Vec<Moment>,
    nap_chance: usize,
    post: Post<Parcel>,
    /// Letters from outside that found a full inbox.
    outbox: Outbox<Parcel>,
    posts_left: usize,
    /// Moves time to the end of a nap.
    alarm: SimRing,
    tally: Tally,
}

/// Runs a seed to the end: every letter was read.
///
/// # Errors
///
/// What did not hold.
pub(crate) fn run(seed: u64) -> Result<Tally, String> {
    let mut run = Run::set(seed);
    let mut still_rounds = 0;
    for _ in 0..ROUNDS_MAX {
        run.turn_shards()?;
        run.write_from_outside();
        if run.is_over() {
            return Ok(run.close());
        }
        still_rounds = if run.let_time_pass() { 0 } else { still_rounds + 1 };
        if still_rounds > 2 {
            break;
        }
    }
    let missing = run.books.borrow().missing();
    Err(format!("letters stay unread at {:?}: {missing:?}", run.world.now()))
}

impl Run {
    fn set(seed: u64) -> Self {
        let mut random = Random::seeded(seed ^ 0x4D45_5348 << 24);
        let faults = Faults::drawn(&mut random);
        let world = World::with_faults(random.next_u64(), faults);
        let count = 2 + random.below(4);
        let books: Books = Rc::new(RefCell::new(Correspondence::new(count)));
        let options = MeshOptions::simulated(faults, &mut random);
        let (seats, post) = mesh(count, &options);
        let quitter = random.chance(1, 4).then(|| random.below(count));
        let shards = seats.into_iter().map(|seat| {
            let ring = world.ring(RingOptions { receive_buffers: 1, ..RingOptions::default() });
            let number = seat.shard().index();
            let mailbox = seat.open(ring.waker());
            let courier = Courier {
                neighbours: mailbox.neighbours().collect(),
                mailbox,
                books: Rc::clone(&books),
                random: Random::seeded(random.next_u64()),
                letters: Vec::new(),
                floods_left: 1 + random.below(20),
                next: Some(Moment::ORIGIN),
                quits: quitter == Some(number),
                failure: None,
            };
            Some(Shard::new(ring, courier))
        });
        let shards: Vec<_> = shards.collect();
        Self {
            books,
            naps: vec![Moment::ORIGIN; count],
            shards,
            nap_chance: random.below(4),
            post,
            outbox: Outbox::new(count),
            posts_left: random.below(60),
            alarm: world.ring(RingOptions { receive_buffers: 1, ..RingOptions::default() }),
            world,
            random,
            tally: Tally::default(),
        }
    }

    /// One turn of each shard that is awake, in an order of its own each time.
    fn turn_shards(&mut self) -> Result<(), String> {
        let now = self.world.now();
        let start = self.random.below(self.shards.len());
        for step in 0..self.shards.len() {
            let number = (start + step) % self.shards.len();
            let Some(shard) = &mut self.shards[number] else { continue };
            if now < self.naps[number] || shard.ring().is_asleep() {
                continue;
            }
            if self.random.chance(self.nap_chance, 16) {
                let nap = Duration::from_micros(self.random.below(3_000) as u64);
                self.naps[number] = now.after(nap);
                continue;
            }
            let turn = shard.turn(Patience::Forever);
            if let Some(failure) = shard.parts_mut().1.failure.take() {
                return Err(failure);
            }
            if turn == Turn::Finished {
                self.books.borrow_mut().end(number);
                self.tally = self.tally.plus(shard.driver().tally());
                self.shards[number] = None;
            }
        }
        Ok(())
    }

    /// Leaves letters as a thread that is no shard and may not wait.
    fn write_from_outside(&mut self) {
        self.outbox.send_with(|shard, parcel| self.post.try_send(shard, parcel));
        if self.posts_left == 0 || !self.random.chance(1, 2) {
            return;
        }
        for _ in 0..=self.random.below(6).min(self.posts_left - 1) {
            self.posts_left -= 1;
            let (outside, to) = (self.shards.len(), self.random.below(self.shards.len()));
            let parcel = self.books.borrow().write(outside, to);
            self.books.borrow_mut().sent(parcel);
            self.outbox.put(ShardId(u16::try_from(to).unwrap_or(0)), parcel);
        }
        self.outbox.send_with(|shard, parcel| self.post.try_send(shard, parcel));
    }

    /// Whether everything was written and read.
    fn is_over(&self) -> bool {
        let mut shards = self.shards.iter().flatten();
        let is_written = shards.all(|shard| shard.driver().floods_left == 0);
        is_written && self.posts_left == 0 && self.books.borrow().is_settled()
    }

    /// Moves time on where nobody has anything left to do now; `false` where nothing will ever
    /// happen.
    fn let_time_pass(&mut self) -> bool {
        let now = self.world.now();
        let nap = self.naps.iter().filter(|&&until| now < until).min().copied();
        let patience = nap.map_or(Patience::Forever, |until| Patience::For(until.since(now)));
        if self.alarm.park(patience) > now || self.posts_left > 0 {
            return true;
        }
        let is_calm = self.world.is_calm();
        if !is_calm && nap.is_none() {
            return true;
        }
        self.world.step()
    }

    fn close(self) -> Tally {
        let shards = self.shards.iter().flatten().map(|shard| shard.driver().tally());
        let tally = shards.fold(self.tally, Tally::plus);
        tally.plus(self.books.borrow().tally)
    }
}

/// Rounds of a run, at most.
const ROUNDS_MAX: usize = 100_000;
