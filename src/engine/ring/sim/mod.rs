//! The simulated backend: a network in memory, virtual time, and faults on purpose.
//!
//! For tests of what stands on a ring. What it keeps true: the promises of [`Ring`], under every
//! fault of its [`Faults`]; the same seed and the same calls give the same run. It checks the
//! driver on its way: a second send in flight, an operation on a closed socket or a lease released
//! twice is a panic, and its [`Ledger`] shows what was not given back.
//!
//! What it does not do: take descriptors. Listeners come from [`SimRing::listen`], streams that
//! stand for standard input and output from [`SimRing::attach`], and clients from
//! [`World::connect`].

mod fault;
mod ledger;
mod link;

mod kernel;

mod network;

mod doors;
mod traffic;
mod visitor;
mod world;

use std::cell::RefCell;
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub use self::fault::{Fault, Faults};
pub use self::ledger::Ledger;
pub use self::visitor::{Client, Host};
pub use self::world::World;

use self::kernel::{Kernel, Told};
use self::network::Network;
use crate::base::time::Moment;
use crate::engine::ring::{
    Completion, Lease, Listener, Operation, PADDING, Patience, Registered, Ring, RingOptions,
    Socket, Source, Waker,
};

/// A ring of a [`World`].
#[derive(Debug)]
pub struct SimRing {
    network: Rc<RefCell<Network>>,
    /// Which of the world's rings.
    ring: usize,
    operations: Vec<Operation>,
    completed: Vec<Completion>,
    /// The receive buffers; free ones hold [`STALE`] bytes, so that a late look shows.
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

    /// A listener at an address, at which other rings may listen as well.
    pub fn listen(&mut self, address: SocketAddr) -> io::Result<Listener> {
        self.network.borrow_mut().listen(self.ring, address)
    }

    /// A stream that is open at once, as a pipe would be, and the client at its other end.
    pub fn attach(&mut self) -> io::Result<(Socket, Client)> {
        let (socket, place) = self.network.borrow_mut().attach(self.ring)?;
        Ok((socket, Client::new(Rc::clone(&self.network), place)))
    }

    /// What is out and must come back.
    pub fn ledger(&self) -> Ledger {
        self.network.borrow().kernels[self.ring].ledger
    }

    /// Whether nothing has happened that its park would come back for: a test that turns only the
    /// shards that are awake finds a wake that was forgotten.
    pub fn is_asleep(&self) -> bool {
        let network = self.network.borrow();
        network.kernels[self.ring].is_asleep(network.now)
    }

    /// Does what was submitted, in its order.
    fn carry_out(&mut self) {
        let (network, ring) = (&mut *self.network.borrow_mut(), self.ring);
        for operation in self.operations.drain(..) {
            match operation {
                Operation::Accept(listener) => network.accept(ring, listener),
                Operation::CloseListener(listener) => network.close_listener(ring, listener),
                Operation::Connect { address, from, token } => {
                    network.dial(ring, (address, from), token);
                }
                Operation::Receive(socket) => network.receive(ring, socket),
                Operation::Pause(socket) => network.pause(ring, socket),
                Operation::Send { socket, buffer, from } => {
                    network.send(ring, socket, buffer, from);
                }
                Operation::Finish(socket) => network.finish(ring, socket),
                Operation::Close(socket) => network.close(ring, socket),
            }
        }
        network.feed_starved(ring);
    }

    /// Takes what is due over: bytes into the memory of their leases.
    fn take_over(&mut self, told: Vec<Told>) {
        for told in told {
            match told {
                Told::Other(completion) => self.completed.push(completion),
                Told::Bytes { socket, lease, bytes } => {
                    self.memory(lease.buffer)[..bytes.len()].copy_from_slice(&bytes);
                    self.completed.push(Completion::Received { socket, lease });
                }
            }
        }
    }

