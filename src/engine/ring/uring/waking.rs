//! Waking: how other threads and other rings end this ring's wait, and how it ends theirs.
//!
//! Threads write to an eventfd that the ring always reads. Rings send each other a message
//! (`MSG_RING`), which costs the sender one more submission, no system call, and no completion
//! unless the kernel refuses to deliver it; then the eventfd does.
//!
//! What it keeps true: a wake is never lost, and it never reaches a stranger: whoever holds a
//! [`Waker`] holds the ring's own file, so that its number cannot become another file's.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};

use io_uring::opcode;
use io_uring::squeue::Flags;
use io_uring::types::Fd;
use rustix::event::{EventfdFlags, eventfd};

use super::UringRing;
use super::token::{Purpose, token};
use crate::engine::ring::Waker;

/// What the wakers of a ring write to, and what the ring writes to others.
pub(super) struct Wakes {
    events: Arc<Events>,
    /// Where the read of the own event puts the count, which nobody looks at.
    word: Box<u64>,
    /// The ring's own file, for messages; `None` where the kernel has none.
    reach: Option<Arc<OwnedFd>>,
    /// Rings that messages were sent to, each once, with the wakers that stand in for messages.
    others: Vec<Waker>,
}

/// The events that a waker raises.
struct Events {
    /// Read by the ring itself.
    own: OwnedFd,
    /// The event of a host that waits elsewhere. The kernel does not pass a write to one event on
    /// to another event that is told of completions, not reliably (Linux 6.18 does it once), so
    /// the waker writes to both.
    host: OnceLock<OwnedFd>,
}

impl Events {
    fn raise(&self) {
        for event in [Some(&self.own), self.host.get()].into_iter().flatten() {
            // A full counter means that a wake is under way already; nothing else can fail.
            rustix::io::write(event, &1_u64.to_ne_bytes()).unwrap_or(0);
        }
    }
}

impl Wakes {
    /// The wakes of the ring `file`, which takes messages where `message` says so.
    pub(super) fn new(file: BorrowedFd<'_>, message: bool) -> io::Result<Self> {
        let own = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let reach = if message { Some(Arc::new(file.try_clone_to_owned()?)) } else { None };
        let events = Arc::new(Events { own, host: OnceLock::new() });
        Ok(Self { events, word: Box::new(0), reach, others: Vec::new() })
    }

    /// Raises `event` as well, from now on.
    pub(super) fn raise_too(&self, event: OwnedFd) -> io::Result<()> {
        self.events.host.set(event).map_err(|_| io::ErrorKind::AlreadyExists.into())
    }

    pub(super) fn waker(&self) -> Waker {
        let events = Arc::clone(&self.events);
        let waker = Waker::new(move || events.raise());
        Waker { ring: self.reach.clone(), ..waker }
    }

    /// The number of the ring behind a waker that reaches one.
    fn number(&mut self, file: &Arc<OwnedFd>, other: &Waker) -> u32 {
        let is_same =
            |known: &Waker| known.ring.as_ref().is_some_and(|ring| Arc::ptr_eq(ring, file));
        let number = self.others.iter().position(is_same).unwrap_or_else(|| {
            self.others.push(other.clone());
            self.others.len() - 1
        });
        u32::try_from(number).unwrap_or(u32::MAX)
    }

    /// Hands the word over to a kernel that may still write to it.
    pub(super) fn leak(&mut self) {
        std::mem::forget(std::mem::take(&mut self.word));
    }
}

impl UringRing {
    pub(super) fn arm_wake(&mut self) {
        let word = (&raw mut *self.wakes.word).cast::<u8>();
        let event = Fd(self.wakes.events.own.as_fd().as_raw_fd());
        let entry = opcode::Read::new(event, word, 8).build();
        self.push(entry.user_data(token(Purpose::Wake, 0)));
    }

    /// Wakes `other` by a message where both rings can and there is room, otherwise at once.
    pub(super) fn submit_message(&mut self, other: &Waker) {
        let Some(file) = other.ring.as_ref().filter(|_| self.wakes.reach.is_some()) else {
            other.wake();
            return;
        };
        let number = self.wakes.number(file, other);
        let entry =
            opcode::MsgRingData::new(Fd(file.as_raw_fd()), 0, token(Purpose::Woken, 0), None)
                .build()
                .flags(Flags::SKIP_SUCCESS)
                .user_data(token(Purpose::Message, number));
        if !self.backlog.is_empty() || self.try_push(&entry).is_err() {
            other.wake();
        }
    }

    /// A message was refused: the thread that the other ring belongs to has ended, or that ring
    /// has no room.
    pub(super) fn complete_message(&mut self, number: u32, result: i32) {
        let other = self.wakes.others.get(number as usize);
        if let Some(other) = other.filter(|_| result < 0) {
            other.wake();
        }
    }
}
