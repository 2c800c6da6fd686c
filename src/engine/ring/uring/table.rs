//! The state of each socket of a ring, and how sockets are shut down and closed.
//!
//! Invariants: `outstanding` counts the submissions of a socket whose last completion has not been
//! reaped; a slot is closed only when it is zero, so that no completion of an old socket is taken
//! for one of its next socket.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use io_uring::opcode;
use io_uring::types::{Fd, Fixed};

use super::operations::{OperationKind, encode};
use super::queues::Queues;
use super::sys::set_option;
use crate::ring::{Completion, Socket};

/// How submissions refer to a socket.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum SocketFd {
    /// A direct descriptor in this slot.
    Direct(u32),
    /// A registered stream socket.
    Stream(RawFd),
    /// A registered pipe, terminal or file.
    Pipe(RawFd),
}

/// The state of one socket.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "seven independent flags in seven bytes")]
pub(super) struct SocketState {
    pub(super) is_open: bool,
    /// The shard wants to receive.
    pub(super) wants_receive: bool,
    /// A receive is in flight.
    pub(super) is_armed: bool,
    /// End of stream or a receive error was reported.
    pub(super) is_at_end: bool,
    /// A close was requested.
    pub(super) is_closing: bool,
    /// The write side is to be shut down after the send in flight.
    pub(super) shutdown_pending: bool,
    /// Close with a reset (RST): it was requested, or the kernel still holds zero-copy sends.
    pub(super) closes_with_reset: bool,
    /// The index of the send in flight plus one; zero if there is none.
    pub(super) send: u32,
    /// Submissions whose last completion has not been reaped.
    pub(super) outstanding: u8,
    /// Buffers filled in reap `burst_turn`; zero if the receive was armed after it.
    pub(super) burst_buffers: u16,
    /// The reap that `burst` belongs to. Wraps, which at worst cuts a burst short.
    pub(super) burst_turn: u16,
}

#[derive(Debug)]
struct RegisteredSocket {
    descriptor: Option<OwnedFd>,
    is_pipe: bool,
    state: SocketState,
}

impl SocketState {
    /// Returns whether a buffer was filled since the receive was last armed.
    pub(super) const fn has_received(&self) -> bool {
        self.burst_buffers > 0
    }

    /// Counts a buffer that was filled in reap `turn`; returns `true` for the one that reaches
    /// `burst_max`.
    pub(super) const fn count_buffer(&mut self, turn: u16, burst_max: u16) -> bool {
        if self.burst_turn != turn {
            self.burst_turn = turn;
            self.burst_buffers = 0;
        }
        self.burst_buffers = self.burst_buffers.saturating_add(1);
        self.burst_buffers == burst_max
    }
}

/// All sockets of a ring. Names below `slots_max` are slots, names from there on are registered
/// descriptors.
#[derive(Debug)]
pub(super) struct SocketTable {
    slots_max: u32,
    /// Number of open slots.
    open_slots: u32,
    slots: Vec<SocketState>,
    registered: Vec<RegisteredSocket>,
    /// Indices of `registered` that are not open.
    vacant: Vec<u32>,
    /// Further ones, whose close is reported by the next reap.
    closed: Vec<u32>,
    /// Further ones, whose close was reported and is handled before the next park.
    reported: Vec<u32>,
}

impl SocketTable {
    /// Creates an empty table for `slots_max` direct descriptors.
    pub(super) const fn new(slots_max: u32) -> Self {
        Self {
            slots_max,
            open_slots: 0,
            slots: Vec::new(),
            registered: Vec::new(),
            vacant: Vec::new(),
            closed: Vec::new(),
            reported: Vec::new(),
        }
    }

    /// Adds the slot that the kernel chose for a new connection.
    pub(super) fn open_slot(&mut self, slot: u32) -> Socket {
        let index = slot as usize;
        if index >= self.slots.len() {
            self.slots.resize_with(index + 1, SocketState::default);
        }
        debug_assert!(!self.slots[index].is_open, "slot {slot} is already open");
        self.slots[index] = SocketState { is_open: true, ..SocketState::default() };
        self.open_slots += 1;
        Socket(slot)
    }

    /// Adds a registered descriptor.
    pub(super) fn register(&mut self, descriptor: OwnedFd, pipe: bool) -> Socket {
        let state = SocketState { is_open: true, ..SocketState::default() };
        let adopted = RegisteredSocket { descriptor: Some(descriptor), is_pipe: pipe, state };
        let index = if let Some(index) = self.vacant.pop() {
            self.registered[index as usize] = adopted;
            index
        } else {
            self.registered.push(adopted);
            u32::try_from(self.registered.len() - 1).unwrap_or(0)
        };
        Socket(self.slots_max + index)
    }

    /// Returns the state of a socket, or `None` if it is not open.
    pub(super) fn state(&mut self, socket: Socket) -> Option<&mut SocketState> {
        let state = match socket.0.checked_sub(self.slots_max) {
            Some(adopted) => &mut self.registered.get_mut(adopted as usize)?.state,
            None => self.slots.get_mut(socket.index())?,
        };
        state.is_open.then_some(state)
    }

    /// Returns how submissions refer to an open socket.
    pub(super) fn fd(&self, socket: Socket) -> SocketFd {
        let Some(adopted) = socket.0.checked_sub(self.slots_max) else {
            return SocketFd::Direct(socket.0);
        };
        let adopted = &self.registered[adopted as usize];
        let raw = adopted.descriptor.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        if adopted.is_pipe { SocketFd::Pipe(raw) } else { SocketFd::Stream(raw) }
    }

