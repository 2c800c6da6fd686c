//! Accepting: several single-shot accepts for each listener, each with a buffer for the peer's
//! address, which a multishot accept does not return.
//!
//! Invariants: no more accepts are in flight than slots are free, because the kernel drops a
//! connection that it accepts without a slot: each closed slot resumes one accept, and connections
//! wait in the backlog. An accept that fails for lack of a resource is paused instead of failing
//! again at once, and retried after 100 ms, because the resource may be released outside of this
//! ring.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use io_uring::opcode;
use io_uring::types::{DestinationSlot, Fd};

use super::operations::{OperationKind, encode};
use super::queues::Queues;
use super::sys::SocketAddressBuffer;
use super::table::SocketTable;
use crate::ring::{Completion, Listener};
use corelane_base::time::Instant;

/// One accept; the address is boxed because the kernel writes to it.
struct PendingAccept {
    listener: Listener,
    peer: Box<SocketAddressBuffer>,
    is_armed: bool,
}

struct ListenerState {
    descriptor: Option<OwnedFd>,
    is_accepting: bool,
}

/// All listeners and accepts of a ring.
pub(super) struct Accepts {
    listeners: Vec<ListenerState>,
    accepts: Vec<PendingAccept>,
    /// Number of accepts of each listener.
    accepts_each: u16,
    /// Number of accepts in flight.
    armed: u32,
    /// Indices of paused accepts.
    paused: Vec<u32>,
    /// When all paused accepts are retried, unless all of them wait for slots.
    retry_at: Option<Instant>,
}

impl Accepts {
    /// Creates an empty table; each listener has `accepts_in_flight` accepts, at least one.
    pub(super) fn new(accepts_in_flight: u16) -> Self {
        Self {
            listeners: Vec::new(),
            accepts: Vec::new(),
            accepts_each: accepts_in_flight.max(1),
            armed: 0,
            paused: Vec::new(),
            retry_at: None,
        }
    }

    pub(super) fn add(&mut self, descriptor: OwnedFd) -> io::Result<Listener> {
        let listener = Listener(u16::try_from(self.listeners.len()).map_err(io::Error::other)?);
        self.listeners.push(ListenerState { descriptor: Some(descriptor), is_accepting: false });
        for _ in 0..self.accepts_each {
            let peer = Box::new(SocketAddressBuffer::empty());
            self.accepts.push(PendingAccept { listener, peer, is_armed: false });
        }
        Ok(listener)
    }

    /// Starts to accept connections.
    pub(super) fn submit(&mut self, queues: &mut Queues, listener: Listener) {
        let Some(listener_state) = self.listeners.get_mut(usize::from(listener.0)) else {
            return;
        };
        listener_state.is_accepting = true;
        for index in (0_u32..).take(self.accepts.len()) {
            if self.accepts[index as usize].listener == listener {
                self.arm(queues, index);
            }
        }
    }

    fn arm(&mut self, queues: &mut Queues, index: u32) {
        let cell = &mut self.accepts[index as usize];
        let listener_state = &self.listeners[usize::from(cell.listener.0)];
        let Some(descriptor) =
            listener_state.descriptor.as_ref().filter(|_| listener_state.is_accepting)
        else {
            return;
        };
        if cell.is_armed {
            return;
        }
        cell.is_armed = true;
        self.armed += 1;
        let (address, length) = cell.peer.as_mut_pointers();
        let entry = opcode::Accept::new(Fd(descriptor.as_raw_fd()), address, length)
            .file_index(Some(DestinationSlot::auto_target()))
            .build();
        queues.push(entry.user_data(encode(OperationKind::Accept, index)));
    }

    /// Handles the completion of accept `index` at `now`.
    pub(super) fn complete(
        &mut self,
        queues: &mut Queues,
        sockets: &mut SocketTable,
        index: u32,
        result: i32,
        now: Instant,
        into: &mut Vec<Completion>,
    ) {
        let cell = &mut self.accepts[index as usize];
        cell.is_armed = false;
        self.armed -= 1;
        let listener = cell.listener;
        if let Ok(slot) = u32::try_from(result) {
            let peer = cell.peer.parse();
            let socket = sockets.open_slot(slot);
            into.push(Completion::Accepted { listener, socket, peer });
            if sockets.is_full_with(self.armed) {
                self.paused.push(index);
                if sockets.is_full() {
                    let error = io::Error::other("every socket of the ring is open");
                    into.push(Completion::AcceptFailed { listener, error });
                }
            } else {
                self.arm(queues, index);
            }
            return;
        }
        // The accepts of a closed listener fail.
        if !self.listeners[usize::from(listener.0)].is_accepting {
            return;
        }
        match -result {
            libc::ENFILE if sockets.is_full() => self.paused.push(index),
            libc::ENFILE | libc::EMFILE | libc::ENOMEM | libc::ENOBUFS => {
                self.paused.push(index);
                self.retry_at.get_or_insert_with(|| now.after(RETRY_DELAY));
            }
            _ => self.arm(queues, index),
        }
        let error = io::Error::from_raw_os_error(-result);
        into.push(Completion::AcceptFailed { listener, error });
    }

    /// Resumes one paused accept after a slot was closed.
    pub(super) fn resume_one(&mut self, queues: &mut Queues) {
        if let Some(index) = self.paused.pop() {
            self.arm(queues, index);
        }
    }

    /// Resumes all paused accepts if it is time.
    #[inline]
    pub(super) fn resume_due(&mut self, queues: &mut Queues, now: Instant) {
        if self.retry_at.is_some_and(|end| end <= now) {
            self.retry_at = None;
            for index in std::mem::take(&mut self.paused) {
                self.arm(queues, index);
            }
        }
    }

    /// Returns when paused accepts are to be retried.
    #[inline]
    pub(super) const fn retry_at(&self) -> Option<Instant> {
        self.retry_at
    }

    /// Closes a listener and cancels its accepts.
    pub(super) fn close(&mut self, queues: &mut Queues, listener: Listener) {
        let Some(listener_state) = self.listeners.get_mut(usize::from(listener.0)) else {
            return;
        };
        listener_state.is_accepting = false;
        // Closing the descriptor does not end accepts in flight: they hold a reference to the file.
        let descriptor = listener_state.descriptor.take();
        for (index, cell) in (0_u32..).zip(&self.accepts) {
            if cell.listener == listener && cell.is_armed {
                queues.cancel(OperationKind::Accept, index);
            }
        }
        if let Some(descriptor) = descriptor {
            // Failure is harmless: the accepts above are cancelled in any case.
            rustix::net::shutdown(&descriptor, rustix::net::Shutdown::Both).unwrap_or(());
        }
    }

    /// Leaks the address buffers, because the kernel may still write to them.
    pub(super) fn leak(&mut self) {
        self.accepts.drain(..).for_each(|cell| std::mem::forget(cell.peer));
    }
}

/// The delay before paused accepts are retried.
const RETRY_DELAY: Duration = Duration::from_millis(100);
