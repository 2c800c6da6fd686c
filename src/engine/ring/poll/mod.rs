//! The readiness backend: the `polling` crate (`epoll`, `kqueue`) and non-blocking system calls.
//! For kernels and containers without `io_uring`, and for other Unixes.
//!
//! Invariants: those of [`Ring`], with the same sizes and order. A park first does what can be done
//! without waiting: sends are attempted at once, and only the rest is polled for. Flags of shared
//! descriptors are not changed, except for pipes (see `descriptor`).
//!
//! Polling is level-triggered. It costs one system call for each connection, when it first
//! receives, and none for each message: no re-arming as with one-shot interest, and no second read
//! that fails as with edge triggering. In exchange the kernel checks each stream again that was
//! ready before.
//!
//! Systems whose poller is neither `epoll` nor `kqueue` have no level-triggered mode and are
//! refused by [`PollRing::new`].

mod descriptor;
mod streams;

mod listeners;
mod send;

mod receive;

use std::io;
use std::mem;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use polling::{Event, Events, Poller};
use rustix::io::Errno;

use self::descriptor::Descriptor;
use self::listeners::Listeners;
use self::receive::{ReceiveBufferPool, Receives};
use self::streams::{PendingSend, ReceiveState, Stream, StreamTable};
use crate::clock::Clock;
use crate::process::raise_open_files_limit;
use crate::ring::outgoing_socket::OutgoingSocket;
use crate::ring::{
    Completion, Operation, ParkTimeout, ReceiveBuffer, Registered, Ring, RingOptions, Shortage,
    Socket, Source, Waker,
};
use corelane_base::time::Instant;

/// A ring over readiness events.
#[derive(Debug)]
pub struct PollRing {
    poller: Arc<Poller>,
    events: Events,
    clock: Clock,
    /// The last clock reading.
    now: Instant,
    operations: Vec<Operation>,
    streams: StreamTable,
    receives: Receives,
    listeners: Listeners,
    /// Completions that have not been reaped.
    completed: Vec<Completion>,
    /// The last park did not poll, because completions were pending.
    has_skipped_wait: bool,
    /// The limit of open files of the process.
    open_files_max: u32,
}

impl PollRing {
    /// Returns the bytes of the table of sockets, without what is being sent.
    pub const fn socket_bytes(&self) -> usize {
        self.streams.allocated_bytes()
    }

    /// Creates a ring with the sizes of `options`, except for the queues and the zero-copy limit.
    /// [`Ring::park`] returns the time of `clock`.
    ///
    /// # Errors
    ///
    /// If no descriptor is left, or [`io::ErrorKind::Unsupported`] if the poller is not
    /// level-triggered.
    pub fn new(options: &RingOptions, clock: Clock) -> io::Result<Self> {
        let poller = Poller::new()?;
        if !poller.supports_level() {
            let cause = "the readiness ring needs a poller that is level-triggered (epoll, kqueue)";
            return Err(io::Error::new(io::ErrorKind::Unsupported, cause));
        }
        let buffers = ReceiveBufferPool::new(options.receive_buffers, options.receive_buffer_bytes);
        Ok(Self {
            poller: Arc::new(poller),
            events: Events::with_capacity(EVENTS_MAX),
            clock,
            now: clock.now(),
            operations: Vec::with_capacity(64),
            streams: StreamTable::new(options.sockets_max),
            receives: Receives::new(options.burst_buffers_max, buffers),
            listeners: Listeners::new(options.accepts_in_flight),
            completed: Vec::new(),
            has_skipped_wait: false,
            open_files_max: raise_open_files_limit(),
        })
    }

