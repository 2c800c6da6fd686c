//! Receiving of streams, and the fixed set of receive buffers.
//!
//! Invariants: one event of a stream fills a bounded number of buffers, so that a fast sender does
//! not starve the others; bytes that find no buffer stay in the kernel, where they close the window
//! of the peer. A buffer is either free or held by exactly one holder; the memory is allocated
//! once, at start, and a page uses memory only once it is written.

use std::collections::VecDeque;
use std::io;

use polling::Poller;

use super::descriptor::IoProgress;
use super::streams::{ReceiveState, StreamTable};
use crate::ring::{Completion, PADDING, ReceiveBuffer, Socket};

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
    pub(super) fn stop(&mut self, streams: &mut StreamTable, socket: Socket) {
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
        streams: &mut StreamTable,
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
        streams: &mut StreamTable,
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
        streams: &mut StreamTable,
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
    streams: &mut StreamTable,
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
    streams: &mut StreamTable,
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

/// Receive buffers of one size, each followed by [`PADDING`] bytes.
#[derive(Debug)]
pub(super) struct ReceiveBufferPool {
    memory: Vec<u8>,
    /// Indices of free buffers, reused last in, first out while they are in cache.
    free: Vec<u16>,
    /// By index: whether the shard holds the buffer.
    is_held: Vec<bool>,
    buffer_bytes: usize,
}

impl ReceiveBufferPool {
    /// Allocates `count` buffers of `buffer_bytes` each, at least one of at least one byte.
    pub(super) fn new(count: u16, buffer_bytes: u32) -> Self {
        let (count, buffer_bytes) = (count.max(1), (buffer_bytes as usize).max(1));
        Self {
            memory: vec![0; usize::from(count) * (buffer_bytes + PADDING)],
            free: (0..count).rev().collect(),
            is_held: vec![false; usize::from(count)],
            buffer_bytes,
        }
    }

    /// Returns whether all buffers are held.
    #[inline]
    pub(super) fn is_exhausted(&self) -> bool {
        self.free.is_empty()
    }

    /// Returns the number of buffers, held or free.
    pub(super) const fn count(&self) -> usize {
        self.is_held.len()
    }

    /// Returns the next free buffer, if any; [`ReceiveBufferPool::take`] takes it once it is
    /// filled.
    #[inline]
    pub(super) fn next_free(&mut self) -> Option<&mut [u8]> {
        let start = self.start(*self.free.last()?);
        Some(&mut self.memory[start..start + self.buffer_bytes])
    }

    /// Takes the buffer that [`ReceiveBufferPool::next_free`] returned, with `length` bytes in it.
    #[inline]
    pub(super) fn take(&mut self, length: usize) -> ReceiveBuffer {
        let Some(buffer) = self.free.pop() else {
            unreachable!("a buffer is taken only after it was returned as free");
        };
        debug_assert!(length <= self.buffer_bytes);
        self.is_held[usize::from(buffer)] = true;
        #[expect(clippy::cast_possible_truncation, reason = "a buffer's length was a u32")]
        ReceiveBuffer { index: buffer, len: length as u32 }
    }

    /// Returns the bytes of a buffer and the padding behind them.
    #[inline]
    pub(super) fn bytes(&mut self, buffer: &ReceiveBuffer) -> &mut [u8] {
        let start = self.start(buffer.index);
        &mut self.memory[start..start + buffer.len as usize + PADDING]
    }

    /// Returns a buffer to the set.
    #[inline]
    #[expect(clippy::needless_pass_by_value, reason = "releasing consumes the buffer")]
    pub(super) fn release(&mut self, buffer: ReceiveBuffer) {
        let ReceiveBuffer { index: buffer, .. } = buffer;
        let was_leased = std::mem::replace(&mut self.is_held[usize::from(buffer)], false);
        assert!(was_leased, "buffer {buffer} is released twice");
        self.free.push(buffer);
    }

    #[inline]
    fn start(&self, buffer: u16) -> usize {
        usize::from(buffer) * (self.buffer_bytes + PADDING)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exhausted_buffers_recover_after_release() {
        let mut buffers = ReceiveBufferPool::new(2, 8);
        buffers.next_free().unwrap()[0] = 1;
        let first = buffers.take(1);
        buffers.next_free().unwrap()[0] = 2;
        let second = buffers.take(1);
        assert!(buffers.is_exhausted());
        assert!(buffers.next_free().is_none());
        assert_eq!((buffers.bytes(&first)[0], buffers.bytes(&second)[0]), (1, 2));
        buffers.release(first);
        assert!(buffers.next_free().is_some());
        buffers.release(second);
    }

    #[test]
    fn received_bytes_are_followed_by_padding() {
        let mut buffers = ReceiveBufferPool::new(1, 8);
        buffers.next_free().unwrap().copy_from_slice(b"12345678");
        let buffer = buffers.take(8);
        assert_eq!(buffers.bytes(&buffer).len(), 8 + PADDING);
        assert!(buffers.bytes(&buffer).starts_with(b"12345678"));
        buffers.release(buffer);
    }

    #[test]
    #[should_panic(expected = "released twice")]
    fn releasing_a_buffer_twice_panics() {
        let mut buffers = ReceiveBufferPool::new(2, 8);
        let buffer = buffers.take(1);
        let forged = ReceiveBuffer { index: buffer.index, len: 1 };
        buffers.release(buffer);
        buffers.release(forged);
    }
}
