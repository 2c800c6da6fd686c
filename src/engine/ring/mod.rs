//! The ring: submissions to the kernel and their completions.
//!
//! Four backends: `uring` (`io_uring` with all features that the kernel has), `poll` (readiness,
//! for kernels and containers without `io_uring`), `memory` (one connection without a kernel, for
//! clients in the process) and `sim` (seeded, virtual time, injected faults). The shard loop is the
//! same for all of them.
//!
//! Invariants of every backend:
//!
//! - A [`Socket`] names one open socket from the completion that returned it until its
//!   [`Completion::Closed`]; it is reused only after that, with nothing in flight. A completion
//!   that returns it comes behind that one; [`Ring::register`] returns it after the next park.
//! - A [`ReceiveBuffer`] is exclusive: its bytes belong to the holder until [`Ring::release`].
//! - Completions of one socket are in order. After [`Operation::Close`] or [`Operation::Reset`] a
//!   socket yields only its outstanding [`Completion::Sent`] and then [`Completion::Closed`].
//! - Every [`Operation::Send`] yields exactly one [`Completion::Sent`], which returns the buffer.
//!   One send per socket may be in flight.
//! - When the receive buffers are exhausted, receiving continues once buffers are released; no
//!   bytes are lost, the TCP window slows the peer down. Sockets that found no buffer are served
//!   before those that received some.
//! - Every wait also accepts connections, a bounded number for each listener, however many sockets
//!   are ready.

pub mod cycles;

pub mod memory;
mod outgoing_socket;
pub mod poll;
#[cfg(feature = "sim")]
pub mod sim;
#[cfg(target_os = "linux")]
pub mod uring;

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

pub use self::outgoing_socket::{KEEPALIVE_INTERVAL, KEEPALIVE_TIME};
use corelane_base::time::Instant;

/// Names an open stream of a ring: a direct descriptor slot or an index of the backend.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Socket(pub u32);

impl Socket {
    /// Returns the name as an index; names are small and dense.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Names a listening socket of a ring.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Listener(pub u16);

/// A descriptor to register with a ring.
#[derive(Debug)]
pub enum Source {
    /// A listening socket; returns [`Registered::Listener`].
    Listener(OwnedFd),
    /// A connected stream socket.
    Stream(OwnedFd),
    /// A pipe, terminal or file: uses read(2) and write(2) instead of recv(2) and send(2).
    Pipe(OwnedFd),
}

/// The name of a registered [`Source`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Registered {
    /// For [`Source::Listener`].
    Listener(Listener),
    /// For streams and [`Source::Pipe`].
    Socket(Socket),
}

/// An operation to submit. Takes effect at the next [`Ring::park`].
#[derive(Debug)]
pub enum Operation {
    /// Accept connections on this listener until [`Operation::CloseListener`].
    Accept(Listener),
    /// Stop accepting and close the listener; connections in its backlog are refused.
    CloseListener(Listener),
    /// Open a connection; completed by [`Completion::Connected`] with the same `token`.
    Connect {
        /// Remote address.
        address: SocketAddr,
        /// Local address: one of this machine and of the family of `address`; with port 0 the
        /// kernel chooses a port that is free for `address`. Default: chosen by the kernel. Cost:
        /// two more submissions and one more turn. An unavailable address fails
        /// [`Completion::Connected`].
        local_address: Option<SocketAddr>,
        /// Probe the peer when nothing has been received for [`KEEPALIVE_TIME`], again after each
        /// [`KEEPALIVE_INTERVAL`], and fail the socket if it does not answer (tcp(7)).
        keepalive: bool,
        /// Returned in the completion.
        token: u64,
    },
    /// Start receiving. A new socket does not receive before this.
    Receive(Socket),
    /// Stop receiving until the next [`Operation::Receive`]; bytes in flight may still arrive.
    StopReceive(Socket),
    /// Send all of `buffer[offset..]`, unless the socket fails.
    Send {
        /// Socket to send on.
        socket: Socket,
        /// Returned by [`Completion::Sent`].
        buffer: Vec<u8>,
        /// Start of the bytes to send.
        offset: usize,
    },
    /// Shut down writing (half close); receiving continues. A send in flight completes first; a
    /// close cancels both. Has no completion. No sends may follow. No effect on pipes.
    ShutdownWrite(Socket),
    /// Close the socket; outstanding operations are cancelled first. What the kernel has accepted
    /// is still sent.
    Close(Socket),
    /// Close the socket and reset its connection (RFC 9293, section 3.10.5: ABORT): what the
    /// kernel has not sent is discarded, and the peer's reads fail. Closes like
    /// [`Operation::Close`] if the kernel cannot (`io_uring` before Linux 6.7) and for pipes.
    Reset(Socket),
}

