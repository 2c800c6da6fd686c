//! Reading and writing of streams.
//!
//! Invariants: one event of a stream fills a bounded number of buffers, so that a fast sender does
//! not starve the others; bytes that find no buffer stay in the kernel, where they close the peer's
//! window; a send is attempted before polling for writability.

use std::io;

use polling::Poller;
use rustix::io::Errno;

use super::descriptor::IoProgress;
use super::streams::{PendingSend, ReceiveState, Stream, Streams};
use crate::engine::ring::{Completion, Socket};

impl Streams {
    /// Starts receiving.
    pub(super) fn start_receive(&mut self, poller: &Poller, socket: Socket) {
        let Some(stream) = self.find(socket) else { return };
        if stream.receive_state != ReceiveState::Stopped {
            return;
        }
        stream.receive_state = ReceiveState::Receiving;
        if let Err(error) = self.register(poller, socket) {
            self.end_receive(socket, Err(error));
        }
    }

    /// Stops receiving. The poller is updated lazily: most streams stay silent.
    pub(super) fn stop_receive(&mut self, socket: Socket) {
        let Some(stream) = self.find(socket) else { return };
        let receive_state = stream.receive_state;
        if receive_state != ReceiveState::AtEnd {
            stream.receive_state = ReceiveState::Stopped;
        }
        if receive_state == ReceiveState::Starved {
            self.starved.retain(|&other| other != socket);
        }
    }

    /// Sends what is possible at once; the rest is sent when the stream is writable.
    #[inline]
    pub(super) fn send(&mut self, poller: &Poller, socket: Socket, buffer: Vec<u8>, offset: usize) {
        let Some(stream) = self.find(socket) else {
            debug_assert!(false, "send on closed socket {socket:?}");
            let result = Err(Errno::BADF.into());
            self.completed.push(Completion::Sent { socket, buffer, result });
            return;
        };
        if stream.pending_send.is_some() {
            debug_assert!(false, "{socket:?} already has a send in flight");
            let result = Err(Errno::BUSY.into());
            self.completed.push(Completion::Sent { socket, buffer, result });
            return;
        }
        let mut send = PendingSend { buffer, offset, next: offset };
        let is_complete = if stream.descriptor.can_write_immediately() || send.unsent().is_empty() {
            stream.write_some(&mut send)
        } else {
            Ok(false)
        };
        if matches!(is_complete, Ok(false)) {
            stream.pending_send = Some(send);
            if let Err(error) = self.register(poller, socket) {
                self.complete_send(socket, Err(error));
            }
            return;
        }
        let result = is_complete.map(|_| send.next - offset);
        self.completed.push(Completion::Sent { socket, buffer: send.buffer, result });
    }

    /// Continues the send in progress.
    pub(super) fn continue_send(&mut self, poller: &Poller, socket: Socket) {
        let Some(stream) = self.find(socket) else { return };
        let Some(mut send) = stream.pending_send.take() else { return };
        let is_complete = stream.write_some(&mut send);
        stream.pending_send = Some(send);
        match is_complete {
            Ok(false) => return,
            Ok(true) => self.complete_send(socket, Ok(())),
            Err(error) => self.complete_send(socket, Err(error)),
        }
        self.reduce_interest(poller, socket);
    }

    /// Shuts down writing after the send in progress.
    pub(super) fn shutdown_write(&mut self, socket: Socket) {
        let Some(stream) = self.find(socket) else { return };
        if stream.pending_send.is_some() {
            stream.shutdown_pending = true;
        } else {
            stream.descriptor.shutdown_write();
        }
    }

    /// Closes a stream and cancels its send in progress.
    pub(super) fn close(&mut self, poller: &Poller, socket: Socket) {
        let Some(mut stream) = self.remove(poller, socket) else {
            debug_assert!(false, "{socket:?} is closed twice");
            return;
        };
        if let Some(PendingSend { buffer, .. }) = stream.pending_send.take() {
            let result = Err(Errno::CANCELED.into());
            self.completed.push(Completion::Sent { socket, buffer, result });
        }
        drop(stream);
        self.completed.push(Completion::Closed { socket });
    }

