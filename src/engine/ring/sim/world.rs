//! A simulated world: the clock, the randomness and the network that its rings share.
//!
//! With one ring, its park advances time to the next event or its timeout. With several, no park
//! may advance it, because another ring might act before; each returns at once, and the test
//! advances time when all of them are asleep:
//! ```text
//! loop {
//!     for each shard { shard.run_turn(ParkTimeout::Infinite) }
//!     if world.is_idle() && !world.advance() { break }
//! }
//! ```
//!
//! The side of the test of these connections are clients and listeners. A client's operations
//! take effect at once, in virtual time; their consequences follow as time advances. A client that
//! is dropped stays connected.

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use super::connection::{EndId, Owner, ReadMode, ReadSide, SimPeer};
use super::scheduler::Faults;
use super::world_state::WorldState;
use super::{ResourceUsage, SimRing};
use crate::ring::RingOptions;
use corelane_base::random::Random;
use corelane_base::time::Instant;

/// A handle to a world; clones share it.
#[derive(Clone, Debug)]
pub struct World {
    state: Rc<RefCell<WorldState>>,
    seed: u64,
}

impl World {
    /// Creates a world with faults chosen by its seed.
    pub fn seeded(seed: u64) -> Self {
        let faults = Faults::random(&mut Random::seeded(seed ^ FAULT_SEED_MASK));
        Self::with_faults(seed, faults)
    }

    /// Creates a world with these faults, which occur as determined by its seed.
    pub fn with_faults(seed: u64, faults: Faults) -> Self {
        let state = WorldState::new(Random::seeded(seed), faults);
        Self { state: Rc::new(RefCell::new(state)), seed }
    }

    /// Returns the seed, which reproduces the run.
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the enabled faults.
    pub fn faults(&self) -> Faults {
        self.state.borrow().scheduler.faults()
    }

    /// Replaces the enabled faults, such as by none before a drain.
    pub fn set_faults(&self, faults: Faults) {
        self.state.borrow_mut().scheduler.set_faults(faults);
    }

    /// Returns the current time.
    pub fn now(&self) -> Instant {
        self.state.borrow().scheduler.now()
    }

    /// Creates a ring. Its queues are unbounded; the other options apply.
    pub fn ring(&self, options: RingOptions) -> SimRing {
        SimRing::new(Rc::clone(&self.state), options)
    }

    /// Connects a client to an address. If several rings listen there, one is chosen at random; if
    /// none does, the client is reset.
    pub fn connect(&self, address: SocketAddr) -> Client {
        let end_id = self.state.borrow_mut().connect_client(address, None);
        Client::new(Rc::clone(&self.state), end_id)
    }

    /// Like [`World::connect`], from the local address `from`.
    pub fn connect_from(&self, from: IpAddr, address: SocketAddr) -> Client {
        let end_id = self.state.borrow_mut().connect_client(address, Some(from));
        Client::new(Rc::clone(&self.state), end_id)
    }

    /// Listens at an address, for connections that rings open to the test.
    pub fn listen(&self, address: SocketAddr) -> TestListener {
        TestListener::open(Rc::clone(&self.state), address)
    }

    /// Returns the resources of all rings, including dropped ones.
    pub fn resource_usage(&self) -> ResourceUsage {
        let state = self.state.borrow();
        state.kernels.iter().fold(ResourceUsage::default(), |sum, kernel| sum.plus(kernel.usage))
    }

    /// Returns whether every ring is asleep.
    pub fn is_idle(&self) -> bool {
        let state = self.state.borrow();
        let now = state.scheduler.now();
        state.kernels.iter().all(|kernel| kernel.is_asleep(now))
    }

    /// Advances time to the next event of the network or the next timeout of a ring; returns
    /// `false` if there is neither. A ring that does not park meanwhile is late, like a thread that
    /// was not scheduled.
    pub fn advance(&self) -> bool {
        let mut state = self.state.borrow_mut();
        let now = state.scheduler.now();
        // A timeout that has passed belongs to a late ring; time does not wait for it.
        let timeouts = state.kernels.iter().filter_map(|kernel| kernel.parking.sleeps_until());
        let timeout = timeouts.filter(|&until| until > now).min();
        let next = state.scheduler.next_event_at();
        let Some(to) = timeout.into_iter().chain(next).min() else { return false };
        state.advance(to);
        true
    }

    /// Advances time at once, as after a suspend of the machine: events that were due meanwhile run
    /// in order at the end.
    pub fn jump_clock(&self, duration: Duration) {
        let mut state = self.state.borrow_mut();
        let to = state.scheduler.now().after(duration);
        state.advance(to);
    }
}

/// Separates the random numbers that choose the faults from those of the run.
const FAULT_SEED_MASK: u64 = 0x5357_4152_4D21;

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
