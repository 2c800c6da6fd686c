//! The `io_uring` backend: one ring a shard, every modern feature the kernel grants.
//!
//! Connections are direct descriptors, so they cost no descriptor of the process; receiving is
//! multishot into a ring of provided buffers, so an idle connection holds no buffer; one enter a
//! turn submits, runs the kernel's deferred work and waits.
//!
//! What it keeps true: memory that the kernel may still read or write (send buffers, address
//! rooms, the word of the event descriptor) stays where it is until the completion that ends the
//! kernel's interest has been reaped. A ring that is dropped cancels what is in flight and reaps
//! it first (`closing`).
//!
//! It must be built on the thread that uses it (`SINGLE_ISSUER`).

mod kernel;
mod places;
mod setup;
mod table;
mod token;

mod accept;
mod connect;
mod receive;
mod send;
mod waking;

mod closing;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::{IoUring, squeue};

use self::accept::Accepts;
use self::connect::Attempts;
use self::kernel::Entrance;
use self::places::Places;
use self::send::Send;
use self::setup::Granted;
use self::table::Table;
use self::token::Purpose;
use self::waking::Wakes;
use super::{
    Completion, Lease, Operation, Patience, Registered, Ring, RingOptions, Shortages, Socket,
    Source, Waker,
};
use crate::base::time::Moment;
use crate::engine::buffer::ReceiveBuffers;
use crate::engine::buffer::provided::ProvidedBuffers;
use crate::engine::clock::Clock;

/// A shard's `io_uring`.
pub struct UringRing {
    // Dropped first: the kernel forgets everything below.
    ring: IoUring,
    entrance: Entrance,
    provided: ProvidedBuffers,
    accepts: Accepts,
    attempts: Attempts,
    sends: Places<Send>,
    wakes: Wakes,
    table: Table,
    /// Sockets that want to receive and have no receive with the kernel: it has ended, most often
    /// for want of buffers. Armed at the next park where a buffer is free.
    hungry: VecDeque<Socket>,
    /// Buffers in the hands of the shard.
    leased: u16,
    /// Counts reaps, so that a socket's burst is counted for each anew.
    turn: u16,
    /// Completions that needed no kernel.
    ready: Vec<Completion>,
    /// Submissions that found the queue full while the kernel was busy.
    backlog: VecDeque<squeue::Entry>,
    /// Submissions whose last completion has not been reaped, the backlog included and messages
    /// left out, which are answered only where they fail.
    in_flight: usize,
    /// Completions copied out of the shared queue, so that handling them may submit.
    reaped: Vec<(u64, i32, u32)>,
    shortages: Shortages,
    clock: Clock,
    /// The last reading of the clock.
    now: Moment,
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
        let (ring, entrance, granted) = setup::build(options)?;
        let buffers = ReceiveBuffers::new(options.receive_buffers, options.receive_buffer_bytes);
        let provided = ProvidedBuffers::register(buffers, &ring.submitter())?;
        // SAFETY: the ring's descriptor is open as long as the ring, which outlives this borrow.
        let file = unsafe { BorrowedFd::borrow_raw(ring.as_raw_fd()) };
        let wakes = Wakes::new(file, granted.message)?;
        let mut built = Self {
            ring,
            entrance,
            provided,
            accepts: Accepts::default(),
            attempts: Attempts::default(),
            sends: Places::default(),
            wakes,
            table: Table::new(granted.slots),
            hungry: VecDeque::new(),
            leased: 0,
            turn: 0,
            ready: Vec::new(),
            backlog: VecDeque::new(),
            in_flight: 0,
            reaped: Vec::with_capacity(1024),
            shortages: Shortages::default(),
            clock,
            now: clock.now(),
            granted,
            options: *options,
        };
        built.arm_wake();
        Ok(built)
    }

    /// Queues one submission. When the queue is full it is flushed; when even that is refused the
    /// entry waits in the backlog and goes first at the next park.
    fn push(&mut self, entry: squeue::Entry) {
        self.in_flight += 1;
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
        if self.enter(Patience::None).is_err() {
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

    /// Sorts one completion to its purpose.
    fn complete(&mut self, word: u64, result: i32, flags: u32, into: &mut Vec<Completion>) {
        self.in_flight -= usize::from(token::is_last(word, flags));
        let Some((purpose, index)) = token::read(word) else { return };
        match purpose {
            Purpose::Receive => self.complete_receive(Socket(index), result, flags, into),
            Purpose::Send => self.complete_send(index, result, flags, into),
            Purpose::Accept => self.complete_accept(index, result, into),
            Purpose::Open => self.complete_open(index, result, into),
            Purpose::Bind => self.complete_bind(index, result, into),
            Purpose::Install => self.complete_install(index, result, into),
            Purpose::Connect => self.complete_connect(index, result, into),
            Purpose::Close => self.complete_close(Socket(index), result, into),
            Purpose::Wake => self.arm_wake(),
            Purpose::Message => self.complete_message(index, result),
            Purpose::Finish => self.complete_finish(Socket(index)),
            Purpose::Cancel | Purpose::Option | Purpose::Woken => {}
        }
    }

    /// Enters the kernel with what is queued. What the next turn mends is no error.
    #[inline]
    fn enter(&mut self, patience: Patience) -> io::Result<()> {
        let queued = self.ring.submission().len();
        match self.entrance.enter(queued, patience) {
            Err(error) if is_passing(&error) => Ok(()),
            entered => entered,
        }
    }
}

/// Whether patience ended, a signal came, completions must be reaped first or memory is short for
/// the moment.
fn is_passing(error: &io::Error) -> bool {
    let codes = [libc::ETIME, libc::EINTR, libc::EBUSY, libc::EAGAIN, libc::ENOMEM];
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
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
            Operation::Connect { address, from, token } => {
                self.submit_open(address, from, token);
            }
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
        self.shortages.completions += u64::from(self.ring.submission().cq_overflow());
        let mut reaped = std::mem::take(&mut self.reaped);
        reaped.extend(
            self.ring.completion().map(|entry| (entry.user_data(), entry.result(), entry.flags())),
        );
        for (word, result, flags) in reaped.drain(..) {
            self.complete(word, result, flags, completions);
        }
        self.reaped = reaped;
        // What these have brought about by themselves needs no wait to be heard of.
        completions.append(&mut self.ready);
    }

    fn park(&mut self, patience: Patience) -> Moment {
        self.resume_accepts();
        self.provided.publish();
        // Asked even where none came back just now: a socket may have found no buffer while all of
        // them were on their way back, and its hunger was only heard of in this turn.
        if self.leased < self.options.receive_buffers {
            self.arm_hungry();
        }
        self.flush_backlog();
        let idle = self.ready.is_empty() && self.backlog.is_empty();
        let patience = match self.accepts.rest_end() {
            _ if !idle => Patience::None,
            Some(end) => patience.at_most(end.since(self.now)),
            None => patience,
        };
        if let Err(error) = self.enter(patience) {
            // A completion that the kernel dropped for want of memory is among these: a socket
            // whose state is not known any more.
            panic!("the ring itself failed: {error}");
        }
        self.now = self.clock.now();
        self.now
    }

    fn waker(&self) -> Waker {
        self.wakes.waker()
    }

    fn wake(&mut self, other: &Waker) {
        self.submit_message(other);
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
        self.wakes.raise_too(eventfd.try_clone_to_owned()?)
    }

    fn shortages(&self) -> Shortages {
        self.shortages
    }

    fn describe(&self) -> String {
        self.granted.describe()
    }
}

impl std::fmt::Debug for UringRing {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("UringRing").field("granted", &self.granted).finish_non_exhaustive()
    }
}
