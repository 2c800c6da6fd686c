//! Sending: one buffer a socket at a time, owned here until the kernel no longer uses it.
//!
//! Invariant: a turn copies at most [`PART_BYTES_MAX`] of a buffer to the kernel, so that the other
//! sockets do not wait for a long one; the rest follows in the next turns.

use std::io;
use std::ops::Range;

use io_uring::types::{Fd, Fixed};
use io_uring::{cqueue, opcode, squeue};

use super::operations::{OperationKind, OperationSlab, encode};
use super::queues::{CompletionEntry, Queues};
use super::table::{SocketFd, SocketTable};
use crate::ring::{Completion, Socket};

/// Bytes that are copied to the kernel at once: about 0.2 ms over loopback, where the kernel also
/// delivers them to the peer.
const PART_BYTES_MAX: u32 = 256 << 10;

#[derive(Debug)]
struct PendingSend {
    socket: Socket,
    buffer: Vec<u8>,
    /// Start of the bytes to send.
    from: usize,
    /// The part that the kernel has, and what is sent is before it.
    part: Range<usize>,
    /// The result of the first of two completions (zero-copy sends have two).
    result: Option<i32>,
    /// Its completion has been reported, without the buffer.
    is_reported: bool,
}

pub(super) struct Sends {
    in_flight: OperationSlab<PendingSend>,
    /// Sends of at least this many bytes use zero-copy.
    zero_copy_bytes_min: u32,
}

impl Sends {
    pub(super) fn new(zero_copy_bytes_min: u32) -> Self {
        Self { in_flight: OperationSlab::default(), zero_copy_bytes_min }
    }

    /// Sends `buffer[from..]`. Fails at once if the socket is not open or is being closed.
    #[inline]
    pub(super) fn submit(
        &mut self,
        queues: &mut Queues,
        sockets: &mut SocketTable,
        socket: Socket,
        buffer: Vec<u8>,
        from: usize,
    ) {
        let usable = sockets.state(socket).is_some_and(|state| !state.is_closing);
        if !usable {
            let result = Err(io::Error::from_raw_os_error(libc::EPIPE));
            queues.complete(Completion::Sent { socket, buffer, result });
            return;
        }
        let from = from.min(buffer.len());
        if let Some(state) = sockets.state(socket) {
            debug_assert_eq!(state.send, 0, "a send is already in flight on this socket");
            state.outstanding += 1;
        }
        let part = from..from;
        let send = PendingSend { socket, buffer, from, part, result: None, is_reported: false };
        self.push_part(queues, sockets, send);
    }

    /// Sends the next part of a buffer.
    #[inline]
    fn push_part(&mut self, queues: &mut Queues, sockets: &mut SocketTable, mut send: PendingSend) {
        let (socket, start) = (send.socket, send.part.end);
        let rest = &send.buffer[start..];
        let all = u32::try_from(rest.len()).unwrap_or(u32::MAX);
        let zero_copy = all >= self.zero_copy_bytes_min;
        let length = if zero_copy { all } else { all.min(PART_BYTES_MAX) };
        // The heap allocation does not move when the vector does.
        let entry = Self::entry(sockets.fd(socket), rest.as_ptr(), length, zero_copy);
        send.part = start..start + length as usize;
        let index = self.in_flight.insert(send);
        if let Some(state) = sockets.state(socket) {
            state.send = index + 1;
        }
        queues.push(entry.user_data(encode(OperationKind::Send, index)));
    }

    fn entry(
        descriptor: SocketFd,
        start: *const u8,
        length: u32,
        zero_copy: bool,
    ) -> squeue::Entry {
        // With MSG_WAITALL the kernel retries short sends and completes once.
        let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
        match descriptor {
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

    /// Handles a completion of send `index`.
    pub(super) fn complete(
        &mut self,
        queues: &mut Queues,
        sockets: &mut SocketTable,
        index: u32,
        entry: CompletionEntry,
        into: &mut Vec<Completion>,
    ) {
        if cqueue::more(entry.flags) {
            // The kernel still reads the buffer; a second completion follows.
            if let Some(send) = self.in_flight.get_mut(index) {
                send.result = Some(entry.result);
            }
            if let Some(socket) = self.report_early(queues, sockets, index) {
                sockets.close_if_idle(queues, socket);
            }
            return;
        }
        let Some(send) = self.in_flight.remove(index) else {
            debug_assert!(false, "a send completed twice");
            return;
        };
        if send.is_reported {
            return;
        }
        let result = send.result.unwrap_or(entry.result);
        if send.part.end < send.buffer.len() && is_sent(&send.part, result) {
            let state = sockets.state(send.socket);
            if state.is_some_and(|state| !state.is_closing) {
                return self.push_part(queues, sockets, send);
            }
        }
        let result = send.sent(result);
        let PendingSend { socket, buffer, .. } = send;
        let mut finishing = false;
        if let Some(state) = sockets.state(socket) {
            state.send = 0;
            state.outstanding -= 1;
            finishing = state.shutdown_pending;
        }
        if finishing {
            sockets.shutdown_write(queues, socket);
        }
        into.push(Completion::Sent { socket, buffer, result });
        // `Sent` must precede `Closed`.
        sockets.close_if_idle(queues, socket);
        queues.take_ready(into);
    }

    /// Cancels the send in flight of a socket that is being closed.
    pub(super) fn cancel(
        &mut self,
        queues: &mut Queues,
        sockets: &mut SocketTable,
        socket: Socket,
    ) {
        let send = sockets.state(socket).and_then(|state| state.send.checked_sub(1));
        if let Some(index) = send {
            queues.cancel(OperationKind::Send, index);
            self.report_early(queues, sockets, index);
        }
    }

    /// Reports a zero-copy send before the kernel has released its buffer, if its socket is being
    /// closed: the kernel holds the buffer until the peer acknowledges it, which may never happen.
    /// The buffer stays here until then. Returns the socket, which may be idle now.
    fn report_early(
        &mut self,
        queues: &mut Queues,
        sockets: &mut SocketTable,
        index: u32,
    ) -> Option<Socket> {
        let send = self.in_flight.get_mut(index)?;
        let result = send.result.filter(|_| !send.is_reported)?;
        let (socket, result) = (send.socket, send.sent(result));
        let state = sockets.state(socket).filter(|state| state.is_closing)?;
        send.is_reported = true;
        state.send = 0;
        state.outstanding -= 1;
        state.closes_with_reset = true;
        queues.complete(Completion::Sent { socket, buffer: Vec::new(), result });
        Some(socket)
    }

    /// Leaks the buffers, because the kernel may still read them.
    pub(super) fn leak(&mut self) {
        std::mem::forget(std::mem::take(&mut self.in_flight));
    }
}

impl PendingSend {
    /// Returns the bytes sent in all, given the result of the part. The error of a later part is
    /// that of the next send.
    fn sent(&self, result: i32) -> io::Result<usize> {
        let before = self.part.start - self.from;
        match usize::try_from(result) {
            Ok(bytes) => Ok(before + bytes),
            Err(_) if before > 0 => Ok(before),
            Err(_) => Err(io::Error::from_raw_os_error(-result)),
        }
    }
}

/// Returns whether the whole part is sent.
fn is_sent(part: &Range<usize>, result: i32) -> bool {
    usize::try_from(result).is_ok_and(|bytes| bytes == part.len())
}
