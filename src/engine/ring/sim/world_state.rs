//! The state of a simulated world, and what its events do.
//!
//! Invariants: each end has at most one owner; each connect attempt completes once.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use rustix::io::Errno;

use super::connection::{EndId, Owner, Segment, SimPeer};
use super::kernel::PendingCompletion;
use super::kernels::Kernels;
use super::listeners::Listeners;
use super::network::Network;
use super::scheduler::{Fault, Faults, ListenerId, Scheduler, SimEvent};
use crate::ring::{Completion, Operation, ParkTimeout, Socket};
use corelane_base::random::Random;
use corelane_base::time::Instant;

/// The components of a world.
#[derive(Debug)]
pub(super) struct WorldState {
    pub(super) scheduler: Scheduler,
    pub(super) network: Network,
    pub(super) kernels: Kernels,
    pub(super) listeners: Listeners,
}

impl WorldState {
    /// Creates a world without rings.
    pub(super) fn new(random: Random, faults: Faults) -> Self {
        Self {
            scheduler: Scheduler::new(random, faults),
            network: Network::new(),
            kernels: Kernels::default(),
            listeners: Listeners::default(),
        }
    }

    /// Advances time, never backwards, and runs every event that is due.
    pub(super) fn advance(&mut self, to: Instant) {
        self.scheduler.advance(to);
        while let Some(event) = self.scheduler.take_due_event() {
            self.run_event(event);
        }
    }

    fn run_event(&mut self, event: SimEvent) {
        let Self { scheduler, network, kernels, listeners } = self;
        match event {
            SimEvent::RetryAccept(id) => listeners.retry(scheduler, network, kernels, id),
            SimEvent::AcceptWaiting(id) => {
                listeners.accept_waiting(scheduler, network, kernels, id);
            }
            SimEvent::DeliverSegment(end_id) => {
                if network.deliver_segment(scheduler, end_id) {
                    self.notify_owner(end_id);
                }
            }
            SimEvent::BreakConnection { connection } => self.break_connection(connection),
            SimEvent::CompleteConnect { ring, socket, is_refused } => {
                self.complete_connect(ring, socket, is_refused);
            }
            SimEvent::ReadSlowClient(end_id) => {
                if network.read_slow_client(end_id) {
                    kernels.notify_sender(scheduler, network, end_id);
                }
                self.read_client_data(end_id);
            }
            SimEvent::RestoreBuffers { ring } => kernels.restore_buffers(scheduler, network, ring),
            SimEvent::ServeSocket { ring, socket } => {
                kernels.serve_socket(scheduler, network, ring, socket);
            }
            SimEvent::CompletionDue { ring, socket } => kernels.get_mut(ring).mark_due(socket),
        }
    }

    /// Notifies the owner of an end of a change.
    fn notify_owner(&mut self, end_id: EndId) {
        let Self { scheduler, network, kernels, .. } = self;
        match network.end(end_id).owner {
            Owner::Ring { ring, socket } => kernels.serve_socket(scheduler, network, ring, socket),
            Owner::Client(_) => {
                network.mark_client_data();
                self.read_client_data(end_id);
            }
            Owner::None => {}
        }
    }

    /// Has a client read what its read mode allows.
    pub(super) fn read_client_data(&mut self, end_id: EndId) {
        let Self { scheduler, network, kernels, .. } = self;
        if network.read_client_data(scheduler, end_id) {
            kernels.notify_sender(scheduler, network, end_id);
        }
    }

    /// Resets both ends of a connection.
    fn break_connection(&mut self, connection: usize) {
        for end in 0..2 {
            let end_id = EndId { connection, end };
            let state = self.network.end(end_id);
            if !state.is_closed() {
                state.reset();
                self.notify_owner(end_id);
            }
        }
    }

    /// Connects a client of the test, from a unique address or from `from`; refused if nothing
    /// listens at `address`.
    pub(super) fn connect_client(&mut self, address: SocketAddr, from: Option<IpAddr>) -> EndId {
        let Self { scheduler, network, listeners, .. } = self;
        let connection = network.add_connection(address, Owner::Client(SimPeer::new()));
        let end_id = EndId { connection, end: 0 };
        if let Some(from) = from {
            network.end(end_id).address.set_ip(from);
        }
        if scheduler.faults().has(Fault::SlowReader) && scheduler.chance(1, 2) {
            network.make_slow_reader(scheduler, end_id);
        }
        if !listeners.enqueue(scheduler, network, connection, address) {
            network.transmit(scheduler, end_id, Segment::Reset);
        }
        end_id
    }

    /// Connects a client of the test to a new socket of a ring.
    pub(super) fn attach(&mut self, ring: usize) -> io::Result<(Socket, EndId)> {
        let connection = self.network.add_connection(UNNAMED, Owner::Client(SimPeer::new()));
        let end_id = EndId { connection, end: 1 };
        let kernel = self.kernels.get_mut(ring);
        let Some(socket) = kernel.open(end_id) else {
            return Err(Errno::NFILE.into());
        };
        kernel.usage.sockets_open += 1;
        self.network.end(end_id).owner = Owner::Ring { ring, socket };
        Ok((socket, end_id.opposite()))
    }

