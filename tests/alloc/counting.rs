//! A counting allocator: how often memory is asked for, and how much is held at most.
//!
//! It counts per thread, so that tests which run side by side do not disturb each other. A program
//! that includes it (`#[path = "…/alloc/counting.rs"] mod counting;`) runs on it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, counted per thread so that tests do not disturb each other.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    static HELD_BYTES: Cell<isize> = const { Cell::new(0) };
    static PEAK_BYTES: Cell<isize> = const { Cell::new(0) };
}

fn count(allocations: usize, bytes: isize) {
    ALLOCATIONS.set(ALLOCATIONS.get() + allocations);
    HELD_BYTES.set(HELD_BYTES.get() + bytes);
    PEAK_BYTES.set(PEAK_BYTES.get().max(HELD_BYTES.get()));
}

// SAFETY: every call goes to the system's allocator as it came; counting touches only cells of the
// calling thread that need no memory of their own.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size().cast_signed());
        // SAFETY: the caller keeps the contract of `alloc`, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, -layout.size().cast_signed());
        // SAFETY: the pointer came from `System` with this layout, by `alloc` above.
        unsafe { System.dealloc(pointer, layout) };
    }
}

/// How many allocations `work` makes.
pub(crate) fn allocations(work: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

/// What `work` gives, and how many bytes it held at most beyond those held before.
pub(crate) fn peak_bytes<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD_BYTES.get();
    PEAK_BYTES.set(before);
    let result = work();
    (result, (PEAK_BYTES.get() - before).unsigned_abs())
}
