//! The test's side of simulated connections: clients that call in, and hosts that are called.
//!
//! A client does what it is told at once, in virtual time; what follows from it happens as time
//! passes. It does not end by itself: a client that is dropped stays connected.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use super::fault::Fault;
use super::link::{Hearing, Owner, Place, Reading, Saying, Segment, Visitor, shift};
use super::network::{Door, Errand, Network};

/// One end of a connection in the hands of the test.
#[derive(Clone, Debug)]
pub struct Client {
    network: Rc<RefCell<Network>>,
    place: Place,
}

/// An address at which the test itself answers.
#[derive(Debug)]
pub struct Host {
    network: Rc<RefCell<Network>>,
    address: SocketAddr,
}

impl Client {
    pub(super) const fn new(network: Rc<RefCell<Network>>, place: Place) -> Self {
        Self { network, place }
    }

    /// Its own address: the peer that the ring sees.
    pub fn address(&self) -> SocketAddr {
        self.network.borrow_mut().end(self.place).address
    }

    /// Writes; what the other side's window does not hold waits here.
    pub fn write(&self, bytes: &[u8]) {
        let mut network = self.network.borrow_mut();
        if let Owner::Client(visitor) = &mut network.end(self.place).owner {
            visitor.unsent.extend(bytes);
        }
        network.write_as_client(self.place);
    }

    /// Says the end after everything that was written; reading goes on.
    pub fn finish(&self) {
        let mut network = self.network.borrow_mut();
        if let Owner::Client(visitor) = &mut network.end(self.place).owner {
            visitor.is_finishing = true;
        }
        network.write_as_client(self.place);
    }

    /// Goes away: what is unsent is lost, what still arrives is answered with a reset.
    pub fn close(&self) {
        self.network.borrow_mut().close_end(self.place);
    }

    /// Goes away with a reset, in front of nothing that is under way.
    pub fn reset(&self) {
        let mut network = self.network.borrow_mut();
        if !network.end(self.place).is_closed() {
            network.end(self.place).hearing = Hearing::Reset;
            network.close_end(self.place);
            network.transmit(self.place.opposite(), Segment::Reset);
        }
    }

    /// Reads nothing from here on.
    pub fn stop_reading(&self) {
        self.read_like(Reading::Stopped);
    }

    /// Reads everything at once from here on; so it does from the start, unless the world has
    /// slow readers.
    pub fn read_eagerly(&self) {
        self.read_like(Reading::Eager);
    }

    /// Reads at most so many bytes each time that so long has passed.
    pub fn read_slowly(&self, bytes: usize, every: Duration) {
        self.read_like(Reading::Slow { bytes, every });
    }

    /// Takes what it has read.
    pub fn heard(&self) -> Vec<u8> {
        match &mut self.network.borrow_mut().end(self.place).owner {
            Owner::Client(visitor) => std::mem::take(&mut visitor.heard),
            Owner::Nobody | Owner::Ring { .. } => Vec::new(),
        }
    }

    /// Bytes that were written and wait for the other side to read.
    pub fn unsent(&self) -> usize {
        match &self.network.borrow_mut().end(self.place).owner {
            Owner::Client(visitor) => visitor.unsent.len(),
            Owner::Nobody | Owner::Ring { .. } => 0,
        }
    }

    /// Whether the other side has said its end and everything before it was read.
    pub fn has_ended(&self) -> bool {
        let mut network = self.network.borrow_mut();
        let end = network.end(self.place);
        end.hearing == Hearing::Ended && end.arrived.is_empty()
    }

    /// Whether the connection was reset, or refused.
    pub fn is_reset(&self) -> bool {
        self.network.borrow_mut().end(self.place).is_reset()
    }

    fn read_like(&self, reading: Reading) {
        let mut network = self.network.borrow_mut();
        if let Owner::Client(visitor) = &mut network.end(self.place).owner {
            visitor.reading = reading;
        }
        network.read_as_client(self.place);
    }
}

impl Host {
    pub(super) fn open(network: Rc<RefCell<Network>>, address: SocketAddr) -> Self {
        network.borrow_mut().doors.entry(address).or_default().push(Door::Host);
        Self { network, address }
    }

    /// The next connection to this address that nobody has taken.
    pub fn accept(&self) -> Option<Client> {
        let place = self.network.borrow_mut().hosted.get_mut(&self.address)?.pop_front()?;
        Some(Client::new(Rc::clone(&self.network), place))
    }

    /// Answers no more.
    pub fn close(self) {
        if let Some(doors) = self.network.borrow_mut().doors.get_mut(&self.address) {
            doors.retain(|&door| door != Door::Host);
        }
    }
}

impl Network {
    /// A client reads what it reads at once, or notes when it will come to read.
    pub(super) fn read_as_client(&mut self, place: Place) {
        let now = self.now;
        let end = self.end(place);
        let Owner::Client(visitor) = &mut end.owner else { return };
        if end.arrived.is_empty() {
            return;
        }
        match visitor.reading {
            Reading::Eager => {
                shift(&mut end.arrived, usize::MAX, &mut visitor.heard);
                self.make_room(place);
            }
            Reading::Slow { every, .. } if !visitor.is_expected => {
                visitor.is_expected = true;
                self.give(now.after(every), Errand::Drain(place));
            }
            Reading::Slow { .. } | Reading::Stopped => {}
        }
    }

    /// A slow client reads its share.
    pub(super) fn drain_slowly(&mut self, place: Place) {
        let end = self.end(place);
        let Owner::Client(visitor) = &mut end.owner else { return };
        visitor.is_expected = false;
        if let Reading::Slow { bytes, .. } = visitor.reading {
            let count = bytes.min(end.arrived.len());
            shift(&mut end.arrived, count, &mut visitor.heard);
            self.has_news = true;
            self.make_room(place);
        }
        self.read_as_client(place);
    }

    /// A client's bytes go as far as the other end has room, and its end behind them.
    pub(super) fn write_as_client(&mut self, place: Place) {
        let to = place.opposite();
        loop {
            let room = self.end(to).room();
            let end = self.end(place);
            if !end.is_sending() {
                return;
            }
            let Owner::Client(Visitor { unsent, is_finishing, .. }) = &end.owner else { return };
            if unsent.is_empty() {
                if *is_finishing {
                    end.saying = Saying::Finished;
                    self.transmit(to, Segment::End);
                }
                return;
            }
            let length = unsent.len().min(room);
            let length = self.piece(Fault::ShortRead, length);
            if length == 0 {
                return;
            }
            if let Owner::Client(visitor) = &mut self.end(place).owner {
                let mut bytes = Vec::new();
                shift(&mut visitor.unsent, length, &mut bytes);
                self.transmit(to, Segment::Bytes(bytes));
            }
        }
    }
}
