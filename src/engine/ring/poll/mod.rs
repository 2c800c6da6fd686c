//! The readiness backend: the `polling` crate (`epoll`, `kqueue`) and system calls that do not
//! block. For kernels and containers without `io_uring`, and for every other Unix.
//!
//! What it keeps true: the promises of [`Ring`], with the same sizes and the same order. A park
//! does what can be done at once before it waits: sends are tried when they are submitted, and
//! only what the kernel does not take is watched. It sets nothing on a descriptor that other
//! processes share, but for pipes (`descriptor.rs` tells which and why).
//!
//! Watching is level-triggered. That is one system call for each connection, when it first
//! receives, and none for each message: nothing to re-arm as with one-shot interest, no second
//! read that fails as with edges. What it costs is a look of the kernel's at each stream that was
//! ready the time before.
//!
//! What it does not do: use `polling` on systems whose poller is neither `epoll` nor `kqueue`;
//! those have no level-triggered mode and [`PollRing::new`] refuses them.

mod buffers;
mod descriptor;
mod streams;

mod connections;
mod listeners;
mod transfer;

use std::io;
use std::mem;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use polling::{Event, Events, Poller};

use self::buffers::Buffers;
use self::descriptor::Descriptor;
use self::listeners::Listeners;
use self::streams::{Stream, Streams};
use crate::base::time::Moment;
use crate::engine::clock::Clock;
use crate::engine::ring::{
    Completion, Lease, Operation, Patience, Registered, Ring, RingOptions, Shortages, Socket,
    Source, Waker,
};

/// A ring over readiness.
#[derive(Debug)]
pub struct PollRing {
    poller: Arc<Poller>,
    events: Events,
    clock: Clock,
    /// The last clock reading, for what happens between two of them.
    now: Moment,
    operations: Vec<Operation>,
    streams: Streams,
    listeners: Listeners,
    /// The last park did not look for events, because it had something to tell.
    has_skipped: bool,
}

impl PollRing {
    /// A ring with the sizes of `options`, of which the queues and the bound of zero copy have no
    /// meaning here. `clock` is the one whose moments [`Ring::park`] returns.
    ///
    /// Errors: what the system says where it has no descriptor left for a poller, and
    /// [`io::ErrorKind::Unsupported`] where its poller is not level-triggered.
    pub fn new(options: &RingOptions, clock: Clock) -> io::Result<Self> {
        let poller = Poller::new()?;
        if !poller.supports_level() {
            let cause = "the readiness ring needs a poller that is level-triggered (epoll, kqueue)";
            return Err(io::Error::new(io::ErrorKind::Unsupported, cause));
        }
        let buffers = Buffers::new(options.receive_buffers, options.receive_buffer_bytes);
        Ok(Self {
            poller: Arc::new(poller),
            events: Events::with_capacity(EVENTS_MAX),
            clock,
            now: clock.now(),
            operations: Vec::with_capacity(64),
            streams: Streams::new(options.sockets_max, options.burst_buffers_max, buffers),
            listeners: Listeners::new(options.accepts_in_flight),
            has_skipped: false,
        })
    }

    /// Does what was submitted, in its order.
    fn carry_out(&mut self) {
        let (poller, streams) = (&*self.poller, &mut self.streams);
        let mut has_closed = false;
        for operation in self.operations.drain(..) {
            match operation {
                Operation::Accept(listener) => self.listeners.accept(poller, streams, listener),
                Operation::CloseListener(listener) => self.listeners.close(poller, listener),
                Operation::Connect { address, from, token } => {
                    streams.connect(poller, (address, from), token);
                }
                Operation::Receive(socket) => streams.receive(poller, socket),
                Operation::Pause(socket) => streams.pause(socket),
                Operation::Send { socket, buffer, from } => {
                    streams.send(poller, socket, buffer, from);
                }
                Operation::Finish(socket) => streams.finish(socket),
                Operation::Close(socket) => {
                    streams.close(poller, socket);
                    has_closed = true;
                }
            }
        }
        self.listeners.rouse(poller, streams, self.now, has_closed);
        streams.feed_starved(poller);
        if !streams.files.is_empty() {
            streams.serve_files(poller);
        }
    }

