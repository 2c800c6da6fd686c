//! The receive buffers of a shard: one piece of memory, taken at start, given out in leases.
//!
//! What it keeps true: the memory never moves and never grows, so that the kernel may write into
//! it at any time; a buffer belongs either to the kernel or to one holder of a lease, never to
//! both (the ring that owns the set upholds it). Each buffer is followed by [`PADDING`] bytes
//! that the kernel never sees, so that parsers read whole vectors without a copy.

#[cfg(target_os = "linux")]
pub mod provided;

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Bytes after the end of every buffer that may be read and must not be relied on: one vector of
/// the widest parser (64 bytes, the block of `simd-json`).
pub const PADDING: usize = 64;

const PAGE_BYTES: usize = 4096;

/// A fixed set of equal buffers in one allocation. Pages that no byte ever reached cost no memory.
#[derive(Debug)]
pub struct ReceiveBuffers {
    memory: NonNull<u8>,
    layout: Layout,
    count: u16,
    buffer_bytes: u32,
    stride: usize,
    is_leaked: bool,
}

impl ReceiveBuffers {
    /// `count` buffers of `buffer_bytes` each, both at least one.
    ///
    /// # Panics
    ///
    /// Where they do not fit an address space: options are checked before.
    pub fn new(count: u16, buffer_bytes: u32) -> Self {
        let count = count.max(1);
        let buffer_bytes = buffer_bytes.max(1);
        let stride = (buffer_bytes as usize + PADDING).next_multiple_of(PADDING);
        let Ok(layout) = Layout::from_size_align(stride * usize::from(count), PAGE_BYTES) else {
            panic!("{count} receive buffers of {buffer_bytes} bytes do not fit an address space");
        };
        // SAFETY: the layout is not empty, both factors being at least one.
        let memory = unsafe { alloc_zeroed(layout) };
        let Some(memory) = NonNull::new(memory) else { handle_alloc_error(layout) };
        Self { memory, layout, count, buffer_bytes, stride, is_leaked: false }
    }

    /// How many buffers there are.
    pub const fn count(&self) -> u16 {
        self.count
    }

    /// Bytes that the kernel may write into one buffer.
    pub const fn buffer_bytes(&self) -> u32 {
        self.buffer_bytes
    }

    /// Where a buffer begins, for the kernel.
    ///
    /// # Panics
    ///
    /// When there is no such buffer: a lease was made up.
    pub fn address(&self, index: u16) -> *mut u8 {
        assert!(index < self.count, "buffer {index} of {}", self.count);
        // SAFETY: the index was checked, so the result lies inside the allocation.
        unsafe { self.memory.as_ptr().add(usize::from(index) * self.stride) }
    }

    /// The bytes of a buffer and its padding. The caller holds the lease of this buffer, so the
    /// kernel does not write into it meanwhile.
    pub fn bytes(&mut self, index: u16) -> &mut [u8] {
        let start = self.address(index);
        // SAFETY: `stride` initialised bytes begin at `start`; the exclusive borrow of the set
        // keeps every other slice away, and the ring keeps the kernel away from leased buffers.
        unsafe { std::slice::from_raw_parts_mut(start, self.stride) }
    }
}

impl ReceiveBuffers {
    /// Gives the memory up: whoever it was lent to has not let go of it.
    #[cfg(target_os = "linux")]
    pub(super) fn leak(&mut self) {
        self.is_leaked = true;
    }
}

impl Drop for ReceiveBuffers {
    fn drop(&mut self) {
        if self.is_leaked {
            return;
        }
        // SAFETY: allocated in `new` with this very layout, freed once. The ring that hands the
        // memory to the kernel is dropped first (field order in the backend), with nothing of it
        // in flight.
        unsafe { dealloc(self.memory.as_ptr(), self.layout) }
    }
}

// SAFETY: the set owns its memory and hands it out only through borrows of itself.
unsafe impl Send for ReceiveBuffers {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_buffer_has_room_for_its_padding_and_touches_no_other() {
        let mut buffers = ReceiveBuffers::new(3, 100);
        for index in 0..3_u8 {
            let bytes = buffers.bytes(u16::from(index));
            assert!(bytes.len() >= 100 + PADDING);
            bytes.fill(index + 1);
        }
        for index in 0..3_u8 {
            assert!(buffers.bytes(u16::from(index)).iter().all(|&b| b == index + 1));
        }
    }

    #[test]
    #[should_panic(expected = "buffer 3 of 3")]
    fn a_buffer_that_does_not_exist_is_a_broken_invariant() {
        let _ = ReceiveBuffers::new(3, 100).address(3);
    }
}