    /// Starts a connect of a ring. Any local address may be requested.
    fn connect_ring(
        &mut self,
        ring: usize,
        address: SocketAddr,
        from: Option<SocketAddr>,
        token: u64,
    ) {
        let Self { scheduler, network, kernels, listeners } = self;
        let kernel = kernels.get_mut(ring);
        kernel.usage.connects_in_flight += 1;
        let connection = network.add_connection(address, Owner::None);
        let end_id = EndId { connection, end: 0 };
        if let Some(from) = from {
            let near = &mut network.end(end_id).address;
            let port = if from.port() == 0 { near.port() } else { from.port() };
            *near = SocketAddr::new(from.ip(), port);
        }
        let Some(socket) = kernel.open(end_id) else {
            let result = Err(Errno::NFILE.into());
            return kernels.complete_failed(
                scheduler,
                ring,
                Completion::Connected { token, result },
            );
        };
        network.end(end_id).owner = Owner::Ring { ring, socket };
        if let Some(state) = kernel.find(socket) {
            state.connecting = Some(token);
        }
        let is_lost = scheduler.occurs(Fault::AcceptFailure, 1, 8);
        let is_refused = is_lost || !listeners.enqueue(scheduler, network, connection, address);
        scheduler.schedule_within(200, SimEvent::CompleteConnect { ring, socket, is_refused });
    }

    /// Completes a connect of a ring.
    fn complete_connect(&mut self, ring: usize, socket: Socket, is_refused: bool) {
        let Self { scheduler, network, kernels, .. } = self;
        let Some(state) = kernels.get_mut(ring).find(socket) else { return };
        let Some(token) = state.connecting.take() else { return };
        let end_id = state.end_id;
        if is_refused || network.end(end_id).is_reset() {
            network.close_end(scheduler, end_id);
            kernels.get_mut(ring).remove(socket);
            let result = Err(Errno::CONNREFUSED.into());
            let failed = Completion::Connected { token, result };
            return kernels.complete_failed(scheduler, ring, failed);
        }
        let connected = Completion::Connected { token, result: Ok(socket) };
        kernels.complete(scheduler, ring, socket, PendingCompletion::Other(connected));
    }

    /// Executes one operation of a ring.
    pub(super) fn execute(&mut self, ring: usize, operation: Operation) {
        let Self { scheduler, network, kernels, listeners } = self;
        match operation {
            Operation::Accept(listener) => {
                listeners.accept(scheduler, network, kernels, ListenerId { ring, listener });
            }
            Operation::CloseListener(listener) => {
                listeners.close(scheduler, network, ListenerId { ring, listener });
            }
            Operation::Connect { address, local_address: from, keepalive: _, token } => {
                self.connect_ring(ring, address, from, token);
            }
            Operation::Receive(socket) => kernels.start_receive(scheduler, network, ring, socket),
            Operation::StopReceive(socket) => kernels.stop_receive(ring, socket),
            Operation::Send { socket, buffer, offset: from } => {
                kernels.start_send(scheduler, network, ring, socket, buffer, from);
            }
            Operation::ShutdownWrite(socket) => {
                kernels.shutdown_write(scheduler, network, ring, socket);
            }
            Operation::Close(socket) => {
                kernels.close(scheduler, ring, socket, |scheduler, end_id| {
                    network.close_end(scheduler, end_id);
                });
            }
            Operation::Reset(socket) => {
                kernels.close(scheduler, ring, socket, |scheduler, end_id| {
                    network.reset_end(scheduler, end_id);
                });
            }
        }
    }

    /// Receives on the starved sockets of a ring while buffers are free.
    pub(super) fn receive_starved(&mut self, ring: usize) {
        let Self { scheduler, network, kernels, .. } = self;
        kernels.receive_starved(scheduler, network, ring);
    }

    /// Parks one ring: advances time as far as possible and returns the completions due then.
    pub(super) fn park(&mut self, ring: usize, timeout: ParkTimeout) -> Vec<PendingCompletion> {
        self.network.clear_client_data();
        let now = self.scheduler.now();
        self.advance(now);
        let is_spurious = self.scheduler.occurs(Fault::SpuriousWake, 1, 8);
        let until = match timeout {
            ParkTimeout::Zero => Some(now),
            ParkTimeout::After(duration) => Some(now.after(duration)),
            ParkTimeout::Infinite => None,
        };
        let has_passed = self.kernels.get(ring).parking.parked_at() < now;
        let is_alone =
            self.kernels.iter().filter(|kernel| !kernel.parking.is_dropped()).count() == 1;
        if is_alone && !is_spurious {
            self.sleep(ring, until);
        }
        let Self { scheduler, network, kernels, listeners } = self;
        let now = scheduler.now();
        let kernel = kernels.get_mut(ring);
        let due = kernel.take_due(now, scheduler.shuffle());
        kernel.parking.park(now, until, has_passed || is_spurious || !due.is_empty());
        if due.iter().any(|due| matches!(due, PendingCompletion::Other(Completion::Closed { .. })))
        {
            listeners.retry_paused(scheduler, network, kernels, ring);
        }
        due
    }

    /// Advances time until the only ring has a completion, a client has data, a waker is called,
    /// the timeout passes, or no event is left.
    fn sleep(&mut self, ring: usize, until: Option<Instant>) {
        loop {
            let kernel = self.kernels.get(ring);
            let is_over = until.is_some_and(|until| until <= self.scheduler.now());
            let is_awake = kernel.is_due() || kernel.parking.is_woken();
            if is_over || is_awake || self.network.client_has_data() {
                return;
            }
            match until.into_iter().chain(self.scheduler.next_event_at()).min() {
                Some(next) => self.advance(next),
                None => return,
            }
        }
    }

    /// Closes everything of a dropped ring.
    pub(super) fn close_ring(&mut self, ring: usize) {
        let Self { scheduler, network, kernels, listeners } = self;
        listeners.close_ring(scheduler, network, ring);
        let kernel = kernels.get_mut(ring);
        for socket in kernel.open_sockets() {
            if let Some(end_id) = kernel.find(socket).map(|state| state.end_id) {
                network.close_end(scheduler, end_id);
            }
        }
        kernel.parking.drop_ring();
    }
}

/// The remote address of a stream without addresses (a pipe).
const UNNAMED: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
