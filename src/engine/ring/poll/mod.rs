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

mod buffers;
mod descriptor;
mod streams;

mod connect;
mod listeners;
mod transfer;

use std::io;
use std::mem;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use polling::{Event, Events, Poller};

use self::buffers::ReceiveBufferPool;
use self::descriptor::Descriptor;
use self::listeners::Listeners;
use self::streams::{Stream, Streams};
use crate::base::time::Instant;
use crate::engine::clock::Clock;
use crate::engine::ring::{
    Completion, Exhaustion, Operation, ParkTimeout, ReceiveBuffer, Registered, Ring, RingOptions,
    Socket, Source, Waker,
};

/// A ring over readiness events.
#[derive(Debug)]
pub struct PollRing {
    poller: Arc<Poller>,
    events: Events,
    clock: Clock,
    /// The last clock reading.
    now: Instant,
    operations: Vec<Operation>,
    streams: Streams,
    listeners: Listeners,
    /// The last park did not poll, because completions were pending.
    has_skipped_wait: bool,
}

impl PollRing {
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
            streams: Streams::new(options.sockets_max, options.burst_buffers_max, buffers),
            listeners: Listeners::new(options.accepts_in_flight),
            has_skipped_wait: false,
        })
    }

    /// Executes the submitted operations in order.
    fn execute_operations(&mut self) {
        let (poller, streams) = (&*self.poller, &mut self.streams);
        let mut has_closed = false;
        for operation in self.operations.drain(..) {
            match operation {
                Operation::Accept(listener) => self.listeners.accept(poller, streams, listener),
                Operation::CloseListener(listener) => self.listeners.close(poller, listener),
                Operation::Connect { address, local_address: from, token } => {
                    streams.connect(poller, (address, from), token);
                }
                Operation::Receive(socket) => streams.start_receive(poller, socket),
                Operation::StopReceive(socket) => streams.stop_receive(socket),
                Operation::Send { socket, buffer, offset: from } => {
                    streams.send(poller, socket, buffer, from);
                }
                Operation::ShutdownWrite(socket) => streams.shutdown_write(socket),
                Operation::Close(socket) => {
                    streams.close(poller, socket);
                    has_closed = true;
                }
            }
        }
        self.listeners.retry_paused(poller, streams, self.now, has_closed);
        streams.read_starved(poller);
        if !streams.files.is_empty() {
            streams.serve_files(poller);
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
        let (poller, streams, listeners) = (&*self.poller, &mut self.streams, &mut self.listeners);
        // If more may be ready than one wait reports, listeners could be starved.
        let is_crowded = self.events.len() >= BUSY_EVENTS_MIN;
        for event in self.events.iter() {
            match listeners::from_key(event.key) {
                Some(listener) if !is_crowded => {
                    listeners.accept_ready(poller, streams, listener, self.now);
                }
                Some(_) => {}
                None => streams.handle_event(poller, event),
            }
        }
        if is_crowded {
            listeners.accept_all_ready(poller, streams, self.now);
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

impl Streams {
    /// Handles a readiness event of a stream.
    #[inline]
    fn handle_event(&mut self, poller: &Poller, event: Event) {
        #[expect(clippy::cast_possible_truncation, reason = "stream keys are socket names")]
        let socket = Socket(event.key as u32);
        let Some(stream) = self.find(socket) else { return };
        if stream.connecting.is_some() {
            return self.complete_connect(poller, socket);
        }
        let wanted = stream.wanted();
        let (is_read, is_written) =
            (event.readable && wanted.readable, event.writable && wanted.writable);
        if is_written {
            self.continue_send(poller, socket);
        }
        if is_read {
            self.read_ready(socket);
        }
        if !is_read && !is_written {
            // No longer of interest: a paused stream, or one at its end.
            self.reduce_interest(poller, socket);
        }
    }
}

impl Ring for PollRing {
    fn register(&mut self, source: Source) -> io::Result<Registered> {
        let descriptor = match source {
            Source::Listener(fd) => return self.listeners.add(fd).map(Registered::Listener),
            Source::Stream(fd) => Descriptor::socket(fd)?,
            Source::Pipe(fd) => Descriptor::pipe(fd)?,
        };
        self.streams.add(Stream::new(descriptor)).map(Registered::Socket)
    }

    #[inline]
    fn submit(&mut self, operation: Operation) {
        if let Operation::Close(socket) = operation {
            self.streams.discard_completions(socket);
        }
        self.operations.push(operation);
    }

    #[inline]
    fn reap(&mut self, completions: &mut Vec<Completion>) {
        completions.append(&mut self.streams.completed);
    }

    fn park(&mut self, timeout: ParkTimeout) -> Instant {
        self.execute_operations();
        if self.streams.completed.is_empty() {
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
        self.streams.buffers.bytes(buffer)
    }

    #[inline]
    fn release(&mut self, buffer: ReceiveBuffer) {
        self.streams.buffers.release(buffer);
    }

    fn exhaustion(&self) -> Exhaustion {
        Exhaustion { receive_buffers: self.streams.exhaustions, completions: 0 }
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
