//! Receiving: one multishot receive a socket; the kernel chooses buffers as bytes arrive.

use std::io;

use io_uring::types::{Fd, Fixed};
use io_uring::{cqueue, opcode};

use super::UringRing;
use super::table::SocketFd;
use super::user_data::{OperationKind, encode};
use crate::engine::buffer::provided::GROUP;
use crate::engine::ring::{Completion, ReceiveBuffer, Socket};

impl UringRing {
    pub(super) fn submit_receive(&mut self, socket: Socket) {
        let Some(state) = self.sockets.state(socket) else {
            return;
        };
        if state.is_closing || state.is_at_end || state.wants_receive {
            return;
        }
        state.wants_receive = true;
        if !state.is_armed {
            self.arm_receive(socket);
        }
    }

    /// Submits a receive.
    fn arm_receive(&mut self, socket: Socket) {
        let Some(state) = self.sockets.state(socket) else {
            return;
        };
        state.is_armed = true;
        state.burst_buffers = 0;
        state.outstanding += 1;
        let entry = match self.sockets.fd(socket) {
            SocketFd::Direct(slot) => opcode::RecvMulti::new(Fixed(slot), GROUP).build(),
            SocketFd::Stream(raw) => opcode::RecvMulti::new(Fd(raw), GROUP).build(),
            // Files cannot be read multishot, and pipes only from Linux 6.7 on, so they are read
            // once at a time: one more submission for each buffer, and no more system calls.
            SocketFd::Pipe(raw) => {
                let bytes = self.options.receive_buffer_bytes;
                opcode::Read::new(Fd(raw), std::ptr::null_mut(), bytes)
                    .offset(u64::MAX)
                    .buf_group(GROUP)
                    .build()
                    .flags(io_uring::squeue::Flags::BUFFER_SELECT)
            }
        };
        self.push(entry.user_data(encode(OperationKind::Receive, socket.0)));
    }

    pub(super) fn submit_stop_receive(&mut self, socket: Socket) {
        let Some(state) = self.sockets.state(socket) else {
            return;
        };
        if !state.wants_receive {
            return;
        }
        state.wants_receive = false;
        if state.is_armed {
            self.cancel(encode(OperationKind::Receive, socket.0));
        }
    }

    pub(super) fn complete_receive(
        &mut self,
        socket: Socket,
        result: i32,
        flags: u32,
        into: &mut Vec<Completion>,
    ) {
        let buffer = cqueue::buffer_select(flags);
        let Some(state) = self.sockets.state(socket) else {
            debug_assert!(false, "a receive completed after its socket was closed");
            return;
        };
        let more = cqueue::more(flags);
        if !more {
            state.is_armed = false;
            state.outstanding -= 1;
        }
        let (closing, wanted) = (state.is_closing, state.wants_receive);
        match (u32::try_from(result), buffer) {
            (Ok(length), Some(buffer)) if length > 0 && !closing => {
                self.buffers_held += 1;
                let is_burst = state.count_buffer(self.turn, self.options.burst_buffers_max);
                into.push(Completion::Received {
                    socket,
                    buffer: ReceiveBuffer { index: buffer, len: length },
                });
                if !more && wanted {
                    self.pending_receives.push_back(socket);
                } else if more && is_burst {
                    // Ends the multishot; it is armed again behind all others.
                    self.cancel(encode(OperationKind::Receive, socket.0));
                }
                return;
            }
            (_, Some(buffer)) => self.provided.provide(buffer),
            (_, None) => {}
        }
        if more {
            return;
        }
        if closing {
            self.close_if_idle(socket);
        } else {
            self.complete_empty_receive(socket, result, wanted, into);
        }
    }

    /// Handles the end of a receive without bytes: end of stream, stop, no buffers, or an error.
    fn complete_empty_receive(
        &mut self,
        socket: Socket,
        result: i32,
        wanted: bool,
        into: &mut Vec<Completion>,
    ) {
        self.exhaustion.receive_buffers += u64::from(-result == libc::ENOBUFS);
        match -result {
            libc::ENOBUFS | libc::ECANCELED | libc::EINTR | libc::EAGAIN => {
                if wanted {
                    self.pending_receives.push_back(socket);
                }
            }
            error => {
                if let Some(state) = self.sockets.state(socket) {
                    state.is_at_end = true;
                    state.wants_receive = false;
                }
                let result = match error {
                    0 => Ok(()),
                    error => Err(io::Error::from_raw_os_error(error)),
                };
                into.push(Completion::EndOfStream { socket, result });
            }
        }
    }

    /// Arms the receives of sockets that want to receive. Sockets that have received nothing since
    /// they were armed come first: the kernel serves them in the order of arming, and a fast sender
    /// would otherwise take every buffer again.
    pub(super) fn arm_pending_receives(&mut self) {
        for _ in 0..self.pending_receives.len() {
            let Some(socket) = self.pending_receives.pop_front() else { return };
            if self.sockets.state(socket).is_some_and(|state| state.has_received()) {
                self.pending_receives.push_back(socket);
            } else {
                self.arm_if_wanted(socket);
            }
        }
        while let Some(socket) = self.pending_receives.pop_front() {
            self.arm_if_wanted(socket);
        }
    }

    fn arm_if_wanted(&mut self, socket: Socket) {
        let Some(state) = self.sockets.state(socket) else { return };
        if state.wants_receive && !state.is_armed && !state.is_closing {
            self.arm_receive(socket);
        }
    }
}
