//! What the ring knows of each socket.
//!
//! What it keeps true: `outstanding` counts the submissions of a socket whose last completion has
//! not come; a socket is closed only when it is zero, so a slot that the kernel gives out again
//! never sees the completions of its former tenant.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use crate::engine::ring::Socket;

/// How a socket is reached.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Target {
    /// A direct descriptor in this slot.
    Slot(u32),
    /// A stream socket that was brought in.
    Stream(RawFd),
    /// A pipe, terminal or file that was brought in.
    Pipe(RawFd),
}

/// One socket's part of the table.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "seven independent facts in as many bytes")]
pub(super) struct State {
    /// The socket is open.
    pub(super) open: bool,
    /// The shard wants to receive.
    pub(super) wanted: bool,
    /// A receive is with the kernel.
    pub(super) armed: bool,
    /// Nothing more will be received.
    pub(super) ended: bool,
    /// A close was asked for.
    pub(super) closing: bool,
    /// The half close follows the send in flight.
    pub(super) finishing: bool,
    /// It closes with a reset: what was sent without a copy is taken back from the kernel.
    pub(super) resets: bool,
    /// The send in flight, as its place plus one.
    pub(super) send: u32,
    /// Submissions whose last completion has not come.
    pub(super) outstanding: u8,
    /// Buffers filled in the turn `burst_turn`; none where the receive was armed after it.
    pub(super) burst: u16,
    /// The turn that `burst` belongs to; numbers wrap, which costs a cut burst once in a while.
    pub(super) burst_turn: u16,
}

#[derive(Debug)]
struct Adopted {
    descriptor: Option<OwnedFd>,
    pipe: bool,
    state: State,
}

impl State {
    /// Whether a buffer was filled since the receive was last armed.
    pub(super) const fn is_fed(&self) -> bool {
        self.burst > 0
    }

    /// Counts a buffer that the socket has filled in `turn`; `true` for the one that reaches
    /// `burst_max`.
    pub(super) const fn is_burst(&mut self, turn: u16, burst_max: u16) -> bool {
        if self.burst_turn != turn {
            self.burst_turn = turn;
            self.burst = 0;
        }
        self.burst = self.burst.saturating_add(1);
        self.burst == burst_max
    }
}

/// All sockets of a ring. Names below `slots_max` are slots, those from there on are adopted
/// descriptors, so that all names together are dense.
#[derive(Debug)]
pub(super) struct Table {
    slots_max: u32,
    /// Slots that are open.
    taken: u32,
    slots: Vec<State>,
    adopted: Vec<Adopted>,
}

impl Table {
    /// An empty table over `slots_max` direct descriptors.
    pub(super) const fn new(slots_max: u32) -> Self {
        Self { slots_max, taken: 0, slots: Vec::new(), adopted: Vec::new() }
    }

    /// Enters the slot that the kernel chose for a new connection.
    pub(super) fn open_slot(&mut self, slot: u32) -> Socket {
        let index = slot as usize;
        if index >= self.slots.len() {
            self.slots.resize_with(index + 1, State::default);
        }
        debug_assert!(!self.slots[index].open, "slot {slot} is given out twice");
        self.slots[index] = State { open: true, ..State::default() };
        self.taken += 1;
        Socket(slot)
    }

    /// Enters a descriptor that was brought in.
    pub(super) fn adopt(&mut self, descriptor: OwnedFd, pipe: bool) -> Socket {
        let state = State { open: true, ..State::default() };
        let vacant = self.adopted.iter().position(|adopted| !adopted.state.open);
        let adopted = Adopted { descriptor: Some(descriptor), pipe, state };
        let index = vacant.unwrap_or(self.adopted.len());
        if vacant.is_some() {
            self.adopted[index] = adopted;
        } else {
            self.adopted.push(adopted);
        }
        Socket(self.slots_max + u32::try_from(index).unwrap_or(0))
    }

    /// The state of an open socket; `None` for a name that is not open.
    pub(super) fn state(&mut self, socket: Socket) -> Option<&mut State> {
        let state = match socket.0.checked_sub(self.slots_max) {
            Some(adopted) => &mut self.adopted.get_mut(adopted as usize)?.state,
            None => self.slots.get_mut(socket.index())?,
        };
        state.open.then_some(state)
    }

    /// How a socket is reached; only asked of open ones.
    pub(super) fn target(&self, socket: Socket) -> Target {
        let Some(adopted) = socket.0.checked_sub(self.slots_max) else {
            return Target::Slot(socket.0);
        };
        let adopted = &self.adopted[adopted as usize];
        let raw = adopted.descriptor.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        if adopted.pipe { Target::Pipe(raw) } else { Target::Stream(raw) }
    }

    /// All sockets that have a receive with the kernel.
    pub(super) fn receiving(&self) -> impl Iterator<Item = Socket> {
        let states = self.slots.iter().zip(0..);
        let adopted = self.adopted.iter().map(|adopted| &adopted.state).zip(self.slots_max..);
        let armed = states.chain(adopted).filter(|(state, _)| state.armed);
        armed.map(|(_, name)| Socket(name))
    }

    /// Forgets a socket. For an adopted one this closes the descriptor; for a slot the kernel has
    /// done so.
    pub(super) fn forget(&mut self, socket: Socket) {
        if let Some(adopted) = socket.0.checked_sub(self.slots_max) {
            let adopted = &mut self.adopted[adopted as usize];
            adopted.descriptor = None;
            adopted.state = State::default();
        } else {
            self.slots[socket.index()] = State::default();
            self.taken -= 1;
        }
    }

    /// Whether every slot is open.
    pub(super) const fn is_full(&self) -> bool {
        self.taken >= self.slots_max
    }
}
