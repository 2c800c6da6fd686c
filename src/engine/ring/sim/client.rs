//! The test's side of simulated connections: clients and listeners.
//!
//! A client's operations take effect at once, in virtual time; their consequences follow as time
//! advances. A client that is dropped stays connected.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use super::connection::{
    EndId, Owner, ReadMode, ReadSide, Segment, SimPeer, WriteSide, move_bytes,
};
use super::fault::Fault;
use super::network::{AddressOwner, Network, SimEvent};

/// One end of a connection, controlled by the test.
#[derive(Clone, Debug)]
pub struct Client {
    network: Rc<RefCell<Network>>,
    end_id: EndId,
}

/// A listener of the test.
#[derive(Debug)]
pub struct TestListener {
    network: Rc<RefCell<Network>>,
    address: SocketAddr,
}

impl Client {
    pub(super) const fn new(network: Rc<RefCell<Network>>, end_id: EndId) -> Self {
        Self { network, end_id }
    }

    /// Returns the client's address, which the ring sees as the peer.
    pub fn address(&self) -> SocketAddr {
        self.network.borrow_mut().end(self.end_id).address
    }

    /// Writes bytes; those that exceed the peer's window wait here.
    pub fn write(&self, bytes: &[u8]) {
        let mut network = self.network.borrow_mut();
        if let Owner::Client(peer) = &mut network.end(self.end_id).owner {
            peer.unsent.extend(bytes);
        }
        network.send_client_data(self.end_id);
    }

    /// Shuts down writing after everything that was written; reading continues.
    pub fn shutdown_write(&self) {
        let mut network = self.network.borrow_mut();
        if let Owner::Client(peer) = &mut network.end(self.end_id).owner {
            peer.shutdown_pending = true;
        }
        network.send_client_data(self.end_id);
    }

    /// Closes the connection: unsent bytes are lost, later ones from the peer are answered with
    /// RST.
    pub fn close(&self) {
        self.network.borrow_mut().close_end(self.end_id);
    }

    /// Resets the connection, behind what is in flight.
    pub fn reset(&self) {
        let mut network = self.network.borrow_mut();
        if !network.end(self.end_id).is_closed() {
            network.end(self.end_id).read_side = ReadSide::Reset;
            network.close_end(self.end_id);
            network.transmit(self.end_id.opposite(), Segment::Reset);
        }
    }

    /// Stops reading.
    pub fn stop_reading(&self) {
        self.set_read_mode(ReadMode::Stopped);
    }

    /// Reads everything at once from now on, the default unless the world has the fault
    /// [`Fault::SlowReader`].
    pub fn read_eagerly(&self) {
        self.set_read_mode(ReadMode::Eager);
    }

    /// Reads at most `bytes` bytes in each interval `every`.
    pub fn read_slowly(&self, bytes: usize, every: Duration) {
        self.set_read_mode(ReadMode::Slow { bytes, every });
    }

    /// Takes the bytes that were read.
    pub fn take_received(&self) -> Vec<u8> {
        match &mut self.network.borrow_mut().end(self.end_id).owner {
            Owner::Client(peer) => std::mem::take(&mut peer.received),
            Owner::None | Owner::Ring { .. } => Vec::new(),
        }
    }

    /// Returns the number of written bytes that have not been sent.
    pub fn unsent_bytes(&self) -> usize {
        match &self.network.borrow_mut().end(self.end_id).owner {
            Owner::Client(peer) => peer.unsent.len(),
            Owner::None | Owner::Ring { .. } => 0,
        }
    }

    /// Returns whether the peer has shut down writing and everything was read.
    pub fn is_at_end(&self) -> bool {
        let mut network = self.network.borrow_mut();
        let end = network.end(self.end_id);
        end.read_side == ReadSide::AtEnd && end.received.is_empty()
    }

    /// Returns whether the connection was reset or refused.
    pub fn is_reset(&self) -> bool {
        self.network.borrow_mut().end(self.end_id).is_reset()
    }

    fn set_read_mode(&self, reading: ReadMode) {
        let mut network = self.network.borrow_mut();
        if let Owner::Client(peer) = &mut network.end(self.end_id).owner {
            peer.read_mode = reading;
        }
        network.read_client_data(self.end_id);
    }
}

impl TestListener {
    pub(super) fn open(network: Rc<RefCell<Network>>, address: SocketAddr) -> Self {
        network.borrow_mut().addresses.entry(address).or_default().push(AddressOwner::TestListener);
        Self { network, address }
    }

    /// Returns the next connection that has not been accepted.
    pub fn accept(&self) -> Option<Client> {
        let end_id =
            self.network.borrow_mut().pending_accepts.get_mut(&self.address)?.pop_front()?;
        Some(Client::new(Rc::clone(&self.network), end_id))
    }

    /// Stops listening.
    pub fn close(self) {
        if let Some(owners) = self.network.borrow_mut().addresses.get_mut(&self.address) {
            owners.retain(|&owner| owner != AddressOwner::TestListener);
        }
    }
}

impl Network {
    /// Reads a client's received bytes at once, or schedules a slow read.
    pub(super) fn read_client_data(&mut self, end_id: EndId) {
        let now = self.now;
        let end = self.end(end_id);
        let Owner::Client(peer) = &mut end.owner else { return };
        if end.received.is_empty() {
            return;
        }
        match peer.read_mode {
            ReadMode::Eager => {
                move_bytes(&mut end.received, usize::MAX, &mut peer.received);
                self.notify_sender(end_id);
            }
            ReadMode::Slow { every, .. } if !peer.is_read_scheduled => {
                peer.is_read_scheduled = true;
                self.schedule(now.after(every), SimEvent::ReadSlowClient(end_id));
            }
            ReadMode::Slow { .. } | ReadMode::Stopped => {}
        }
    }

    /// Reads a slow client's share.
    pub(super) fn read_slow_client(&mut self, end_id: EndId) {
        let end = self.end(end_id);
        let Owner::Client(peer) = &mut end.owner else { return };
        peer.is_read_scheduled = false;
        if let ReadMode::Slow { bytes, .. } = peer.read_mode {
            let count = bytes.min(end.received.len());
            move_bytes(&mut end.received, count, &mut peer.received);
            self.client_has_data = true;
            self.notify_sender(end_id);
        }
        self.read_client_data(end_id);
    }

    /// Sends a client's bytes as far as the peer's window allows, and then its shutdown.
    pub(super) fn send_client_data(&mut self, end_id: EndId) {
        let to = end_id.opposite();
        loop {
            let window = self.end(to).window_left();
            let end = self.end(end_id);
            if !end.can_send() {
                return;
            }
            let Owner::Client(SimPeer { unsent, shutdown_pending: is_finishing, .. }) = &end.owner
            else {
                return;
            };
            if unsent.is_empty() {
                if *is_finishing {
                    end.write_side = WriteSide::ShutDown;
                    self.transmit(to, Segment::Fin);
                }
                return;
            }
            let length = unsent.len().min(window);
            let length = self.partial_len(Fault::ShortRead, length);
            if length == 0 {
                return;
            }
            if let Owner::Client(peer) = &mut self.end(end_id).owner {
                let mut bytes = Vec::new();
                move_bytes(&mut peer.unsent, length, &mut bytes);
                self.transmit(to, Segment::Bytes(bytes));
            }
        }
    }
}