/// A completed operation or an event.
#[derive(Debug)]
pub enum Completion {
    /// A connection was accepted.
    Accepted {
        /// The listener.
        listener: Listener,
        /// The new socket.
        socket: Socket,
        /// The remote address, if known.
        peer: Option<SocketAddr>,
    },
    /// A connection could not be accepted (no slot, no memory). Accepting is retried automatically.
    AcceptFailed {
        /// The listener.
        listener: Listener,
        /// The cause.
        error: io::Error,
    },
    /// [`Operation::Connect`] has completed.
    Connected {
        /// The token of the operation.
        token: u64,
        /// The new socket, or the error.
        result: io::Result<Socket>,
    },
    /// Bytes were received.
    Received {
        /// The socket.
        socket: Socket,
        /// The buffer that holds the bytes.
        buffer: ReceiveBuffer,
    },
    /// No more bytes will be received: the peer shut down writing, or the socket failed. The socket
    /// stays open for sending until it is closed.
    EndOfStream {
        /// The socket.
        socket: Socket,
        /// `Ok` at end of stream, or the error.
        result: io::Result<()>,
    },
    /// The peer has proven that it has the private key of a certificate (TLS). Comes before the
    /// first [`Completion::Received`] of the socket.
    PeerCertificate {
        /// The socket.
        socket: Socket,
        /// The certificate in DER.
        certificate: Box<[u8]>,
    },
    /// A send has completed.
    Sent {
        /// The socket.
        socket: Socket,
        /// The buffer of the operation, unchanged; empty if the socket was closed while the kernel
        /// still used the buffer (zero-copy send).
        buffer: Vec<u8>,
        /// Number of bytes sent from the offset on (fewer than requested if the kernel took fewer),
        /// or the error.
        result: io::Result<usize>,
    },
    /// The socket is closed and its name may be reused.
    Closed {
        /// The socket.
        socket: Socket,
    },
}

impl Completion {
    /// Returns the open socket that the completion belongs to; a new one belongs to its listener.
    #[inline]
    pub const fn socket(&self) -> Option<Socket> {
        match *self {
            Self::Received { socket, .. }
            | Self::EndOfStream { socket, .. }
            | Self::PeerCertificate { socket, .. }
            | Self::Sent { socket, .. }
            | Self::Closed { socket } => Some(socket),
            Self::Accepted { .. } | Self::AcceptFailed { .. } | Self::Connected { .. } => None,
        }
    }
}

/// A filled receive buffer, held by the shard.
#[derive(Debug, Eq, PartialEq)]
#[must_use = "a receive buffer that is not released is lost to the shard"]
pub struct ReceiveBuffer {
    /// Index in the ring's set of buffers.
    pub index: u16,
    /// Number of bytes received.
    pub len: u32,
}

/// What bounds the open sockets of a ring.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SocketLimit {
    /// The limit of open files (`RLIMIT_NOFILE`): of the ring over `io_uring`, else of the process.
    OpenFiles(u32),
    /// [`RingOptions::sockets_max`].
    SocketsMax(u32),
}

/// Few sockets can be opened: what is left is spare, for connections that get an error response,
/// and for files.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Shortage {
    /// The limit that is close.
    pub limit: SocketLimit,
    /// Less than half of the spare part is left.
    pub is_severe: bool,
}

impl Shortage {
    /// Returns the shortage if of `limit` only spare sockets are `free`.
    fn of(limit: SocketLimit, free: u32) -> Option<Self> {
        let spare = limit.spare();
        (free < spare).then_some(Self { limit, is_severe: free < spare / 2 })
    }
}

/// The most sockets that are spare.
pub const SPARE_SOCKETS_MAX: u32 = 192;

impl SocketLimit {
    /// Returns how many sockets are spare: an eighth of the open files, a part in 64 of the
    /// sockets that were asked for, and at most [`SPARE_SOCKETS_MAX`].
    pub const fn spare(self) -> u32 {
        let part = match self {
            Self::OpenFiles(most) => most / 8,
            Self::SocketsMax(most) => most / 64,
        };
        if part < SPARE_SOCKETS_MAX { part } else { SPARE_SOCKETS_MAX }
    }
}

/// Wakes a parked ring from other threads and rings.
#[derive(Clone)]
pub struct Waker {
    wake: Arc<dyn Fn() + Send + Sync>,
    /// The descriptor of an `io_uring` that accepts `MSG_RING`, held so that its number is not
    /// reused.
    ring_fd: Option<Arc<OwnedFd>>,
}

impl Waker {
    /// Creates a waker that calls `wake`, on any thread.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self { wake: Arc::new(wake), ring_fd: None }
    }

    /// Ends the current or next [`Ring::park`] of the ring. May be called from any thread; calls
    /// before that park coalesce.
    pub fn wake(&self) {
        (self.wake)();
    }
}

impl std::fmt::Debug for Waker {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Waker").finish_non_exhaustive()
    }
}

/// How often fixed resources of a ring were exhausted. Each time costs a turn and loses nothing;
/// frequent exhaustion suggests larger sizes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Exhaustion {
    /// Times that a socket had bytes and no receive buffer was free.
    pub receive_buffers: u64,
    /// Times that the completion queue was full at the end of a turn.
    pub completions: u64,
}

