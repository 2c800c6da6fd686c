//! The test's side of simulated connections: clients and listeners.
//!
//! A client's operations take effect at once, in virtual time; their consequences follow as time
//! advances. A client that is dropped stays connected.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use super::connection::{EndId, Owner, ReadMode, ReadSide, SimPeer};
use super::world_state::WorldState;

/// One end of a connection, controlled by the test.
#[derive(Clone, Debug)]
pub struct Client {
    state: Rc<RefCell<WorldState>>,
    end_id: EndId,
}

/// A listener of the test.
#[derive(Debug)]
pub struct TestListener {
    state: Rc<RefCell<WorldState>>,
    address: SocketAddr,
}

impl Client {
    pub(super) const fn new(state: Rc<RefCell<WorldState>>, end_id: EndId) -> Self {
        Self { state, end_id }
    }

    /// Returns the client's address, which the ring sees as the peer.
    pub fn address(&self) -> SocketAddr {
        self.state.borrow_mut().network.end(self.end_id).address
    }

    /// Writes bytes; those that exceed the peer's window wait here.
    pub fn write(&self, bytes: &[u8]) {
        self.send(|peer| peer.unsent.extend(bytes));
    }

    /// Shuts down writing after everything that was written; reading continues.
    pub fn shutdown_write(&self) {
        self.send(|peer| peer.shutdown_pending = true);
    }

    /// Closes the connection: unsent bytes are lost, later ones from the peer are answered with
    /// RST.
    pub fn close(&self) {
        let state = &mut *self.state.borrow_mut();
        state.network.close_end(&mut state.scheduler, self.end_id);
    }

    /// Resets the connection, behind what is in flight.
    pub fn reset(&self) {
        let state = &mut *self.state.borrow_mut();
        state.network.reset_end(&mut state.scheduler, self.end_id);
    }

    /// Stops reading.
    pub fn stop_reading(&self) {
        self.set_read_mode(ReadMode::Stopped);
    }

    /// Reads everything at once from now on, the default unless the world has the fault
    /// [`super::Fault::SlowReader`].
    pub fn read_eagerly(&self) {
        self.set_read_mode(ReadMode::Eager);
    }

    /// Reads at most `bytes` bytes in each interval `every`.
    pub fn read_slowly(&self, bytes: usize, every: Duration) {
        self.set_read_mode(ReadMode::Slow { bytes, every });
    }

    /// Takes the bytes that were read.
    pub fn take_received(&self) -> Vec<u8> {
        match &mut self.state.borrow_mut().network.end(self.end_id).owner {
            Owner::Client(peer) => std::mem::take(&mut peer.received),
            Owner::None | Owner::Ring { .. } => Vec::new(),
        }
    }

    /// Returns the number of written bytes that have not been sent.
    pub fn unsent_bytes(&self) -> usize {
        match &self.state.borrow_mut().network.end(self.end_id).owner {
            Owner::Client(peer) => peer.unsent.len(),
            Owner::None | Owner::Ring { .. } => 0,
        }
    }

    /// Returns whether the peer has shut down writing and everything was read.
    pub fn is_at_end(&self) -> bool {
        let mut state = self.state.borrow_mut();
        let end = state.network.end(self.end_id);
        end.read_side == ReadSide::AtEnd && end.received.is_empty()
    }

    /// Returns whether the connection was reset or refused.
    pub fn is_reset(&self) -> bool {
        self.state.borrow_mut().network.end(self.end_id).is_reset()
    }

    fn set_read_mode(&self, reading: ReadMode) {
        let mut state = self.state.borrow_mut();
        if let Owner::Client(peer) = &mut state.network.end(self.end_id).owner {
            peer.read_mode = reading;
        }
        state.read_client_data(self.end_id);
    }

    /// Changes what is to be sent, and sends what the peer's window allows.
    fn send(&self, change: impl FnOnce(&mut SimPeer)) {
        let WorldState { scheduler, network, .. } = &mut *self.state.borrow_mut();
        if let Owner::Client(peer) = &mut network.end(self.end_id).owner {
            change(peer);
        }
        network.send_client_data(scheduler, self.end_id);
    }
}

impl TestListener {
    pub(super) fn open(state: Rc<RefCell<WorldState>>, address: SocketAddr) -> Self {
        state.borrow_mut().listeners.listen_for_test(address);
        Self { state, address }
    }

    /// Returns the next connection that has not been accepted.
    pub fn accept(&self) -> Option<Client> {
        let end_id = self.state.borrow_mut().listeners.accept_for_test(self.address)?;
        Some(Client::new(Rc::clone(&self.state), end_id))
    }

    /// Stops listening.
    pub fn close(self) {
        self.state.borrow_mut().listeners.close_for_test(self.address);
    }
}
