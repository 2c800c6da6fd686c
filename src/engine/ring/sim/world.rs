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
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use super::SimRing;
use super::client::{Client, TestListener};
use super::fault::Faults;
use super::network::Network;
use super::resource_usage::ResourceUsage;
use crate::base::random::Random;
use crate::base::time::Instant;
use crate::engine::ring::RingOptions;

/// A handle to a world; clones share it.
#[derive(Clone, Debug)]
pub struct World {
    network: Rc<RefCell<Network>>,
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
        let network = Network::new(Random::seeded(seed), faults);
        Self { network: Rc::new(RefCell::new(network)), seed }
    }

    /// Returns the seed, which reproduces the run.
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the enabled faults.
    pub fn faults(&self) -> Faults {
        self.network.borrow().faults
    }

    /// Replaces the enabled faults, such as by none before a drain.
    pub fn set_faults(&self, faults: Faults) {
        self.network.borrow_mut().faults = faults;
    }

    /// Returns the current time.
    pub fn now(&self) -> Instant {
        self.network.borrow().now
    }

    /// Creates a ring. Its queues are unbounded; the other options apply.
    pub fn ring(&self, options: RingOptions) -> SimRing {
        SimRing::new(Rc::clone(&self.network), options)
    }

    /// Connects a client to an address. If several rings listen there, one is chosen at random; if
    /// none does, the client is reset.
    pub fn connect(&self, address: SocketAddr) -> Client {
        let end_id = self.network.borrow_mut().connect_client(address);
        Client::new(Rc::clone(&self.network), end_id)
    }

    /// Listens at an address, for connections that rings open to the test.
    pub fn listen(&self, address: SocketAddr) -> TestListener {
        TestListener::open(Rc::clone(&self.network), address)
    }

    /// Returns the resources of all rings, including dropped ones.
    pub fn resource_usage(&self) -> ResourceUsage {
        let network = self.network.borrow();
        network.kernels.iter().fold(ResourceUsage::default(), |sum, kernel| sum.plus(kernel.usage))
    }

    /// Returns whether every ring is asleep.
    pub fn is_idle(&self) -> bool {
        let network = self.network.borrow();
        network.kernels.iter().all(|kernel| kernel.is_asleep(network.now))
    }

    /// Advances time to the next event of the network or the next timeout of a ring; returns
    /// `false` if there is neither. A ring that does not park meanwhile is late, like a thread that
    /// was not scheduled.
    pub fn advance(&self) -> bool {
        let mut network = self.network.borrow_mut();
        // A timeout that has passed belongs to a late ring; time does not wait for it.
        let timeouts = network.kernels.iter().filter_map(|kernel| kernel.sleeps_until);
        let timeout = timeouts.filter(|&until| until > network.now).min();
        let next = network.next_event_at();
        let Some(to) = timeout.into_iter().chain(next).min() else { return false };
        network.advance(to);
        true
    }

    /// Advances time at once, as after a suspend of the machine: events that were due meanwhile run
    /// in order at the end.
    pub fn jump_clock(&self, duration: Duration) {
        let mut network = self.network.borrow_mut();
        let to = network.now.after(duration);
        network.advance(to);
    }
}

/// Separates the random numbers that choose the faults from those of the run.
const FAULT_SEED_MASK: u64 = 0x5357_4152_4D21;
