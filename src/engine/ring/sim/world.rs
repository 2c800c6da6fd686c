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

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use super::SimRing;
use super::client::{Client, TestListener};
use super::fault::Faults;
use super::resource_usage::ResourceUsage;
use super::world_state::WorldState;
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
