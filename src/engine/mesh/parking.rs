//! Who wakes a sleeper: a flag between one thread that parks and any number that leave work for it.
//!
//! ```text
//!     the sleeper                          a sender
//!     1  flag := true   (announce)         1  leave the work
//!     2  fence                             2  fence
//!     3  look for work                     3  flag?  (rouse) take it and wake the sleeper
//!     4  park if there is none
//! ```
//!
//! What it keeps true: work is never left beside a sleeper that nobody wakes. Both sides write one
//! place and then read the other's; with a sequentially consistent fence between, at least one of
//! them sees the other's write (store buffering, C11 29.3 paragraphs 4 to 7). Release and acquire
//! alone would let both read the old values. Of several senders one takes the flag and wakes, so
//! that a sleeper costs one wake however many letters arrive, and one that is awake costs none.
//!
//! The wake itself must be sticky: one that comes between steps 3 and 4 ends the coming park. A
//! [`crate::engine::ring::Waker`] is. Checked under `loom` by `tests/mesh_loom.rs`.

use super::sync::{AtomicBool, Ordering, fence};

/// The flag.
#[derive(Debug)]
pub(crate) struct Parking {
    parked: AtomicBool,
}

impl Parking {
    pub(crate) fn new() -> Self {
        Self { parked: AtomicBool::new(false) }
    }

    /// The sleeper says that it is about to park; it must look for work once more afterwards.
    pub(crate) fn announce(&self) {
        // A swap, so that every change of the flag has its place in one chain. Release: what the
        // sleeper set up before, its waker above all, is there for whoever takes the flag.
        self.parked.swap(true, Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }

    /// The sleeper says that it is awake, or stayed awake.
    pub(crate) fn withdraw(&self) {
        self.parked.swap(false, Ordering::AcqRel);
    }

    /// A sender, after it left its work: `true` where it is the one who must wake the sleeper.
    #[inline]
    pub(crate) fn rouse(&self) -> bool {
        fence(Ordering::SeqCst);
        self.parked.load(Ordering::Relaxed) && self.parked.swap(false, Ordering::AcqRel)
    }
}
