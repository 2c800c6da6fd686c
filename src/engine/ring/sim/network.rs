//! Time, randomness, connections and pending events of a simulated world.
//!
//! Invariants: a run is a function of its seed and of the calls of the test and the drivers. Events
//! of the same time run in the order in which they were scheduled; nothing depends on memory
//! addresses, hashing or the real clock.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use super::connection::{Connection, ConnectionEnd, EndId, Owner, ReadSide, Segment, WriteSide};
use super::fault::{Fault, Faults};
use super::kernel::{Kernel, PendingCompletion};
use crate::base::random::Random;
use crate::base::time::Instant;
use crate::engine::ring::Socket;

/// The state of a world.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) now: Instant,
    pub(super) random: Random,
    pub(super) faults: Faults,
    pub(super) connections: Vec<Connection>,
    pub(super) kernels: Vec<Kernel>,
    /// Listeners by address: those of rings and of the test.
    pub(super) addresses: BTreeMap<SocketAddr, Vec<AddressOwner>>,
    /// Connections to the test's listeners that it has not accepted.
    pub(super) pending_accepts: BTreeMap<SocketAddr, VecDeque<EndId>>,
    /// Whether a client received something new.
    pub(super) client_has_data: bool,
    events: BinaryHeap<Reverse<(Instant, u64, SimEvent)>>,
    last_sequence: u64,
}

/// What listens at an address.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum AddressOwner {
    /// A listener of a ring.
    RingListener { ring: usize, listener_index: usize },
    /// A listener of the test.
    TestListener,
}

/// A scheduled event.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum SimEvent {
    /// A paused listener retries.
    RetryAccept { ring: usize, listener_index: usize },
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
    AcceptWaiting { ring: usize, listener_index: usize },
    /// Retry receiving and sending on a socket.
    ServeSocket { ring: usize, socket: Socket },
    /// A completion of this socket is due.
    CompletionDue { ring: usize, socket: Socket },
}

