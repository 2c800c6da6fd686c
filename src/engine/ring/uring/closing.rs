//! Ends: of one socket, and of the ring itself.
//!
//! What it keeps true: a slot is closed only when nothing of its socket is with the kernel, so that
//! the next tenant never sees a completion of the former one; memory is freed only when the kernel
//! has let go of it.

use std::time::Duration;

use io_uring::opcode;
use io_uring::types::{CancelBuilder, Fd, Fixed};

use super::UringRing;
use super::kernel::set_option;
use super::table::Target;
use super::token::{self, Purpose, token};
use crate::engine::buffer::provided::GROUP;
use crate::engine::ring::{Completion, Patience, Socket};

/// Ends a connection with a reset, which takes back what waits to be sent; at a place that the
/// kernel may read at any time.
static RESET: libc::linger = libc::linger { l_onoff: 1, l_linger: 0 };

/// How long a ring that is dropped waits for the kernel to let go of its memory. What cancelling
/// does not end is a buffer sent without a copy whose peer has not acknowledged it.
const QUIET_MAX: Duration = Duration::from_secs(1);

/// Receives that are cancelled before their ends are reaped.
const CANCELS_MAX: usize = 256;

/// After this time without an end everything is cancelled once more: what was on a kernel thread
/// may have missed it.
const QUIET_STEP: Duration = Duration::from_millis(10);

impl UringRing {
    pub(super) fn submit_close(&mut self, socket: Socket) {
        let Some(state) = self.table.state(socket).filter(|state| !state.closing) else { return };
        state.closing = true;
        state.wanted = false;
        let (armed, send) = (state.armed, state.send);
        if armed {
            self.cancel(token(Purpose::Receive, socket.0));
        }
        if let Some(place) = send.checked_sub(1) {
            self.cancel(token(Purpose::Send, place));
            self.abandon_send(place);
        }
        self.close_when_quiet(socket);
    }

    /// Closes a socket that is to be closed once nothing of it is with the kernel.
    pub(super) fn close_when_quiet(&mut self, socket: Socket) {
        let Some(state) = self.table.state(socket) else { return };
        if !state.closing || state.outstanding > 0 {
            return;
        }
        let resets = std::mem::take(&mut state.resets);
        if let Target::Slot(slot) = self.table.target(socket) {
            if resets {
                let entry = set_option(slot, libc::SOL_SOCKET, libc::SO_LINGER, &RESET);
                self.push(entry.user_data(token(Purpose::Option, socket.0)));
            }
            let entry = opcode::Close::new(Fixed(slot)).build();
            self.push(entry.user_data(token(Purpose::Close, socket.0)));
        } else {
            self.table.forget(socket);
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
            // The slot is still taken; the next turn may find what is missing now.
            self.close_when_quiet(socket);
            return;
        }
        self.table.forget(socket);
        if !self.attempts.was_refused(socket) {
            into.push(Completion::Closed { socket });
        }
        self.resume_accept();
    }

    pub(super) fn cancel(&mut self, target: u64) {
        let entry = opcode::AsyncCancel::new(target).build();
        self.push(entry.user_data(token(Purpose::Cancel, 0)));
    }

    pub(super) fn submit_finish(&mut self, socket: Socket) {
        let Some(state) = self.table.state(socket).filter(|state| !state.closing) else { return };
        // A send that the kernel has taken in part goes on when the peer reads; a half close before
        // that would cut it.
        state.finishing = state.send != 0;
        if state.finishing {
            return;
        }
        // The kernel looks the slot up on a thread of its own, some time later: until it has, the
        // slot must not go to another connection, which would be finished instead.
        state.outstanding += 1;
        let entry = match self.table.target(socket) {
            Target::Slot(slot) => opcode::Shutdown::new(Fixed(slot), libc::SHUT_WR).build(),
            Target::Stream(raw) => opcode::Shutdown::new(Fd(raw), libc::SHUT_WR).build(),
            // A pipe has one direction: it is finished by closing it.
            Target::Pipe(_) => {
                self.complete_finish(socket);
                return;
            }
        };
        self.push(entry.user_data(token(Purpose::Finish, socket.0)));
    }

    pub(super) fn complete_finish(&mut self, socket: Socket) {
        if let Some(state) = self.table.state(socket) {
            state.outstanding -= 1;
        }
        self.close_when_quiet(socket);
    }

    /// Cancels everything and reaps it; `false` where the kernel has not let go of everything in
    /// time. Nothing is told to anybody any more.
    fn fall_quiet(&mut self) -> bool {
        // What the kernel never saw it cannot hold.
        self.in_flight -= self.backlog.len();
        self.backlog.clear();
        let deadline = self.clock.now().after(QUIET_MAX);
        self.end_receives();
        let mut cancels = true;
        while self.in_flight > 0 {
            let entry = opcode::AsyncCancel2::new(CancelBuilder::any()).build();
            // A queue that is full is emptied by the enter below.
            if cancels && self.try_push(&entry.user_data(token(Purpose::Cancel, 0))).is_ok() {
                self.in_flight += 1;
            }
            let entered = self.enter(Patience::For(QUIET_STEP));
            cancels = !self.has_ended_some();
            if entered.is_err() || self.clock.now() >= deadline {
                break;
            }
        }
        self.in_flight == 0
    }

    /// Cancels each receive by its own word, which the kernel looks up. Where it is told to cancel
    /// everything it goes through everything for each that it cancels: 15,000 receives took three
    /// seconds.
    fn end_receives(&mut self) {
        let receiving: Vec<Socket> = self.table.receiving().collect();
        for some in receiving.chunks(CANCELS_MAX) {
            for socket in some {
                let entry = opcode::AsyncCancel::new(token(Purpose::Receive, socket.0)).build();
                // What finds no place is cancelled with the rest.
                if self.try_push(&entry.user_data(token(Purpose::Cancel, 0))).is_ok() {
                    self.in_flight += 1;
                }
            }
            if self.enter(Patience::None).is_err() {
                return;
            }
            self.has_ended_some();
        }
    }

    /// Reaps what has ended and tells nobody of it; whether there was any.
    fn has_ended_some(&mut self) -> bool {
        let before = self.in_flight;
        for entry in self.ring.completion() {
            let is_last = token::is_last(entry.user_data(), entry.flags());
            self.in_flight = self.in_flight.saturating_sub(usize::from(is_last));
        }
        self.in_flight < before
    }
}

impl Drop for UringRing {
    /// Closing the ring's file would end all requests too, but some time later and on a thread of
    /// the kernel's, while the memory below goes at once. So everything is ended here first, and
    /// what cannot be is given up rather than freed.
    fn drop(&mut self) {
        if !self.fall_quiet() {
            std::mem::forget(std::mem::take(&mut self.sends));
            std::mem::forget(std::mem::take(&mut self.attempts));
            self.accepts.leak();
            self.wakes.leak();
            self.provided.leak();
        }
        // Wakers may keep the ring's file for longer: neither connections nor memory of ours may
        // live on with it. There is nothing to be done about a refusal, and no reason for one.
        let submitter = self.ring.submitter();
        submitter.unregister_files().unwrap_or(());
        submitter.unregister_buf_ring(GROUP).unwrap_or(());
        self.entrance.close();
    }
}
