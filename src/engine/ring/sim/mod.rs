//! The simulated backend: an in-memory network with virtual time and injected faults, for tests.
//!
//! Invariants: those of [`Ring`], with every fault of [`Faults`]; the same seed and the same calls
//! give the same run. Misuse panics: a second send in flight, an operation on a closed socket, a
//! receive buffer released twice. [`ResourceUsage`] shows what was not released.
//!
//! Takes no descriptors: listeners come from [`SimRing::listen`], streams that stand for standard
//! input and output from [`SimRing::attach`], and clients from [`World::connect`].

mod connection;
mod fault;
mod resource_usage;

mod kernel;

mod network;

mod client;
mod connect;
mod traffic;
mod world;

use std::cell::RefCell;
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub use self::client::{Client, TestListener};
pub use self::fault::{Fault, Faults};
pub use self::resource_usage::ResourceUsage;
pub use self::world::World;

use self::kernel::{Kernel, PendingCompletion};
use self::network::Network;
use crate::base::time::Instant;
use crate::engine::ring::{
    Completion, Listener, Operation, PADDING, ParkTimeout, ReceiveBuffer, Registered, Ring,
    RingOptions, Socket, Source, Waker,
};

/// A ring of a [`World`].
#[derive(Debug)]
pub struct SimRing {
    network: Rc<RefCell<Network>>,
    /// The index of the ring in its world.
    ring: usize,
    operations: Vec<Operation>,
    completed: Vec<Completion>,
    /// The receive buffers. Free ones are filled with [`STALE`], so that late reads show.
    memory: Vec<u8>,
    buffer_bytes: usize,
}

impl SimRing {
    fn new(network: Rc<RefCell<Network>>, options: RingOptions) -> Self {
        let buffer_bytes = (options.receive_buffer_bytes as usize).max(1);
        let buffers = usize::from(options.receive_buffers.max(1));
        let ring = {
            let mut network = network.borrow_mut();
            network.kernels.push(Kernel::new(options));
            network.kernels.len() - 1
        };
        Self {
            network,
            ring,
            operations: Vec::new(),
            completed: Vec::new(),
            memory: vec![STALE; buffers * (buffer_bytes + PADDING)],
            buffer_bytes,
        }
    }

    /// Listens at an address. Several rings may listen at the same one.
    pub fn listen(&mut self, address: SocketAddr) -> io::Result<Listener> {
        self.network.borrow_mut().listen(self.ring, address)
    }

    /// Opens a connected stream, like a pipe, and returns the client at its other end.
    pub fn attach(&mut self) -> io::Result<(Socket, Client)> {
        let (socket, end_id) = self.network.borrow_mut().attach(self.ring)?;
        Ok((socket, Client::new(Rc::clone(&self.network), end_id)))
    }

    /// Returns the resources in use.
    pub fn resource_usage(&self) -> ResourceUsage {
        self.network.borrow().kernels[self.ring].usage
    }

    /// Returns whether the ring would stay parked. A test that runs only shards that are awake
    /// detects missing wake-ups.
    pub fn is_asleep(&self) -> bool {
        let network = self.network.borrow();
        network.kernels[self.ring].is_asleep(network.now)
    }

    /// Executes the submitted operations in order.
    fn execute_operations(&mut self) {
        let (network, ring) = (&mut *self.network.borrow_mut(), self.ring);
        for operation in self.operations.drain(..) {
            match operation {
                Operation::Accept(listener) => network.accept(ring, listener),
                Operation::CloseListener(listener) => network.close_listener(ring, listener),
                Operation::Connect { address, local_address: from, token } => {
                    network.connect_ring(ring, (address, from), token);
                }
                Operation::Receive(socket) => network.start_receive(ring, socket),
                Operation::StopReceive(socket) => network.stop_receive(ring, socket),
                Operation::Send { socket, buffer, offset: from } => {
                    network.start_send(ring, socket, buffer, from);
                }
                Operation::ShutdownWrite(socket) => network.shutdown_write(ring, socket),
                Operation::Close(socket) => network.close(ring, socket),
            }
        }
        network.receive_starved(ring);
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

impl Network {
    /// Parks one ring: advances time as far as possible and returns the completions due then.
    fn park(&mut self, ring: usize, timeout: ParkTimeout) -> Vec<PendingCompletion> {
        self.client_has_data = false;
        self.advance(self.now);
        let is_spurious = self.occurs(Fault::SpuriousWake, 1, 8);
        let until = match timeout {
            ParkTimeout::Zero => Some(self.now),
            ParkTimeout::After(duration) => Some(self.now.after(duration)),
            ParkTimeout::Infinite => None,
        };
        let has_passed = self.kernels[ring].parked_at < self.now;
        let is_alone = self.kernels.iter().filter(|kernel| !kernel.is_dropped).count() == 1;
        if is_alone && !is_spurious {
            self.sleep(ring, until);
        }
        let Self { kernels, random, faults, .. } = self;
        let kernel = &mut kernels[ring];
        let due = kernel.take_due(self.now, faults.has(Fault::Reorder).then_some(random));
        let was_woken = kernel.is_woken.swap(false, Ordering::AcqRel);
        kernel.parked_at = self.now;
        kernel.sleeps_until = until;
        kernel.is_busy = has_passed || was_woken || is_spurious || !due.is_empty();
        if due.iter().any(|due| matches!(due, PendingCompletion::Other(Completion::Closed { .. })))
        {
            self.retry_paused_listeners(ring);
        }
        due
    }

    /// Advances time until the only ring has a completion, a client has data, a waker is called,
    /// the timeout passes, or no event is left.
    fn sleep(&mut self, ring: usize, until: Option<Instant>) {
        loop {
            let kernel = &self.kernels[ring];
            let is_over = until.is_some_and(|until| until <= self.now);
            let is_awake = kernel.is_due() || kernel.is_woken.load(Ordering::Acquire);
            if is_over || is_awake || self.client_has_data {
                return;
            }
            match until.into_iter().chain(self.next_event_at()).min() {
                Some(next) => self.advance(next),
                None => return,
            }
        }
    }
}

impl Ring for SimRing {
    /// Fails: the simulator has no descriptors.
    fn register(&mut self, _source: Source) -> io::Result<Registered> {
        let cause = "the simulator takes no descriptors: use SimRing::listen and SimRing::attach";
        Err(io::Error::new(io::ErrorKind::Unsupported, cause))
    }

    fn submit(&mut self, operation: Operation) {
        if let Operation::Close(closing) = operation {
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
            let mut network = self.network.borrow_mut();
            (network.park(self.ring, timeout), network.now)
        };
        self.deliver_completions(due);
        now
    }

    fn waker(&self) -> Waker {
        let is_woken = Arc::clone(&self.network.borrow().kernels[self.ring].is_woken);
        Waker::new(move || is_woken.store(true, Ordering::Release))
    }

    fn bytes(&mut self, buffer: &ReceiveBuffer) -> &mut [u8] {
        let length = buffer.len as usize + PADDING;
        &mut self.memory(buffer.index)[..length]
    }

    fn release(&mut self, buffer: ReceiveBuffer) {
        self.network.borrow_mut().kernels[self.ring].release(buffer.index);
        self.memory(buffer.index).fill(STALE);
    }

    fn describe(&self) -> String {
        format!("sim ({:?})", self.network.borrow().faults)
    }
}

impl Drop for SimRing {
    fn drop(&mut self) {
        self.network.borrow_mut().close_ring(self.ring);
    }
}

/// The content of free buffers: no JSON, no UTF-8, no newline.
const STALE: u8 = 0xDD;
