//! The `io_uring` backend: one ring a shard, every modern feature the kernel grants.
//!
//! Connections are direct descriptors, so they cost no descriptor of the process; receiving is
//! multishot into a ring of provided buffers, so an idle connection holds no buffer; one enter a
//! turn submits, runs the kernel's deferred work and waits.
//!
//! What it keeps true: memory that the kernel may still read or write (send buffers, address
//! rooms, the word of the event descriptor) stays where it is until the completion that ends the
//! kernel's interest has been reaped. A ring that is dropped cancels all its requests and waits for
//! that, then closes the ring's descriptor, then the memory goes (field order below).
//!
//! It must be built on the thread that uses it (`SINGLE_ISSUER`).

mod address;
mod table;
mod token;

mod accept;
mod connect;
mod receive;
mod send;
mod setup;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};

use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use rustix::event::{EventfdFlags, eventfd};

use self::accept::Accepts;
use self::connect::Attempts;
use self::send::Sends;
use self::setup::Granted;
use self::table::{Table, Target};
use self::token::{Purpose, token};
use super::{
    Completion, Lease, Operation, Patience, Registered, Ring, RingOptions, Socket, Source, Waker,
};
use crate::base::time::Moment;
use crate::engine::buffer::ReceiveBuffers;
use crate::engine::buffer::provided::ProvidedBuffers;
use crate::engine::clock::Clock;

/// A shard's `io_uring`.
pub struct UringRing {
    // Dropped first: the kernel lets go of everything below.
    ring: IoUring,
    provided: ProvidedBuffers,
    accepts: Accepts,
    attempts: Attempts,
    sends: Sends,
    wake_word: Box<u64>,
    wake_events: Arc<WakeEvents>,
    table: Table,
    /// Sockets that want to receive and wait for a buffer to come back.
    starved: VecDeque<Socket>,
    /// Buffers in the hands of the shard.
    leased: u16,
    /// Counts reaps, so that a socket's burst is counted for each anew.
    turn: u16,
    /// Completions that needed no kernel.
    ready: Vec<Completion>,
    /// Submissions that found the queue full while the kernel was busy.
    backlog: VecDeque<squeue::Entry>,
    /// Completions copied out of the shared queue, so that handling them may submit.
    reaped: Vec<(u64, i32, u32)>,
    clock: Clock,
    granted: Granted,
    options: RingOptions,
}

impl UringRing {
    /// Builds a ring on the calling thread, which alone may use it.
    ///
    /// # Errors
    ///
    /// Where the kernel refuses; the text names the cause and the remedy.
    pub fn new(options: &RingOptions, clock: Clock) -> io::Result<Self> {
        let (ring, granted) = setup::build(options)?;
        let buffers = ReceiveBuffers::new(options.receive_buffers, options.receive_buffer_bytes);
        let provided = ProvidedBuffers::register(buffers, &ring.submitter())?;
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let mut built = Self {
            ring,
            provided,
            accepts: Accepts::default(),
            attempts: Attempts::default(),
            sends: Sends::default(),
            wake_word: Box::new(0),
            wake_events: Arc::new(WakeEvents { own: event, host: OnceLock::new() }),
            table: Table::new(granted.slots),
            starved: VecDeque::new(),
            leased: 0,
            turn: 0,
            ready: Vec::new(),
            backlog: VecDeque::new(),
            reaped: Vec::with_capacity(1024),
            clock,
            granted,
            options: *options,
        };
        built.arm_wake();
        Ok(built)
    }

    /// Connections that this ring can hold: what was asked for, bounded by the file limit.
    pub const fn sockets_max(&self) -> u32 {
        self.granted.slots
    }

    /// Queues one submission. When the queue is full it is flushed; when even that is refused the
    /// entry waits in the backlog and goes first at the next park.
    fn push(&mut self, entry: squeue::Entry) {
        if !self.backlog.is_empty() || self.try_push(&entry).is_err() {
            self.backlog.push_back(entry);
        }
    }

