//! Listening, connecting and accepting in a simulated world.
//!
//! Invariants: each end has at most one owner; each connect attempt completes once; a connection
//! that no listener accepts is reset.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use rustix::io::Errno;

use super::connection::{Connection, EndId, Owner, ReadMode, Segment, SimPeer, WriteSide};
use super::fault::Fault;
use super::kernel::{ListenerState, PendingCompletion};
use super::network::{AddressOwner, Network, SimEvent};
use crate::engine::ring::{Completion, Listener, Socket};

impl Network {
    /// Adds a listener of a ring.
    pub(super) fn listen(&mut self, ring: usize, address: SocketAddr) -> io::Result<Listener> {
        let gates = &mut self.kernels[ring].listeners;
        let listener_index = gates.len();
        let name = u16::try_from(listener_index).map_err(|_| io::Error::from(Errno::NFILE))?;
        gates.push(ListenerState {
            address,
            is_accepting: false,
            is_closed: false,
            is_paused: false,
            backlog: std::collections::VecDeque::new(),
        });
        self.addresses
            .entry(address)
            .or_default()
            .push(AddressOwner::RingListener { ring, listener_index });
        Ok(Listener(name))
    }

    /// Starts accepting.
    pub(super) fn accept(&mut self, ring: usize, listener: Listener) {
        let listener_index = usize::from(listener.0);
        self.kernels[ring].listeners[listener_index].is_accepting = true;
        self.accept_waiting(ring, listener_index);
    }

    /// Closes a listener and resets the connections in its backlog.
    pub(super) fn close_listener(&mut self, ring: usize, listener: Listener) {
        let listener_index = usize::from(listener.0);
        let closed = &mut self.kernels[ring].listeners[listener_index];
        closed.is_closed = true;
        closed.is_accepting = false;
        let (address, backlog) = (closed.address, std::mem::take(&mut closed.backlog));
        if let Some(owners) = self.addresses.get_mut(&address) {
            owners.retain(|&owner| owner != AddressOwner::RingListener { ring, listener_index });
        }
        for connection in backlog {
            self.refuse_connection(connection);
        }
    }

    /// Connects a client of the test; refused if nothing listens at the address.
    pub(super) fn connect_client(&mut self, address: SocketAddr) -> EndId {
        let connection = self.add_connection(address, Owner::Client(SimPeer::new()));
        let end_id = EndId { connection, end: 0 };
        if self.faults.has(Fault::SlowReader) && self.random.chance(1, 2) {
            self.make_slow_reader(end_id);
        }
        if !self.enqueue_connection(connection, address) {
            self.transmit(end_id, Segment::Reset);
        }
        end_id
    }

    /// Connects a client of the test to a new socket of a ring.
    pub(super) fn attach(&mut self, ring: usize) -> io::Result<(Socket, EndId)> {
        let connection = self.add_connection(UNNAMED, Owner::Client(SimPeer::new()));
        let end_id = EndId { connection, end: 1 };
        let Some(socket) = self.kernels[ring].open(end_id) else {
            return Err(Errno::NFILE.into());
        };
        self.kernels[ring].usage.sockets_open += 1;
        self.end(end_id).owner = Owner::Ring { ring, socket };
        Ok((socket, end_id.opposite()))
    }

    /// Starts a connect of a ring. Any local address may be requested.
    pub(super) fn connect_ring(
        &mut self,
        ring: usize,
        (address, from): (SocketAddr, Option<SocketAddr>),
        token: u64,
    ) {
        self.kernels[ring].usage.connects_in_flight += 1;
        let connection = self.add_connection(address, Owner::None);
        let end_id = EndId { connection, end: 0 };
        if let Some(from) = from {
            let near = &mut self.end(end_id).address;
            let port = if from.port() == 0 { near.port() } else { from.port() };
            *near = SocketAddr::new(from.ip(), port);
        }
        let Some(socket) = self.kernels[ring].open(end_id) else {
            let result = Err(Errno::NFILE.into());
            return self.complete_failed(ring, Completion::Connected { token, result });
        };
        self.end(end_id).owner = Owner::Ring { ring, socket };
        if let Some(state) = self.kernels[ring].find(socket) {
            state.connecting = Some(token);
        }
        let is_lost = self.occurs(Fault::AcceptFailure, 1, 8);
        let is_refused = is_lost || !self.enqueue_connection(connection, address);
        self.schedule_within(200, SimEvent::CompleteConnect { ring, socket, is_refused });
    }