    /// Returns all sockets with a receive in flight.
    pub(super) fn receiving(&self) -> impl Iterator<Item = Socket> {
        let states = self.slots.iter().zip(0..);
        let adopted = self.registered.iter().map(|adopted| &adopted.state).zip(self.slots_max..);
        let armed = states.chain(adopted).filter(|(state, _)| state.is_armed);
        armed.map(|(_, name)| Socket(name))
    }

    /// Removes a socket. Closes a registered descriptor; the kernel has already closed a slot.
    pub(super) fn remove(&mut self, socket: Socket) {
        if let Some(index) = socket.0.checked_sub(self.slots_max) {
            let adopted = &mut self.registered[index as usize];
            adopted.descriptor = None;
            adopted.state = SocketState::default();
            self.closed.push(index);
        } else {
            self.slots[socket.index()] = SocketState::default();
            self.open_slots -= 1;
        }
    }

    /// Records that the closes of all registered descriptors are reported.
    pub(super) fn report_closed(&mut self) {
        self.reported.append(&mut self.closed);
    }

    /// Frees the names of the registered descriptors whose closes were reported: they are handled.
    pub(super) fn free_reported(&mut self) {
        self.vacant.append(&mut self.reported);
    }

    /// Returns how many slots are not open, or `None` if `socket` has none.
    pub(super) const fn free_slots(&self, socket: Socket) -> Option<u32> {
        if socket.0 < self.slots_max {
            Some(self.slots_max.saturating_sub(self.open_slots))
        } else {
            None
        }
    }

    /// Returns whether `others` further open slots leave none.
    pub(super) const fn is_full_with(&self, others: u32) -> bool {
        self.open_slots.saturating_add(others) >= self.slots_max
    }

    /// Returns whether every slot is open.
    pub(super) const fn is_full(&self) -> bool {
        self.open_slots >= self.slots_max
    }
}

/// Closes a connection with a reset (RST), which discards unsent data. Static, because the kernel
/// may read it at any time.
static RESET: libc::linger = libc::linger { l_onoff: 1, l_linger: 0 };

impl SocketTable {
    /// Marks a socket as closing and cancels its receive. Returns `false` if it is not open or is
    /// being closed already. [`SocketTable::close_if_idle`] closes it.
    pub(super) fn begin_close(&mut self, queues: &mut Queues, socket: Socket) -> bool {
        let Some(state) = self.state(socket).filter(|state| !state.is_closing) else {
            return false;
        };
        state.is_closing = true;
        state.wants_receive = false;
        if state.is_armed {
            queues.cancel(OperationKind::Receive, socket.0);
        }
        true
    }

    /// Has the close of a socket reset its connection.
    pub(super) fn request_reset(&mut self, socket: Socket) {
        if let Some(state) = self.state(socket) {
            state.closes_with_reset = true;
        }
    }

    /// Closes a socket that is to be closed, once nothing of it is in flight.
    #[inline]
    pub(super) fn close_if_idle(&mut self, queues: &mut Queues, socket: Socket) {
        if self.state(socket).is_some_and(|state| state.is_closing && state.outstanding == 0) {
            self.close_idle(queues, socket);
        }
    }

    /// Closes a socket of which nothing is in flight.
    fn close_idle(&mut self, queues: &mut Queues, socket: Socket) {
        let Some(state) = self.state(socket) else { return };
        let resets = std::mem::take(&mut state.closes_with_reset);
        if let SocketFd::Direct(slot) = self.fd(socket) {
            if resets {
                // The close follows whether or not the kernel has the option. If it overtakes the
                // option, that still holds the socket and applies to its release.
                let entry = set_option(slot, libc::SOL_SOCKET, libc::SO_LINGER, &RESET);
                queues.push(entry.user_data(encode(OperationKind::SetOption, socket.0)));
            }
            let entry = opcode::Close::new(Fixed(slot)).build();
            queues.push(entry.user_data(encode(OperationKind::Close, socket.0)));
        } else {
            self.remove(socket);
            queues.complete(Completion::Closed { socket });
        }
    }

    /// Handles the result of a close; returns `false` if the slot is still in use and its close was
    /// submitted again.
    pub(super) fn complete_close(
        &mut self,
        queues: &mut Queues,
        socket: Socket,
        result: i32,
    ) -> bool {
        if matches!(-result, libc::ENOMEM | libc::EAGAIN | libc::EINTR) {
            self.close_if_idle(queues, socket);
            return false;
        }
        self.remove(socket);
        true
    }

    /// Shuts down writing after the send in flight.
    pub(super) fn shutdown_write(&mut self, queues: &mut Queues, socket: Socket) {
        let Some(state) = self.state(socket).filter(|state| !state.is_closing) else {
            return;
        };
        // A send that the kernel has accepted in part continues when the peer reads; shutting down
        // now would cut it off.
        state.shutdown_pending = state.send != 0;
        if state.shutdown_pending {
            return;
        }
        // The kernel looks the slot up later, on a thread of its own: until then the slot must not
        // be reused, or another connection would be shut down.
        state.outstanding += 1;
        let entry = match self.fd(socket) {
            SocketFd::Direct(slot) => opcode::Shutdown::new(Fixed(slot), libc::SHUT_WR).build(),
            SocketFd::Stream(raw) => opcode::Shutdown::new(Fd(raw), libc::SHUT_WR).build(),
            // Pipes have one direction and are closed instead.
            SocketFd::Pipe(_) => {
                self.complete_shutdown(queues, socket);
                return;
            }
        };
        queues.push(entry.user_data(encode(OperationKind::ShutdownWrite, socket.0)));
    }

    /// Handles the completion of a shutdown.
    pub(super) fn complete_shutdown(&mut self, queues: &mut Queues, socket: Socket) {
        if let Some(state) = self.state(socket) {
            state.outstanding -= 1;
        }
        self.close_if_idle(queues, socket);
    }
}
