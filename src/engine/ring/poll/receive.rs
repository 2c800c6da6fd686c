//! Receiving of streams.
//!
//! Invariants: one event of a stream fills a bounded number of buffers, so that a fast sender does
//! not starve the others; bytes that find no buffer stay in the kernel, where they close the peer's
//! window.

use std::collections::VecDeque;
use std::io;

use polling::Poller;

use super::buffers::ReceiveBufferPool;
use super::descriptor::IoProgress;
use super::streams::{ReceiveState, Streams};
use crate::ring::{Completion, ReceiveBuffer, Socket};

/// The receive buffers of a ring, and the streams that wait for one.
#[derive(Debug)]
pub(super) struct Receives {
    buffers: ReceiveBufferPool,
    /// Buffers that one stream may fill for one event.
    burst_max: usize,
    /// Streams that found no buffer, read first and in this order once buffers are released.
    starved: VecDeque<Socket>,
    /// Times that a stream found no buffer.
    exhaustions: u64,
}

impl Receives {
    /// Receives into `buffers`. One event of a stream fills at most `burst_buffers_max` buffers,
    /// and at most a quarter of them all.
    pub(super) fn new(burst_buffers_max: u16, buffers: ReceiveBufferPool) -> Self {
        Self {
            burst_max: usize::from(burst_buffers_max).min(buffers.count() / 4).max(1),
            buffers,
            starved: VecDeque::new(),
            exhaustions: 0,
        }
    }

    /// Stops receiving. The poller is updated lazily: most streams stay silent.
    pub(super) fn stop(&mut self, streams: &mut Streams, socket: Socket) {
        let Some(stream) = streams.find(socket) else { return };
        let receive_state = stream.receive_state;
        if receive_state != ReceiveState::AtEnd {
            stream.receive_state = ReceiveState::Stopped;
        }
        if receive_state == ReceiveState::Starved {
            self.remove_starved(socket);
        }
    }

    /// Reads a ready stream until it is empty, has reached its limit, or no buffer is free.
    #[inline]
    pub(super) fn read_ready(
        &mut self,
        streams: &mut Streams,
        socket: Socket,
        completed: &mut Vec<Completion>,
    ) {
        let Some(stream) = streams.find(socket) else { return };
        for taken in 0..self.burst_max {
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
                Ok(IoProgress::End) => return end(streams, socket, Ok(()), completed),
                Err(error) => return end(streams, socket, Err(error), completed),
            };
            if length > 0 {
                let buffer = self.buffers.take(length);
                completed.push(Completion::Received { socket, buffer });
            }
            if is_empty {
                return;
            }
        }
    }

    /// Reads streams that found no buffer, while buffers are free.
    pub(super) fn read_starved(
        &mut self,
        poller: &Poller,
        streams: &mut Streams,
        completed: &mut Vec<Completion>,
    ) {
        for _ in 0..self.starved.len() {
            if self.buffers.is_exhausted() {
                return;
            }
            let Some(socket) = self.starved.pop_front() else { return };
            let Some(stream) = streams.find(socket) else { continue };
            stream.receive_state = ReceiveState::Receiving;
            self.read_ready(streams, socket, completed);
            if let Err(error) = streams.register(poller, socket) {
                end(streams, socket, Err(error), completed);
            }
        }
    }

    /// Reads and writes files, which are always ready.
    pub(super) fn serve_files(
        &mut self,
        poller: &Poller,
        streams: &mut Streams,
        completed: &mut Vec<Completion>,
    ) {
        for index in (0..streams.files().len()).rev() {
            let socket = streams.files()[index];
            let wanted = streams.find(socket).map(|stream| stream.wanted()).unwrap_or_default();
            if wanted.writable {
                streams.continue_send(poller, socket, completed);
            }
            if wanted.readable && !self.buffers.is_exhausted() {
                self.read_ready(streams, socket, completed);
            }
            if !wanted.readable && !wanted.writable {
                streams.remove_file(index);
            }
        }
    }

    /// Removes a stream from those that found no buffer.
    pub(super) fn remove_starved(&mut self, socket: Socket) {
        self.starved.retain(|&other| other != socket);
    }

    /// Returns how often a stream found no buffer.
    pub(super) const fn exhaustions(&self) -> u64 {
        self.exhaustions
    }

    /// Returns the bytes of a buffer and the padding behind them.
    #[inline]
    pub(super) fn bytes(&mut self, buffer: &ReceiveBuffer) -> &mut [u8] {
        self.buffers.bytes(buffer)
    }

    /// Returns a buffer to the set.
    #[inline]
    pub(super) fn release(&mut self, buffer: ReceiveBuffer) {
        self.buffers.release(buffer);
    }
}

/// Starts receiving.
pub(super) fn start(
    poller: &Poller,
    streams: &mut Streams,
    socket: Socket,
    completed: &mut Vec<Completion>,
) {
    let Some(stream) = streams.find(socket) else { return };
    if stream.receive_state != ReceiveState::Stopped {
        return;
    }
    stream.receive_state = ReceiveState::Receiving;
    if let Err(error) = streams.register(poller, socket) {
        end(streams, socket, Err(error), completed);
    }
}

/// Reports the end of receiving.
fn end(
    streams: &mut Streams,
    socket: Socket,
    result: io::Result<()>,
    completed: &mut Vec<Completion>,
) {
    let Some(stream) = streams.find(socket) else { return };
    if stream.receive_state == ReceiveState::AtEnd {
        return;
    }
    stream.receive_state = ReceiveState::AtEnd;
    completed.push(Completion::EndOfStream { socket, result });
}
