//! The `io_uring` backend: one ring a shard, with all features that the kernel has.
//!
//! Connections are direct descriptors, which use no descriptor of the process; receives are
//! multishot into a ring of provided buffers, so an idle connection holds no buffer; one
//! `io_uring_enter(2)` a turn submits, runs deferred task work and waits.
//!
//! Invariants: memory that the kernel may still read or write (send buffers, socket addresses, the
//! eventfd's read buffer) does not move until the completion that ends its use has been reaped.
//! Dropping a ring cancels what is in flight and reaps it first.
//!
//! A ring must be created on the thread that uses it (`IORING_SETUP_SINGLE_ISSUER`).

mod sys;

mod operations;
mod setup;

mod queues;
mod table;

mod accept;
mod connect;
mod receive;
mod send;
mod wake;

use std::io;
use std::time::Duration;

use self::accept::Accepts;
use self::connect::ConnectAttempts;
use self::operations::{OperationKind, decode};
use self::queues::{CompletionEntry, Queues};
use self::receive::Receives;
use self::send::Sends;
use self::setup::RingFeatures;
use self::table::SocketTable;
use self::wake::WakeState;
use super::outgoing_socket::OutgoingSocket;
use super::{
    Completion, Operation, ParkTimeout, ReceiveBuffer, Registered, Ring, RingOptions, Shortage,
    Socket, Source, Waker,
};
use crate::buffer::provided::GROUP;
use crate::clock::Clock;
use corelane_base::time::Instant;

/// A shard's `io_uring`.
pub struct UringRing {
    // Dropped first, so that the kernel no longer uses the memory below.
    queues: Queues,
    receives: Receives,
    accepts: Accepts,
    connects: ConnectAttempts,
    sends: Sends,
    wake_state: WakeState,
    sockets: SocketTable,
    /// Completions copied out of the shared queue, so that handlers may submit.
    reaped: Vec<CompletionEntry>,
    clock: Clock,
    /// The last clock reading.
    now: Instant,
    features: RingFeatures,
}

/// How long dropping a ring waits for the kernel to release its memory. Only zero-copy sends that
/// the peer has not acknowledged cannot be cancelled.
const DROP_TIMEOUT: Duration = Duration::from_secs(1);

/// Returns the accepts in flight of a listener: each may take a slot, so that few slots are not
/// reserved for idle listeners.
fn accepts_each(wanted: u16, slots: u32) -> u16 {
    wanted.min(u16::try_from(slots / 64).unwrap_or(u16::MAX))
}

impl UringRing {
    /// Creates a ring on the calling thread, which alone may use it.
    ///
    /// # Errors
    ///
    /// If the kernel refuses; the text names the cause and what to do.
    pub fn new(options: &RingOptions, clock: Clock) -> io::Result<Self> {
        let (ring, entrance, granted) = setup::build(options)?;
        let queues = Queues::new(ring, entrance);
        let receives = Receives::new(options, &queues.submitter())?;
        let wake_state = WakeState::new(queues.descriptor(), granted.msg_ring)?;
        let mut built = Self {
            queues,
            receives,
            accepts: Accepts::new(accepts_each(options.accepts_in_flight, granted.slots)),
            connects: ConnectAttempts::new(granted.bind),
            sends: Sends::new(options.zero_copy_bytes_min),
            wake_state,
            sockets: SocketTable::new(granted.slots),
            reaped: Vec::with_capacity(1024),
            clock,
            now: clock.now(),
            features: granted,
        };
        built.wake_state.arm(&mut built.queues);
        Ok(built)
    }

    /// Dispatches one completion by its kind.
    fn complete(&mut self, entry: CompletionEntry, into: &mut Vec<Completion>) {
        let Self { queues, sockets, receives, sends, accepts, connects, .. } = self;
        queues.count_completion(entry);
        let Some((purpose, index)) = decode(entry.user_data) else { return };
        let (socket, result) = (Socket(index), entry.result);
        match purpose {
            OperationKind::Receive => receives.complete(queues, sockets, socket, entry, into),
            OperationKind::Send => sends.complete(queues, sockets, index, entry, into),
            OperationKind::Accept => {
                accepts.complete(queues, sockets, index, result, self.now, into);
            }
            OperationKind::OpenSocket => connects.complete_open(queues, index, result, into),
            OperationKind::Bind => connects.complete_bind(queues, sockets, index, result, into),
            OperationKind::InstallSlot => connects.complete_install(queues, index, result, into),
            OperationKind::Connect => {
                connects.complete_connect(queues, sockets, index, result, into);
            }
            OperationKind::Close => self.complete_close(socket, result, into),
            OperationKind::ReadEvent => self.wake_state.arm(queues),
            OperationKind::SendMessage => self.wake_state.complete_message(index, result),
            OperationKind::ShutdownWrite => sockets.complete_shutdown(queues, socket),
            OperationKind::Cancel | OperationKind::SetOption | OperationKind::ReceiveMessage => {}
        }
    }

