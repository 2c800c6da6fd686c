//! Time, chance and everything under way in a simulated world.
//!
//! What it keeps true: a run is a function of its seed and of what the test and the drivers do.
//! Errands of one moment are run in the order in which they were given; nothing depends on memory
//! addresses, hashing or the real clock.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use super::fault::{Fault, Faults};
use super::kernel::{Kernel, Told};
use super::link::{End, Hearing, Link, Owner, Place, Saying, Segment};
use crate::base::random::Random;
use crate::base::time::Moment;
use crate::engine::ring::Socket;

/// The state of a world.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) now: Moment,
    pub(super) random: Random,
    pub(super) faults: Faults,
    pub(super) links: Vec<Link>,
    pub(super) kernels: Vec<Kernel>,
    /// Who listens where: gates of rings, and hosts of the test.
    pub(super) doors: BTreeMap<SocketAddr, Vec<Door>>,
    /// Connections to hosts of the test that it has not looked at.
    pub(super) hosted: BTreeMap<SocketAddr, VecDeque<Place>>,
    /// A client has something new to look at.
    pub(super) has_news: bool,
    agenda: BinaryHeap<Reverse<(Moment, u64, Errand)>>,
    orders: u64,
}

/// Who answers at an address.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Door {
    /// A listener of a ring.
    Gate { ring: usize, gate: usize },
    /// The test itself.
    Host,
}

/// Something that happens at its moment.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Errand {
    /// A listener that rested tries again.
    Admit { ring: usize, gate: usize },
    /// The first of what is under way to this end arrives.
    Arrive(Place),
    /// The outcome of an attempt to connect.
    Dialled { ring: usize, socket: Socket, is_refused: bool },
    /// A slow client reads.
    Drain(Place),
    /// An episode without buffers ends.
    Feed { ring: usize },
    /// The connection breaks.
    Break { link: usize },
    /// Connections wait at a listener.
    Knock { ring: usize, gate: usize },
    /// A socket that waits is looked at again, in both directions.
    Look { ring: usize, socket: Socket },
    /// Something of this socket is due to be told.
    Tell { ring: usize, socket: Socket },
}

impl Network {
    /// A world without rings.
    pub(super) const fn new(random: Random, faults: Faults) -> Self {
        Self {
            now: Moment::ORIGIN,
            random,
            faults,
            links: Vec::new(),
            kernels: Vec::new(),
            doors: BTreeMap::new(),
            hosted: BTreeMap::new(),
            has_news: false,
            agenda: BinaryHeap::new(),
            orders: 0,
        }
    }

    /// The number of the next thing that happens: ties of one moment are decided by it.
    pub(super) const fn order(&mut self) -> u64 {
        self.orders += 1;
        self.orders
    }

    /// Puts something on the agenda.
    pub(super) fn give(&mut self, at: Moment, errand: Errand) {
        let order = self.order();
        self.agenda.push(Reverse((at, order, errand)));
    }

    /// The same, after a span that is drawn up to a bound.
    pub(super) fn give_within(&mut self, microseconds_max: usize, errand: Errand) {
        let at = self.now.after(self.span(microseconds_max));
        self.give(at, errand);
    }

    /// When the next errand is due.
    pub(super) fn next_moment(&self) -> Option<Moment> {
        self.agenda.peek().map(|Reverse((at, ..))| *at)
    }

    /// Moves time on, never back, and runs every errand that is due by then.
    pub(super) fn advance(&mut self, to: Moment) {
        self.now = self.now.max(to);
        while self.next_moment().is_some_and(|at| at <= self.now) {
            let Some(Reverse((_, _, errand))) = self.agenda.pop() else { return };
            self.run(errand);
        }
    }

    /// Whether this fault strikes now.
    pub(super) fn strikes(&mut self, fault: Fault, numerator: usize, denominator: usize) -> bool {
        self.faults.has(fault) && self.random.chance(numerator, denominator)
    }

    /// A span of at least one microsecond and at most so many.
    pub(super) fn span(&mut self, microseconds_max: usize) -> Duration {
        Duration::from_micros(1 + self.random.below(microseconds_max) as u64)
    }

    /// How much of `length` bytes goes at once: all of them, or with a fault often very few.
    pub(super) fn piece(&mut self, fault: Fault, length: usize) -> usize {
        if length <= 1 || !self.strikes(fault, 1, 2) {
            return length;
        }
        let bound = match self.random.below(3) {
            0 => 1,
            1 => 16,
            _ => 4096,
        };
        1 + self.random.below(bound.min(length))
    }