    /// Completes a connect of a ring.
    pub(super) fn complete_connect(&mut self, ring: usize, socket: Socket, is_refused: bool) {
        let Some(state) = self.kernels[ring].find(socket) else { return };
        let Some(token) = state.connecting.take() else { return };
        let end_id = state.end_id;
        if is_refused || self.end(end_id).is_reset() {
            self.close_end(end_id);
            self.kernels[ring].remove(socket);
            let result = Err(Errno::CONNREFUSED.into());
            return self.complete_failed(ring, Completion::Connected { token, result });
        }
        let connected = Completion::Connected { token, result: Ok(socket) };
        self.complete(ring, socket, PendingCompletion::Other(connected));
    }

    /// Accepts a bounded number of waiting connections.
    pub(super) fn accept_waiting(&mut self, ring: usize, listener_index: usize) {
        let batch = self.kernels[ring].options.accepts_in_flight.max(1);
        for _ in 0..batch {
            let waiting = &self.kernels[ring].listeners[listener_index];
            if !waiting.is_accepting || waiting.is_paused || waiting.backlog.is_empty() {
                return;
            }
            if self.kernels[ring].is_full() {
                return self.fail_accept(ring, listener_index, Errno::NFILE);
            }
            if self.occurs(Fault::AcceptFailure, 1, 10) {
                if self.random.chance(1, 2) {
                    // The connection is lost.
                    if let Some(lost) =
                        self.kernels[ring].listeners[listener_index].backlog.pop_front()
                    {
                        self.refuse_connection(lost);
                    }
                }
                self.schedule_within(3_000, SimEvent::RetryAccept { ring, listener_index });
                return self.fail_accept(ring, listener_index, Errno::MFILE);
            }
            let Some(connection) = self.kernels[ring].listeners[listener_index].backlog.pop_front()
            else {
                return;
            };
            self.accept_connection(ring, listener_index, connection);
        }
        self.schedule_within(10, SimEvent::AcceptWaiting { ring, listener_index });
    }

    /// Retries a paused listener.
    pub(super) fn retry_accept(&mut self, ring: usize, listener_index: usize) {
        self.kernels[ring].listeners[listener_index].is_paused = false;
        self.accept_waiting(ring, listener_index);
    }

    /// Retries paused listeners after sockets were closed.
    pub(super) fn retry_paused_listeners(&mut self, ring: usize) {
        for listener_index in 0..self.kernels[ring].listeners.len() {
            if self.kernels[ring].listeners[listener_index].is_paused {
                self.retry_accept(ring, listener_index);
            }
        }
    }

    /// Closes everything of a dropped ring.
    pub(super) fn close_ring(&mut self, ring: usize) {
        for listener_index in 0..self.kernels[ring].listeners.len() {
            if let Ok(name) = u16::try_from(listener_index)
                && !self.kernels[ring].listeners[listener_index].is_closed
            {
                self.close_listener(ring, Listener(name));
            }
        }
        for socket in self.kernels[ring].open_sockets() {
            if let Some(end_id) = self.kernels[ring].find(socket).map(|state| state.end_id) {
                self.close_end(end_id);
            }
        }
        self.kernels[ring].sleeps_until = None;
        self.kernels[ring].is_busy = false;
        self.kernels[ring].is_dropped = true;
    }

