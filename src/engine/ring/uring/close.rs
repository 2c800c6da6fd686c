//! Shutting down and closing of sockets.
//!
//! Invariant: a slot is closed only when nothing of its socket is in flight, so that its next
//! socket sees no completion of the former one.

use io_uring::opcode;
use io_uring::types::{Fd, Fixed};

use super::queues::Queues;
use super::sys::set_option;
use super::table::{SocketFd, SocketTable};
use super::user_data::{OperationKind, encode};
use crate::ring::{Completion, Socket};

/// Closes a connection with a reset (RST), which discards unsent data. Static, because the kernel
/// may read it at any time.
static RESET: libc::linger = libc::linger { l_onoff: 1, l_linger: 0 };

impl SocketTable {
    /// Marks a socket as closing and cancels its receive. Returns `false` if it is not open or is
    /// being closed already. [`SocketTable::close_if_idle`] closes it.
    pub(super) fn begin_close(&mut self, queues: &mut Queues, socket: Socket) -> bool {
        let Some(state) = self.state(socket).filter(|state| !state.is_closing) else {
            return false;
        };
        state.is_closing = true;
        state.wants_receive = false;
        if state.is_armed {
            queues.cancel(OperationKind::Receive, socket.0);
        }
        true
    }

    /// Has the close of a socket reset its connection.
    pub(super) fn request_reset(&mut self, socket: Socket) {
        if let Some(state) = self.state(socket) {
            state.closes_with_reset = true;
        }
    }

    /// Closes a socket that is to be closed, once nothing of it is in flight.
    #[inline]
    pub(super) fn close_if_idle(&mut self, queues: &mut Queues, socket: Socket) {
        if self.state(socket).is_some_and(|state| state.is_closing && state.outstanding == 0) {
            self.close_idle(queues, socket);
        }
    }

    /// Closes a socket of which nothing is in flight.
    fn close_idle(&mut self, queues: &mut Queues, socket: Socket) {
        let Some(state) = self.state(socket) else { return };
        let resets = std::mem::take(&mut state.closes_with_reset);
        if let SocketFd::Direct(slot) = self.fd(socket) {
            if resets {
                // The close follows whether or not the kernel has the option. If it overtakes the
                // option, that still holds the socket and applies to its release.
                let entry = set_option(slot, libc::SOL_SOCKET, libc::SO_LINGER, &RESET);
                queues.push(entry.user_data(encode(OperationKind::SetOption, socket.0)));
            }
            let entry = opcode::Close::new(Fixed(slot)).build();
            queues.push(entry.user_data(encode(OperationKind::Close, socket.0)));
        } else {
            self.remove(socket);
            queues.complete(Completion::Closed { socket });
        }
    }

    /// Handles the result of a close; returns `false` if the slot is still in use and its close was
    /// submitted again.
    pub(super) fn complete_close(
        &mut self,
        queues: &mut Queues,
        socket: Socket,
        result: i32,
    ) -> bool {
        if matches!(-result, libc::ENOMEM | libc::EAGAIN | libc::EINTR) {
            self.close_if_idle(queues, socket);
            return false;
        }
        self.remove(socket);
        true
    }

    /// Shuts down writing after the send in flight.
    pub(super) fn shutdown_write(&mut self, queues: &mut Queues, socket: Socket) {
        let Some(state) = self.state(socket).filter(|state| !state.is_closing) else {
            return;
        };
        // A send that the kernel has accepted in part continues when the peer reads; shutting down
        // now would cut it off.
        state.shutdown_pending = state.send != 0;
        if state.shutdown_pending {
            return;
        }
        // The kernel looks the slot up later, on a thread of its own: until then the slot must not
        // be reused, or another connection would be shut down.
        state.outstanding += 1;
        let entry = match self.fd(socket) {
            SocketFd::Direct(slot) => opcode::Shutdown::new(Fixed(slot), libc::SHUT_WR).build(),
            SocketFd::Stream(raw) => opcode::Shutdown::new(Fd(raw), libc::SHUT_WR).build(),
            // Pipes have one direction and are closed instead.
            SocketFd::Pipe(_) => {
                self.complete_shutdown(queues, socket);
                return;
            }
        };
        queues.push(entry.user_data(encode(OperationKind::ShutdownWrite, socket.0)));
    }

    /// Handles the completion of a shutdown.
    pub(super) fn complete_shutdown(&mut self, queues: &mut Queues, socket: Socket) {
        if let Some(state) = self.state(socket) {
            state.outstanding -= 1;
        }
        self.close_if_idle(queues, socket);
    }
}