    /// Executes the submitted operations in order.
    fn execute_operations(&mut self) {
        let Self { streams, receives, listeners, completed, .. } = self;
        let poller = &*self.poller;
        let mut has_closed = false;
        for operation in self.operations.drain(..) {
            match operation {
                Operation::Accept(listener) => listeners.accept(poller, listener, completed),
                Operation::CloseListener(listener) => listeners.close(poller, listener),
                Operation::Connect { address, local_address: from, keepalive, token } => {
                    let outgoing = OutgoingSocket { address, local: from, keepalive };
                    streams.connect(poller, &outgoing, token, completed);
                }
                Operation::Receive(socket) => receive::start(poller, streams, socket, completed),
                Operation::StopReceive(socket) => receives.stop(streams, socket),
                Operation::Send { socket, buffer, offset: from } => {
                    streams.send(poller, socket, buffer, from, completed);
                }
                Operation::ShutdownWrite(socket) => streams.shutdown_write(socket),
                Operation::Close(socket) => {
                    close(poller, streams, receives, socket, completed);
                    has_closed = true;
                }
                Operation::Reset(socket) => {
                    streams.find(socket).inspect(|stream| stream.descriptor.reset_on_close());
                    close(poller, streams, receives, socket, completed);
                    has_closed = true;
                }
            }
        }
        listeners.retry_paused(poller, streams, self.now, has_closed, completed);
        receives.read_starved(poller, streams, completed);
        if !streams.files().is_empty() {
            receives.serve_files(poller, streams, completed);
        }
    }

    /// Polls for events and handles them. Waits at most for the timeout and until a paused listener
    /// is to be retried.
    fn wait(&mut self, timeout: ParkTimeout) {
        let retry = self.listeners.next_retry().map(|deadline| deadline.since(self.now));
        let timeout = retry.map_or(timeout, |retry| timeout.at_most(retry));
        let timeout = match timeout {
            ParkTimeout::Zero => Some(Duration::ZERO),
            ParkTimeout::After(longest) => Some(longest),
            ParkTimeout::Infinite => None,
        };
        self.events.clear();
        if let Err(error) = self.poller.wait(&mut self.events, timeout) {
            // Only an invalid poller refuses to wait.
            panic!("waiting for events failed: {error}");
        }
        self.now = self.clock.now();
        let Self { streams, receives, listeners, completed, .. } = self;
        let poller = &*self.poller;
        // If more may be ready than one wait reports, listeners could be starved.
        let is_crowded = self.events.len() >= BUSY_EVENTS_MIN;
        for event in self.events.iter() {
            match listeners::from_key(event.key) {
                Some(listener) if !is_crowded => {
                    listeners.accept_ready(poller, streams, listener, self.now, completed);
                }
                Some(_) => {}
                None => handle_readiness(poller, streams, receives, event, completed),
            }
        }
        if is_crowded {
            listeners.accept_all_ready(poller, streams, self.now, completed);
        }
    }

    /// Discards unreaped completions of a stream that is being closed, except for its send. Shards
    /// reap before they submit, so there are usually none.
    fn discard_completions(&mut self, socket: Socket) {
        if self.completed.is_empty() {
            return;
        }
        let completed = mem::take(&mut self.completed);
        for completion in completed {
            match completion {
                Completion::Received { socket: of, buffer } if of == socket => {
                    self.receives.release(buffer);
                }
                Completion::EndOfStream { socket: of, .. } if of == socket => {}
                other => self.completed.push(other),
            }
        }
    }
}

/// Events that one wait reports; others are reported by the next one. Measured: the kernel's state
/// of so many connections is still in cache when their responses are sent. With 1,000 events a
/// request costs 8 % more; with 32 the additional waits become noticeable.
const EVENTS_MAX: NonZeroUsize = NonZeroUsize::MIN.saturating_add(127);

/// From this number of events on, the next wait may be full. Less than [`EVENTS_MAX`], because the
/// poller does not report its own events.
const BUSY_EVENTS_MIN: usize = EVENTS_MAX.get() / 2;

