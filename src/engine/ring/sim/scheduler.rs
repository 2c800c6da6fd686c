//! Time, randomness, pending events and faults of a simulated world.
//!
//! Invariants: a run is a function of its seed and of the calls of the test and the drivers. Events
//! of the same time run in the order in which they were scheduled; nothing depends on memory
//! addresses, hashing or the real clock.
//!
//! The seed of a world selects its faults: each enables its own subset (swarm testing, Groce and
//! others, 2012). With every fault enabled at once, common faults hide states that only a few of
//! them reach together.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::time::Duration;

use corelane_base::random::Random;
use corelane_base::time::Instant;

use super::connection::EndId;
use crate::ring::{Listener, Socket};

/// The clock, the random generator and the event queue of a world.
#[derive(Debug)]
pub(super) struct Scheduler {
    now: Instant,
    random: Random,
    faults: Faults,
    events: BinaryHeap<Reverse<(Instant, u64, SimEvent)>>,
    last_sequence: u64,
}

/// Identifies a listener of a ring.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct ListenerId {
    /// The index of the ring.
    pub(super) ring: usize,
    pub(super) listener: Listener,
}

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum SimEvent {
    /// A paused listener retries.
    RetryAccept(ListenerId),
    /// The first segment in flight to this end arrives.
    DeliverSegment(EndId),
    /// A connect attempt completes.
    CompleteConnect { ring: usize, socket: Socket, is_refused: bool },
    /// A slow client reads.
    ReadSlowClient(EndId),
    /// Buffers are available again.
    RestoreBuffers { ring: usize },
    /// The connection breaks.
    BreakConnection { connection: usize },
    /// Connections are waiting at a listener.
    AcceptWaiting(ListenerId),
    /// Retry receiving and sending on a socket.
    ServeSocket { ring: usize, socket: Socket },
    /// A completion of this socket is due.
    CompletionDue { ring: usize, socket: Socket },
}

impl Scheduler {
    /// Starts the clock, with no events.
    pub(super) const fn new(random: Random, faults: Faults) -> Self {
        Self { now: Instant::ORIGIN, random, faults, events: BinaryHeap::new(), last_sequence: 0 }
    }

    pub(super) const fn now(&self) -> Instant {
        self.now
    }

    pub(super) const fn faults(&self) -> Faults {
        self.faults
    }

    pub(super) const fn set_faults(&mut self, faults: Faults) {
        self.faults = faults;
    }

    /// Returns the next sequence number, which orders events of the same time.
    pub(super) const fn next_sequence(&mut self) -> u64 {
        self.last_sequence += 1;
        self.last_sequence
    }

    pub(super) fn schedule(&mut self, at: Instant, event: SimEvent) {
        let order = self.next_sequence();
        self.events.push(Reverse((at, order, event)));
    }

    /// Schedules an event after a random delay of at most `microseconds_max`.
    pub(super) fn schedule_within(&mut self, microseconds_max: usize, event: SimEvent) {
        let at = self.now.after(self.random_duration(microseconds_max));
        self.schedule(at, event);
    }

    /// Returns the time of the next event.
    pub(super) fn next_event_at(&self) -> Option<Instant> {
        self.events.peek().map(|Reverse((at, ..))| *at)
    }

    /// Advances time, never backwards.
    pub(super) fn advance(&mut self, to: Instant) {
        self.now = self.now.max(to);
    }

    /// Takes the next event that is due.
    pub(super) fn take_due_event(&mut self) -> Option<SimEvent> {
        if self.next_event_at()? > self.now {
            return None;
        }
        self.events.pop().map(|Reverse((_, _, event))| event)
    }

    /// Returns whether a fault occurs now: randomly, if it is enabled.
    pub(super) fn occurs(&mut self, fault: Fault, numerator: usize, denominator: usize) -> bool {
        self.faults.has(fault) && self.random.chance(numerator, denominator)
    }

    /// Returns `true` with probability `numerator / denominator`.
    pub(super) fn chance(&mut self, numerator: usize, denominator: usize) -> bool {
        self.random.chance(numerator, denominator)
    }

    /// Returns a random number below `bound`, or zero if `bound` is zero.
    pub(super) fn random_below(&mut self, bound: usize) -> usize {
        self.random.below(bound)
    }

