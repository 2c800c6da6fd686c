//! Sending: one buffer a socket at a time, kept here until the kernel has let go of it.

use std::io;

use io_uring::types::{Fd, Fixed};
use io_uring::{cqueue, opcode};

use super::UringRing;
use super::table::Target;
use super::token::{Purpose, token};
use crate::engine::ring::{Completion, Socket};

/// A buffer on its way.
#[derive(Debug)]
struct Send {
    socket: Socket,
    buffer: Vec<u8>,
    /// What the first of two completions said (a send without a copy has two).
    result: Option<i32>,
}

/// All sends in flight. A place names one from submission to last completion.
#[derive(Debug, Default)]
pub(super) struct Sends {
    places: Vec<Option<Send>>,
    vacant: Vec<u32>,
}

impl Sends {
    fn insert(&mut self, send: Send) -> u32 {
        if let Some(place) = self.vacant.pop() {
            self.places[place as usize] = Some(send);
            return place;
        }
        self.places.push(Some(send));
        u32::try_from(self.places.len() - 1).unwrap_or(u32::MAX)
    }

    fn remove(&mut self, place: u32) -> Option<Send> {
        let send = self.places.get_mut(place as usize)?.take()?;
        self.vacant.push(place);
        Some(send)
    }
}

impl UringRing {
    pub(super) fn submit_send(&mut self, socket: Socket, buffer: Vec<u8>, from: usize) {
        let usable = self.table.state(socket).is_some_and(|state| !state.closing);
        if !usable {
            let result = Err(io::Error::from_raw_os_error(libc::EPIPE));
            self.ready.push(Completion::Sent { socket, buffer, result });
            return;
        }
        let from = from.min(buffer.len());
        // The heap part of the vector stays where it is while the vector itself moves.
        let start = buffer[from..].as_ptr();
        let length = u32::try_from(buffer.len() - from).unwrap_or(u32::MAX);
        let place = self.sends.insert(Send { socket, buffer, result: None });
        if let Some(state) = self.table.state(socket) {
            debug_assert_eq!(state.send, 0, "one send a socket at a time");
            state.send = place + 1;
            state.outstanding += 1;
        }
        let entry = self.send_entry(socket, start, length);
        self.push(entry.user_data(token(Purpose::Send, place)));
    }

    fn send_entry(&self, socket: Socket, start: *const u8, length: u32) -> io_uring::squeue::Entry {
        // The kernel itself goes on after a short send and completes once.
        let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
        let zero_copy = length >= self.options.zero_copy_bytes_min;
        match self.table.target(socket) {
            Target::Slot(slot) if zero_copy => {
                opcode::SendZc::new(Fixed(slot), start, length).flags(flags).build()
            }
            Target::Slot(slot) => {
                opcode::Send::new(Fixed(slot), start, length).flags(flags).build()
            }
            Target::Stream(raw) => opcode::Send::new(Fd(raw), start, length).flags(flags).build(),
            Target::Pipe(raw) => {
                opcode::Write::new(Fd(raw), start, length).offset(u64::MAX).build()
            }
        }
    }

    pub(super) fn complete_send(
        &mut self,
        place: u32,
        result: i32,
        flags: u32,
        into: &mut Vec<Completion>,
    ) {
        if cqueue::more(flags) {
            // The kernel still reads the buffer; a second completion follows.
            if let Some(Some(send)) = self.sends.places.get_mut(place as usize) {
                send.result = Some(result);
            }
            return;
        }
        let Some(send) = self.sends.remove(place) else {
            debug_assert!(false, "a send completed twice");
            return;
        };
        let Send { socket, buffer, result: first } = send;
        if let Some(state) = self.table.state(socket) {
            state.send = 0;
            state.outstanding -= 1;
        }
        let result = first.unwrap_or(result);
        let result = usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result));
        into.push(Completion::Sent { socket, buffer, result });
        // `Closed` must follow `Sent`, so what is ready moves over first.
        self.close_when_quiet(socket);
        into.append(&mut self.ready);
    }
}
