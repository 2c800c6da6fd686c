//! The simulated backend: an in-memory network with virtual time and injected faults, for tests.
//!
//! Invariants: those of [`Ring`], with every fault of [`Faults`]; the same seed and the same calls
//! give the same run. Misuse panics: a second send in flight, an operation on a closed socket, a
//! receive buffer released twice. [`ResourceUsage`] shows what was not released.
//!
//! Takes no descriptors: listeners come from [`SimRing::listen`], streams that stand for standard
//! input and output from [`SimRing::attach`], and clients from [`World::connect`].

mod connection;

mod scheduler;

mod network;

mod kernel;
mod kernels;

mod listeners;

mod world_state;

mod world;

use std::cell::RefCell;
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use self::kernel::PendingCompletion;
pub use self::scheduler::{Fault, Faults};
pub use self::world::{Client, TestListener, World};
use self::world_state::WorldState;
use crate::ring::{
    Completion, Listener, Operation, PADDING, ParkTimeout, ReceiveBuffer, Registered, Ring,
    RingOptions, Socket, Source, Waker,
};
use corelane_base::time::Instant;

/// A ring of a [`World`].
#[derive(Debug)]
pub struct SimRing {
    state: Rc<RefCell<WorldState>>,
    /// The index of the ring in its world.
    ring: usize,
    operations: Vec<Operation>,
    completed: Vec<Completion>,
    /// The receive buffers. Free ones are filled with [`STALE`], so that late reads show.
    memory: Vec<u8>,
    buffer_bytes: usize,
}

impl SimRing {
    fn new(state: Rc<RefCell<WorldState>>, options: RingOptions) -> Self {
        let buffer_bytes = (options.receive_buffer_bytes as usize).max(1);
        let buffers = usize::from(options.receive_buffers.max(1));
        let ring = state.borrow_mut().kernels.add(options);
        Self {
            state,
            ring,
            operations: Vec::new(),
            completed: Vec::new(),
            memory: vec![STALE; buffers * (buffer_bytes + PADDING)],
            buffer_bytes,
        }
    }

    /// Listens at an address. Several rings may listen at the same one.
    pub fn listen(&mut self, address: SocketAddr) -> io::Result<Listener> {
        self.state.borrow_mut().listeners.listen(self.ring, address)
    }

    /// Opens a connected stream, like a pipe, and returns the client at its other end.
    pub fn attach(&mut self) -> io::Result<(Socket, Client)> {
        let (socket, end_id) = self.state.borrow_mut().attach(self.ring)?;
        Ok((socket, Client::new(Rc::clone(&self.state), end_id)))
    }

    /// Returns the resources in use.
    pub fn resource_usage(&self) -> ResourceUsage {
        self.state.borrow().kernels.get(self.ring).usage
    }

    /// Returns whether the ring would stay parked. A test that runs only shards that are awake
    /// detects missing wake-ups.
    pub fn is_asleep(&self) -> bool {
        let state = self.state.borrow();
        state.kernels.get(self.ring).is_asleep(state.scheduler.now())
    }

    /// Executes the submitted operations in order.
    fn execute_operations(&mut self) {
        let mut state = self.state.borrow_mut();
        for operation in self.operations.drain(..) {
            state.execute(self.ring, operation);
        }
        state.receive_starved(self.ring);
    }

    /// Appends due completions; copies received bytes into their buffers.
    fn deliver_completions(&mut self, due: Vec<PendingCompletion>) {
        for due in due {
            match due {
                PendingCompletion::Other(completion) => self.completed.push(completion),
                PendingCompletion::Bytes { socket, buffer, bytes } => {
                    self.memory(buffer.index)[..bytes.len()].copy_from_slice(&bytes);
                    self.completed.push(Completion::Received { socket, buffer });
                }
            }
        }
    }

    /// Returns one buffer with its padding.
    fn memory(&mut self, buffer: u16) -> &mut [u8] {
        let stride = self.buffer_bytes + PADDING;
        let start = usize::from(buffer) * stride;
        &mut self.memory[start..start + stride]
    }
}

