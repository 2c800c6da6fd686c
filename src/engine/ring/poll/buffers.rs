//! The fixed set of receive buffers of a readiness ring.
//!
//! Invariants: a buffer is either free or held by exactly one holder; the memory is allocated once,
//! at start, and a page uses memory only once it is written.

use crate::ring::{PADDING, ReceiveBuffer};

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
