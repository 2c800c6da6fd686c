//! The receive buffers of a shard: one allocation, made at start.
//!
//! Invariants: the memory never moves or grows, so that the kernel may write into it at any time; a
//! buffer belongs either to the kernel or to one holder, never to both (the ring upholds this).
//! Each buffer is followed by [`PADDING`] bytes that the kernel never writes, so that parsers can
//! read whole vectors without copying.

pub mod allocator;
#[cfg(target_os = "linux")]
pub mod provided;

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Bytes after the end of every buffer that may be read but have unspecified content: the widest
/// vector of a parser (64 bytes, the block of `simd-json`).
pub const PADDING: usize = 64;

/// The largest alignment for which zeroed memory comes from `calloc(3)`, which does not touch fresh
/// pages. For a larger one the standard library writes the zeros itself.
const CALLOC_ALIGN: usize = 16;

/// A fixed set of equal buffers in one allocation. Untouched pages use no memory.
#[derive(Debug)]
pub struct ReceiveBuffers {
    allocation: NonNull<u8>,
    /// The first buffer, aligned to [`PADDING`].
    memory: NonNull<u8>,
    layout: Layout,
    count: u16,
    buffer_bytes: u32,
    stride: usize,
    is_leaked: bool,
}

impl ReceiveBuffers {
    /// Allocates `count` buffers of `buffer_bytes` each, both at least one.
    ///
    /// # Panics
    ///
    /// If they exceed the address space; options are validated before.
    pub fn new(count: u16, buffer_bytes: u32) -> Self {
        let count = count.max(1);
        let buffer_bytes = buffer_bytes.max(1);
        let stride = (buffer_bytes as usize + PADDING).next_multiple_of(PADDING);
        let bytes = stride * usize::from(count) + PADDING;
        let Ok(layout) = Layout::from_size_align(bytes, CALLOC_ALIGN) else {
            panic!("{count} receive buffers of {buffer_bytes} bytes exceed the address space");
        };
        // SAFETY: the layout is not empty.
        let allocation = unsafe { alloc_zeroed(layout) };
        let Some(allocation) = NonNull::new(allocation) else { handle_alloc_error(layout) };
        let offset = allocation.as_ptr().align_offset(PADDING).min(PADDING);
        // SAFETY: the allocation is `PADDING` bytes longer than the buffers.
        let memory = unsafe { allocation.add(offset) };
        Self { allocation, memory, layout, count, buffer_bytes, stride, is_leaked: false }
    }

    /// Returns the number of buffers.
    pub const fn count(&self) -> u16 {
        self.count
    }

    /// Returns the number of bytes that the kernel may write into one buffer.
    pub const fn buffer_bytes(&self) -> u32 {
        self.buffer_bytes
    }

    /// Returns the start of a buffer.
    ///
    /// # Panics
    ///
    /// If there is no such buffer.
    pub fn address(&self, index: u16) -> *mut u8 {
        assert!(index < self.count, "buffer {index} of {}", self.count);
        // SAFETY: the index was checked, so the result lies inside the allocation.
        unsafe { self.memory.as_ptr().add(usize::from(index) * self.stride) }
    }

    /// Returns a buffer and its padding. The caller must hold the buffer, so that the kernel does
    /// not write into it meanwhile.
    pub fn bytes(&mut self, index: u16) -> &mut [u8] {
        let start = self.address(index);
        // SAFETY: `stride` initialised bytes begin at `start`; the exclusive borrow of the set
        // prevents other slices, and the kernel does not write to buffers that the shard holds.
        unsafe { std::slice::from_raw_parts_mut(start, self.stride) }
    }
}

impl ReceiveBuffers {
    /// Leaks the memory, because the kernel may still write to it.
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
        // SAFETY: allocated in `new` with this layout and freed once. The ring that shares the
        // memory with the kernel is dropped first (field order in the backend), with no operation
        // in flight.
        unsafe { dealloc(self.allocation.as_ptr(), self.layout) }
    }
}

// SAFETY: the set owns its memory and exposes it only through borrows of itself.
unsafe impl Send for ReceiveBuffers {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_and_their_padding_do_not_overlap() {
        let mut buffers = ReceiveBuffers::new(3, 100);
        for index in 0..3_u8 {
            assert!(buffers.address(index.into()).addr().is_multiple_of(PADDING));
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
    fn address_of_missing_buffer_panics() {
        let _ = ReceiveBuffers::new(3, 100).address(3);
    }
}