    fn try_push(&mut self, entry: &squeue::Entry) -> Result<(), ()> {
        // SAFETY: every entry comes from this module's builders, whose memory stays until the
        // completion (see the module's first page).
        if unsafe { self.ring.submission().push(entry) }.is_ok() {
            return Ok(());
        }
        if self.ring.submit().is_err() {
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

    fn arm_wake(&mut self) {
        let word = (&raw mut *self.wake_word).cast::<u8>();
        let entry = opcode::Read::new(Fd(self.wake_events.own.as_raw_fd()), word, 8).build();
        self.push(entry.user_data(token(Purpose::Wake, 0)));
    }

    fn submit_close(&mut self, socket: Socket) {
        let Some(state) = self.table.state(socket) else {
            return;
        };
        if state.closing {
            return;
        }
        state.closing = true;
        state.wanted = false;
        let (armed, send) = (state.armed, state.send);
        if armed {
            self.cancel(token(Purpose::Receive, socket.0));
        }
        if send != 0 {
            self.cancel(token(Purpose::Send, send - 1));
        }
        self.close_when_quiet(socket);
    }

    /// Closes a socket that is to be closed once nothing of it is with the kernel.
    fn close_when_quiet(&mut self, socket: Socket) {
        let Some(state) = self.table.state(socket) else {
            return;
        };
        if !state.closing || state.outstanding > 0 {
            return;
        }
        if let Target::Slot(slot) = self.table.target(socket) {
            let fixed = io_uring::types::Fixed(slot);
            let entry = opcode::Close::new(fixed).build();
            self.push(entry.user_data(token(Purpose::Close, socket.0)));
        } else {
            self.table.forget(socket);
            self.ready.push(Completion::Closed { socket });
        }
    }

    fn cancel(&mut self, target: u64) {
        let entry = opcode::AsyncCancel::new(target).build();
        self.push(entry.user_data(token(Purpose::Cancel, 0)));
    }

    fn submit_finish(&mut self, socket: Socket) {
        if self.table.state(socket).is_none_or(|state| state.closing) {
            return;
        }
        let entry = match self.table.target(socket) {
            Target::Slot(slot) => {
                opcode::Shutdown::new(io_uring::types::Fixed(slot), libc::SHUT_WR).build()
            }
            Target::Stream(raw) => opcode::Shutdown::new(Fd(raw), libc::SHUT_WR).build(),
            // A pipe has one direction: it is finished by closing it.
            Target::Pipe(_) => return,
        };
        // The kernel looks the slot up on a thread of its own, some time later: until it has, the
        // slot must not go to another connection, which would be finished instead.
        if let Some(state) = self.table.state(socket) {
            state.outstanding += 1;
        }
        self.push(entry.user_data(token(Purpose::Finish, socket.0)));
    }

    /// Sorts one completion to its purpose.
    fn complete(&mut self, word: u64, result: i32, flags: u32, into: &mut Vec<Completion>) {
        let Some((purpose, index)) = token::read(word) else {
            return;
        };
        match purpose {
            Purpose::Receive => self.complete_receive(Socket(index), result, flags, into),
            Purpose::Send => self.complete_send(index, result, flags, into),
            Purpose::Accept => self.complete_accept(index, result, into),
            Purpose::Open => self.complete_open(index, result, into),
            Purpose::Connect => self.complete_connect(index, result, into),
            Purpose::Close => {
                let socket = Socket(index);
                self.table.forget(socket);
                if !self.attempts.was_refused(socket) {
                    into.push(Completion::Closed { socket });
                }
                self.resume_accepts();
            }
            Purpose::Wake => self.arm_wake(),
            Purpose::Finish => {
                let socket = Socket(index);
                if let Some(state) = self.table.state(socket) {
                    state.outstanding -= 1;
                }
                self.close_when_quiet(socket);
            }
            Purpose::Cancel | Purpose::Message | Purpose::Option => {}
        }
    }

    /// One enter: submits, runs deferred work and waits for at least one completion or the end of
    /// patience.
    fn enter(&self, patience: Patience) {
        let submitter = self.ring.submitter();
        let result = match patience {
            Patience::None => submitter.submit_and_wait(0),
            Patience::Forever => submitter.submit_and_wait(1),
            Patience::For(span) => {
                let span = Timespec::from(span);
                submitter.submit_with_args(1, &SubmitArgs::new().timespec(&span))
            }
        };
        let Err(error) = result else { return };
        match error.raw_os_error() {
            // Patience ended; a signal came; completions must be reaped first; memory is short for
            // the moment. All of them are mended by the next turn.
            Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN | libc::ENOMEM) => {}
            _ => panic!("the ring itself failed: {error}"),
        }
    }
}

impl Ring for UringRing {
    fn register(&mut self, source: Source) -> io::Result<Registered> {
        Ok(match source {
            Source::Listener(descriptor) => {
                Registered::Listener(self.accepts.add(descriptor, self.options.accepts_in_flight)?)
            }
            Source::Stream(descriptor) => Registered::Socket(self.table.adopt(descriptor, false)),
            Source::Pipe(descriptor) => Registered::Socket(self.table.adopt(descriptor, true)),
        })
    }