/// The timeout of [`Ring::park`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ParkTimeout {
    /// Do not wait: submit, collect completions, return.
    Zero,
    /// Wait at most this long.
    After(Duration),
    /// Wait until something happens.
    Infinite,
}

impl ParkTimeout {
    /// Returns the shorter of this timeout and `duration`.
    #[must_use]
    pub fn at_most(self, duration: Duration) -> Self {
        match self {
            Self::Zero => Self::Zero,
            Self::After(longest) => Self::After(longest.min(duration)),
            Self::Infinite => Self::After(duration),
        }
    }
}

/// A backend; see the module for the invariants.
pub trait Ring {
    /// Registers a descriptor. The ring owns it from now on and closes it. Its name is that of no
    /// socket whose [`Completion::Closed`] was reaped since the last park and may not be handled.
    fn register(&mut self, source: Source) -> io::Result<Registered>;

    /// Queues an operation for the next park. Never blocks and never fails: a full queue is
    /// flushed, and errors are returned as completions.
    fn submit(&mut self, operation: Operation);

    /// Appends all completions to `completions`. Makes no system call.
    fn reap(&mut self, completions: &mut Vec<Completion>);

    /// Submits queued operations and waits for a completion, a wake-up or the timeout. Returns the
    /// time at its end, the only clock reading of a turn.
    fn park(&mut self, timeout: ParkTimeout) -> Instant;

    /// Returns when [`Ring::park`] returns at the latest, whatever its timeout: for a host that
    /// waits elsewhere. Past if the ring has something to do at once.
    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    /// Returns a waker of this ring.
    fn waker(&self) -> Waker;

    /// Wakes another shard's ring by the cheapest means available. May take effect only at the next
    /// park of this ring.
    fn wake(&mut self, other: &Waker) {
        other.wake();
    }

    /// Returns the bytes of a receive buffer followed by at least [`PADDING`] bytes of unspecified
    /// content, so that parsers can read whole vectors. The padding starts at `buffer.len`.
    fn bytes(&mut self, buffer: &ReceiveBuffer) -> &mut [u8];

    /// Returns a receive buffer to the ring.
    fn release(&mut self, buffer: ReceiveBuffer);

    /// Has the kernel signal `eventfd` on every completion and wake-up, so that another event loop
    /// of this thread can wait for the ring. Only `io_uring` supports it.
    fn register_eventfd(&mut self, eventfd: std::os::fd::BorrowedFd<'_>) -> io::Result<()> {
        let _ = eventfd;
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns the exhaustion counters since start; zero if the backend does not count.
    fn exhaustion(&self) -> Exhaustion {
        Exhaustion::default()
    }

    /// Returns the shortage that `socket`, which has just been opened, has left. Default: sockets
    /// are never short.
    fn shortage(&mut self, socket: Socket) -> Option<Shortage> {
        let _ = socket;
        None
    }

    /// Returns the bytes that are held for sockets between the ring and their owner, such as the
    /// state of filters. Default: none.
    fn held_bytes(&self) -> usize {
        0
    }

    /// Returns the part of [`Ring::held_bytes`] that closing `socket` frees.
    fn held_bytes_of(&self, socket: Socket) -> usize {
        let _ = socket;
        0
    }

    /// Describes the backend and its features, for the log.
    fn describe(&self) -> String;
}

pub use crate::buffer::PADDING;

/// The sizes of a ring, fixed at start.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RingOptions {
    /// Open sockets. Cost: 16 bytes each in the backend and a slot in the kernel's table;
    /// `io_uring` accepts at most the process's limit of open files. Default 20,000.
    pub sockets_max: u32,
    /// Entries of the submission queue. Cost: 64 bytes each. Default 4,096.
    pub submissions_max: u32,
    /// Entries of the completion queue. Cost: 16 bytes each. Default 32,768.
    pub completions_max: u32,
    /// Receive buffers, a power of two. Default 1,024.
    pub receive_buffers: u16,
    /// Bytes of one receive buffer without its padding: a message that fits with its head is parsed
    /// in place. Default 8,192; cost for each buffer, of which only the pages that were written
    /// take memory.
    pub receive_buffer_bytes: u32,
    /// Buffers that one socket may fill in one turn before other sockets are served. Default 64.
    pub burst_buffers_max: u16,
    /// Accepts in flight on each listener, each with a buffer for the peer's address. Default 10.
    pub accepts_in_flight: u16,
    /// Sends of at least this many bytes use zero-copy (`IORING_OP_SEND_ZC`); `u32::MAX` disables
    /// it. Default disabled: see `benches/floor` for the measurement.
    pub zero_copy_bytes_min: u32,
}

impl Default for RingOptions {
    fn default() -> Self {
        Self {
            sockets_max: 20_000,
            submissions_max: 4_096,
            completions_max: 32_768,
            receive_buffers: 1_024,
            receive_buffer_bytes: 8_192,
            burst_buffers_max: 64,
            accepts_in_flight: 10,
            zero_copy_bytes_min: u32::MAX,
        }
    }
}
