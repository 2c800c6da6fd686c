//! A request to end a run before its time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Ends runs before their time. They return what was measured until then.
///
/// Load threads look at it once a turn, which is every few milliseconds.
#[derive(Clone, Debug, Default)]
pub struct StopRequest(Arc<AtomicBool>);

impl StopRequest {
    /// Returns a request that is made when `flag` is set.
    pub const fn of_flag(flag: Arc<AtomicBool>) -> Self {
        Self(flag)
    }

    /// Returns whether it was made.
    #[inline]
    pub fn is_made(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
