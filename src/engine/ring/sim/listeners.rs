//! Listeners of a simulated world: those of rings and those of the test.
//!
//! Invariants: a connection waits at one listener at most; a connection that no listener accepts is
//! reset.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;

use rustix::io::Errno;

use super::connection::{EndId, Owner, SimPeer};
use super::kernel::PendingCompletion;
use super::kernels::Kernels;
use super::network::Network;
use super::scheduler::{Fault, ListenerId, Scheduler, SimEvent};
use crate::ring::{Completion, Listener};

/// All listeners of a world.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    /// The listeners of rings, including closed ones.
    of_rings: BTreeMap<ListenerId, ListenerState>,
    /// Listeners by address: those of rings and of the test.
    by_address: BTreeMap<SocketAddr, Vec<AddressOwner>>,
    /// Connections to the test's listeners that it has not accepted.
    pending_accepts: BTreeMap<SocketAddr, VecDeque<EndId>>,
}

/// A listener of a ring.
#[derive(Debug)]
struct ListenerState {
    address: SocketAddr,
    is_accepting: bool,
    is_closed: bool,
    /// It failed, and retries later or when a socket is closed.
    is_paused: bool,
    backlog: VecDeque<usize>,
}

/// What listens at an address.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum AddressOwner {
    /// A listener of a ring.
    RingListener(ListenerId),
    /// A listener of the test.
    TestListener,
}

impl Listeners {
    /// Adds a listener of a ring.
    pub(super) fn listen(&mut self, ring: usize, address: SocketAddr) -> io::Result<Listener> {
        let name = u16::try_from(self.names(ring).len()).map_err(|_| Errno::NFILE)?;
        let id = ListenerId { ring, listener: Listener(name) };
        let state = ListenerState {
            address,
            is_accepting: false,
            is_closed: false,
            is_paused: false,
            backlog: VecDeque::new(),
        };
        self.of_rings.insert(id, state);
        self.by_address.entry(address).or_default().push(AddressOwner::RingListener(id));
        Ok(id.listener)
    }

    /// Adds a listener of the test.
    pub(super) fn listen_for_test(&mut self, address: SocketAddr) {
        self.by_address.entry(address).or_default().push(AddressOwner::TestListener);
    }

    /// Takes the next connection to a listener of the test.
    pub(super) fn accept_for_test(&mut self, address: SocketAddr) -> Option<EndId> {
        self.pending_accepts.get_mut(&address)?.pop_front()
    }

    /// Removes the listeners of the test at an address.
    pub(super) fn close_for_test(&mut self, address: SocketAddr) {
        self.remove_owner(address, AddressOwner::TestListener);
    }

    /// Starts accepting.
    pub(super) fn accept(
        &mut self,
        scheduler: &mut Scheduler,
        network: &mut Network,
        kernels: &mut Kernels,
        id: ListenerId,
    ) {
        self.state(id).is_accepting = true;
        self.accept_waiting(scheduler, network, kernels, id);
    }

    /// Closes a listener and resets the connections in its backlog.
    pub(super) fn close(
        &mut self,
        scheduler: &mut Scheduler,
        network: &mut Network,
        id: ListenerId,
    ) {
        let closed = self.state(id);
        closed.is_closed = true;
        closed.is_accepting = false;
        let (address, backlog) = (closed.address, std::mem::take(&mut closed.backlog));
        self.remove_owner(address, AddressOwner::RingListener(id));
        for connection in backlog {
            network.refuse(scheduler, connection);
        }
    }

    /// Closes all listeners of a ring.
    pub(super) fn close_ring(
        &mut self,
        scheduler: &mut Scheduler,
        network: &mut Network,
        ring: usize,
    ) {
        for id in self.names(ring) {
            if !self.state(id).is_closed {
                self.close(scheduler, network, id);
            }
        }
    }

    /// Passes a connection to a listener at `address`; returns `false` if there is none.
    pub(super) fn enqueue(
        &mut self,
        scheduler: &mut Scheduler,
        network: &mut Network,
        connection: usize,
        address: SocketAddr,
    ) -> bool {
        let count = self.by_address.get(&address).map_or(0, Vec::len);
        if count == 0 {
            return false;
        }
        let chosen = scheduler.random_below(count);
        match self.by_address[&address][chosen] {
            AddressOwner::RingListener(id) => {
                self.state(id).backlog.push_back(connection);
                scheduler.schedule_within(100, SimEvent::AcceptWaiting(id));
            }
            AddressOwner::TestListener => {
                let end_id = EndId { connection, end: 1 };
                network.end(end_id).owner = Owner::Client(SimPeer::new());
                self.pending_accepts.entry(address).or_default().push_back(end_id);
                network.mark_client_data();
            }
        }
        true
    }

