//! Closing of sockets, and of the ring itself.
//!
//! Invariants: a slot is closed only when nothing of its socket is in flight, so that its next
//! socket sees no completion of the former one; memory is freed only when the kernel no longer uses
//! it.

use std::time::Duration;

use io_uring::opcode;
use io_uring::types::{CancelBuilder, Fd, Fixed};

use super::UringRing;
use super::sys::set_option;
use super::table::SocketFd;
use super::user_data::{self, OperationKind, encode};
use crate::engine::buffer::provided::GROUP;
use crate::engine::ring::{Completion, ParkTimeout, Socket};

/// Closes a connection with a reset (RST), which discards unsent data. Static, because the kernel
/// may read it at any time.
static RESET: libc::linger = libc::linger { l_onoff: 1, l_linger: 0 };

/// How long dropping a ring waits for the kernel to release its memory. Only zero-copy sends that
/// the peer has not acknowledged cannot be cancelled.
const DROP_TIMEOUT: Duration = Duration::from_secs(1);

/// Number of receives cancelled before completions are reaped.
const CANCEL_BATCH: usize = 256;

/// After this time without a completion everything is cancelled again: operations that run on a
/// kernel thread may have missed the cancellation.
const CANCEL_INTERVAL: Duration = Duration::from_millis(10);

impl UringRing {
    pub(super) fn submit_close(&mut self, socket: Socket) {
        let Some(state) = self.sockets.state(socket).filter(|state| !state.is_closing) else {
            return;
        };
        state.is_closing = true;
        state.wants_receive = false;
        let (armed, send) = (state.is_armed, state.send);
        if armed {
            self.cancel(encode(OperationKind::Receive, socket.0));
        }
        if let Some(index) = send.checked_sub(1) {
            self.cancel(encode(OperationKind::Send, index));
            self.report_send_early(index);
        }
        self.close_if_idle(socket);
    }

    /// Closes a socket that is to be closed, once nothing of it is in flight.
    pub(super) fn close_if_idle(&mut self, socket: Socket) {
        let Some(state) = self.sockets.state(socket) else { return };
        if !state.is_closing || state.outstanding > 0 {
            return;
        }
        let resets = std::mem::take(&mut state.closes_with_reset);
        if let SocketFd::Direct(slot) = self.sockets.fd(socket) {
            if resets {
                let entry = set_option(slot, libc::SOL_SOCKET, libc::SO_LINGER, &RESET);
                self.push(entry.user_data(encode(OperationKind::SetOption, socket.0)));
            }
            let entry = opcode::Close::new(Fixed(slot)).build();
            self.push(entry.user_data(encode(OperationKind::Close, socket.0)));
        } else {
            self.sockets.remove(socket);
            self.ready.push(Completion::Closed { socket });
        }
    }

    pub(super) fn complete_close(
        &mut self,
        socket: Socket,
        result: i32,
        into: &mut Vec<Completion>,
    ) {
        if matches!(-result, libc::ENOMEM | libc::EAGAIN | libc::EINTR) {
            // The slot is still in use; retried in the next turn.
            self.close_if_idle(socket);
            return;
        }
        self.sockets.remove(socket);
        if !self.connects.take_failed(socket) {
            into.push(Completion::Closed { socket });
        }
        self.resume_accept();
    }

    pub(super) fn cancel(&mut self, target: u64) {
        let entry = opcode::AsyncCancel::new(target).build();
        self.push(entry.user_data(encode(OperationKind::Cancel, 0)));
    }

    pub(super) fn submit_shutdown(&mut self, socket: Socket) {
        let Some(state) = self.sockets.state(socket).filter(|state| !state.is_closing) else {
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
        let entry = match self.sockets.fd(socket) {
            SocketFd::Direct(slot) => opcode::Shutdown::new(Fixed(slot), libc::SHUT_WR).build(),
            SocketFd::Stream(raw) => opcode::Shutdown::new(Fd(raw), libc::SHUT_WR).build(),
            // Pipes have one direction and are closed instead.
            SocketFd::Pipe(_) => {
                self.complete_shutdown(socket);
                return;
            }
        };
        self.push(entry.user_data(encode(OperationKind::ShutdownWrite, socket.0)));
    }

    pub(super) fn complete_shutdown(&mut self, socket: Socket) {
        if let Some(state) = self.sockets.state(socket) {
            state.outstanding -= 1;
        }
        self.close_if_idle(socket);
    }

    /// Cancels all operations and discards their completions; returns whether all of them completed
    /// in time.
    fn cancel_all(&mut self) -> bool {
        // The kernel has not seen the backlog.
        self.in_flight -= self.backlog.len();
        self.backlog.clear();
        let deadline = self.clock.now().after(DROP_TIMEOUT);
        self.cancel_receives();
        let mut cancels = true;
        while self.in_flight > 0 {
            let entry = opcode::AsyncCancel2::new(CancelBuilder::any()).build();
            // A full queue is emptied by the enter below.
            if cancels && self.try_push(&entry.user_data(encode(OperationKind::Cancel, 0))).is_ok()
            {
                self.in_flight += 1;
            }
            let entered = self.enter(ParkTimeout::After(CANCEL_INTERVAL));
            cancels = !self.discard_completions();
            if entered.is_err() || self.clock.now() >= deadline {
                break;
            }
        }
        self.in_flight == 0
    }

    /// Cancels each receive by its user data. Cancelling everything at once takes quadratic time in
    /// the kernel: three seconds for 15,000 receives.
    fn cancel_receives(&mut self) {
        let receiving: Vec<Socket> = self.sockets.receiving().collect();
        for some in receiving.chunks(CANCEL_BATCH) {
            for socket in some {
                let entry =
                    opcode::AsyncCancel::new(encode(OperationKind::Receive, socket.0)).build();
                // If the queue is full, it is cancelled with the rest.
                if self.try_push(&entry.user_data(encode(OperationKind::Cancel, 0))).is_ok() {
                    self.in_flight += 1;
                }
            }
            if self.enter(ParkTimeout::Zero).is_err() {
                return;
            }
            self.discard_completions();
        }
    }

    /// Discards all completions; returns whether there were any.
    fn discard_completions(&mut self) -> bool {
        let before = self.in_flight;
        for entry in self.ring.completion() {
            let is_last = user_data::is_last(entry.user_data(), entry.flags());
            self.in_flight = self.in_flight.saturating_sub(usize::from(is_last));
        }
        self.in_flight < before
    }
}

impl Drop for UringRing {
    /// Closing the ring's descriptor also ends all requests, but asynchronously, while the memory
    /// below is freed at once. So everything is cancelled first, and memory that is still in use is
    /// leaked.
    fn drop(&mut self) {
        if !self.cancel_all() {
            std::mem::forget(std::mem::take(&mut self.sends));
            std::mem::forget(std::mem::take(&mut self.connects));
            self.accepts.leak();
            self.wake_state.leak();
            self.provided.leak();
        }
        // Wakers may hold the ring's descriptor for longer: connections and memory must not outlive
        // the ring with it. Errors are ignored.
        let submitter = self.ring.submitter();
        submitter.unregister_files().unwrap_or(());
        submitter.unregister_buf_ring(GROUP).unwrap_or(());
        self.ring_fd.unregister();
    }
}
