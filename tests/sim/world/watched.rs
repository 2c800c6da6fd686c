//! A simulated ring under observation: which connections it accepted.
//!
//! What it checks: no connection is accepted twice, by whichever shard.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use corelane::base::time::Moment;
use corelane::engine::ring::sim::SimRing;
use corelane::engine::ring::{
    Completion, Lease, Operation, Patience, Registered, Ring, Source, Waker,
};

/// The shard of each connection, by the address of its client.
pub(crate) type Places = Rc<RefCell<BTreeMap<SocketAddr, usize>>>;

/// The ring of one shard.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) ring: SimRing,
    shard: usize,
    places: Places,
}

impl Watched {
    pub(crate) const fn new(ring: SimRing, shard: usize, places: Places) -> Self {
        Self { ring, shard, places }
    }
}

impl Ring for Watched {
    fn register(&mut self, source: Source) -> io::Result<Registered> {
        self.ring.register(source)
    }

    fn submit(&mut self, operation: Operation) {
        self.ring.submit(operation);
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) {
        let before = completions.len();
        self.ring.reap(completions);
        for completion in &completions[before..] {
            if let Completion::Accepted { peer: Some(peer), .. } = completion {
                let earlier = self.places.borrow_mut().insert(*peer, self.shard);
                assert_eq!(earlier, None, "{peer} was accepted before");
            }
        }
    }

    fn park(&mut self, patience: Patience) -> Moment {
        self.ring.park(patience)
    }

    fn waker(&self) -> Waker {
        self.ring.waker()
    }

    fn bytes(&mut self, lease: &Lease) -> &mut [u8] {
        self.ring.bytes(lease)
    }

    fn release(&mut self, lease: Lease) {
        self.ring.release(lease);
    }

    fn describe(&self) -> String {
        self.ring.describe()
    }
}
