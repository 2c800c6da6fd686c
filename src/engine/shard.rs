//! One shard: a thread's loop over one ring.
//!
//! Seven verbs a turn, each bounded: carry arrivals down the road, expire timers, take letters, run
//! ready futures, flush corked departures, submit once and park until the next deadline, reap
//! completions. The shard owns the order; what each verb means is its [`Driver`]'s.

use crate::base::time::Moment;
use crate::engine::ring::{Completion, Patience, Ring};

/// What a shard carries: the business behind the bytes.
///
/// Every method gets the ring to submit to and the moment of the turn. None of them may block.
pub trait Driver<R: Ring> {
    /// Takes one completion: a connection, bytes, a sent buffer, an end.
    fn arrive(&mut self, ring: &mut R, completion: Completion, now: Moment);

    /// Ends what has waited too long.
    fn expire(&mut self, ring: &mut R, now: Moment);

    /// Takes the letters that other threads left, at most a bounded number; `true` where more wait.
    fn take_letters(&mut self, ring: &mut R, now: Moment) -> bool;

    /// Runs local futures that are ready, at most a bounded number; `true` where more are ready.
    fn run_ready(&mut self, ring: &mut R, now: Moment) -> bool;

    /// Submits what was corked in this turn, one send a connection.
    fn flush(&mut self, ring: &mut R, now: Moment);

    /// When [`Driver::expire`] next has something to do.
    fn deadline(&self) -> Option<Moment>;

    /// Announces that the shard is about to park; `false` where a letter came meanwhile, so that
    /// it must not.
    fn prepare_park(&mut self) -> bool;

    /// Whether everything has been drained and the shard can end.
    fn is_finished(&self) -> bool;
}

/// A ring and its driver.
#[derive(Debug)]
pub struct Shard<R, D> {
    ring: R,
    driver: D,
    completions: Vec<Completion>,
    now: Moment,
    is_idle: bool,
}

/// Whether the shard has more to do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Turn {
    /// Call [`Shard::turn`] again.
    More,
    /// The driver has drained; the shard can be dropped.
    Finished,
}

impl<R: Ring, D: Driver<R>> Shard<R, D> {
    /// A shard at its first moment.
    pub fn new(mut ring: R, driver: D) -> Self {
        let now = ring.park(Patience::None);
        let mut completions = Vec::with_capacity(1024);
        ring.reap(&mut completions);
        Self { ring, driver, completions, now, is_idle: false }
    }

    /// One turn. Parks at its end for as long as the driver has nothing to do, at most
    /// `patience_max`.
    pub fn turn(&mut self, patience_max: Patience) -> Turn {
        let busy = self.work();
        if self.driver.is_finished() {
            return Turn::Finished;
        }
        let parks = !busy && self.driver.prepare_park();
        let patience = if parks { self.patience(patience_max) } else { Patience::None };
        self.now = self.ring.park(patience);
        self.ring.reap(&mut self.completions);
        self.is_idle = parks && self.completions.is_empty();
        Turn::More
    }

    /// The verbs between two parks; `true` where work is left over for the next turn.
    fn work(&mut self) -> bool {
        for completion in self.completions.drain(..) {
            self.driver.arrive(&mut self.ring, completion, self.now);
        }
        if self.driver.deadline().is_some_and(|deadline| deadline <= self.now) {
            self.driver.expire(&mut self.ring, self.now);
        }
        let letters_left = self.driver.take_letters(&mut self.ring, self.now);
        let futures_left = self.driver.run_ready(&mut self.ring, self.now);
        self.driver.flush(&mut self.ring, self.now);
        letters_left || futures_left
    }

    /// How long to park: until the driver's next deadline, bounded by the host's patience.
    fn patience(&self, patience_max: Patience) -> Patience {
        match self.driver.deadline() {
            Some(deadline) => patience_max.at_most(deadline.since(self.now)),
            None => patience_max,
        }
    }

    /// Whether the last turn left nothing to do: the driver has announced that it parks, and
    /// nothing had completed when the ring came back. A host that lets the shard have no patience
    /// may then wait elsewhere, until the ring tells of a completion or the driver's deadline.
    pub const fn is_idle(&self) -> bool {
        self.is_idle
    }

    /// The driver, to look at from outside a turn.
    pub const fn driver(&self) -> &D {
        &self.driver
    }

    /// Both halves, to change from outside a turn.
    pub const fn parts_mut(&mut self) -> (&mut R, &mut D) {
        (&mut self.ring, &mut self.driver)
    }

    /// The ring, to look at from outside a turn.
    pub const fn ring(&self) -> &R {
        &self.ring
    }

    /// The ring, to change from outside a turn.
    pub const fn ring_mut(&mut self) -> &mut R {
        &mut self.ring
    }

    /// The moment of the present turn.
    pub const fn now(&self) -> Moment {
        self.now
    }
}