    /// Accepts a bounded number of waiting connections.
    pub(super) fn accept_waiting(
        &mut self,
        scheduler: &mut Scheduler,
        network: &mut Network,
        kernels: &mut Kernels,
        id: ListenerId,
    ) {
        let batch = kernels.get(id.ring).options.accepts_in_flight.max(1);
        for _ in 0..batch {
            let waiting = self.state(id);
            if !waiting.is_accepting || waiting.is_paused || waiting.backlog.is_empty() {
                return;
            }
            if kernels.get(id.ring).is_full() {
                return self.fail_accept(scheduler, kernels, id, Errno::NFILE);
            }
            if scheduler.occurs(Fault::AcceptFailure, 1, 10) {
                // The connection is lost.
                if scheduler.chance(1, 2)
                    && let Some(lost) = self.state(id).backlog.pop_front()
                {
                    network.refuse(scheduler, lost);
                }
                scheduler.schedule_within(3_000, SimEvent::RetryAccept(id));
                return self.fail_accept(scheduler, kernels, id, Errno::MFILE);
            }
            let Some(connection) = self.state(id).backlog.pop_front() else { return };
            accept_connection(scheduler, network, kernels, id, connection);
        }
        scheduler.schedule_within(10, SimEvent::AcceptWaiting(id));
    }

    /// Retries a paused listener.
    pub(super) fn retry(
        &mut self,
        scheduler: &mut Scheduler,
        network: &mut Network,
        kernels: &mut Kernels,
        id: ListenerId,
    ) {
        self.state(id).is_paused = false;
        self.accept_waiting(scheduler, network, kernels, id);
    }

    /// Retries the paused listeners of a ring after sockets were closed.
    pub(super) fn retry_paused(
        &mut self,
        scheduler: &mut Scheduler,
        network: &mut Network,
        kernels: &mut Kernels,
        ring: usize,
    ) {
        for id in self.names(ring) {
            if self.state(id).is_paused {
                self.retry(scheduler, network, kernels, id);
            }
        }
    }

    fn fail_accept(
        &mut self,
        scheduler: &mut Scheduler,
        kernels: &mut Kernels,
        id: ListenerId,
        error: Errno,
    ) {
        self.state(id).is_paused = true;
        kernels.get_mut(id.ring).usage.accepts_failed += 1;
        let failed = Completion::AcceptFailed { listener: id.listener, error: error.into() };
        kernels.complete_failed(scheduler, id.ring, failed);
    }

    fn remove_owner(&mut self, address: SocketAddr, removed: AddressOwner) {
        if let Some(owners) = self.by_address.get_mut(&address) {
            owners.retain(|&owner| owner != removed);
        }
    }

    /// Returns the names of all listeners of a ring, in order.
    fn names(&self, ring: usize) -> Vec<ListenerId> {
        let first = ListenerId { ring, listener: Listener(0) };
        let last = ListenerId { ring, listener: Listener(u16::MAX) };
        self.of_rings.range(first..=last).map(|(&id, _)| id).collect()
    }

    /// Returns the state of a listener.
    ///
    /// # Panics
    ///
    /// If the ring has no such listener.
    fn state(&mut self, id: ListenerId) -> &mut ListenerState {
        match self.of_rings.get_mut(&id) {
            Some(state) => state,
            None => panic!("{id:?} does not exist"),
        }
    }
}

/// Opens a socket for a connection that waited at a listener.
fn accept_connection(
    scheduler: &mut Scheduler,
    network: &mut Network,
    kernels: &mut Kernels,
    ListenerId { ring, listener }: ListenerId,
    connection: usize,
) {
    let end_id = EndId { connection, end: 1 };
    let kernel = kernels.get_mut(ring);
    let Some(socket) = kernel.open(end_id) else { return };
    kernel.usage.accepted += 1;
    network.end(end_id).owner = Owner::Ring { ring, socket };
    let peer = Some(network.end(end_id.opposite()).address);
    let accepted = Completion::Accepted { listener, socket, peer };
    kernels.complete(scheduler, ring, socket, PendingCompletion::Other(accepted));
}
