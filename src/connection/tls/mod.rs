//! TLS of the connections that a shard accepts, below HTTP, lines and WebSocket.
//!
//! [`TlsRing`] is a ring whose encrypted sockets send and receive plaintext: what is above it need
//! not know that a socket is encrypted. Sockets of a listener are encrypted if the listener was
//! passed to [`TlsRing::encrypt`].
//!
//! Invariants:
//!
//! - An encrypted socket sends nothing that is not encrypted, but for the one sentence for a client
//!   that does not speak TLS.
//! - Plaintext is passed on before the end of its connection. An end without `close_notify` is an
//!   error, since data may be missing (RFC 8446 section 6.1).
//! - A turn handles the messages of at most one handshake, after the completions of open
//!   connections, and passes those of others to threads; a handshake that is not complete in time
//!   ends.
//! - A connection has no TLS state before its first byte has arrived.
//! - [`Ring::held_bytes`] has what a connection holds here: its TLS state, also while a thread has
//!   it, the input of its handshake, and the copy of its output that is encrypted.
//! - At a limit of handshakes the oldest one ends that is neither complete nor recent, of the
//!   network with most; if there is none, the new one is refused.

mod listeners;

mod steps;

mod handshakes;

mod sockets;

use std::io;
use std::sync::Arc;

use corelane_base::time::Instant;
use corelane_engine::ring::{
    Completion, Listener, Operation, ParkTimeout, ReceiveBuffer, Registered, Ring, Shortage,
    Socket, Source, Waker,
};

pub use self::listeners::{HandshakeGuard, TlsCounters, TlsLimits, TlsSlot};
use self::sockets::TlsSockets;
use self::steps::HandshakeSteps;
pub use self::steps::HandshakeThreads;

/// A ring whose encrypted sockets send and receive plaintext.
#[derive(Debug)]
pub struct TlsRing<R> {
    ring: R,
    now: Instant,
    /// `None` if no listener is encrypted.
    tls: Option<Box<Encrypted>>,
}

#[derive(Debug)]
struct Encrypted {
    sockets: TlsSockets,
    /// Completions of the ring; empty between uses.
    completions: Vec<Completion>,
    /// The owner has sent something since the last park.
    has_output: bool,
}

impl<R: Ring> TlsRing<R> {
    /// Returns the ring below.
    pub const fn inner(&self) -> &R {
        &self.ring
    }

    /// Returns the ring below.
    pub const fn inner_mut(&mut self) -> &mut R {
        &mut self.ring
    }

    /// Adds no encryption yet to `ring`.
    pub fn new(ring: R) -> Self {
        Self { ring, now: Instant::default(), tls: None }
    }

    /// Encrypts the connections that `listener` accepts. The limits are those of the first call.
    pub fn encrypt(
        &mut self,
        listener: Listener,
        slot: TlsSlot,
        limits: TlsLimits,
        counters: &Arc<TlsCounters>,
        threads: &HandshakeThreads,
    ) {
        let ring = &self.ring;
        let tls = self.tls.get_or_insert_with(|| {
            let percent = limits.shard_percent;
            let steps = HandshakeSteps::new(threads.clone(), percent, ring.waker());
            let sockets = TlsSockets::new(limits, Arc::clone(counters), steps);
            Box::new(Encrypted { sockets, completions: Vec::new(), has_output: false })
        });
        tls.sockets.add_listener(listener, slot);
    }
}

impl<R: Ring> Ring for TlsRing<R> {
    fn register(&mut self, source: Source) -> io::Result<Registered> {
        self.ring.register(source)
    }

    #[inline]
    fn submit(&mut self, operation: Operation) {
        match &mut self.tls {
            None => self.ring.submit(operation),
            Some(tls) => {
                tls.has_output |= matches!(operation, Operation::Send { .. });
                tls.sockets.submit(&mut self.ring, operation);
            }
        }
    }

    #[inline]
    fn reap(&mut self, completions: &mut Vec<Completion>) {
        match &mut self.tls {
            None => self.ring.reap(completions),
            Some(tls) => tls.reap(&mut self.ring, self.now, completions),
        }
    }

    #[inline]
    fn park(&mut self, timeout: ParkTimeout) -> Instant {
        let Some(tls) = &mut self.tls else { return self.ring.park(timeout) };
        // A handshake may take as long as many calls: what the owner sends is submitted before.
        if std::mem::take(&mut tls.has_output) && tls.sockets.has_handshake() {
            self.now = self.ring.park(ParkTimeout::Zero);
        }
        tls.sockets.handle_next_handshakes(&mut self.ring);
        let timeout = match tls.sockets.next_deadline(self.now) {
            Some(deadline) if deadline <= self.now => ParkTimeout::Zero,
            Some(deadline) => timeout.at_most(deadline.since(self.now)),
            None => timeout,
        };
        self.now = self.ring.park(timeout);
        self.now
    }

    fn next_deadline(&self) -> Option<Instant> {
        let encrypted = self.tls.as_ref().and_then(|tls| tls.sockets.next_deadline(self.now));
        encrypted.into_iter().chain(self.ring.next_deadline()).min()
    }

    fn waker(&self) -> Waker {
        self.ring.waker()
    }

    fn wake(&mut self, other: &Waker) {
        self.ring.wake(other);
    }

    #[inline]
    fn bytes(&mut self, buffer: &ReceiveBuffer) -> &mut [u8] {
        match self.tls.as_mut().and_then(|tls| tls.sockets.streams.bytes(buffer)) {
            None => self.ring.bytes(buffer),
            Some(plaintext) => plaintext,
        }
    }

    #[inline]
    fn release(&mut self, buffer: ReceiveBuffer) {
        let buffer = match &mut self.tls {
            None => Err(buffer),
            Some(tls) => tls.sockets.streams.release(buffer),
        };
        if let Err(buffer) = buffer {
            self.ring.release(buffer);
        }
    }

    fn register_eventfd(&mut self, eventfd: std::os::fd::BorrowedFd<'_>) -> io::Result<()> {
        self.ring.register_eventfd(eventfd)
    }

    fn exhaustion(&self) -> corelane_engine::ring::Exhaustion {
        self.ring.exhaustion()
    }

    fn shortage(&mut self, socket: Socket) -> Option<Shortage> {
        self.ring.shortage(socket)
    }

    #[inline]
    fn held_bytes(&self) -> usize {
        let encrypted = self.tls.as_ref().map_or(0, |tls| tls.sockets.held_bytes());
        self.ring.held_bytes() + encrypted
    }

    fn held_bytes_of(&self, socket: Socket) -> usize {
        let encrypted = self.tls.as_ref().map_or(0, |tls| tls.sockets.held_bytes_of(socket));
        self.ring.held_bytes_of(socket) + encrypted
    }

    fn describe(&self) -> String {
        self.ring.describe()
    }
}

impl Encrypted {
    fn reap<R: Ring>(&mut self, ring: &mut R, now: Instant, completions: &mut Vec<Completion>) {
        ring.reap(&mut self.completions);
        for completion in self.completions.drain(..) {
            self.sockets.handle(ring, completion, now);
        }
        self.sockets.complete_steps(ring);
        self.sockets.end_expired(ring, now);
        self.sockets.streams.take_completions(completions);
    }
}
