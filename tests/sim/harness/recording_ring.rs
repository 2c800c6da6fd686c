//! A simulated ring that records which connections it accepted.
//!
//! Checks that no connection is accepted twice, by any shard.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use corelane_base::time::Instant;
use corelane_engine::ring::sim::SimRing;
use corelane_engine::ring::{
    Completion, Operation, ParkTimeout, ReceiveBuffer, Registered, Ring, Source, Waker,
};

/// The shard of each connection, by client address.
pub(crate) type ShardByClient = Rc<RefCell<BTreeMap<SocketAddr, usize>>>;

/// The ring of one shard.
#[derive(Debug)]
pub(crate) struct RecordingRing {
    pub(crate) ring: SimRing,
    shard: usize,
    accepted: ShardByClient,
}

impl RecordingRing {
    pub(crate) const fn new(ring: SimRing, shard: usize, accepted: ShardByClient) -> Self {
        Self { ring, shard, accepted }
    }
}

impl Ring for RecordingRing {
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
                let earlier = self.accepted.borrow_mut().insert(*peer, self.shard);
                assert_eq!(earlier, None, "{peer} was accepted twice");
            }
        }
    }

    fn park(&mut self, timeout: ParkTimeout) -> Instant {
        self.ring.park(timeout)
    }

    fn waker(&self) -> Waker {
        self.ring.waker()
    }

    fn bytes(&mut self, buffer: &ReceiveBuffer) -> &mut [u8] {
        self.ring.bytes(buffer)
    }

    fn release(&mut self, buffer: ReceiveBuffer) {
        self.ring.release(buffer);
    }

    fn describe(&self) -> String {
        self.ring.describe()
    }
}