/// Handles a readiness event of a stream.
#[inline]
fn handle_readiness(
    poller: &Poller,
    streams: &mut StreamTable,
    receives: &mut Receives,
    event: Event,
    completed: &mut Vec<Completion>,
) {
    #[expect(clippy::cast_possible_truncation, reason = "stream keys are socket names")]
    let socket = Socket(event.key as u32);
    let Some(stream) = streams.find(socket) else { return };
    if stream.connecting.is_some() {
        return streams.complete_connect(poller, socket, completed);
    }
    let wanted = stream.wanted();
    let (is_read, is_written) =
        (event.readable && wanted.readable, event.writable && wanted.writable);
    if is_written {
        streams.continue_send(poller, socket, completed);
    }
    if is_read {
        receives.read_ready(streams, socket, completed);
    }
    if !is_read && !is_written {
        // No longer of interest: a paused stream, or one at its end.
        streams.reduce_interest(poller, socket);
    }
}

/// Closes a stream and cancels its send in progress.
fn close(
    poller: &Poller,
    streams: &mut StreamTable,
    receives: &mut Receives,
    socket: Socket,
    completed: &mut Vec<Completion>,
) {
    let Some(mut stream) = streams.remove(poller, socket) else {
        debug_assert!(false, "{socket:?} is closed twice");
        return;
    };
    if stream.receive_state == ReceiveState::Starved {
        receives.remove_starved(socket);
    }
    if let Some(PendingSend { buffer, .. }) = stream.pending_send.take() {
        let result = Err(Errno::CANCELED.into());
        completed.push(Completion::Sent { socket, buffer, result });
    }
    drop(stream);
    completed.push(Completion::Closed { socket });
}

impl Ring for PollRing {
    fn register(&mut self, source: Source) -> io::Result<Registered> {
        let descriptor = match source {
            Source::Listener(fd) => return self.listeners.add(fd).map(Registered::Listener),
            Source::Stream(fd) => Descriptor::socket(fd)?,
            Source::Pipe(fd) => Descriptor::pipe(fd)?,
        };
        self.streams.add_at_once(Stream::new(descriptor)).map(Registered::Socket)
    }

    #[inline]
    fn submit(&mut self, operation: Operation) {
        if let Operation::Close(socket) | Operation::Reset(socket) = operation {
            self.discard_completions(socket);
        }
        self.operations.push(operation);
    }

    #[inline]
    fn reap(&mut self, completions: &mut Vec<Completion>) {
        completions.append(&mut self.completed);
    }

    fn park(&mut self, timeout: ParkTimeout) -> Instant {
        self.streams.free_closed();
        self.execute_operations();
        if self.completed.is_empty() {
            self.has_skipped_wait = false;
            self.wait(timeout);
        } else if mem::replace(&mut self.has_skipped_wait, true) {
            // Streams that always complete at once must not starve the others.
            self.has_skipped_wait = false;
            self.wait(ParkTimeout::Zero);
        } else {
            self.now = self.clock.now();
        }
        self.now
    }

    fn waker(&self) -> Waker {
        let poller = Arc::clone(&self.poller);
        // Fails only if a notification is already pending.
        Waker::new(move || poller.notify().unwrap_or_default())
    }

    #[inline]
    fn bytes(&mut self, buffer: &ReceiveBuffer) -> &mut [u8] {
        self.receives.bytes(buffer)
    }

    #[inline]
    fn release(&mut self, buffer: ReceiveBuffer) {
        self.receives.release(buffer);
    }

    fn exhaustion(&self) -> super::Exhaustion {
        super::Exhaustion { receive_buffers: self.receives.exhaustions(), completions: 0 }
    }

    fn shortage(&mut self, socket: Socket) -> Option<Shortage> {
        self.streams.shortage(socket, self.open_files_max)
    }

    fn describe(&self) -> String {
        let poller =
            if cfg!(any(target_os = "linux", target_os = "android")) { "epoll" } else { "kqueue" };
        format!("poll ({poller}, level-triggered)")
    }
}

impl Drop for PollRing {
    /// Removes all descriptors from the poller before they are closed: wakers may hold it for
    /// longer.
    fn drop(&mut self) {
        self.streams.remove_all(&self.poller);
        self.listeners.close_all(&self.poller);
    }
}