    /// Returns a random duration from 1 to `microseconds_max` µs.
    pub(super) fn random_duration(&mut self, microseconds_max: usize) -> Duration {
        Duration::from_micros(1 + self.random.below(microseconds_max) as u64)
    }

    /// Returns the generator that reorders completions, with the fault.
    pub(super) fn shuffle(&mut self) -> Option<&mut Random> {
        self.faults.has(Fault::Reorder).then_some(&mut self.random)
    }

    /// Returns how many of `length` bytes are transferred at once: all, or fewer with the fault.
    pub(super) fn partial_len(&mut self, fault: Fault, length: usize) -> usize {
        if length <= 1 || !self.occurs(fault, 1, 2) {
            return length;
        }
        let bound = match self.random.below(3) {
            0 => 1,
            1 => 16,
            _ => 4096,
        };
        1 + self.random.below(bound.min(length))
    }
}

/// A kind of fault.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// Time jumps ahead past every timeout, as after a suspend of the machine. The test decides
    /// when: [`super::World::jump_clock`].
    ClockJump,
    /// Completions are up to two milliseconds late.
    Delay,
    /// No receive buffer is available for a while.
    NoBuffers,
    /// Connections cannot be accepted for a moment, or are lost.
    AcceptFailure,
    /// The channels between shards hold only a few messages.
    FullMesh,
    /// Messages of different senders are reordered, and some are delayed
    /// ([`crate::mesh::ReadOrder::Random`]).
    ReorderedMessages,
    /// A send is accepted in pieces, with delays between them.
    PartialSend,
    /// Completions of different sockets are reordered.
    Reorder,
    /// Connections are reset.
    Reset,
    /// Bytes arrive in pieces, often single ones.
    ShortRead,
    /// A send ends early and reports a partial result.
    ShortSend,
    /// Clients have a small window and read at intervals.
    SlowReader,
    /// Parks return for no reason.
    SpuriousWake,
}

impl Fault {
    /// All kinds.
    pub const ALL: [Self; 13] = [
        Self::ClockJump,
        Self::Delay,
        Self::NoBuffers,
        Self::AcceptFailure,
        Self::FullMesh,
        Self::ReorderedMessages,
        Self::PartialSend,
        Self::Reorder,
        Self::Reset,
        Self::ShortRead,
        Self::ShortSend,
        Self::SlowReader,
        Self::SpuriousWake,
    ];
}

/// A set of faults.
#[derive(Clone, Copy, Default, Eq, PartialEq)]
pub struct Faults(u16);

impl Faults {
    /// No faults.
    pub const NONE: Self = Self(0);

    /// Returns all faults.
    #[must_use]
    pub fn all() -> Self {
        Fault::ALL.into_iter().fold(Self::NONE, Self::with)
    }

    /// Returns a random set that contains each fault with probability one half.
    #[must_use]
    pub fn random(random: &mut Random) -> Self {
        let drawn = Fault::ALL.into_iter().filter(|_| random.chance(1, 2));
        drawn.fold(Self::NONE, Self::with)
    }

    /// Returns the set with `fault` added.
    #[must_use]
    pub const fn with(self, fault: Fault) -> Self {
        Self(self.0 | 1 << fault as u16)
    }

    /// Returns the set with `fault` removed.
    #[must_use]
    pub const fn without(self, fault: Fault) -> Self {
        Self(self.0 & !(1 << fault as u16))
    }

    /// Returns whether the set contains `fault`.
    pub const fn has(self, fault: Fault) -> bool {
        self.0 & 1 << fault as u16 != 0
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults = Fault::ALL.into_iter().filter(|&fault| self.has(fault));
        formatter.debug_set().entries(faults).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_selection_depends_on_the_seed() {
        let draw = |seed| Faults::random(&mut Random::seeded(seed));
        assert_eq!(draw(3), draw(3));
        assert!((0..20).any(|seed| draw(seed) != draw(seed + 1)));
    }

    #[test]
    fn faults_can_be_added_and_removed() {
        let faults = Faults::all().without(Fault::Reset);
        assert!(!faults.has(Fault::Reset) && faults.has(Fault::Delay));
        assert_eq!(faults.with(Fault::Reset), Faults::all());
        assert_eq!(format!("{:?}", Faults::NONE.with(Fault::Delay)), "{Delay}");
    }
}
