//! The ring of provided buffers: returns receive buffers to the kernel without a system call.
//!
//! Invariants: the shared memory outlives its registration; entries are written before the tail
//! that publishes them; a buffer is provided only by its holder. See
//! `io_uring_register_buf_ring(3)`.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::Submitter;
use io_uring::types::BufRingEntry;

use super::ReceiveBuffers;

/// The buffer group of a shard's ring.
pub const GROUP: u16 = 0;

const PAGE_BYTES: usize = 4096;

/// Receive buffers and the ring through which the kernel takes them.
#[derive(Debug)]
pub struct ProvidedBuffers {
    entries: NonNull<BufRingEntry>,
    layout: Layout,
    mask: u16,
    tail: u16,
    published: u16,
    buffers: ReceiveBuffers,
    is_leaked: bool,
}

impl ProvidedBuffers {
    /// Registers `buffers` with the kernel; their number must be a power of two.
    pub fn register(buffers: ReceiveBuffers, submitter: &Submitter<'_>) -> io::Result<Self> {
        let count = buffers.count();
        if !count.is_power_of_two() {
            let text = format!("receive_buffers is {count}: must be a power of two");
            return Err(io::Error::other(text));
        }
        let bytes = usize::from(count) * size_of::<BufRingEntry>();
        let layout = Layout::from_size_align(bytes, PAGE_BYTES).map_err(io::Error::other)?;
        // SAFETY: the layout is not empty: the count is at least one.
        let memory = unsafe { alloc_zeroed(layout) };
        #[expect(clippy::cast_ptr_alignment, reason = "the layout is aligned to a page")]
        let entries = memory.cast::<BufRingEntry>();
        let Some(entries) = NonNull::new(entries) else { handle_alloc_error(layout) };
        let mask = count - 1;
        let (tail, published, is_leaked) = (0, 0, false);
        let mut provided = Self { entries, layout, mask, tail, published, buffers, is_leaked };
        let address = entries.as_ptr() as u64;
        // SAFETY: the memory holds `count` entries and lives as long as `provided`, which the
        // backend drops after its ring.
        unsafe { submitter.register_buf_ring_with_flags(address, count, GROUP, 0)? };
        for index in 0..count {
            provided.provide(index);
        }
        provided.publish();
        Ok(provided)
    }

    /// Returns a buffer to the kernel, effective at the next [`Self::publish`].
    pub fn provide(&mut self, index: u16) {
        let slot = usize::from(self.tail & self.mask);
        // SAFETY: the mask keeps the slot inside the allocation, and the kernel reads entries only
        // below the published tail.
        let entry = unsafe { &mut *self.entries.as_ptr().add(slot) };
        entry.set_addr(self.buffers.address(index) as u64);
        entry.set_len(self.buffers.buffer_bytes());
        entry.set_bid(index);
        self.tail = self.tail.wrapping_add(1);
    }

    /// Publishes the buffers provided since the last call; returns whether there were any.
    pub fn publish(&mut self) -> bool {
        if self.tail == self.published {
            return false;
        }
        self.published = self.tail;
        // SAFETY: the tail lies inside the first entry, is aligned for a u16 and is written only
        // here; the kernel reads it with acquire order, which pairs with this release.
        unsafe {
            let tail = BufRingEntry::tail(self.entries.as_ptr()).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Ordering::Release);
        }
        true
    }

    /// Leaks entries and buffers, because the kernel may still write to them.
    pub fn leak(&mut self) {
        self.is_leaked = true;
        self.buffers.leak();
    }

    /// Returns a held buffer and its padding.
    pub fn bytes(&mut self, index: u16) -> &mut [u8] {
        self.buffers.bytes(index)
    }
}

impl Drop for ProvidedBuffers {
    fn drop(&mut self) {
        if self.is_leaked {
            return;
        }
        // SAFETY: allocated in `register` with this layout; the ring that knows the address is
        // dropped first (field order in the backend), with no operation in flight.
        unsafe { dealloc(self.entries.as_ptr().cast(), self.layout) }
    }
}