    /// Looks for events, at most as long as `patience` and the listeners that rest allow, and
    /// answers them.
    fn wait(&mut self, patience: Patience) {
        let rest = self.listeners.deadline().map(|deadline| deadline.since(self.now));
        let patience = rest.map_or(patience, |rest| patience.at_most(rest));
        let timeout = match patience {
            Patience::None => Some(Duration::ZERO),
            Patience::For(longest) => Some(longest),
            Patience::Forever => None,
        };
        self.events.clear();
        if let Err(error) = self.poller.wait(&mut self.events, timeout) {
            // The system refuses a wait only for a poller that is not one.
            panic!("the poller of this ring is broken: {error}");
        }
        self.now = self.clock.now();
        let (poller, streams, listeners) = (&*self.poller, &mut self.streams, &mut self.listeners);
        // Where more may be ready than one wait reports, listeners may stand far behind.
        let is_crowded = self.events.len() >= CROWD_EVENTS_MIN;
        for event in self.events.iter() {
            match listeners::from_key(event.key) {
                Some(listener) if !is_crowded => {
                    listeners.take_in(poller, streams, listener, self.now);
                }
                Some(_) => {}
                None => streams.react(poller, event),
            }
        }
        if is_crowded {
            listeners.take_in_all(poller, streams, self.now);
        }
    }
}

/// Events that one wait reports; what else is ready comes with the next, in turn. Measured: what
/// the kernel keeps of so many connections is still in the cache when their answers are sent. With
/// a thousand at once a request costs a twelfth more, with 32 the waits begin to show.
const EVENTS_MAX: NonZeroUsize = NonZeroUsize::MIN.saturating_add(127);

/// With as many events the next wait may well be full. Not the bound itself, because the poller
/// keeps events of its own to itself.
const CROWD_EVENTS_MIN: usize = EVENTS_MAX.get() / 2;

impl Streams {
    /// Answers the readiness of one stream.
    #[inline]
    fn react(&mut self, poller: &Poller, event: Event) {
        #[expect(clippy::cast_possible_truncation, reason = "the keys of streams are names")]
        let socket = Socket(event.key as u32);
        let Some(stream) = self.find(socket) else { return };
        if stream.connecting.is_some() {
            return self.conclude_connect(poller, socket);
        }
        let wanted = stream.wanted();
        let (is_read, is_written) =
            (event.readable && wanted.readable, event.writable && wanted.writable);
        if is_written {
            self.resume(poller, socket);
        }
        if is_read {
            self.take_in(socket);
        }
        if !is_read && !is_written {
            // Nobody waits for this any more: a paused stream, or one that ended.
            self.trim(poller, socket);
        }
    }
}

impl Ring for PollRing {
    fn register(&mut self, source: Source) -> io::Result<Registered> {
        let descriptor = match source {
            Source::Listener(fd) => return self.listeners.open(fd).map(Registered::Listener),
            Source::Stream(fd) => Descriptor::socket(fd)?,
            Source::Pipe(fd) => Descriptor::pipe(fd)?,
        };
        self.streams.open(Stream::new(descriptor)).map(Registered::Socket)
    }

    #[inline]
    fn submit(&mut self, operation: Operation) {
        if let Operation::Close(socket) = operation {
            self.streams.withdraw(socket);
        }
        self.operations.push(operation);
    }

    #[inline]
    fn reap(&mut self, completions: &mut Vec<Completion>) {
        completions.append(&mut self.streams.completed);
    }

    fn park(&mut self, patience: Patience) -> Moment {
        self.carry_out();
        if self.streams.completed.is_empty() {
            self.has_skipped = false;
            self.wait(patience);
        } else if mem::replace(&mut self.has_skipped, true) {
            // What completes at once, again and again, must not keep the others from being seen.
            self.has_skipped = false;
            self.wait(Patience::None);
        } else {
            self.now = self.clock.now();
        }
        self.now
    }

    fn waker(&self) -> Waker {
        let poller = Arc::clone(&self.poller);
        // A notification that cannot be written is one too many: the poller is notified already.
        Waker::new(move || poller.notify().unwrap_or_default())
    }

    #[inline]
    fn bytes(&mut self, lease: &Lease) -> &mut [u8] {
        self.streams.buffers.bytes(lease)
    }

    #[inline]
    fn release(&mut self, lease: Lease) {
        self.streams.buffers.release(lease);
    }

    fn shortages(&self) -> Shortages {
        Shortages { receive_buffers: self.streams.starvations, completions: 0 }
    }

    fn describe(&self) -> String {
        let poller =
            if cfg!(any(target_os = "linux", target_os = "android")) { "epoll" } else { "kqueue" };
        format!("poll ({poller}, level-triggered)")
    }
}

impl Drop for PollRing {
    /// The poller forgets every descriptor before it is closed: wakers may keep it for longer.
    fn drop(&mut self) {
        self.streams.remove_all(&self.poller);
        self.listeners.close_all(&self.poller);
    }
}
