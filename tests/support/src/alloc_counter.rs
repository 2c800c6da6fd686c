//! An allocator that counts allocations and peak memory.
//!
//! It counts per thread, so that parallel tests do not disturb each other. A program that counts
//! declares it:
//!
//! ```
//! # use corelane_test_support::alloc_counter::CountingAllocator;
//! #[global_allocator]
//! static ALLOCATOR: CountingAllocator = CountingAllocator;
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system allocator with counters per thread.
#[derive(Debug)]
pub struct CountingAllocator;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    static ALLOCATED_BYTES: Cell<usize> = const { Cell::new(0) };
    static HELD_BYTES: Cell<isize> = const { Cell::new(0) };
    static PEAK_BYTES: Cell<isize> = const { Cell::new(0) };
}

fn count(allocations: usize, bytes: isize) {
    ALLOCATIONS.set(ALLOCATIONS.get() + allocations);
    HELD_BYTES.set(HELD_BYTES.get() + bytes);
    PEAK_BYTES.set(PEAK_BYTES.get().max(HELD_BYTES.get()));
}

// SAFETY: every call is forwarded unchanged to the system allocator; the counters are cells of the
// calling thread that do not allocate.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size().cast_signed());
        ALLOCATED_BYTES.set(ALLOCATED_BYTES.get() + layout.size());
        // SAFETY: the caller upholds the contract of `alloc`, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, -layout.size().cast_signed());
        // SAFETY: `pointer` comes from `System` with this layout, through `alloc` above.
        unsafe { System.dealloc(pointer, layout) };
    }
}

/// Returns the number of allocations of the calling thread so far.
pub fn allocations() -> usize {
    ALLOCATIONS.get()
}

/// Returns the bytes of the allocations of the calling thread so far, those freed included.
pub fn allocated_bytes() -> usize {
    ALLOCATED_BYTES.get()
}

/// Returns the bytes that the calling thread has allocated and not freed; negative if it has freed
/// those of other threads.
pub fn held_bytes() -> isize {
    HELD_BYTES.get()
}

/// Returns the number of allocations of `work`.
pub fn count_allocations(work: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

/// Returns the result of `work` and its peak memory in bytes beyond the memory held before.
pub fn peak_bytes<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD_BYTES.get();
    PEAK_BYTES.set(before);
    let result = work();
    (result, (PEAK_BYTES.get() - before).unsigned_abs())
}
