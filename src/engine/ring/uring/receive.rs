//! Receiving: one multishot receive a socket; the kernel chooses buffers as bytes arrive.

use std::collections::VecDeque;
use std::io;

use io_uring::types::{Fd, Fixed};
use io_uring::{Submitter, cqueue, opcode, squeue};

use super::operations::{OperationKind, encode};
use super::queues::{CompletionEntry, Queues};
use super::table::{SocketFd, SocketTable};
use crate::buffer::ReceiveBuffers;
use crate::buffer::provided::{GROUP, ProvidedBuffers};
use crate::ring::{Completion, ReceiveBuffer, RingOptions, Socket};

/// The receive buffers of a ring, and the sockets that wait for one.
pub(super) struct Receives {
    provided: ProvidedBuffers,
    buffers: u16,
    /// Number of buffers held by the shard.
    buffers_held: u16,
    buffer_bytes: u32,
    /// Sockets that want to receive but have no receive in flight, mostly because buffers ran out.
    /// Armed at the next park when a buffer is free.
    pending: VecDeque<Socket>,
    /// Number of reaps; a socket's burst is counted separately for each.
    turn: u16,
    /// Buffers that one socket may fill in one turn.
    burst_buffers_max: u16,
    /// Times that a socket had bytes and no buffer was free.
    exhaustions: u64,
}

impl Receives {
    /// Allocates the buffers and registers them with the kernel.
    pub(super) fn new(options: &RingOptions, submitter: &Submitter<'_>) -> io::Result<Self> {
        let buffers = ReceiveBuffers::new(options.receive_buffers, options.receive_buffer_bytes);
        Ok(Self {
            provided: ProvidedBuffers::register(buffers, submitter)?,
            buffers: options.receive_buffers,
            buffers_held: 0,
            buffer_bytes: options.receive_buffer_bytes,
            pending: VecDeque::new(),
            turn: 0,
            burst_buffers_max: options.burst_buffers_max,
            exhaustions: 0,
        })
    }

    pub(super) fn submit(
        &mut self,
        queues: &mut Queues,
        sockets: &mut SocketTable,
        socket: Socket,
    ) {
        let Some(state) = sockets.state(socket) else {
            return;
        };
        if state.is_closing || state.is_at_end || state.wants_receive {
            return;
        }
        state.wants_receive = true;
        if !state.is_armed {
            self.arm(queues, sockets, socket);
        }
    }

    fn arm(&self, queues: &mut Queues, sockets: &mut SocketTable, socket: Socket) {
        let Some(state) = sockets.state(socket) else {
            return;
        };
        state.is_armed = true;
        state.burst_buffers = 0;
        state.outstanding += 1;
        let entry = match sockets.fd(socket) {
            SocketFd::Direct(slot) => opcode::RecvMulti::new(Fixed(slot), GROUP).build(),
            SocketFd::Stream(raw) => opcode::RecvMulti::new(Fd(raw), GROUP).build(),
            // Files cannot be read multishot, and pipes only from Linux 6.7 on, so they are read
            // once at a time: one more submission for each buffer, and no more system calls.
            SocketFd::Pipe(raw) => {
                opcode::Read::new(Fd(raw), std::ptr::null_mut(), self.buffer_bytes)
                    .offset(u64::MAX)
                    .buf_group(GROUP)
                    .build()
                    .flags(squeue::Flags::BUFFER_SELECT)
            }
        };
        queues.push(entry.user_data(encode(OperationKind::Receive, socket.0)));
    }

    /// Begins a reap, in which each socket has a new burst.
    #[inline]
    pub(super) const fn begin_turn(&mut self) {
        self.turn = self.turn.wrapping_add(1);
    }