    /// Notes something to tell of a socket, at once or with a delay.
    pub(super) fn tell(&mut self, ring: usize, socket: Socket, told: Told) {
        let mut at = self.now;
        if self.strikes(Fault::Delay, 1, 4) {
            at = at.after(self.span(2_000));
        }
        let order = self.order();
        let due = self.kernels[ring].tell(socket, at, order, told);
        if due <= self.now {
            self.kernels[ring].mark_due(socket);
        } else {
            self.give(due, Errand::Tell { ring, socket });
        }
    }

    /// One end of a link, to look at or change.
    pub(super) fn end(&mut self, place: Place) -> &mut End {
        &mut self.links[place.link].ends[place.end]
    }

    /// Sends something to an end: it arrives after a while and behind what was sent before.
    pub(super) fn transmit(&mut self, to: Place, segment: Segment) {
        if matches!(segment, Segment::Bytes(_)) && self.strikes(Fault::Reset, 1, 400) {
            self.give_within(200, Errand::Break { link: to.link });
        }
        let at = self.now.after(LATENCY_MIN).after(self.span(LATENCY_SPREAD_MICROSECONDS));
        let end = self.end(to);
        let at = end.not_before(at);
        end.underway.push_back((at, segment));
        self.give(at, Errand::Arrive(to));
    }

    fn run(&mut self, errand: Errand) {
        match errand {
            Errand::Admit { ring, gate } => self.try_again_to_admit(ring, gate),
            Errand::Arrive(place) => self.arrive(place),
            Errand::Break { link } => {
                for end in 0..2 {
                    let place = Place { link, end };
                    if !self.end(place).is_closed() {
                        self.reset(place);
                    }
                }
            }
            Errand::Dialled { ring, socket, is_refused } => {
                self.conclude_dial(ring, socket, is_refused);
            }
            Errand::Drain(place) => self.drain_slowly(place),
            Errand::Feed { ring } => {
                self.kernels[ring].is_dry = false;
                self.feed_starved(ring);
            }
            Errand::Knock { ring, gate } => self.admit(ring, gate),
            Errand::Look { ring, socket } => self.look(ring, socket),
            Errand::Tell { ring, socket } => self.kernels[ring].mark_due(socket),
        }
    }

    /// The first of what is under way to an end has arrived.
    fn arrive(&mut self, place: Place) {
        let Some((_, segment)) = self.end(place).underway.pop_front() else { return };
        let end = self.end(place);
        if end.is_closed() {
            // Bytes for a side that is gone are answered with a reset.
            if matches!(segment, Segment::Bytes(_)) && !self.end(place.opposite()).is_reset() {
                self.transmit(place.opposite(), Segment::Reset);
            }
            return;
        }
        match segment {
            Segment::Bytes(bytes) => end.arrived.extend(bytes),
            Segment::End => end.hearing = Hearing::Ended,
            Segment::Reset => return self.reset(place),
        }
        self.notice(place);
    }

    /// The connection is broken, as this end sees it: what had arrived can still be read.
    fn reset(&mut self, place: Place) {
        let end = self.end(place);
        end.hearing = Hearing::Reset;
        end.underway.clear();
        self.notice(place);
    }

    /// Has the owner of an end look at it.
    fn notice(&mut self, place: Place) {
        match self.end(place).owner {
            Owner::Ring { ring, socket } => self.look(ring, socket),
            Owner::Client(_) => {
                self.has_news = true;
                self.read_as_client(place);
            }
            Owner::Nobody => {}
        }
    }

    /// Has the sender to an end go on, now that it has room.
    pub(super) fn make_room(&mut self, place: Place) {
        match self.end(place.opposite()).owner {
            Owner::Ring { ring, socket } => self.pump_out(ring, socket),
            Owner::Client(_) => self.write_as_client(place.opposite()),
            Owner::Nobody => {}
        }
    }

    /// One side goes away.
    pub(super) fn close_end(&mut self, place: Place) {
        let end = self.end(place);
        if end.is_closed() {
            return;
        }
        let was_sending = end.is_sending();
        let is_unread = !end.arrived.is_empty() && !end.is_reset();
        end.saying = Saying::Closed;
        end.forget();
        if matches!(end.owner, Owner::Ring { .. }) {
            end.owner = Owner::Nobody;
        }
        if is_unread {
            // As TCP does: the other side is told that what it sent was not read.
            self.transmit(place.opposite(), Segment::Reset);
        } else if was_sending {
            self.transmit(place.opposite(), Segment::End);
        }
    }
}

/// How long everything takes to arrive, at least.
const LATENCY_MIN: Duration = Duration::from_micros(20);
/// And how much longer it may take.
const LATENCY_SPREAD_MICROSECONDS: usize = 60;
