//! The fixed set of receive buffers of a readiness ring.
//!
//! What it keeps true: a buffer is either free or in exactly one lease; the memory is taken once,
//! at start, and the system backs a page of it with memory only when it is first written. It does
//! not wait: an empty set says so, and the ring decides what waits.

use crate::engine::ring::{Lease, PADDING};

/// Receive buffers of one size, each followed by [`PADDING`] bytes.
#[derive(Debug)]
pub(super) struct Buffers {
    memory: Vec<u8>,
    /// Names of free buffers; the last one back is the first one out, while it is in cache.
    free: Vec<u16>,
    /// By name: whether a lease has it.
    is_leased: Vec<bool>,
    buffer_bytes: usize,
}

impl Buffers {
    /// `count` buffers of `buffer_bytes` each, at least one of at least one byte.
    pub(super) fn new(count: u16, buffer_bytes: u32) -> Self {
        let (count, buffer_bytes) = (count.max(1), (buffer_bytes as usize).max(1));
        Self {
            memory: vec![0; usize::from(count) * (buffer_bytes + PADDING)],
            free: (0..count).rev().collect(),
            is_leased: vec![false; usize::from(count)],
            buffer_bytes,
        }
    }

    /// Whether every buffer is in a lease.
    #[inline]
    pub(super) fn is_exhausted(&self) -> bool {
        self.free.is_empty()
    }

    /// How many buffers there are, leased or free.
    pub(super) const fn count(&self) -> usize {
        self.is_leased.len()
    }

    /// Where the next bytes are to be put, if a buffer is free. [`Buffers::lease`] makes the lease
    /// once they are there.
    #[inline]
    pub(super) fn next(&mut self) -> Option<&mut [u8]> {
        let start = self.start(*self.free.last()?);
        Some(&mut self.memory[start..start + self.buffer_bytes])
    }

    /// Leases the buffer that [`Buffers::next`] showed, with `length` bytes in it.
    #[inline]
    pub(super) fn lease(&mut self, length: usize) -> Lease {
        let Some(buffer) = self.free.pop() else {
            unreachable!("a lease follows a buffer that was shown free");
        };
        debug_assert!(length <= self.buffer_bytes);
        self.is_leased[usize::from(buffer)] = true;
        #[expect(clippy::cast_possible_truncation, reason = "a buffer's bytes came in as 32 bits")]
        Lease { buffer, length: length as u32 }
    }

    /// The bytes of a lease and the padding behind them.
    #[inline]
    pub(super) fn bytes(&mut self, lease: &Lease) -> &mut [u8] {
        let start = self.start(lease.buffer);
        &mut self.memory[start..start + lease.length as usize + PADDING]
    }

    /// Takes the buffer of a lease back.
    #[inline]
    #[expect(clippy::needless_pass_by_value, reason = "giving it away is the point")]
    pub(super) fn release(&mut self, lease: Lease) {
        let Lease { buffer, .. } = lease;
        let was_leased = std::mem::replace(&mut self.is_leased[usize::from(buffer)], false);
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
    fn an_exhausted_set_goes_on_when_a_lease_returns() {
        let mut buffers = Buffers::new(2, 8);
        buffers.next().unwrap()[0] = 1;
        let first = buffers.lease(1);
        buffers.next().unwrap()[0] = 2;
        let second = buffers.lease(1);
        assert!(buffers.is_exhausted());
        assert!(buffers.next().is_none());
        assert_eq!((buffers.bytes(&first)[0], buffers.bytes(&second)[0]), (1, 2));
        buffers.release(first);
        assert!(buffers.next().is_some());
        buffers.release(second);
    }

    #[test]
    fn the_bytes_of_a_lease_are_followed_by_the_padding() {
        let mut buffers = Buffers::new(1, 8);
        buffers.next().unwrap().copy_from_slice(b"12345678");
        let lease = buffers.lease(8);
        assert_eq!(buffers.bytes(&lease).len(), 8 + PADDING);
        assert!(buffers.bytes(&lease).starts_with(b"12345678"));
        buffers.release(lease);
    }

    #[test]
    #[should_panic(expected = "released twice")]
    fn a_forged_lease_does_not_free_a_buffer_twice() {
        let mut buffers = Buffers::new(2, 8);
        let lease = buffers.lease(1);
        let forged = Lease { buffer: lease.buffer, length: 1 };
        buffers.release(lease);
        buffers.release(forged);
    }
}
