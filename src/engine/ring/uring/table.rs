//! The state of each socket of a ring.
//!
//! Invariants: `outstanding` counts the submissions of a socket whose last completion has not been
//! reaped; a socket is closed only when it is zero, so that no completion of an old socket is taken
//! for one of a new socket in the same slot.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use crate::ring::Socket;

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
    /// The socket is open.
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
