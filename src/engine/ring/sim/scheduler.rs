//! Time, randomness and pending events of a simulated world.
//!
//! Invariants: a run is a function of its seed and of the calls of the test and the drivers. Events
//! of the same time run in the order in which they were scheduled; nothing depends on memory
//! addresses, hashing or the real clock.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::connection::EndId;
use super::fault::{Fault, Faults};
use crate::ring::{Listener, Socket};
use corelane_base::random::Random;
use corelane_base::time::Instant;

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

/// A scheduled event.
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

    /// Returns the current time.
    pub(super) const fn now(&self) -> Instant {
        self.now
    }

    /// Returns the enabled faults.
    pub(super) const fn faults(&self) -> Faults {
        self.faults
    }

    /// Replaces the enabled faults.
    pub(super) const fn set_faults(&mut self, faults: Faults) {
        self.faults = faults;
    }

    /// Returns the next sequence number, which orders events of the same time.
    pub(super) const fn next_sequence(&mut self) -> u64 {
        self.last_sequence += 1;
        self.last_sequence
    }

    /// Schedules an event.
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
