//! How connections come about in a simulated world.
//!
//! What it keeps true: a connection belongs to exactly one side each; an attempt is answered once;
//! a connection that no listener takes is reset, never forgotten.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use rustix::io::Errno;

use super::fault::Fault;
use super::kernel::{Gate, Told};
use super::link::{Link, Owner, Place, Reading, Saying, Segment, Visitor};
use super::network::{Door, Errand, Network};
use crate::engine::ring::{Completion, Listener, Socket};

impl Network {
    /// A ring listens.
    pub(super) fn listen(&mut self, ring: usize, address: SocketAddr) -> io::Result<Listener> {
        let gates = &mut self.kernels[ring].gates;
        let gate = gates.len();
        let name = u16::try_from(gate).map_err(|_| io::Error::from(Errno::NFILE))?;
        gates.push(Gate {
            address,
            is_accepting: false,
            is_closed: false,
            is_resting: false,
            backlog: std::collections::VecDeque::new(),
        });
        self.doors.entry(address).or_default().push(Door::Gate { ring, gate });
        Ok(Listener(name))
    }

    /// A ring accepts from now on.
    pub(super) fn accept(&mut self, ring: usize, listener: Listener) {
        let gate = usize::from(listener.0);
        self.kernels[ring].gates[gate].is_accepting = true;
        self.admit(ring, gate);
    }

    /// A listener is gone, and with it the connections that wait at it.
    pub(super) fn close_listener(&mut self, ring: usize, listener: Listener) {
        let gate = usize::from(listener.0);
        let closed = &mut self.kernels[ring].gates[gate];
        closed.is_closed = true;
        closed.is_accepting = false;
        let (address, backlog) = (closed.address, std::mem::take(&mut closed.backlog));
        if let Some(doors) = self.doors.get_mut(&address) {
            doors.retain(|&door| door != Door::Gate { ring, gate });
        }
        for link in backlog {
            self.turn_away(link);
        }
    }

    /// A link whose near end is a client of the test. Where nobody listens it is refused.
    pub(super) fn connect_client(&mut self, address: SocketAddr) -> Place {
        let link = self.add_link(address, Owner::Client(Visitor::new()));
        let place = Place { link, end: 0 };
        if self.faults.has(Fault::SlowReader) && self.random.chance(1, 2) {
            self.slow_down(place);
        }
        if !self.knock(link, address) {
            self.transmit(place, Segment::Reset);
        }
        place
    }

    /// A link between a client of the test and a socket of a ring that is open at once.
    pub(super) fn attach(&mut self, ring: usize) -> io::Result<(Socket, Place)> {
        let link = self.add_link(UNNAMED, Owner::Client(Visitor::new()));
        let place = Place { link, end: 1 };
        let Some(socket) = self.kernels[ring].open(place) else {
            return Err(Errno::NFILE.into());
        };
        self.kernels[ring].ledger.sockets_open += 1;
        self.end(place).owner = Owner::Ring { ring, socket };
        Ok((socket, place.opposite()))
    }

    /// A ring opens a connection, from an address of its own choice where it names one: every
    /// machine of this world has all addresses.
    pub(super) fn dial(
        &mut self,
        ring: usize,
        (address, from): (SocketAddr, Option<SocketAddr>),
        token: u64,
    ) {
        self.kernels[ring].ledger.connects_in_flight += 1;
        let link = self.add_link(address, Owner::Nobody);
        let place = Place { link, end: 0 };
        if let Some(from) = from {
            let near = &mut self.end(place).address;
            let port = if from.port() == 0 { near.port() } else { from.port() };
            *near = SocketAddr::new(from.ip(), port);
        }
        let Some(socket) = self.kernels[ring].open(place) else {
            let result = Err(Errno::NFILE.into());
            return self.tell_loose(ring, Completion::Connected { token, result });
        };
        self.end(place).owner = Owner::Ring { ring, socket };
        if let Some(seat) = self.kernels[ring].find(socket) {
            seat.connecting = Some(token);
        }
        let is_lost = self.strikes(Fault::FailedAccept, 1, 8);
        let is_refused = is_lost || !self.knock(link, address);
        self.give_within(200, Errand::Dialled { ring, socket, is_refused });
    }

    /// The outcome of an attempt of a ring's.
    pub(super) fn conclude_dial(&mut self, ring: usize, socket: Socket, is_refused: bool) {
        let Some(seat) = self.kernels[ring].find(socket) else { return };
        let Some(token) = seat.connecting.take() else { return };
        let place = seat.place;
        if is_refused || self.end(place).is_reset() {
            self.close_end(place);
            self.kernels[ring].forget(socket);
            let result = Err(Errno::CONNREFUSED.into());
            return self.tell_loose(ring, Completion::Connected { token, result });
        }
        let connected = Completion::Connected { token, result: Ok(socket) };
        self.tell(ring, socket, Told::Other(connected));
    }

