//! The atomics of the mesh in one module, so that the model checker can substitute its own:
//! `tests/engine/mesh_loom.rs` includes [`super::queue`], [`super::event_count`] and
//! [`super::single_use`] beside a module of this name made of `loom` types.

pub(crate) use std::sync::Arc;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};

/// Returns zeroed words. Their pages use no memory before they are written.
pub(crate) fn zeroed_words(count: usize) -> Box<[AtomicU64]> {
    // SAFETY: an `AtomicU64` has the representation of a `u64`, of which 0 is a value.
    unsafe { Box::new_zeroed_slice(count).assume_init() }
}

/// A cell with closure-based access, as `loom` requires it.
#[derive(Debug)]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    /// Passes a const pointer to the content to `read`.
    #[inline]
    pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    /// Passes a mutable pointer to the content to `write`.
    #[inline]
    pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}
