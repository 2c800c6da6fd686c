//! The ring: what a shard asks of the kernel, and what comes back.
//!
//! Five verbs (register, submit, reap, wake, park) with three backends: `uring` (`io_uring`, all of
//! it that the kernel grants), `poll` (readiness, for kernels and containers without it) and `sim`
//! (seeded, virtual time, faults on purpose). The shard loop is the same over all three.
//!
//! What every backend keeps true:
//!
//! - A [`Socket`] names one open socket from the completion that brought it until its
//!   [`Completion::Closed`]; it is reused only after that, when nothing of it is in flight.
//! - A [`Lease`] is exclusive: its bytes belong to the holder until [`Ring::release`].
//! - Completions of one socket come in the order in which the bytes did. After
//!   [`Operation::Close`] a socket brings nothing more but its outstanding [`Completion::Sent`]
//!   and then [`Completion::Closed`].
//! - Every [`Operation::Send`] is answered by exactly one [`Completion::Sent`] that hands the
//!   buffer back. One send per socket may be in flight.
//! - When the receive buffers run out the backend waits for leases to come back and goes on by
//!   itself; nothing is lost, the peer is slowed by its window. Sockets that found none go before
//!   those that have had some.
//! - However many sockets have something to say, each look at the kernel accepts as well: a
//!   bounded number for each listener.

mod bound;

pub mod poll;
pub mod sim;
#[cfg(target_os = "linux")]
pub mod uring;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use crate::base::time::Moment;

/// Names one open stream of a ring: the slot of a direct descriptor, or a place of the backend's.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Socket(pub u32);

impl Socket {
    /// The name as an index: names are small and dense, tables may be indexed by them.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Names one listening socket of a ring.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Listener(pub u16);

/// What can be brought into a ring from outside.
#[derive(Debug)]
pub enum Source {
    /// A socket that listens already; it answers with [`Registered::Listener`].
    Listener(OwnedFd),
    /// A connected stream socket.
    Stream(OwnedFd),
    /// A pipe, terminal or file: read and written rather than received and sent.
    Pipe(OwnedFd),
}

/// The name that a [`Source`] got.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Registered {
    /// For [`Source::Listener`].
    Listener(Listener),
    /// For the others.
    Socket(Socket),
}

/// What a shard can ask for. Nothing happens before the next [`Ring::park`].
#[derive(Debug)]
pub enum Operation {
    /// Accept connections on this listener from now on, until [`Operation::CloseListener`].
    Accept(Listener),
    /// Stop accepting and close the listener; connections that wait in its backlog are refused.
    CloseListener(Listener),
    /// Open a connection; answered by [`Completion::Connected`] with the same `token`.
    Connect {
        /// Where to.
        address: SocketAddr,
        /// The local address to connect from: one of this machine and of the family of `address`;
        /// with port 0 the kernel chooses a port that is free towards `address`. Without it the
        /// kernel chooses both. Cost: two more submissions, and one more turn before it connects.
        /// An address that cannot be had is told by [`Completion::Connected`].
        from: Option<SocketAddr>,
        /// Handed back as it is.
        token: u64,
    },
    /// Receive from now on. A new socket does not receive before this.
    Receive(Socket),
    /// Stop receiving until the next [`Operation::Receive`]; what is already on its way may still
    /// arrive.
    Pause(Socket),
    /// Send `buffer[from..]`, all of it unless the socket fails.
    Send {
        /// Over which socket.
        socket: Socket,
        /// Handed back by [`Completion::Sent`].
        buffer: Vec<u8>,
        /// Where the unsent part begins.
        from: usize,
    },
    /// Tell the peer that nothing more will be sent (half close); receiving goes on. A send in
    /// flight ends first, and the half close follows it, however it ended; a close meanwhile
    /// takes both back. Nothing is told of it. Sends may not follow. What has no halves (a pipe)
    /// is left as it is.
    Finish(Socket),
    /// Close; outstanding operations are cancelled first.
    Close(Socket),
}

/// What has happened.
#[derive(Debug)]
pub enum Completion {
    /// A new connection.
    Accepted {
        /// Which listener accepted it.
        listener: Listener,
        /// Its name.
        socket: Socket,
        /// The other end, where the kernel told it.
        peer: Option<SocketAddr>,
    },
    /// A connection could not be accepted: no slot, no memory. Accepting goes on by itself.
    AcceptFailed {
        /// Which listener failed.
        listener: Listener,
        /// Why.
        error: io::Error,
    },
    /// The answer to [`Operation::Connect`].
    Connected {
        /// The token of the operation.
        token: u64,
        /// The new socket, or why there is none.
        result: io::Result<Socket>,
    },
    /// Bytes.
    Received {
        /// From which socket.
        socket: Socket,
        /// Where they are.
        lease: Lease,
    },
    /// Nothing more will be received: the peer finished (`Ok`) or the socket failed. The socket
    /// stays open, for sending, until it is closed.
    Ended {
        /// Which socket.
        socket: Socket,
        /// `Ok` at the end of the stream.
        result: io::Result<()>,
    },
    /// A send is over and its buffer is free.
    Sent {
        /// Which socket.
        socket: Socket,
        /// The buffer of the operation, unchanged; an empty one where the socket was closed before
        /// the kernel let go of it (a send without a copy).
        buffer: Vec<u8>,
        /// Bytes sent from its `from` on (fewer than asked where the kernel took fewer), or why
        /// the socket failed.
        result: io::Result<usize>,
    },
    /// The socket is gone and its name may be used again.
    Closed {
        /// Which socket.
        socket: Socket,
    },
}

