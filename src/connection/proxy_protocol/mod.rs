//! The PROXY protocol of the connections that a shard accepts, below TLS, HTTP, lines and
//! WebSocket.
//!
//! [`ProxyRing`] is a ring whose accepted sockets have the address that the proxy in front has sent
//! for its client: what is above it learns of a connection once its header is complete, and
//! receives what follows the header. A listener expects headers if it was passed to
//! [`ProxyRing::expect_headers`].
//!
//! Invariants: a connection of such a listener is passed on only if its peer is a trusted proxy
//! and has sent a valid header in [`HEADER_TIMEOUT`]; it is reset otherwise. No byte of the header
//! is passed on, and every byte behind it.

mod counters;

mod sockets;

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use corelane_base::time::Instant;
use corelane_base::trusted_proxies::TrustedProxies;
use corelane_engine::ring::{
    Completion, Exhaustion, Listener, Operation, ParkTimeout, ReceiveBuffer, Registered, Ring,
    Shortage, Socket, Source, Waker,
};

pub use self::counters::ProxyCounters;
use self::sockets::ProxySockets;

/// Time from the accept to the end of the header. Proxies send it first.
pub const HEADER_TIMEOUT: Duration = Duration::from_secs(5);

/// A ring whose sockets have the addresses that proxies have sent.
#[derive(Debug)]
pub struct ProxyRing<R> {
    ring: R,
    now: Instant,
    /// `None` if no listener expects headers.
    sockets: Option<Box<ProxySockets>>,
    /// Completions of the ring; empty between uses.
    completions: Vec<Completion>,
}

impl<R: Ring> ProxyRing<R> {
    /// Expects no header yet on `ring`.
    pub fn new(ring: R) -> Self {
        Self { ring, now: Instant::default(), sockets: None, completions: Vec::new() }
    }

    /// Expects headers of `trusted` proxies on the connections that `listener` accepts. Proxies and
    /// counters are those of the first call.
    pub fn expect_headers(
        &mut self,
        listener: Listener,
        trusted: &TrustedProxies,
        counters: &Arc<ProxyCounters>,
    ) {
        let sockets = self.sockets.get_or_insert_with(|| {
            Box::new(ProxySockets::new(trusted.clone(), Arc::clone(counters)))
        });
        sockets.add_listener(listener);
    }
}

impl<R: Ring> Ring for ProxyRing<R> {
    fn register(&mut self, source: Source) -> io::Result<Registered> {
        self.ring.register(source)
    }

    #[inline]
    fn submit(&mut self, operation: Operation) {
        match &mut self.sockets {
            None => self.ring.submit(operation),
            Some(sockets) => sockets.submit(&mut self.ring, operation),
        }
    }

    #[inline]
    fn reap(&mut self, completions: &mut Vec<Completion>) {
        match &mut self.sockets {
            None => self.ring.reap(completions),
            Some(sockets) => {
                sockets.take_resumed(completions);
                self.ring.reap(&mut self.completions);
                for completion in self.completions.drain(..) {
                    sockets.handle(&mut self.ring, completion, self.now, completions);
                }
                sockets.end_expired(&mut self.ring, self.now);
            }
        }
    }

    #[inline]
    fn park(&mut self, timeout: ParkTimeout) -> Instant {
        let Some(sockets) = &self.sockets else { return self.ring.park(timeout) };
        let timeout = match sockets.next_deadline(self.now) {
            Some(deadline) if deadline <= self.now => ParkTimeout::Zero,
            Some(deadline) => timeout.at_most(deadline.since(self.now)),
            None => timeout,
        };
        self.now = self.ring.park(timeout);
        self.now
    }

    fn next_deadline(&self) -> Option<Instant> {
        let own = self.sockets.as_ref().and_then(|sockets| sockets.next_deadline(self.now));
        own.into_iter().chain(self.ring.next_deadline()).min()
    }

    fn waker(&self) -> Waker {
        self.ring.waker()
    }

    fn wake(&mut self, other: &Waker) {
        self.ring.wake(other);
    }

    #[inline]
    fn bytes(&mut self, buffer: &ReceiveBuffer) -> &mut [u8] {
        self.ring.bytes(buffer)
    }

    #[inline]
    fn release(&mut self, buffer: ReceiveBuffer) {
        self.ring.release(buffer);
    }

    fn register_eventfd(&mut self, eventfd: BorrowedFd<'_>) -> io::Result<()> {
        self.ring.register_eventfd(eventfd)
    }

    fn exhaustion(&self) -> Exhaustion {
        self.ring.exhaustion()
    }

    fn shortage(&mut self, socket: Socket) -> Option<Shortage> {
        self.ring.shortage(socket)
    }

    #[inline]
    fn held_bytes(&self) -> usize {
        self.ring.held_bytes()
    }

    fn held_bytes_of(&self, socket: Socket) -> usize {
        self.ring.held_bytes_of(socket)
    }

    fn describe(&self) -> String {
        self.ring.describe()
    }
}
