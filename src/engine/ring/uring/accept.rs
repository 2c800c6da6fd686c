//! Accepting: a batch of single-shot accepts a listener, each with room for its peer's address.
//!
//! A multishot accept would give no address, and limits and logs need one.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use io_uring::opcode;
use io_uring::types::{DestinationSlot, Fd};

use super::UringRing;
use super::address::AddressRoom;
use super::token::{Purpose, token};
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
    /// Some cells wait for a slot to become free.
    waiting: bool,
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
}

impl UringRing {
    pub(super) fn submit_accepts(&mut self, listener: Listener) {
        let Some(door) = self.accepts.doors.get_mut(usize::from(listener.0)) else {
            return;
        };
        door.accepting = true;
        for index in 0..self.accepts.cells.len() {
            if self.accepts.cells[index].listener == listener {
                self.arm_accept(index);
            }
        }
    }

    fn arm_accept(&mut self, index: usize) {
        let cell = &mut self.accepts.cells[index];
        let door = &self.accepts.doors[usize::from(cell.listener.0)];
        let Some(descriptor) = door.descriptor.as_ref().filter(|_| door.accepting) else {
            return;
        };
        if cell.armed {
            return;
        }
        cell.armed = true;
        let (address, length) = cell.room.pointers();
        let entry = opcode::Accept::new(Fd(descriptor.as_raw_fd()), address, length)
            .file_index(Some(DestinationSlot::auto_target()))
            .build();
        let index = u32::try_from(index).unwrap_or(u32::MAX);
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
            self.arm_accept(index as usize);
            return;
        }
        match -result {
            libc::ECANCELED => {}
            libc::ENFILE | libc::EMFILE | libc::ENOMEM | libc::ENOBUFS => {
                // Asking again at once would spin: wait until a socket is closed.
                self.accepts.waiting = true;
                let error = io::Error::from_raw_os_error(-result);
                into.push(Completion::AcceptFailed { listener, error });
            }
            error => {
                let error = io::Error::from_raw_os_error(error);
                into.push(Completion::AcceptFailed { listener, error });
                self.arm_accept(index as usize);
            }
        }
    }

    /// A slot has become free: accepts that failed for want of one go on.
    pub(super) fn resume_accepts(&mut self) {
        if std::mem::take(&mut self.accepts.waiting) {
            for index in 0..self.accepts.cells.len() {
                self.arm_accept(index);
            }
        }
    }

    pub(super) fn close_listener(&mut self, listener: Listener) {
        let Some(door) = self.accepts.doors.get_mut(usize::from(listener.0)) else {
            return;
        };
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
