//! Sending: one buffer a socket at a time, kept here until the kernel has let go of it.

use std::io;

use io_uring::types::{Fd, Fixed};
use io_uring::{cqueue, opcode};

use super::UringRing;
use super::table::Target;
use super::token::{Purpose, token};
use crate::engine::ring::{Completion, Socket};

/// A buffer on its way: it stands in its place from submission to last completion.
#[derive(Debug)]
pub(super) struct Send {
    socket: Socket,
    buffer: Vec<u8>,
    /// What the first of two completions said (a send without a copy has two).
    result: Option<i32>,
    /// Its end has been told already, without the buffer.
    is_abandoned: bool,
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
        let place = self.sends.insert(Send { socket, buffer, result: None, is_abandoned: false });
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
            if let Some(send) = self.sends.get_mut(place) {
                send.result = Some(result);
            }
            self.abandon_send(place);
            return;
        }
        let Some(send) = self.sends.remove(place) else {
            debug_assert!(false, "a send completed twice");
            return;
        };
        let Send { socket, buffer, result: first, is_abandoned } = send;
        if is_abandoned {
            return;
        }
        let mut finishing = false;
        if let Some(state) = self.table.state(socket) {
            state.send = 0;
            state.outstanding -= 1;
            finishing = state.finishing;
        }
        if finishing {
            self.submit_finish(socket);
        }
        let result = outcome(first.unwrap_or(result));
        into.push(Completion::Sent { socket, buffer, result });
        // `Closed` must follow `Sent`, so what is ready moves over first.
        self.close_when_quiet(socket);
        into.append(&mut self.ready);
    }

    /// Tells the end of a send without a copy whose socket is to be closed: the kernel holds the
    /// buffer until the peer has acknowledged it, which a peer that does not read never does. The
    /// buffer stays here until the kernel has let go.
    pub(super) fn abandon_send(&mut self, place: u32) {
        let Some(send) = self.sends.get_mut(place) else { return };
        let Some(result) = send.result.filter(|_| !send.is_abandoned) else { return };
        let socket = send.socket;
        let Some(state) = self.table.state(socket).filter(|state| state.closing) else { return };
        send.is_abandoned = true;
        state.send = 0;
        state.outstanding -= 1;
        state.resets = true;
        let result = outcome(result);
        self.ready.push(Completion::Sent { socket, buffer: Vec::new(), result });
        self.close_when_quiet(socket);
    }
}

/// What a completion says of a send.
fn outcome(result: i32) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
}