impl Ring for SimRing {
    /// Fails: the simulator has no descriptors.
    fn register(&mut self, _source: Source) -> io::Result<Registered> {
        let cause = "the simulator takes no descriptors: use SimRing::listen and SimRing::attach";
        Err(io::Error::new(io::ErrorKind::Unsupported, cause))
    }

    fn submit(&mut self, operation: Operation) {
        if let Operation::Close(closing) | Operation::Reset(closing) = operation {
            for completion in mem::take(&mut self.completed) {
                match completion {
                    Completion::Received { socket, buffer } if socket == closing => {
                        self.release(buffer);
                    }
                    Completion::EndOfStream { socket, .. } if socket == closing => {}
                    other => self.completed.push(other),
                }
            }
        }
        self.operations.push(operation);
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) {
        completions.append(&mut self.completed);
    }

    fn park(&mut self, timeout: ParkTimeout) -> Instant {
        self.execute_operations();
        let timeout = if self.completed.is_empty() { timeout } else { ParkTimeout::Zero };
        let (due, now) = {
            let mut state = self.state.borrow_mut();
            (state.park(self.ring, timeout), state.scheduler.now())
        };
        self.deliver_completions(due);
        now
    }

    fn waker(&self) -> Waker {
        let is_woken = self.state.borrow().kernels.get(self.ring).parking.wake_flag();
        Waker::new(move || is_woken.store(true, Ordering::Release))
    }

    fn bytes(&mut self, buffer: &ReceiveBuffer) -> &mut [u8] {
        let length = buffer.len as usize + PADDING;
        &mut self.memory(buffer.index)[..length]
    }

    fn release(&mut self, buffer: ReceiveBuffer) {
        self.state.borrow_mut().kernels.get_mut(self.ring).release(buffer.index);
        self.memory(buffer.index).fill(STALE);
    }

    fn describe(&self) -> String {
        format!("sim ({:?})", self.state.borrow().scheduler.faults())
    }
}

impl Drop for SimRing {
    fn drop(&mut self) {
        self.state.borrow_mut().close_ring(self.ring);
    }
}

/// The content of free buffers: no JSON, no UTF-8, no newline.
const STALE: u8 = 0xDD;

/// Resources of one ring, or of all rings of a world. The current counts are zero once a driver has
/// drained.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ResourceUsage {
    /// Current: receive buffers held by the shard or by pending completions.
    pub receive_buffers_held: usize,
    /// Current: sends whose buffer has not been returned.
    pub sends_in_flight: usize,
    /// Current: sockets that were reported and not yet closed.
    pub sockets_open: usize,
    /// Current: connects in progress.
    pub connects_in_flight: usize,
    /// Total: connections accepted.
    pub accepted: u64,
    /// Total: failed accepts.
    pub accepts_failed: u64,
    /// Total: bytes received.
    pub bytes_received: u64,
    /// Total: bytes sent.
    pub bytes_sent: u64,
    /// Total: times that bytes waited for a buffer.
    pub buffer_exhaustions: u64,
}

impl ResourceUsage {
    /// Returns whether all current counts are zero.
    pub const fn is_idle(&self) -> bool {
        self.receive_buffers_held == 0
            && self.sends_in_flight == 0
            && self.sockets_open == 0
            && self.connects_in_flight == 0
    }

    /// Returns the sum of both.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            receive_buffers_held: self.receive_buffers_held + other.receive_buffers_held,
            sends_in_flight: self.sends_in_flight + other.sends_in_flight,
            sockets_open: self.sockets_open + other.sockets_open,
            connects_in_flight: self.connects_in_flight + other.connects_in_flight,
            accepted: self.accepted + other.accepted,
            accepts_failed: self.accepts_failed + other.accepts_failed,
            bytes_received: self.bytes_received + other.bytes_received,
            bytes_sent: self.bytes_sent + other.bytes_sent,
            buffer_exhaustions: self.buffer_exhaustions + other.buffer_exhaustions,
        }
    }
}
