//! Sending: one buffer a socket at a time, owned here until the kernel no longer uses it.

use std::io;

use io_uring::types::{Fd, Fixed};
use io_uring::{cqueue, opcode};

use super::UringRing;
use super::table::SocketFd;
use super::user_data::{OperationKind, encode};
use crate::engine::ring::{Completion, Socket};

/// A send in flight.
#[derive(Debug)]
pub(super) struct PendingSend {
    socket: Socket,
    buffer: Vec<u8>,
    /// The result of the first of two completions (zero-copy sends have two).
    result: Option<i32>,
    /// Its completion has been reported, without the buffer.
    is_reported: bool,
}

impl UringRing {
    pub(super) fn submit_send(&mut self, socket: Socket, buffer: Vec<u8>, from: usize) {
        let usable = self.sockets.state(socket).is_some_and(|state| !state.is_closing);
        if !usable {
            let result = Err(io::Error::from_raw_os_error(libc::EPIPE));
            self.ready.push(Completion::Sent { socket, buffer, result });
            return;
        }
        let from = from.min(buffer.len());
        // The heap allocation does not move when the vector does.
        let start = buffer[from..].as_ptr();
        let length = u32::try_from(buffer.len() - from).unwrap_or(u32::MAX);
        let index =
            self.sends.insert(PendingSend { socket, buffer, result: None, is_reported: false });
        if let Some(state) = self.sockets.state(socket) {
            debug_assert_eq!(state.send, 0, "a send is already in flight on this socket");
            state.send = index + 1;
            state.outstanding += 1;
        }
        let entry = self.send_entry(socket, start, length);
        self.push(entry.user_data(encode(OperationKind::Send, index)));
    }

    fn send_entry(&self, socket: Socket, start: *const u8, length: u32) -> io_uring::squeue::Entry {
        // With MSG_WAITALL the kernel retries short sends and completes once.
        let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
        let zero_copy = length >= self.options.zero_copy_bytes_min;
        match self.sockets.fd(socket) {
            SocketFd::Direct(slot) if zero_copy => {
                opcode::SendZc::new(Fixed(slot), start, length).flags(flags).build()
            }
            SocketFd::Direct(slot) => {
                opcode::Send::new(Fixed(slot), start, length).flags(flags).build()
            }
            SocketFd::Stream(raw) => opcode::Send::new(Fd(raw), start, length).flags(flags).build(),
            SocketFd::Pipe(raw) => {
                opcode::Write::new(Fd(raw), start, length).offset(u64::MAX).build()
            }
        }
    }

    pub(super) fn complete_send(
        &mut self,
        index: u32,
        result: i32,
        flags: u32,
        into: &mut Vec<Completion>,
    ) {
        if cqueue::more(flags) {
            // The kernel still reads the buffer; a second completion follows.
            if let Some(send) = self.sends.get_mut(index) {
                send.result = Some(result);
            }
            self.report_send_early(index);
            return;
        }
        let Some(send) = self.sends.remove(index) else {
            debug_assert!(false, "a send completed twice");
            return;
        };
        let PendingSend { socket, buffer, result: first, is_reported: is_abandoned } = send;
        if is_abandoned {
            return;
        }
        let mut finishing = false;
        if let Some(state) = self.sockets.state(socket) {
            state.send = 0;
            state.outstanding -= 1;
            finishing = state.shutdown_pending;
        }
        if finishing {
            self.submit_shutdown(socket);
        }
        let result = send_result(first.unwrap_or(result));
        into.push(Completion::Sent { socket, buffer, result });
        // `Sent` must precede `Closed`.
        self.close_if_idle(socket);
        into.append(&mut self.ready);
    }

    /// Reports a zero-copy send before the kernel has released its buffer, if its socket is being
    /// closed: the kernel holds the buffer until the peer acknowledges it, which may never happen.
    /// The buffer stays here until then.
    pub(super) fn report_send_early(&mut self, index: u32) {
        let Some(send) = self.sends.get_mut(index) else { return };
        let Some(result) = send.result.filter(|_| !send.is_reported) else { return };
        let socket = send.socket;
        let Some(state) = self.sockets.state(socket).filter(|state| state.is_closing) else {
            return;
        };
        send.is_reported = true;
        state.send = 0;
        state.outstanding -= 1;
        state.closes_with_reset = true;
        let result = send_result(result);
        self.ready.push(Completion::Sent { socket, buffer: Vec::new(), result });
        self.close_if_idle(socket);
    }
}

fn send_result(result: i32) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
}
