//! An event count: lets one thread park while any number of threads may leave work for it.
//!
//! ```text
//!     the waiter                              a notifier
//!     1  flag := true   (prepare_wait)        1  leave the work
//!     2  fence                                2  fence
//!     3  check for work                       3  flag?  (wake) take it and wake the waiter
//!     4  park if there is none
//! ```
//!
//! Invariant: no work is left beside a parked waiter without a wake-up. Both sides write one
//! location and then read the other's; with a sequentially consistent fence in between, at least
//! one of them sees the other's write (store buffering, C11 29.3 paragraphs 4 to 7). Release and
//! acquire alone would let both read the old values. Of several notifiers one takes the flag, so
//! that a parked waiter costs one wake-up however many messages arrive, and one that is awake costs
//! none.
//!
//! The wake-up must be sticky: one between steps 3 and 4 ends the coming park, as that of
//! [`crate::ring::Waker`] does. Checked under `loom` by `tests/engine/mesh_loom.rs`.

use super::sync::{AtomicBool, Ordering, fence};

/// The flag that the waiter is parked or about to park.
#[derive(Debug)]
pub(crate) struct EventCount {
    is_parked: AtomicBool,
}

impl EventCount {
    pub(crate) fn new() -> Self {
        Self { is_parked: AtomicBool::new(false) }
    }

    /// Announces that the waiter is about to park; it must check for work once more afterwards.
    pub(crate) fn prepare_wait(&self) {
        // A swap, so that all changes of the flag form one modification chain. Release: what the
        // waiter set up before, such as its waker, is visible to the thread that takes the flag.
        self.is_parked.swap(true, Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }

    /// Announces that the waiter is awake or did not park.
    pub(crate) fn cancel_wait(&self) {
        self.is_parked.swap(false, Ordering::AcqRel);
    }

    /// Called by a notifier after leaving work: `true` if the caller must wake the waiter.
    #[inline]
    pub(crate) fn wake(&self) -> bool {
        fence(Ordering::SeqCst);
        self.is_parked.load(Ordering::Relaxed) && self.is_parked.swap(false, Ordering::AcqRel)
    }
}