    fn close(&mut self, socket: Socket) {
        let Self { queues, sockets, sends, .. } = self;
        if sockets.begin_close(queues, socket) {
            sends.cancel(queues, sockets, socket);
            sockets.close_if_idle(queues, socket);
        }
    }

    fn complete_close(&mut self, socket: Socket, result: i32, into: &mut Vec<Completion>) {
        if !self.sockets.complete_close(&mut self.queues, socket, result) {
            return;
        }
        if !self.connects.take_failed(socket) {
            into.push(Completion::Closed { socket });
        }
        self.accepts.resume_one(&mut self.queues);
    }
}

impl Ring for UringRing {
    fn register(&mut self, source: Source) -> io::Result<Registered> {
        Ok(match source {
            Source::Listener(descriptor) => Registered::Listener(self.accepts.add(descriptor)?),
            Source::Stream(descriptor) => {
                Registered::Socket(self.sockets.register(descriptor, false))
            }
            Source::Pipe(descriptor) => Registered::Socket(self.sockets.register(descriptor, true)),
        })
    }

    fn submit(&mut self, operation: Operation) {
        let Self { queues, sockets, receives, sends, accepts, connects, .. } = self;
        match operation {
            Operation::Accept(listener) => accepts.submit(queues, listener),
            Operation::CloseListener(listener) => accepts.close(queues, listener),
            Operation::Connect { address, local_address: from, keepalive, token } => {
                let outgoing = OutgoingSocket { address, local: from, keepalive };
                connects.submit(queues, &outgoing, token);
            }
            Operation::Receive(socket) => receives.submit(queues, sockets, socket),
            Operation::StopReceive(socket) => receive::stop(queues, sockets, socket),
            Operation::Send { socket, buffer, offset: from } => {
                sends.submit(queues, sockets, socket, buffer, from);
            }
            Operation::ShutdownWrite(socket) => sockets.shutdown_write(queues, socket),
            Operation::Close(socket) => self.close(socket),
            Operation::Reset(socket) => {
                sockets.request_reset(socket);
                self.close(socket);
            }
        }
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) {
        self.receives.begin_turn();
        self.queues.take_ready(completions);
        let mut reaped = std::mem::take(&mut self.reaped);
        self.queues.take_entries(&mut reaped);
        for entry in reaped.drain(..) {
            self.complete(entry, completions);
        }
        self.reaped = reaped;
        // Includes completions that these have caused.
        self.queues.take_ready(completions);
        self.sockets.report_closed();
    }

    fn park(&mut self, timeout: ParkTimeout) -> Instant {
        let Self { queues, sockets, receives, accepts, .. } = self;
        sockets.free_reported();
        accepts.resume_due(queues, self.now);
        receives.resume(queues, sockets);
        queues.flush_backlog();
        let timeout = match accepts.retry_at() {
            _ if !queues.may_wait() => ParkTimeout::Zero,
            Some(end) => timeout.at_most(end.since(self.now)),
            None => timeout,
        };
        if let Err(error) = queues.enter(timeout) {
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
        self.wake_state.wake(&mut self.queues, other);
    }

    fn bytes(&mut self, buffer: &ReceiveBuffer) -> &mut [u8] {
        self.receives.bytes(buffer)
    }

    fn release(&mut self, buffer: ReceiveBuffer) {
        self.receives.release(buffer);
    }

    fn register_eventfd(&mut self, eventfd: std::os::fd::BorrowedFd<'_>) -> io::Result<()> {
        self.queues.register_eventfd(eventfd)?;
        self.wake_state.add_event(eventfd.try_clone_to_owned()?)
    }

    fn exhaustion(&self) -> super::Exhaustion {
        super::Exhaustion {
            receive_buffers: self.receives.exhaustions(),
            completions: self.queues.overflows(),
        }
    }

    fn shortage(&mut self, socket: Socket) -> Option<Shortage> {
        let free = self.sockets.free_slots(socket)?;
        Shortage::of(self.features.socket_limit, free)
    }

    fn describe(&self) -> String {
        self.features.describe()
    }
}

impl Drop for UringRing {
    /// Closing the ring's descriptor also ends all requests, but asynchronously, while the memory
    /// below is freed at once. So everything is cancelled first, and memory that is still in use is
    /// leaked.
    fn drop(&mut self) {
        let receiving: Vec<Socket> = self.sockets.receiving().collect();
        let deadline = self.clock.now().after(DROP_TIMEOUT);
        if !self.queues.cancel_all(&receiving, self.clock, deadline) {
            self.sends.leak();
            self.connects.leak();
            self.accepts.leak();
            self.wake_state.leak();
            self.receives.leak();
        }
        // Wakers may hold the ring's descriptor for longer: connections and memory must not outlive
        // the ring with it.
        self.queues.unregister(GROUP);
    }
}

impl std::fmt::Debug for UringRing {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("UringRing").field("granted", &self.features).finish_non_exhaustive()
    }
}