    /// Accepts what waits at a listener, a few at a time.
    pub(super) fn admit(&mut self, ring: usize, gate: usize) {
        let batch = self.kernels[ring].options.accepts_in_flight.max(1);
        for _ in 0..batch {
            let waiting = &self.kernels[ring].gates[gate];
            if !waiting.is_accepting || waiting.is_resting || waiting.backlog.is_empty() {
                return;
            }
            if self.kernels[ring].is_full() {
                return self.fail_accept(ring, gate, Errno::NFILE);
            }
            if self.strikes(Fault::FailedAccept, 1, 10) {
                if self.random.chance(1, 2) {
                    // Lost on the way: the connection, and nothing else.
                    if let Some(lost) = self.kernels[ring].gates[gate].backlog.pop_front() {
                        self.turn_away(lost);
                    }
                }
                self.give_within(3_000, Errand::Admit { ring, gate });
                return self.fail_accept(ring, gate, Errno::MFILE);
            }
            let Some(link) = self.kernels[ring].gates[gate].backlog.pop_front() else { return };
            self.seat_accepted(ring, gate, link);
        }
        self.give_within(10, Errand::Knock { ring, gate });
    }

    /// A listener that rested tries again.
    pub(super) fn try_again_to_admit(&mut self, ring: usize, gate: usize) {
        self.kernels[ring].gates[gate].is_resting = false;
        self.admit(ring, gate);
    }

    /// Names were freed: listeners that had none to give go on.
    pub(super) fn rouse_gates(&mut self, ring: usize) {
        for gate in 0..self.kernels[ring].gates.len() {
            if self.kernels[ring].gates[gate].is_resting {
                self.try_again_to_admit(ring, gate);
            }
        }
    }

    /// Everything of a ring that is dropped goes away.
    pub(super) fn close_ring(&mut self, ring: usize) {
        for gate in 0..self.kernels[ring].gates.len() {
            if let Ok(name) = u16::try_from(gate)
                && !self.kernels[ring].gates[gate].is_closed
            {
                self.close_listener(ring, Listener(name));
            }
        }
        for socket in self.kernels[ring].open_sockets() {
            if let Some(place) = self.kernels[ring].find(socket).map(|seat| seat.place) {
                self.close_end(place);
            }
        }
        self.kernels[ring].sleeps_until = None;
        self.kernels[ring].is_busy = false;
        self.kernels[ring].is_dropped = true;
    }

    /// Gives a client a small window and a slow pace.
    fn slow_down(&mut self, place: Place) {
        let window = 64 << self.random.below(8);
        let bytes = window / 8 + self.random.below(window);
        let every = self.span(3_000);
        let end = self.end(place);
        end.window = window;
        if let Owner::Client(visitor) = &mut end.owner {
            visitor.reading = Reading::Slow { bytes, every };
        }
    }

    /// Stands at one of the doors of an address; `false` where there is none.
    fn knock(&mut self, link: usize, address: SocketAddr) -> bool {
        let count = self.doors.get(&address).map_or(0, Vec::len);
        if count == 0 {
            return false;
        }
        let chosen = self.random.below(count);
        match self.doors[&address][chosen] {
            Door::Gate { ring, gate } => {
                self.kernels[ring].gates[gate].backlog.push_back(link);
                self.give_within(100, Errand::Knock { ring, gate });
            }
            Door::Host => {
                self.links[link].ends[1].owner = Owner::Client(Visitor::new());
                self.hosted.entry(address).or_default().push_back(Place { link, end: 1 });
                self.has_news = true;
            }
        }
        true
    }

    fn seat_accepted(&mut self, ring: usize, gate: usize, link: usize) {
        let place = Place { link, end: 1 };
        let Some(socket) = self.kernels[ring].open(place) else { return };
        self.end(place).owner = Owner::Ring { ring, socket };
        self.kernels[ring].ledger.accepted += 1;
        let peer = Some(self.end(place.opposite()).address);
        #[expect(clippy::cast_possible_truncation, reason = "`listen` names no more")]
        let listener = Listener(gate as u16);
        let accepted = Completion::Accepted { listener, socket, peer };
        self.tell(ring, socket, Told::Other(accepted));
    }

    fn fail_accept(&mut self, ring: usize, gate: usize, error: Errno) {
        self.kernels[ring].gates[gate].is_resting = true;
        self.kernels[ring].ledger.accepts_failed += 1;
        #[expect(clippy::cast_possible_truncation, reason = "`listen` names no more")]
        let listener = Listener(gate as u16);
        self.tell_loose(ring, Completion::AcceptFailed { listener, error: error.into() });
    }

    /// A connection that nobody takes is reset.
    fn turn_away(&mut self, link: usize) {
        let place = Place { link, end: 1 };
        self.end(place).saying = Saying::Closed;
        self.transmit(place.opposite(), Segment::Reset);
    }

    fn tell_loose(&mut self, ring: usize, completion: Completion) {
        let order = self.order();
        let now = self.now;
        self.kernels[ring].tell_loose(now, order, completion);
    }

    /// A link to an address, whose near end has an address of its own.
    fn add_link(&mut self, address: SocketAddr, owner: Owner) -> usize {
        let link = self.links.len();
        #[expect(clippy::cast_possible_truncation, reason = "the low bits are meant")]
        let near = Ipv4Addr::from(0x0A00_0000 | ((link as u32 >> 14) & 0x00FF_FFFF));
        #[expect(clippy::cast_possible_truncation, reason = "the low bits are meant")]
        let port = 0xC000 | (link & 0x3FFF) as u16;
        let near = SocketAddr::new(IpAddr::V4(near), port);
        self.links.push(Link::new([near, address], owner, WINDOW_BYTES));
        link
    }
}

/// What one end holds at most: what a socket of Linux does before it grows.
const WINDOW_BYTES: usize = 64 * 1024;
/// The far address of what has none: a pipe.
const UNNAMED: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