impl Network {
    /// Creates a world without rings.
    pub(super) const fn new(random: Random, faults: Faults) -> Self {
        Self {
            now: Instant::ORIGIN,
            random,
            faults,
            connections: Vec::new(),
            kernels: Vec::new(),
            addresses: BTreeMap::new(),
            pending_accepts: BTreeMap::new(),
            client_has_data: false,
            events: BinaryHeap::new(),
            last_sequence: 0,
        }
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

    /// Advances time, never backwards, and runs every event that is due.
    pub(super) fn advance(&mut self, to: Instant) {
        self.now = self.now.max(to);
        while self.next_event_at().is_some_and(|at| at <= self.now) {
            let Some(Reverse((_, _, event))) = self.events.pop() else { return };
            self.run_event(event);
        }
    }

    /// Returns whether a fault occurs now: randomly, if it is enabled.
    pub(super) fn occurs(&mut self, fault: Fault, numerator: usize, denominator: usize) -> bool {
        self.faults.has(fault) && self.random.chance(numerator, denominator)
    }

    /// Returns a random duration from 1 to `microseconds_max` µs.
    pub(super) fn random_duration(&mut self, microseconds_max: usize) -> Duration {
        Duration::from_micros(1 + self.random.below(microseconds_max) as u64)
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

    /// Queues a completion of a socket, possibly delayed.
    pub(super) fn complete(&mut self, ring: usize, socket: Socket, completion: PendingCompletion) {
        let mut at = self.now;
        if self.occurs(Fault::Delay, 1, 4) {
            at = at.after(self.random_duration(2_000));
        }
        let order = self.next_sequence();
        let due = self.kernels[ring].queue_completion(socket, at, order, completion);
        if due <= self.now {
            self.kernels[ring].mark_due(socket);
        } else {
            self.schedule(due, SimEvent::CompletionDue { ring, socket });
        }
    }

    /// Returns one end of a connection.
    pub(super) fn end(&mut self, end_id: EndId) -> &mut ConnectionEnd {
        &mut self.connections[end_id.connection].ends[end_id.end]
    }

    /// Sends a segment to an end. It arrives after a delay, behind earlier ones.
    pub(super) fn transmit(&mut self, to: EndId, segment: Segment) {
        if matches!(segment, Segment::Bytes(_)) && self.occurs(Fault::Reset, 1, 400) {
            self.schedule_within(200, SimEvent::BreakConnection { connection: to.connection });
        }
        let at =
            self.now.after(LATENCY_MIN).after(self.random_duration(LATENCY_SPREAD_MICROSECONDS));
        let end = self.end(to);
        let at = end.earliest_arrival(at);
        end.in_flight.push_back((at, segment));
        self.schedule(at, SimEvent::DeliverSegment(to));
    }

    fn run_event(&mut self, event: SimEvent) {
        match event {
            SimEvent::RetryAccept { ring, listener_index } => {
                self.retry_accept(ring, listener_index);
            }
            SimEvent::DeliverSegment(end_id) => self.deliver_segment(end_id),
            SimEvent::BreakConnection { connection } => {
                for end in 0..2 {
                    let end_id = EndId { connection, end };
                    if !self.end(end_id).is_closed() {
                        self.reset(end_id);
                    }
                }
            }
            SimEvent::CompleteConnect { ring, socket, is_refused } => {
                self.complete_connect(ring, socket, is_refused);
            }
            SimEvent::ReadSlowClient(end_id) => self.read_slow_client(end_id),
            SimEvent::RestoreBuffers { ring } => {
                self.kernels[ring].is_out_of_buffers = false;
                self.receive_starved(ring);
            }
            SimEvent::AcceptWaiting { ring, listener_index } => {
                self.accept_waiting(ring, listener_index);
            }
            SimEvent::ServeSocket { ring, socket } => self.serve_socket(ring, socket),
            SimEvent::CompletionDue { ring, socket } => self.kernels[ring].mark_due(socket),
        }
    }

    /// Delivers the first segment in flight to an end.
    fn deliver_segment(&mut self, end_id: EndId) {
        let Some((_, segment)) = self.end(end_id).in_flight.pop_front() else { return };
        let end = self.end(end_id);
        if end.is_closed() {
            // Bytes for a closed end are answered with a reset.
            if matches!(segment, Segment::Bytes(_)) && !self.end(end_id.opposite()).is_reset() {
                self.transmit(end_id.opposite(), Segment::Reset);
            }
            return;
        }
        match segment {
            Segment::Bytes(bytes) => end.received.extend(bytes),
            Segment::Fin => end.read_side = ReadSide::AtEnd,
            Segment::Reset => return self.reset(end_id),
        }
        self.notify_owner(end_id);
    }

    /// Resets an end: bytes that arrived before can still be read.
    fn reset(&mut self, end_id: EndId) {
        let end = self.end(end_id);
        end.read_side = ReadSide::Reset;
        end.in_flight.clear();
        self.notify_owner(end_id);
    }

    /// Notifies the owner of an end of a change.
    fn notify_owner(&mut self, end_id: EndId) {
        match self.end(end_id).owner {
            Owner::Ring { ring, socket } => self.serve_socket(ring, socket),
            Owner::Client(_) => {
                self.client_has_data = true;
                self.read_client_data(end_id);
            }
            Owner::None => {}
        }
    }

    /// Lets the sender to an end continue, now that its window has space.
    pub(super) fn notify_sender(&mut self, end_id: EndId) {
        match self.end(end_id.opposite()).owner {
            Owner::Ring { ring, socket } => self.continue_send(ring, socket),
            Owner::Client(_) => self.send_client_data(end_id.opposite()),
            Owner::None => {}
        }
    }

    /// Closes one end.
    pub(super) fn close_end(&mut self, end_id: EndId) {
        let end = self.end(end_id);
        if end.is_closed() {
            return;
        }
        let was_sending = end.can_send();
        let is_unread = !end.received.is_empty() && !end.is_reset();
        end.write_side = WriteSide::Closed;
        end.clear();
        if matches!(end.owner, Owner::Ring { .. }) {
            end.owner = Owner::None;
        }
        if is_unread {
            // As in TCP, unread data is answered with a reset.
            self.transmit(end_id.opposite(), Segment::Reset);
        } else if was_sending {
            self.transmit(end_id.opposite(), Segment::Fin);
        }
    }
}

/// The minimum latency of a segment.
const LATENCY_MIN: Duration = Duration::from_micros(20);
/// The greatest random addition to the latency.
const LATENCY_SPREAD_MICROSECONDS: usize = 60;