    /// Gives a client a small window and slow reads.
    fn make_slow_reader(&mut self, end_id: EndId) {
        let window = 64 << self.random.below(8);
        let bytes = window / 8 + self.random.below(window);
        let every = self.random_duration(3_000);
        let end = self.end(end_id);
        end.window = window;
        if let Owner::Client(peer) = &mut end.owner {
            peer.read_mode = ReadMode::Slow { bytes, every };
        }
    }

    /// Passes a connection to a listener at `address`; returns `false` if there is none.
    fn enqueue_connection(&mut self, connection: usize, address: SocketAddr) -> bool {
        let count = self.addresses.get(&address).map_or(0, Vec::len);
        if count == 0 {
            return false;
        }
        let chosen = self.random.below(count);
        match self.addresses[&address][chosen] {
            AddressOwner::RingListener { ring, listener_index } => {
                self.kernels[ring].listeners[listener_index].backlog.push_back(connection);
                self.schedule_within(100, SimEvent::AcceptWaiting { ring, listener_index });
            }
            AddressOwner::TestListener => {
                self.connections[connection].ends[1].owner = Owner::Client(SimPeer::new());
                self.pending_accepts
                    .entry(address)
                    .or_default()
                    .push_back(EndId { connection, end: 1 });
                self.client_has_data = true;
            }
        }
        true
    }

    fn accept_connection(&mut self, ring: usize, listener_index: usize, connection: usize) {
        let end_id = EndId { connection, end: 1 };
        let Some(socket) = self.kernels[ring].open(end_id) else { return };
        self.end(end_id).owner = Owner::Ring { ring, socket };
        self.kernels[ring].usage.accepted += 1;
        let peer = Some(self.end(end_id.opposite()).address);
        #[expect(clippy::cast_possible_truncation, reason = "`listen` limits the number to u16")]
        let listener = Listener(listener_index as u16);
        let accepted = Completion::Accepted { listener, socket, peer };
        self.complete(ring, socket, PendingCompletion::Other(accepted));
    }

    fn fail_accept(&mut self, ring: usize, listener_index: usize, error: Errno) {
        self.kernels[ring].listeners[listener_index].is_paused = true;
        self.kernels[ring].usage.accepts_failed += 1;
        #[expect(clippy::cast_possible_truncation, reason = "`listen` limits the number to u16")]
        let listener = Listener(listener_index as u16);
        self.complete_failed(ring, Completion::AcceptFailed { listener, error: error.into() });
    }

    /// Resets a connection that is not accepted.
    fn refuse_connection(&mut self, connection: usize) {
        let end_id = EndId { connection, end: 1 };
        self.end(end_id).write_side = WriteSide::Closed;
        self.transmit(end_id.opposite(), Segment::Reset);
    }

    fn complete_failed(&mut self, ring: usize, completion: Completion) {
        let order = self.next_sequence();
        let now = self.now;
        self.kernels[ring].queue_failure(now, order, completion);
    }

    /// Adds a connection to an address, from a unique one.
    fn add_connection(&mut self, address: SocketAddr, owner: Owner) -> usize {
        let connection = self.connections.len();
        #[expect(clippy::cast_possible_truncation, reason = "the low bits are meant")]
        let near = Ipv4Addr::from(0x0A00_0000 | ((connection as u32 >> 14) & 0x00FF_FFFF));
        #[expect(clippy::cast_possible_truncation, reason = "the low bits are meant")]
        let port = 0xC000 | (connection & 0x3FFF) as u16;
        let near = SocketAddr::new(IpAddr::V4(near), port);
        self.connections.push(Connection::new([near, address], owner, WINDOW_BYTES));
        connection
    }
}

/// The window of an end: the initial one of a Linux socket.
const WINDOW_BYTES: usize = 64 * 1024;
/// The remote address of a stream without addresses (a pipe).
const UNNAMED: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