    /// Reads a ready stream until it is empty, has reached its limit, or no buffer is free.
    #[inline]
    pub(super) fn read_ready(&mut self, socket: Socket) {
        for taken in 0..self.burst_max {
            let Some(Some(stream)) = self.entries.get_mut(socket.index()) else { return };
            let Some(bytes) = self.buffers.next_free() else {
                if taken > 0 {
                    // It received some bytes: streams without any go first, and it is reported
                    // again.
                    return;
                }
                // It stays watched: buffers are usually released before the next wait, and an event
                // before that reduces its interest.
                stream.receive_state = ReceiveState::Starved;
                self.starved.push_back(socket);
                self.exhaustions += 1;
                return;
            };
            let (length, is_empty) = match stream.descriptor.read(bytes) {
                Ok(IoProgress::More(length)) => (length, false),
                Ok(IoProgress::Wait(length)) => (length, true),
                Ok(IoProgress::End) => return self.end_receive(socket, Ok(())),
                Err(error) => return self.end_receive(socket, Err(error)),
            };
            if length > 0 {
                let buffer = self.buffers.take(length);
                self.completed.push(Completion::Received { socket, buffer });
            }
            if is_empty {
                return;
            }
        }
    }

    /// Reads streams that found no buffer, while buffers are free.
    pub(super) fn read_starved(&mut self, poller: &Poller) {
        for _ in 0..self.starved.len() {
            if self.buffers.is_exhausted() {
                return;
            }
            let Some(socket) = self.starved.pop_front() else { return };
            let Some(stream) = self.find(socket) else { continue };
            stream.receive_state = ReceiveState::Receiving;
            self.read_ready(socket);
            if let Err(error) = self.register(poller, socket) {
                self.end_receive(socket, Err(error));
            }
        }
    }

    /// Reads and writes files, which are always ready.
    pub(super) fn serve_files(&mut self, poller: &Poller) {
        for index in (0..self.files.len()).rev() {
            let socket = self.files[index];
            let wanted = self.find(socket).map(|stream| stream.wanted()).unwrap_or_default();
            if wanted.writable {
                self.continue_send(poller, socket);
            }
            if wanted.readable && !self.buffers.is_exhausted() {
                self.read_ready(socket);
            }
            if !wanted.readable && !wanted.writable {
                self.files.swap_remove(index);
            }
        }
    }

    /// Reports the end of receiving.
    fn end_receive(&mut self, socket: Socket, result: io::Result<()>) {
        let Some(stream) = self.find(socket) else { return };
        if stream.receive_state == ReceiveState::AtEnd {
            return;
        }
        stream.receive_state = ReceiveState::AtEnd;
        self.completed.push(Completion::EndOfStream { socket, result });
    }

    /// Completes the send in progress.
    fn complete_send(&mut self, socket: Socket, result: io::Result<()>) {
        let Some(stream) = self.find(socket) else { return };
        let Some(PendingSend { buffer, offset, next }) = stream.pending_send.take() else {
            return;
        };
        if std::mem::take(&mut stream.shutdown_pending) {
            stream.descriptor.shutdown_write();
        }
        let result = result.map(|()| next - offset);
        self.completed.push(Completion::Sent { socket, buffer, result });
    }
}

impl Stream {
    /// Writes what is possible now; returns whether that was all.
    #[inline]
    fn write_some(&self, send: &mut PendingSend) -> io::Result<bool> {
        while !send.unsent().is_empty() {
            match self.descriptor.write(send.unsent())? {
                IoProgress::More(length) => send.next += length,
                IoProgress::Wait(length) => {
                    send.next += length;
                    return Ok(send.unsent().is_empty());
                }
                IoProgress::End => return Err(io::ErrorKind::WriteZero.into()),
            }
        }
        Ok(true)
    }
}

impl PendingSend {
    #[inline]
    fn unsent(&self) -> &[u8] {
        self.buffer.get(self.next..).unwrap_or_default()
    }
}
