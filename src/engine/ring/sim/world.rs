//! A simulated world: the clock, the chance and the network that its rings share.
//!
//! With one ring, its park moves time on: to the next thing that happens, or by its patience.
//! With several, no park may move it alone, because another ring might act before; each comes back
//! at once, and the test moves time when all of them sleep:
//!
//! ```text
//! loop {
//!     for each shard { shard.turn(Patience::Forever) }
//!     if world.is_calm() && !world.step() { break }
//! }
//! ```

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use super::SimRing;
use super::fault::Faults;
use super::ledger::Ledger;
use super::network::Network;
use super::visitor::{Client, Host};
use crate::base::random::Random;
use crate::base::time::Moment;
use crate::engine::ring::RingOptions;

/// A handle to a world; its clones are the same world.
#[derive(Clone, Debug)]
pub struct World {
    network: Rc<RefCell<Network>>,
    seed: u64,
}

impl World {
    /// A world whose faults are drawn from its seed.
    pub fn seeded(seed: u64) -> Self {
        let faults = Faults::drawn(&mut Random::seeded(seed ^ SWARM));
        Self::with_faults(seed, faults)
    }

    /// A world with these faults; which of them strike when is drawn from its seed.
    pub fn with_faults(seed: u64, faults: Faults) -> Self {
        let network = Network::new(Random::seeded(seed), faults);
        Self { network: Rc::new(RefCell::new(network)), seed }
    }

    /// The seed: all that is needed to run it again.
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// What may go wrong here.
    pub fn faults(&self) -> Faults {
        self.network.borrow().faults
    }

    /// Has other things go wrong from here on: none of them, so that a drain ends.
    pub fn change_faults(&self, faults: Faults) {
        self.network.borrow_mut().faults = faults;
    }

    /// The present moment.
    pub fn now(&self) -> Moment {
        self.network.borrow().now
    }

    /// A ring of these sizes. Queues have no bound here; the rest means what it always means.
    pub fn ring(&self, options: RingOptions) -> SimRing {
        SimRing::new(Rc::clone(&self.network), options)
    }

    /// A client that connects to an address. Where several rings listen at it, chance decides
    /// which; where none does, the client is reset.
    pub fn connect(&self, address: SocketAddr) -> Client {
        let place = self.network.borrow_mut().connect_client(address);
        Client::new(Rc::clone(&self.network), place)
    }

    /// An address at which the test answers the connections that rings open.
    pub fn host(&self, address: SocketAddr) -> Host {
        Host::open(Rc::clone(&self.network), address)
    }

    /// The books of all rings together, those that are gone included.
    pub fn ledger(&self) -> Ledger {
        let network = self.network.borrow();
        network.kernels.iter().fold(Ledger::default(), |sum, kernel| sum.plus(kernel.ledger))
    }

    /// Whether every ring sleeps: nothing is left to do at this moment.
    pub fn is_calm(&self) -> bool {
        let network = self.network.borrow();
        network.kernels.iter().all(|kernel| kernel.is_asleep(network.now))
    }

    /// Moves time on to the next thing that happens in the network or to the end of a ring's
    /// patience; `false` where neither will ever come. A ring that does not park meanwhile is late,
    /// as a thread is that got no processor.
    pub fn step(&self) -> bool {
        let mut network = self.network.borrow_mut();
        // Patience that has ended belongs to a ring that is late: time does not wait for it.
        let patience = network.kernels.iter().filter_map(|kernel| kernel.sleeps_until);
        let patience = patience.filter(|&until| until > network.now).min();
        let next = network.next_moment();
        let Some(to) = patience.into_iter().chain(next).min() else { return false };
        network.advance(to);
        true
    }

    /// Moves time on by this much at once: what was due meanwhile happens at its end, in its
    /// order, and no ring looks before. As when the machine was suspended.
    pub fn jump(&self, span: Duration) {
        let mut network = self.network.borrow_mut();
        let to = network.now.after(span);
        network.advance(to);
    }
}

/// Keeps the draw of the swarm apart from the draws of the run.
const SWARM: u64 = 0x5357_4152_4D21;