    fn submit(&mut self, operation: Operation) {
        match operation {
            Operation::Accept(listener) => self.submit_accepts(listener),
            Operation::CloseListener(listener) => self.close_listener(listener),
            Operation::Connect { address, token } => self.submit_open(address, token),
            Operation::Receive(socket) => self.submit_receive(socket),
            Operation::Pause(socket) => self.submit_pause(socket),
            Operation::Send { socket, buffer, from } => self.submit_send(socket, buffer, from),
            Operation::Finish(socket) => self.submit_finish(socket),
            Operation::Close(socket) => self.submit_close(socket),
        }
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) {
        self.turn = self.turn.wrapping_add(1);
        completions.append(&mut self.ready);
        let mut reaped = std::mem::take(&mut self.reaped);
        reaped.extend(
            self.ring.completion().map(|entry| (entry.user_data(), entry.result(), entry.flags())),
        );
        for (word, result, flags) in reaped.drain(..) {
            self.complete(word, result, flags, completions);
        }
        self.reaped = reaped;
    }

    fn park(&mut self, patience: Patience) -> Moment {
        self.provided.publish();
        // Asked even where none came back just now: a socket may have found no buffer while all of
        // them were on their way back, and its hunger was only heard of in this turn.
        if self.leased < self.options.receive_buffers {
            self.feed_starved();
        }
        self.flush_backlog();
        let idle = self.ready.is_empty() && self.backlog.is_empty();
        self.enter(if idle { patience } else { Patience::None });
        self.clock.now()
    }

    fn waker(&self) -> Waker {
        let events = Arc::clone(&self.wake_events);
        let mut waker = Waker::new(move || events.raise());
        waker.ring_descriptor = self.granted.message.then(|| self.ring.as_raw_fd());
        waker
    }

    fn wake(&mut self, other: &Waker) {
        match other.ring_descriptor {
            Some(descriptor) if self.granted.message => {
                let word = token(Purpose::Message, 0);
                let entry = opcode::MsgRingData::new(Fd(descriptor), 0, word, None).build();
                self.push(entry.user_data(word));
            }
            _ => other.wake(),
        }
    }

    fn bytes(&mut self, lease: &Lease) -> &mut [u8] {
        self.provided.bytes(lease.buffer)
    }

    fn release(&mut self, lease: Lease) {
        self.leased -= 1;
        self.provided.provide(lease.buffer);
    }

    fn signal_through(&mut self, eventfd: BorrowedFd<'_>) -> io::Result<()> {
        self.ring.submitter().register_eventfd(eventfd.as_raw_fd())?;
        let host = eventfd.try_clone_to_owned()?;
        self.wake_events.host.set(host).map_err(|_| io::ErrorKind::AlreadyExists.into())
    }

    fn describe(&self) -> String {
        self.granted.describe()
    }
}

impl Drop for UringRing {
    /// Ends every request and waits for that, before the memory goes that requests may touch.
    fn drop(&mut self) {
        // Refused where nothing is in flight, and on a thread that may not use this ring; closing
        // the ring's descriptor then ends the requests.
        self.ring.submitter().register_sync_cancel(None, CancelBuilder::any()).unwrap_or(());
    }
}

/// What a waker writes to.
struct WakeEvents {
    /// Read by the ring itself.
    own: OwnedFd,
    /// The event of a host that waits elsewhere. The kernel does not pass a write to one event on
    /// to another event that is told of completions, not reliably (Linux 6.18 does it once), so
    /// the waker writes to both.
    host: OnceLock<OwnedFd>,
}

impl WakeEvents {
    fn raise(&self) {
        for event in [Some(&self.own), self.host.get()].into_iter().flatten() {
            // A full counter means that a wake is under way already; nothing else can fail.
            rustix::io::write(event, &1_u64.to_ne_bytes()).unwrap_or(0);
        }
    }
}

impl std::fmt::Debug for UringRing {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("UringRing").field("granted", &self.granted).finish_non_exhaustive()
    }
}
