//! Receiving: one multishot request a socket, buffers chosen by the kernel as bytes arrive.

use std::io;

use io_uring::types::{Fd, Fixed};
use io_uring::{cqueue, opcode};

use super::UringRing;
use super::table::Target;
use super::token::{Purpose, token};
use crate::engine::buffer::provided::GROUP;
use crate::engine::ring::{Completion, Lease, Socket};

impl UringRing {
    pub(super) fn submit_receive(&mut self, socket: Socket) {
        let Some(state) = self.table.state(socket) else {
            return;
        };
        if state.closing || state.ended || state.wanted {
            return;
        }
        state.wanted = true;
        if !state.armed {
            self.arm_receive(socket);
        }
    }

    /// Hands a receive to the kernel.
    fn arm_receive(&mut self, socket: Socket) {
        let Some(state) = self.table.state(socket) else {
            return;
        };
        state.armed = true;
        state.burst = 0;
        state.outstanding += 1;
        let entry = match self.table.target(socket) {
            Target::Slot(slot) => opcode::RecvMulti::new(Fixed(slot), GROUP).build(),
            Target::Stream(raw) => opcode::RecvMulti::new(Fd(raw), GROUP).build(),
            // A file cannot be read multishot and a pipe only from 6.7 on, so a pipe is read once
            // at a time: one more submission a buffer, no syscall more.
            Target::Pipe(raw) => {
                let bytes = self.options.receive_buffer_bytes;
                opcode::Read::new(Fd(raw), std::ptr::null_mut(), bytes)
                    .offset(u64::MAX)
                    .buf_group(GROUP)
                    .build()
                    .flags(io_uring::squeue::Flags::BUFFER_SELECT)
            }
        };
        self.push(entry.user_data(token(Purpose::Receive, socket.0)));
    }

    pub(super) fn submit_pause(&mut self, socket: Socket) {
        let Some(state) = self.table.state(socket) else {
            return;
        };
        if !state.wanted {
            return;
        }
        state.wanted = false;
        if state.armed {
            self.cancel(token(Purpose::Receive, socket.0));
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
        let Some(state) = self.table.state(socket) else {
            debug_assert!(false, "a receive outlived its socket");
            return;
        };
        let more = cqueue::more(flags);
        if !more {
            state.armed = false;
            state.outstanding -= 1;
        }
        let (closing, wanted) = (state.closing, state.wanted);
        match (u32::try_from(result), buffer) {
            (Ok(length), Some(buffer)) if length > 0 && !closing => {
                self.leased += 1;
                let is_burst = state.is_burst(self.turn, self.options.burst_buffers_max);
                into.push(Completion::Received { socket, lease: Lease { buffer, length } });
                if !more && wanted {
                    self.hungry.push_back(socket);
                } else if more && is_burst {
                    // Ends the multishot; it is armed again behind everybody else's.
                    self.cancel(token(Purpose::Receive, socket.0));
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
            self.close_when_quiet(socket);
        } else {
            self.complete_receive_without_bytes(socket, result, wanted, into);
        }
    }

    /// The end of a receive that brought nothing: the stream's end, a pause, hunger, a failure.
    fn complete_receive_without_bytes(
        &mut self,
        socket: Socket,
        result: i32,
        wanted: bool,
        into: &mut Vec<Completion>,
    ) {
        self.shortages.receive_buffers += u64::from(-result == libc::ENOBUFS);
        match -result {
            libc::ENOBUFS | libc::ECANCELED | libc::EINTR | libc::EAGAIN => {
                if wanted {
                    self.hungry.push_back(socket);
                }
            }
            error => {
                if let Some(state) = self.table.state(socket) {
                    state.ended = true;
                    state.wanted = false;
                }
                let result = match error {
                    0 => Ok(()),
                    error => Err(io::Error::from_raw_os_error(error)),
                };
                into.push(Completion::Ended { socket, result });
            }
        }
    }

    /// Arms the sockets that want to receive and are not armed. Those that found no buffer since
    /// they were armed come first: the kernel serves them as they are armed, and a sender that is
    /// always ahead would otherwise take every buffer again.
    pub(super) fn arm_hungry(&mut self) {
        for _ in 0..self.hungry.len() {
            let Some(socket) = self.hungry.pop_front() else { return };
            if self.table.state(socket).is_some_and(|state| state.is_fed()) {
                self.hungry.push_back(socket);
            } else {
                self.feed(socket);
            }
        }
        while let Some(socket) = self.hungry.pop_front() {
            self.feed(socket);
        }
    }

    fn feed(&mut self, socket: Socket) {
        let Some(state) = self.table.state(socket) else { return };
        if state.wanted && !state.armed && !state.closing {
            self.arm_receive(socket);
        }
    }
}
