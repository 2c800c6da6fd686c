//! The `io_uring` backend: one ring a shard, with all features that the kernel has.
//!
//! Connections are direct descriptors, which use no descriptor of the process; receives are
//! multishot into a ring of provided buffers, so an idle connection holds no buffer; one
//! `io_uring_enter(2)` a turn submits, runs deferred task work and waits.
//!
//! Invariants: memory that the kernel may still read or write (send buffers, socket addresses, the
//! eventfd's read buffer) does not move until the completion that ends its use has been reaped.
//! Dropping a ring cancels what is in flight and reaps it first (`close`).
//!
//! A ring must be created on the thread that uses it (`IORING_SETUP_SINGLE_ISSUER`).

mod sys;

mod operation_slab;
mod setup;
mod table;
mod user_data;

mod accept;
mod connect;
mod receive;
mod send;
mod wake;

mod close;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::{IoUring, squeue};

use self::accept::Accepts;
use self::connect::ConnectAttempts;
use self::operation_slab::OperationSlab;
use self::send::PendingSend;
use self::setup::RingFeatures;
use self::sys::RingFd;
use self::table::SocketTable;
use self::user_data::OperationKind;
use self::wake::WakeState;
use super::{
    Completion, Exhaustion, Operation, ParkTimeout, ReceiveBuffer, Registered, Ring, RingOptions,
    Socket, Source, Waker,
};
use crate::base::time::Instant;
use crate::engine::buffer::ReceiveBuffers;
use crate::engine::buffer::provided::ProvidedBuffers;
use crate::engine::clock::Clock;

/// A shard's `io_uring`.
pub struct UringRing {
    // Dropped first, so that the kernel no longer uses the memory below.
    ring: IoUring,
    ring_fd: RingFd,
    provided: ProvidedBuffers,
    accepts: Accepts,
    connects: ConnectAttempts,
    sends: OperationSlab<PendingSend>,
    wake_state: WakeState,
    sockets: SocketTable,
    /// Sockets that want to receive but have no receive in flight, mostly because buffers ran out.
    /// Armed at the next park when a buffer is free.
    pending_receives: VecDeque<Socket>,
    /// Number of buffers held by the shard.
    buffers_held: u16,
    /// Number of reaps; a socket's burst is counted separately for each.
    turn: u16,
    /// Completions that did not come from the kernel.
    ready: Vec<Completion>,
    /// Submissions that found the queue full while the kernel was busy.
    backlog: VecDeque<squeue::Entry>,
    /// Submissions whose last completion has not been reaped, including the backlog. Excludes
    /// `MSG_RING`, which completes only on failure.
    in_flight: usize,
    /// Completions copied out of the shared queue, so that handlers may submit.
    reaped: Vec<(u64, i32, u32)>,
    exhaustion: Exhaustion,
    clock: Clock,
    /// The last clock reading.
    now: Instant,
    features: RingFeatures,
    options: RingOptions,
}

impl UringRing {
    /// Creates a ring on the calling thread, which alone may use it.
    ///
    /// # Errors
    ///
    /// If the kernel refuses; the text names the cause and what to do.
    pub fn new(options: &RingOptions, clock: Clock) -> io::Result<Self> {
        let (ring, entrance, granted) = setup::build(options)?;
        let buffers = ReceiveBuffers::new(options.receive_buffers, options.receive_buffer_bytes);
        let provided = ProvidedBuffers::register(buffers, &ring.submitter())?;
        // SAFETY: the ring's descriptor is open as long as the ring, which outlives this borrow.
        let file = unsafe { BorrowedFd::borrow_raw(ring.as_raw_fd()) };
        let wakes = WakeState::new(file, granted.msg_ring)?;
        let mut built = Self {
            ring,
            ring_fd: entrance,
            provided,
            accepts: Accepts::default(),
            connects: ConnectAttempts::default(),
            sends: OperationSlab::default(),
            wake_state: wakes,
            sockets: SocketTable::new(granted.slots),
            pending_receives: VecDeque::new(),
            buffers_held: 0,
            turn: 0,
            ready: Vec::new(),
            backlog: VecDeque::new(),
            in_flight: 0,
            reaped: Vec::with_capacity(1024),
            exhaustion: Exhaustion::default(),
            clock,
            now: clock.now(),
            features: granted,
            options: *options,
        };
        built.arm_wake();
        Ok(built)
    }

    /// Queues one submission. A full queue is flushed; if that fails, the entry waits in the
    /// backlog until the next park.
    fn push(&mut self, entry: squeue::Entry) {
        self.in_flight += 1;
        if !self.backlog.is_empty() || self.try_push(&entry).is_err() {
            self.backlog.push_back(entry);
        }
    }

    fn try_push(&mut self, entry: &squeue::Entry) -> Result<(), ()> {
        // SAFETY: every entry comes from this module's builders, whose memory stays valid until the
        // completion (see the module's invariants).
        if unsafe { self.ring.submission().push(entry) }.is_ok() {
            return Ok(());
        }
        if self.enter(ParkTimeout::Zero).is_err() {
            return Err(());
        }
        // SAFETY: as above.
        unsafe { self.ring.submission().push(entry) }.map_err(|_| ())
    }

    fn flush_backlog(&mut self) {
        while let Some(entry) = self.backlog.pop_front() {
            if self.try_push(&entry).is_err() {
                self.backlog.push_front(entry);
                return;
            }
        }
    }

