//! Wake-ups of a ring by other threads and rings, and of other rings by this one.
//!
//! Threads write to an eventfd that the ring always reads. Rings send each other `MSG_RING`, which
//! costs the sender one more submission, no system call, and no completion unless delivery fails;
//! then the eventfd is used.
//!
//! Invariants: a wake-up is never lost and never reaches another file: a [`Waker`] holds the ring's
//! descriptor, so that its number is not reused.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};

use io_uring::opcode;
use io_uring::squeue::Flags;
use io_uring::types::Fd;
use rustix::event::{EventfdFlags, eventfd};

use super::operations::{OperationKind, encode};
use super::queues::Queues;
use crate::ring::Waker;

/// The wake-up state of a ring.
pub(super) struct WakeState {
    events: Arc<EventFds>,
    /// The buffer that the eventfd is read into; its content is unused.
    read_buffer: Box<u64>,
    /// A descriptor of this ring for `MSG_RING`; `None` if unsupported.
    ring_fd: Option<Arc<OwnedFd>>,
    /// Rings that messages were sent to, without duplicates, with their wakers as a fallback.
    known_rings: Vec<Waker>,
}

/// The eventfds that a waker signals.
struct EventFds {
    /// Read by the ring.
    own: OwnedFd,
    /// Read by the executor that shares the thread. The kernel does not reliably forward a write to
    /// one eventfd to another one registered for completions (Linux 6.18 does it once), so wakers
    /// write to both.
    executor: OnceLock<OwnedFd>,
}

impl EventFds {
    fn signal(&self) {
        for event in [Some(&self.own), self.executor.get()].into_iter().flatten() {
            // Fails only if the counter is full, with a wake-up pending.
            rustix::io::write(event, &1_u64.to_ne_bytes()).unwrap_or(0);
        }
    }
}

impl WakeState {
    /// Creates the state of the ring `file`, which uses `MSG_RING` if `message` is set.
    pub(super) fn new(file: BorrowedFd<'_>, message: bool) -> io::Result<Self> {
        let own = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let reach = if message { Some(Arc::new(file.try_clone_to_owned()?)) } else { None };
        let events = Arc::new(EventFds { own, executor: OnceLock::new() });
        Ok(Self { events, read_buffer: Box::new(0), ring_fd: reach, known_rings: Vec::new() })
    }

    /// Signals `event` as well from now on.
    pub(super) fn add_event(&self, event: OwnedFd) -> io::Result<()> {
        self.events.executor.set(event).map_err(|_| io::ErrorKind::AlreadyExists.into())
    }

    pub(super) fn waker(&self) -> Waker {
        let events = Arc::clone(&self.events);
        let waker = Waker::new(move || events.signal());
        Waker { ring_fd: self.ring_fd.clone(), ..waker }
    }

    /// Reads the eventfd, which completes once a waker has written to it.
    pub(super) fn arm(&mut self, queues: &mut Queues) {
        let buffer = (&raw mut *self.read_buffer).cast::<u8>();
        let event = Fd(self.events.own.as_fd().as_raw_fd());
        let entry = opcode::Read::new(event, buffer, 8).build();
        queues.push(entry.user_data(encode(OperationKind::ReadEvent, 0)));
    }

    /// Wakes `other` by `MSG_RING` if both rings support it and the queue has room, otherwise at
    /// once.
    pub(super) fn wake(&mut self, queues: &mut Queues, other: &Waker) {
        let Some(file) = other.ring_fd.as_ref().filter(|_| self.ring_fd.is_some()) else {
            other.wake();
            return;
        };
        let index = self.index_of(file, other);
        let entry = opcode::MsgRingData::new(
            Fd(file.as_raw_fd()),
            0,
            encode(OperationKind::ReceiveMessage, 0),
            None,
        )
        .build()
        .flags(Flags::SKIP_SUCCESS)
        .user_data(encode(OperationKind::SendMessage, index));
        if queues.push_uncounted(&entry).is_err() {
            other.wake();
        }
    }

    /// Handles a failed `MSG_RING`: the other ring's thread has ended, or its queue is full.
    pub(super) fn complete_message(&self, index: u32, result: i32) {
        let other = self.known_rings.get(index as usize);
        if let Some(other) = other.filter(|_| result < 0) {
            other.wake();
        }
    }

    /// Returns the index of the ring with descriptor `file`, adding it if it is new.
    fn index_of(&mut self, file: &Arc<OwnedFd>, other: &Waker) -> u32 {
        let is_same =
            |known: &Waker| known.ring_fd.as_ref().is_some_and(|ring| Arc::ptr_eq(ring, file));
        let index = self.known_rings.iter().position(is_same).unwrap_or_else(|| {
            self.known_rings.push(other.clone());
            self.known_rings.len() - 1
        });
        u32::try_from(index).unwrap_or(u32::MAX)
    }

    /// Leaks the read buffer, because the kernel may still write to it.
    pub(super) fn leak(&mut self) {
        std::mem::forget(std::mem::take(&mut self.read_buffer));
    }
}