/// A receive buffer in the hands of the shard, with the number of bytes that arrived in it.
#[derive(Debug, Eq, PartialEq)]
#[must_use = "a lease that is not released is a receive buffer lost to the shard"]
pub struct Lease {
    /// Which buffer of the ring's set.
    pub buffer: u16,
    /// How many bytes arrived.
    pub length: u32,
}

/// How other threads and other rings reach a parked ring.
#[derive(Clone)]
pub struct Waker {
    wake: Arc<dyn Fn() + Send + Sync>,
    /// The file of an `io_uring` that takes `MSG_RING`, held so that its number stays its own.
    ring: Option<Arc<OwnedFd>>,
}

impl Waker {
    /// A waker that calls `wake` from whatever thread wakes.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self { wake: Arc::new(wake), ring: None }
    }

    /// Ends the present or the next [`Ring::park`] of the ring behind this waker. Callable from
    /// every thread; several calls before that park may fold into one.
    pub fn wake(&self) {
        (self.wake)();
    }
}

impl std::fmt::Debug for Waker {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Waker").finish_non_exhaustive()
    }
}

/// How often a ring ran short of something that it was given at the start. Each time costs a turn,
/// nothing is lost; often is a reason for larger sizes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Shortages {
    /// A socket had bytes and found no receive buffer.
    pub receive_buffers: u64,
    /// The completion queue was full at the end of a turn.
    pub completions: u64,
}

/// How long [`Ring::park`] may wait for something to happen.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Patience {
    /// Not at all: submit, collect what is there, come back.
    None,
    /// At most this long.
    For(Duration),
    /// Until something happens.
    Forever,
}

impl Patience {
    /// This patience, or `span` where that is shorter.
    #[must_use]
    pub fn at_most(self, span: Duration) -> Self {
        match self {
            Self::None => Self::None,
            Self::For(longest) => Self::For(longest.min(span)),
            Self::Forever => Self::For(span),
        }
    }
}

/// One backend. See the module's first page for what all of them keep true.
pub trait Ring {
    /// Brings a listener, a socket or a pipe into the ring. The ring owns the descriptor from here
    /// on and closes it.
    fn register(&mut self, source: Source) -> io::Result<Registered>;

    /// Queues an operation for the next park. Never blocks and never fails: a full queue is
    /// flushed on the way, and a refusal by the kernel comes back as a completion.
    fn submit(&mut self, operation: Operation);

    /// Moves everything that has completed to the end of `completions`. No syscall.
    fn reap(&mut self, completions: &mut Vec<Completion>);

    /// Submits what is queued and waits until something completes, someone wakes, or patience
    /// ends. Returns the time at which it came back: the one clock reading of a turn.
    fn park(&mut self, patience: Patience) -> Moment;

    /// How others wake this ring.
    fn waker(&self) -> Waker;

    /// Wakes another shard's ring from this one, the cheapest way there is between the two. May
    /// take effect only at the next park of this ring.
    fn wake(&mut self, other: &Waker) {
        other.wake();
    }

    /// The bytes of a lease followed by at least [`PADDING`] bytes of no meaning, so that a parser
    /// may read in whole vectors. Both parts may be changed; `lease.length` tells where the
    /// padding begins.
    fn bytes(&mut self, lease: &Lease) -> &mut [u8];

    /// Gives the buffer of a lease back to the ring.
    fn release(&mut self, lease: Lease);

    /// Has the kernel add to `eventfd` whenever something completes or someone wakes, so that
    /// another event loop of this thread can wait for this ring. Only `io_uring` can.
    fn signal_through(&mut self, eventfd: BorrowedFd<'_>) -> io::Result<()> {
        let _ = eventfd;
        Err(io::ErrorKind::Unsupported.into())
    }

    /// What this ring has run short of since the start; nothing where the backend does not know.
    fn shortages(&self) -> Shortages {
        Shortages::default()
    }

    /// What this backend is and which kernel features it was granted, for the line at start.
    fn describe(&self) -> String;
}

pub use crate::engine::buffer::PADDING;

/// The sizes of a ring, all of them fixed at start.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RingOptions {
    /// Sockets open at once. Cost: 16 bytes each in the backend and a slot in the kernel's table;
    /// `io_uring` refuses more than the process's limit of open files. Default 20,000.
    pub sockets_max: u32,
    /// Entries of the submission queue. Cost: 64 bytes each. Default 4,096.
    pub submissions_max: u32,
    /// Entries of the completion queue. Cost: 16 bytes each. Default 32,768.
    pub completions_max: u32,
    /// Receive buffers, a power of two. Default 1,024.
    pub receive_buffers: u16,
    /// Bytes of one receive buffer without its padding. Default 4,096.
    pub receive_buffer_bytes: u32,
    /// Buffers that one socket may fill in one turn; past it the others come first. Default 64.
    pub burst_buffers_max: u16,
    /// Accepts in flight on each listener, each with room for its peer's address. Default 10 (the
    /// acceptor pool of the TCP contract, seed 001 section 2).
    pub accepts_in_flight: u16,
    /// Sends of at least this many bytes go without a copy; `u32::MAX` never. Default never: see
    /// `benches/floor` for the measurement.
    pub zero_copy_bytes_min: u32,
}

impl Default for RingOptions {
    fn default() -> Self {
        Self {
            sockets_max: 20_000,
            submissions_max: 4_096,
            completions_max: 32_768,
            receive_buffers: 1_024,
            receive_buffer_bytes: 4_096,
            burst_buffers_max: 64,
            accepts_in_flight: 10,
            zero_copy_bytes_min: u32::MAX,
        }
    }
}
