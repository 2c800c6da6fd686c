//! Accepting: several single-shot accepts for each listener, each with a buffer for the peer's
//! address, which a multishot accept does not return.
//!
//! Invariants: an accept that fails for lack of a resource is paused instead of failing again at
//! once. If slots are exhausted, each closed slot resumes one accept, so that connections wait in
//! the backlog instead of being accepted and dropped; other failures are retried after 100 ms,
//! because the resource may be released outside of this ring.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use io_uring::opcode;
use io_uring::types::{DestinationSlot, Fd};

use super::UringRing;
use super::sys::SocketAddressBuffer;
use super::user_data::{OperationKind, encode};
use crate::base::time::Instant;
use crate::engine::ring::{Completion, Listener};

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
#[derive(Default)]
pub(super) struct Accepts {
    listeners: Vec<ListenerState>,
    accepts: Vec<PendingAccept>,
    /// Indices of paused accepts.
    paused: Vec<u32>,
    /// When all paused accepts are retried, unless all of them wait for slots.
    retry_at: Option<Instant>,
}

impl Accepts {
    pub(super) fn add(&mut self, descriptor: OwnedFd, in_flight: u16) -> io::Result<Listener> {
        let listener = Listener(u16::try_from(self.listeners.len()).map_err(io::Error::other)?);
        self.listeners.push(ListenerState { descriptor: Some(descriptor), is_accepting: false });
        for _ in 0..in_flight.max(1) {
            let peer = Box::new(SocketAddressBuffer::empty());
            self.accepts.push(PendingAccept { listener, peer, is_armed: false });
        }
        Ok(listener)
    }

    /// Leaks the address buffers, because the kernel may still write to them.
    pub(super) fn leak(&mut self) {
        self.accepts.drain(..).for_each(|cell| std::mem::forget(cell.peer));
    }

    /// Returns when paused accepts are to be retried.
    #[inline]
    pub(super) const fn retry_at(&self) -> Option<Instant> {
        self.retry_at
    }
}

impl UringRing {
    pub(super) fn submit_accepts(&mut self, listener: Listener) {
        let Some(listener_state) = self.accepts.listeners.get_mut(usize::from(listener.0)) else {
            return;
        };
        listener_state.is_accepting = true;
        for index in (0_u32..).take(self.accepts.accepts.len()) {
            if self.accepts.accepts[index as usize].listener == listener {
                self.arm_accept(index);
            }
        }
    }

    fn arm_accept(&mut self, index: u32) {
        let cell = &mut self.accepts.accepts[index as usize];
        let listener_state = &self.accepts.listeners[usize::from(cell.listener.0)];
        let Some(descriptor) =
            listener_state.descriptor.as_ref().filter(|_| listener_state.is_accepting)
        else {
            return;
        };
        if cell.is_armed {
            return;
        }
        cell.is_armed = true;
        let (address, length) = cell.peer.as_mut_pointers();
        let entry = opcode::Accept::new(Fd(descriptor.as_raw_fd()), address, length)
            .file_index(Some(DestinationSlot::auto_target()))
            .build();
        self.push(entry.user_data(encode(OperationKind::Accept, index)));
    }

    pub(super) fn complete_accept(&mut self, index: u32, result: i32, into: &mut Vec<Completion>) {
        let cell = &mut self.accepts.accepts[index as usize];
        cell.is_armed = false;
        let listener = cell.listener;
        if let Ok(slot) = u32::try_from(result) {
            let peer = cell.peer.parse();
            let socket = self.sockets.open_slot(slot);
            into.push(Completion::Accepted { listener, socket, peer });
            self.arm_accept(index);
            return;
        }
        // The accepts of a closed listener fail.
        if !self.accepts.listeners[usize::from(listener.0)].is_accepting {
            return;
        }
        match -result {
            libc::ENFILE if self.sockets.is_full() => self.accepts.paused.push(index),
            libc::ENFILE | libc::EMFILE | libc::ENOMEM | libc::ENOBUFS => {
                self.accepts.paused.push(index);
                self.accepts.retry_at.get_or_insert_with(|| self.now.after(RETRY_DELAY));
            }
            _ => self.arm_accept(index),
        }
        let error = io::Error::from_raw_os_error(-result);
        into.push(Completion::AcceptFailed { listener, error });
    }

    /// Resumes one paused accept after a slot was closed.
    pub(super) fn resume_accept(&mut self) {
        if let Some(index) = self.accepts.paused.pop() {
            self.arm_accept(index);
        }
    }

    /// Resumes all paused accepts if it is time.
    pub(super) fn resume_accepts(&mut self) {
        if self.accepts.retry_at.is_some_and(|end| end <= self.now) {
            self.accepts.retry_at = None;
            for index in std::mem::take(&mut self.accepts.paused) {
                self.arm_accept(index);
            }
        }
    }

    pub(super) fn close_listener(&mut self, listener: Listener) {
        let Some(listener_state) = self.accepts.listeners.get_mut(usize::from(listener.0)) else {
            return;
        };
        listener_state.is_accepting = false;
        // Closing the descriptor does not end accepts in flight: they hold a reference to the file.
        let descriptor = listener_state.descriptor.take();
        let armed: Vec<u32> = (0_u32..)
            .zip(&self.accepts.accepts)
            .filter(|(_, cell)| cell.listener == listener && cell.is_armed)
            .map(|(index, _)| index)
            .collect();
        for index in armed {
            self.cancel(encode(OperationKind::Accept, index));
        }
        if let Some(descriptor) = descriptor {
            // Failure is harmless: the accepts above are cancelled in any case.
            rustix::net::shutdown(&descriptor, rustix::net::Shutdown::Both).unwrap_or(());
        }
    }
}

/// The delay before paused accepts are retried.
const RETRY_DELAY: Duration = Duration::from_millis(100);
