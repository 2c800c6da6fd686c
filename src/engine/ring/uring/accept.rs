//! Accepting: a batch of single-shot accepts a listener, each with room for its peer's address.
//!
//! A multishot accept would give no address, and limits and logs need one.
//!
//! What it keeps true: an accept that fails for want of something rests instead of failing again
//! at once. Where slots were wanting, each one that becomes free has one accept go on, so that
//! connections wait in the backlog rather than being accepted and dropped; anything else is tried
//! again after a tenth of a second, because it becomes free where this ring does not see it.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use io_uring::opcode;
use io_uring::types::{DestinationSlot, Fd};

use super::UringRing;
use super::kernel::AddressRoom;
use super::token::{Purpose, token};
use crate::base::time::Moment;
use crate::engine::ring::{Completion, Listener};

/// One accept: its listener and the room for the peer's address, boxed so that it stays put.
struct Cell {
    listener: Listener,
    room: Box<AddressRoom>,
    armed: bool,
}

struct Door {
    descriptor: Option<OwnedFd>,
    accepting: bool,
}

/// All listeners of a ring.
#[derive(Default)]
pub(super) struct Accepts {
    doors: Vec<Door>,
    cells: Vec<Cell>,
    /// Cells that rest.
    resting: Vec<u32>,
    /// When all of them are tried again, where not only slots were wanting.
    rest_end: Option<Moment>,
}

impl Accepts {
    pub(super) fn add(&mut self, descriptor: OwnedFd, in_flight: u16) -> io::Result<Listener> {
        let listener = Listener(u16::try_from(self.doors.len()).map_err(io::Error::other)?);
        self.doors.push(Door { descriptor: Some(descriptor), accepting: false });
        for _ in 0..in_flight.max(1) {
            let room = Box::new(AddressRoom::empty());
            self.cells.push(Cell { listener, room, armed: false });
        }
        Ok(listener)
    }

    /// Hands the rooms over to a kernel that may still write to them.
    pub(super) fn leak(&mut self) {
        self.cells.drain(..).for_each(|cell| std::mem::forget(cell.room));
    }

    /// When accepts that rest are to be tried again.
    #[inline]
    pub(super) const fn rest_end(&self) -> Option<Moment> {
        self.rest_end
    }
}

impl UringRing {
    pub(super) fn submit_accepts(&mut self, listener: Listener) {
        let Some(door) = self.accepts.doors.get_mut(usize::from(listener.0)) else { return };
        door.accepting = true;
        for index in (0_u32..).take(self.accepts.cells.len()) {
            if self.accepts.cells[index as usize].listener == listener {
                self.arm_accept(index);
            }
        }
    }

    fn arm_accept(&mut self, index: u32) {
        let cell = &mut self.accepts.cells[index as usize];
        let door = &self.accepts.doors[usize::from(cell.listener.0)];
        let Some(descriptor) = door.descriptor.as_ref().filter(|_| door.accepting) else { return };
        if cell.armed {
            return;
        }
        cell.armed = true;
        let (address, length) = cell.room.pointers();
        let entry = opcode::Accept::new(Fd(descriptor.as_raw_fd()), address, length)
            .file_index(Some(DestinationSlot::auto_target()))
            .build();
        self.push(entry.user_data(token(Purpose::Accept, index)));
    }

    pub(super) fn complete_accept(&mut self, index: u32, result: i32, into: &mut Vec<Completion>) {
        let cell = &mut self.accepts.cells[index as usize];
        cell.armed = false;
        let listener = cell.listener;
        if let Ok(slot) = u32::try_from(result) {
            let peer = cell.room.read();
            let socket = self.table.open_slot(slot);
            into.push(Completion::Accepted { listener, socket, peer });
            self.arm_accept(index);
            return;
        }
        // A listener that was closed fails the accepts that it still had.
        if !self.accepts.doors[usize::from(listener.0)].accepting {
            return;
        }
        match -result {
            libc::ENFILE if self.table.is_full() => self.accepts.resting.push(index),
            libc::ENFILE | libc::EMFILE | libc::ENOMEM | libc::ENOBUFS => {
                self.accepts.resting.push(index);
                self.accepts.rest_end.get_or_insert_with(|| self.now.after(REST));
            }
            _ => self.arm_accept(index),
        }
        let error = io::Error::from_raw_os_error(-result);
        into.push(Completion::AcceptFailed { listener, error });
    }

    /// A slot has become free: one accept that failed for want of one goes on.
    pub(super) fn resume_accept(&mut self) {
        if let Some(index) = self.accepts.resting.pop() {
            self.arm_accept(index);
        }
    }

    /// Has all accepts that rest go on once their time has come.
    pub(super) fn resume_accepts(&mut self) {
        if self.accepts.rest_end.is_some_and(|end| end <= self.now) {
            self.accepts.rest_end = None;
            for index in std::mem::take(&mut self.accepts.resting) {
                self.arm_accept(index);
            }
        }
    }

    pub(super) fn close_listener(&mut self, listener: Listener) {
        let Some(door) = self.accepts.doors.get_mut(usize::from(listener.0)) else { return };
        door.accepting = false;
        // Closing the descriptor does not end accepts in flight: they hold the file.
        let descriptor = door.descriptor.take();
        let armed: Vec<u32> = (0_u32..)
            .zip(&self.accepts.cells)
            .filter(|(_, cell)| cell.listener == listener && cell.armed)
            .map(|(index, _)| index)
            .collect();
        for index in armed {
            self.cancel(token(Purpose::Accept, index));
        }
        if let Some(descriptor) = descriptor {
            // Nothing can be done about a refusal: the accepts above are cancelled in any case.
            rustix::net::shutdown(&descriptor, rustix::net::Shutdown::Both).unwrap_or(());
        }
    }
}

/// How long accepts rest that failed for want of something that others give back: long enough to
/// cost nothing, short enough for a connection that waits.
const REST: Duration = Duration::from_millis(100);