    /// Dispatches one completion by its kind.
    fn complete(&mut self, word: u64, result: i32, flags: u32, into: &mut Vec<Completion>) {
        self.in_flight -= usize::from(user_data::is_last(word, flags));
        let Some((purpose, index)) = user_data::decode(word) else { return };
        match purpose {
            OperationKind::Receive => self.complete_receive(Socket(index), result, flags, into),
            OperationKind::Send => self.complete_send(index, result, flags, into),
            OperationKind::Accept => self.complete_accept(index, result, into),
            OperationKind::OpenSocket => self.complete_open(index, result, into),
            OperationKind::Bind => self.complete_bind(index, result, into),
            OperationKind::InstallSlot => self.complete_install(index, result, into),
            OperationKind::Connect => self.complete_connect(index, result, into),
            OperationKind::Close => self.complete_close(Socket(index), result, into),
            OperationKind::ReadEvent => self.arm_wake(),
            OperationKind::SendMessage => self.complete_message(index, result),
            OperationKind::ShutdownWrite => self.complete_shutdown(Socket(index)),
            OperationKind::Cancel | OperationKind::SetOption | OperationKind::ReceiveMessage => {}
        }
    }

    /// Enters the kernel with the queued submissions. Transient errors are ignored.
    #[inline]
    fn enter(&mut self, timeout: ParkTimeout) -> io::Result<()> {
        let queued = self.ring.submission().len();
        match self.ring_fd.enter(queued, timeout) {
            Err(error) if is_transient(&error) => Ok(()),
            entered => entered,
        }
    }
}

/// Whether the error is transient: a timeout, a signal, completions to be reaped first, or a lack
/// of memory.
fn is_transient(error: &io::Error) -> bool {
    let codes = [libc::ETIME, libc::EINTR, libc::EBUSY, libc::EAGAIN, libc::ENOMEM];
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

impl Ring for UringRing {
    fn register(&mut self, source: Source) -> io::Result<Registered> {
        Ok(match source {
            Source::Listener(descriptor) => {
                Registered::Listener(self.accepts.add(descriptor, self.options.accepts_in_flight)?)
            }
            Source::Stream(descriptor) => {
                Registered::Socket(self.sockets.register(descriptor, false))
            }
            Source::Pipe(descriptor) => Registered::Socket(self.sockets.register(descriptor, true)),
        })
    }

    fn submit(&mut self, operation: Operation) {
        match operation {
            Operation::Accept(listener) => self.submit_accepts(listener),
            Operation::CloseListener(listener) => self.close_listener(listener),
            Operation::Connect { address, local_address: from, token } => {
                self.submit_open(address, from, token);
            }
            Operation::Receive(socket) => self.submit_receive(socket),
            Operation::StopReceive(socket) => self.submit_stop_receive(socket),
            Operation::Send { socket, buffer, offset: from } => {
                self.submit_send(socket, buffer, from);
            }
            Operation::ShutdownWrite(socket) => self.submit_shutdown(socket),
            Operation::Close(socket) => self.submit_close(socket),
        }
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) {
        self.turn = self.turn.wrapping_add(1);
        completions.append(&mut self.ready);
        self.exhaustion.completions += u64::from(self.ring.submission().cq_overflow());
        let mut reaped = std::mem::take(&mut self.reaped);
        reaped.extend(
            self.ring.completion().map(|entry| (entry.user_data(), entry.result(), entry.flags())),
        );
        for (word, result, flags) in reaped.drain(..) {
            self.complete(word, result, flags, completions);
        }
        self.reaped = reaped;
        // Includes completions that these have caused.
        completions.append(&mut self.ready);
    }

    fn park(&mut self, timeout: ParkTimeout) -> Instant {
        self.resume_accepts();
        self.provided.publish();
        // Checked even if no buffer was released in this turn: a socket may have found none while
        // all were being released.
        if self.buffers_held < self.options.receive_buffers {
            self.arm_pending_receives();
        }
        self.flush_backlog();
        let idle = self.ready.is_empty() && self.backlog.is_empty();
        let timeout = match self.accepts.retry_at() {
            _ if !idle => ParkTimeout::Zero,
            Some(end) => timeout.at_most(end.since(self.now)),
            None => timeout,
        };
        if let Err(error) = self.enter(timeout) {
            // Includes dropped completions for lack of memory: the state of a socket is then
            // unknown.
            panic!("io_uring_enter failed: {error}");
        }
        self.now = self.clock.now();
        self.now
    }

    fn waker(&self) -> Waker {
        self.wake_state.waker()
    }

    fn wake(&mut self, other: &Waker) {
        self.submit_message(other);
    }

    fn bytes(&mut self, buffer: &ReceiveBuffer) -> &mut [u8] {
        self.provided.bytes(buffer.index)
    }

    fn release(&mut self, buffer: ReceiveBuffer) {
        self.buffers_held -= 1;
        self.provided.provide(buffer.index);
    }

    #[cfg(any(feature = "glommio", feature = "internals"))]
    fn register_eventfd(&mut self, eventfd: BorrowedFd<'_>) -> io::Result<()> {
        self.ring.submitter().register_eventfd(eventfd.as_raw_fd())?;
        self.wake_state.add_event(eventfd.try_clone_to_owned()?)
    }

    fn exhaustion(&self) -> Exhaustion {
        self.exhaustion
    }

    fn describe(&self) -> String {
        self.features.describe()
    }
}

impl std::fmt::Debug for UringRing {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("UringRing").field("granted", &self.features).finish_non_exhaustive()
    }
}
