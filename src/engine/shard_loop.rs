//! The shard loop: one thread, one ring.
//!
//! A turn receives messages, handles completions, expires timers, polls ready futures, flushes
//! output, and then submits and waits in a single system call. Each step is bounded. The loop owns
//! the order; the [`Driver`] implements the steps.
//!
//! Messages come before completions, so that a turn knows what other threads sent before its input
//! arrived: a request that a client sends after a catalog update has returned finds that version,
//! also on a shard that was busy in the meantime.

use crate::ring::{Completion, ParkTimeout, Ring};
use corelane_base::time::Instant;

/// Implements the steps of a turn.
///
/// Every method receives the ring for submissions and the time of the turn. None may block.
pub trait Driver<R: Ring> {
    /// Handles a bounded number of messages from other threads; returns whether more are waiting.
    fn receive_messages(&mut self, ring: &mut R, now: Instant) -> bool;

    /// Handles one completion, now or late.
    fn handle_completion(&mut self, ring: &mut R, completion: Completion, now: Instant);

    /// Handles a bounded number of the completions that are handled late; returns whether more are
    /// left.
    #[inline]
    fn handle_late_completions(&mut self, _: &mut R, _: Instant) -> bool {
        false
    }

    /// Handles the timers that have expired by `now`; called once a turn.
    fn expire_timers(&mut self, ring: &mut R, now: Instant);

    /// Polls a bounded number of ready futures; returns whether more are ready.
    fn poll_futures(&mut self, ring: &mut R, now: Instant) -> bool;

    /// Submits the output buffered in this turn, one send a connection.
    fn flush(&mut self, ring: &mut R, now: Instant);

    /// Returns when [`Driver::expire_timers`] must be called next, or `None` without timers.
    fn next_deadline(&self) -> Option<Instant>;

    /// Announces that the shard is about to park. Returns `false`, so that it must not park, if a
    /// message has arrived.
    fn prepare_park(&mut self) -> bool;

    /// Returns whether draining is complete and the shard can end.
    fn is_finished(&self) -> bool;
}

/// A ring and its driver, run in turns.
#[derive(Debug)]
pub struct ShardLoop<R, D> {
    ring: R,
    driver: D,
    completions: Vec<Completion>,
    now: Instant,
    /// The driver's next deadline at the end of the last turn.
    deadline: Option<Instant>,
    is_idle: bool,
}

/// Whether the shard must run another turn.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TurnStatus {
    /// Call [`ShardLoop::run_turn`] again.
    Continue,
    /// The driver has drained; the shard can be dropped.
    Finished,
}

impl<R: Ring, D: Driver<R>> ShardLoop<R, D> {
    /// Creates the loop and takes the first time from `ring`.
    pub fn new(mut ring: R, driver: D) -> Self {
        let now = ring.park(ParkTimeout::Zero);
        let mut completions = Vec::with_capacity(1024);
        ring.reap(&mut completions);
        let deadline = driver.next_deadline();
        Self { ring, driver, completions, now, deadline, is_idle: false }
    }

    /// Replaces the driver by the one that `change` makes of it. Nothing may have completed for the
    /// new one before.
    pub fn map_driver<N: Driver<R>>(self, change: impl FnOnce(D) -> N) -> ShardLoop<R, N> {
        let Self { ring, driver, completions, now, is_idle, .. } = self;
        let driver = change(driver);
        let deadline = driver.next_deadline();
        ShardLoop { ring, driver, completions, now, deadline, is_idle }
    }

    /// Runs one turn. If the driver has nothing to do, waits at the end, at most `timeout_max`.
    pub fn run_turn(&mut self, timeout_max: ParkTimeout) -> TurnStatus {
        let busy = self.run_steps();
        if self.driver.is_finished() {
            return TurnStatus::Finished;
        }
        let parks = !busy && self.driver.prepare_park();
        let timeout = if parks { self.park_timeout(timeout_max) } else { ParkTimeout::Zero };
        self.now = self.ring.park(timeout);
        self.ring.reap(&mut self.completions);
        self.is_idle = parks && self.completions.is_empty();
        TurnStatus::Continue
    }

    /// Runs the steps before waiting; returns whether work is left for the next turn. Timers that
    /// a turn sets expire in the next one at the earliest: deadlines are compared once a turn.
    fn run_steps(&mut self) -> bool {
        let has_messages = self.driver.receive_messages(&mut self.ring, self.now);
        for completion in self.completions.drain(..) {
            self.driver.handle_completion(&mut self.ring, completion, self.now);
        }
        let has_late = self.driver.handle_late_completions(&mut self.ring, self.now);
        if self.deadline.is_some_and(|deadline| deadline <= self.now) {
            self.driver.expire_timers(&mut self.ring, self.now);
        }
        let has_futures = self.driver.poll_futures(&mut self.ring, self.now);
        self.driver.flush(&mut self.ring, self.now);
        self.deadline = self.driver.next_deadline();
        has_late || has_messages || has_futures
    }

    /// Returns the time until the driver's next deadline, at most `timeout_max`.
    fn park_timeout(&self, timeout_max: ParkTimeout) -> ParkTimeout {
        match self.deadline {
            Some(deadline) => timeout_max.at_most(deadline.since(self.now)),
            None => timeout_max,
        }
    }

    /// Runs one turn over what the ring has completed by now, and does not wait at its end. Returns
    /// whether work is left for the next turn.
    ///
    /// For a ring whose peer is the caller: the turn handles what was just passed to the ring,
    /// where [`ShardLoop::run_turn`] would collect it for the turn after.
    #[inline]
    pub fn run_ready(&mut self) -> bool {
        self.now = self.ring.park(ParkTimeout::Zero);
        self.ring.reap(&mut self.completions);
        self.run_steps()
    }

    /// Returns whether the last turn was idle: the driver announced that it parks, and nothing had
    /// completed when the ring returned. A host that passes [`ParkTimeout::Zero`] may then wait
    /// elsewhere, until the ring signals a completion or [`ShardLoop::next_deadline`] passes.
    pub const fn is_idle(&self) -> bool {
        self.is_idle
    }

    /// Returns when an idle shard must run its next turn, or `None` if only a completion or a
    /// wake-up needs one.
    pub fn next_deadline(&self) -> Option<Instant> {
        Instant::earliest([self.driver.next_deadline(), self.ring.next_deadline()])
    }

    /// Returns the driver, for inspection between turns.
    pub const fn driver(&self) -> &D {
        &self.driver
    }

    /// Returns ring and driver, for changes between turns.
    pub const fn ring_and_driver_mut(&mut self) -> (&mut R, &mut D) {
        (&mut self.ring, &mut self.driver)
    }

    /// Returns the ring, for inspection between turns.
    pub const fn ring(&self) -> &R {
        &self.ring
    }

    /// Returns the ring, for changes between turns.
    pub const fn ring_mut(&mut self) -> &mut R {
        &mut self.ring
    }

    /// Returns the time of the current turn.
    pub const fn now(&self) -> Instant {
        self.now
    }
}