    /// One buffer with its padding.
    fn memory(&mut self, buffer: u16) -> &mut [u8] {
        let stride = self.buffer_bytes + PADDING;
        let start = usize::from(buffer) * stride;
        &mut self.memory[start..start + stride]
    }
}

impl Network {
    /// Parks one ring: sleeps as far as it may and returns what is due then.
    fn park(&mut self, ring: usize, patience: Patience) -> Vec<Told> {
        self.has_news = false;
        self.advance(self.now);
        let is_spurious = self.strikes(Fault::SpuriousWake, 1, 8);
        let until = match patience {
            Patience::None => Some(self.now),
            Patience::For(span) => Some(self.now.after(span)),
            Patience::Forever => None,
        };
        let has_passed = self.kernels[ring].parked_at < self.now;
        let is_alone = self.kernels.iter().filter(|kernel| !kernel.is_dropped).count() == 1;
        if is_alone && !is_spurious {
            self.sleep(ring, until);
        }
        let Self { kernels, random, faults, .. } = self;
        let kernel = &mut kernels[ring];
        let told = kernel.collect(self.now, faults.has(Fault::Reorder).then_some(random));
        let was_woken = kernel.is_woken.swap(false, Ordering::AcqRel);
        kernel.parked_at = self.now;
        kernel.sleeps_until = until;
        kernel.is_busy = has_passed || was_woken || is_spurious || !told.is_empty();
        if told.iter().any(|told| matches!(told, Told::Other(Completion::Closed { .. }))) {
            self.rouse_gates(ring);
        }
        told
    }

    /// Moves time on until something is due for the only ring, a client has news, someone wakes,
    /// patience ends, or nothing will ever happen.
    fn sleep(&mut self, ring: usize, until: Option<Moment>) {
        loop {
            let kernel = &self.kernels[ring];
            let is_over = until.is_some_and(|until| until <= self.now);
            let is_awake = kernel.is_due() || kernel.is_woken.load(Ordering::Acquire);
            if is_over || is_awake || self.has_news {
                return;
            }
            match until.into_iter().chain(self.next_moment()).min() {
                Some(next) => self.advance(next),
                None => return,
            }
        }
    }
}

impl Ring for SimRing {
    /// Refuses: the simulator has no descriptors.
    fn register(&mut self, _source: Source) -> io::Result<Registered> {
        let cause = "the simulator takes no descriptors: use SimRing::listen and SimRing::attach";
        Err(io::Error::new(io::ErrorKind::Unsupported, cause))
    }

    fn submit(&mut self, operation: Operation) {
        if let Operation::Close(closing) = operation {
            for completion in mem::take(&mut self.completed) {
                match completion {
                    Completion::Received { socket, lease } if socket == closing => {
                        self.release(lease);
                    }
                    Completion::Ended { socket, .. } if socket == closing => {}
                    other => self.completed.push(other),
                }
            }
        }
        self.operations.push(operation);
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) {
        completions.append(&mut self.completed);
    }

    fn park(&mut self, patience: Patience) -> Moment {
        self.carry_out();
        let patience = if self.completed.is_empty() { patience } else { Patience::None };
        let (told, now) = {
            let mut network = self.network.borrow_mut();
            (network.park(self.ring, patience), network.now)
        };
        self.take_over(told);
        now
    }

    fn waker(&self) -> Waker {
        let is_woken = Arc::clone(&self.network.borrow().kernels[self.ring].is_woken);
        Waker::new(move || is_woken.store(true, Ordering::Release))
    }

    fn bytes(&mut self, lease: &Lease) -> &mut [u8] {
        let length = lease.length as usize + PADDING;
        &mut self.memory(lease.buffer)[..length]
    }

    fn release(&mut self, lease: Lease) {
        self.network.borrow_mut().kernels[self.ring].release(lease.buffer);
        self.memory(lease.buffer).fill(STALE);
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

/// What a buffer holds that nobody has a lease of: no JSON, no UTF-8, no newline.
const STALE: u8 = 0xDD;