    /// Handles a completion of a receive.
    #[inline]
    pub(super) fn complete(
        &mut self,
        queues: &mut Queues,
        sockets: &mut SocketTable,
        socket: Socket,
        entry: CompletionEntry,
        into: &mut Vec<Completion>,
    ) {
        let buffer = cqueue::buffer_select(entry.flags);
        let Some(state) = sockets.state(socket) else {
            debug_assert!(false, "a receive completed after its socket was closed");
            return;
        };
        let more = cqueue::more(entry.flags);
        if !more {
            state.is_armed = false;
            state.outstanding -= 1;
        }
        let (closing, wanted) = (state.is_closing, state.wants_receive);
        match (u32::try_from(entry.result), buffer) {
            (Ok(length), Some(buffer)) if length > 0 && !closing => {
                self.buffers_held += 1;
                let is_burst = state.count_buffer(self.turn, self.burst_buffers_max);
                into.push(Completion::Received {
                    socket,
                    buffer: ReceiveBuffer { index: buffer, len: length },
                });
                if !more && wanted {
                    self.pending.push_back(socket);
                } else if more && is_burst {
                    // Ends the multishot; it is armed again behind all others.
                    queues.cancel(OperationKind::Receive, socket.0);
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
            sockets.close_if_idle(queues, socket);
        } else {
            self.complete_empty(sockets, socket, entry.result, into);
        }
    }

    /// Handles the end of a receive without bytes: end of stream, stop, no buffers, or an error.
    fn complete_empty(
        &mut self,
        sockets: &mut SocketTable,
        socket: Socket,
        result: i32,
        into: &mut Vec<Completion>,
    ) {
        self.exhaustions += u64::from(-result == libc::ENOBUFS);
        let Some(state) = sockets.state(socket) else { return };
        match -result {
            libc::ENOBUFS | libc::ECANCELED | libc::EINTR | libc::EAGAIN => {
                if state.wants_receive {
                    self.pending.push_back(socket);
                }
            }
            error => {
                state.is_at_end = true;
                state.wants_receive = false;
                let result = match error {
                    0 => Ok(()),
                    error => Err(io::Error::from_raw_os_error(error)),
                };
                into.push(Completion::EndOfStream { socket, result });
            }
        }
    }

    /// Returns released buffers to the kernel and, if one is free, arms the receives of sockets
    /// that want to receive.
    pub(super) fn resume(&mut self, queues: &mut Queues, sockets: &mut SocketTable) {
        self.provided.publish();
        // Checked even if no buffer was released in this turn: a socket may have found none while
        // all were being released.
        if self.buffers_held < self.buffers {
            self.arm_pending(queues, sockets);
        }
    }

    /// Arms the receives of sockets that want to receive. Sockets that have received nothing since
    /// they were armed come first: the kernel serves them in the order of arming, and a fast sender
    /// would otherwise take every buffer again.
    fn arm_pending(&mut self, queues: &mut Queues, sockets: &mut SocketTable) {
        for _ in 0..self.pending.len() {
            let Some(socket) = self.pending.pop_front() else { return };
            if sockets.state(socket).is_some_and(|state| state.has_received()) {
                self.pending.push_back(socket);
            } else {
                self.arm_if_wanted(queues, sockets, socket);
            }
        }
        while let Some(socket) = self.pending.pop_front() {
            self.arm_if_wanted(queues, sockets, socket);
        }
    }

    fn arm_if_wanted(&self, queues: &mut Queues, sockets: &mut SocketTable, socket: Socket) {
        let Some(state) = sockets.state(socket) else { return };
        if state.wants_receive && !state.is_armed && !state.is_closing {
            self.arm(queues, sockets, socket);
        }
    }

    /// Returns the bytes of a held buffer and its padding.
    #[inline]
    pub(super) fn bytes(&mut self, buffer: &ReceiveBuffer) -> &mut [u8] {
        self.provided.bytes(buffer.index)
    }

    /// Releases a held buffer, effective at the next [`Receives::resume`].
    #[inline]
    #[expect(clippy::needless_pass_by_value, reason = "releasing consumes the buffer")]
    pub(super) fn release(&mut self, buffer: ReceiveBuffer) {
        self.buffers_held -= 1;
        self.provided.provide(buffer.index);
    }

    /// Returns how often a socket had bytes and no buffer was free.
    pub(super) const fn exhaustions(&self) -> u64 {
        self.exhaustions
    }

    /// Leaks the buffers, because the kernel may still write to them.
    pub(super) fn leak(&mut self) {
        self.provided.leak();
    }
}

pub(super) fn stop(queues: &mut Queues, sockets: &mut SocketTable, socket: Socket) {
    let Some(state) = sockets.state(socket) else {
        return;
    };
    if !state.wants_receive {
        return;
    }
    state.wants_receive = false;
    if state.is_armed {
        queues.cancel(OperationKind::Receive, socket.0);
    }
}
