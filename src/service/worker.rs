//! What a blocking handler holds while it runs: the way back to its caller.
//!
//! A blocking handler is a closure on the thread pool. [`Worker`] is its handle to the shard that
//! received the call, across the thread boundary: it tells progress and hears of cancellation. The
//! server stands behind [`WorkerHost`]; this room has no thread of its own.

use std::fmt;
use std::sync::Arc;

use crate::service::outcome::Cancelled;

/// What the server gives to one running blocking handler.
pub trait WorkerHost: Send + Sync {
    /// Tells the caller how far the work is; see [`Worker::progress`].
    fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>);

    /// Whether the request was cancelled.
    fn is_cancelled(&self) -> bool;
}

/// A blocking handler's handle to its request. Cheap to clone; may go to other threads.
#[derive(Clone)]
pub struct Worker {
    host: Arc<dyn WorkerHost>,
}

impl Worker {
    /// A handle over what the server lends.
    pub fn new(host: Arc<dyn WorkerHost>) -> Self {
        Self { host }
    }

    /// Sends `notifications/progress` where the caller asked for it with a progress token, and does
    /// nothing otherwise. `progress` must grow from call to call. Costs a letter to the shard: tell
    /// it every few milliseconds of work, not every step.
    ///
    /// Source: 2026-07-28, basic/patterns/progress.
    pub fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        self.host.progress(progress, total, message);
    }

    /// Whether the request was cancelled; nothing that the handler still says will be sent.
    pub fn is_cancelled(&self) -> bool {
        self.host.is_cancelled()
    }

    /// Ends the handler with `?` where the request was cancelled. A thread cannot be stopped from
    /// outside: long work asks now and then.
    pub fn check(&self) -> Result<(), Cancelled> {
        if self.is_cancelled() { Err(Cancelled) } else { Ok(()) }
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Worker").field("is_cancelled", &self.is_cancelled()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(bool);

    impl WorkerHost for Fixed {
        fn progress(&self, _: f64, _: Option<f64>, _: Option<&str>) {}

        fn is_cancelled(&self) -> bool {
            self.0
        }
    }

    #[test]
    fn a_check_passes_until_the_request_is_cancelled() {
        assert_eq!(Worker::new(Arc::new(Fixed(false))).check(), Ok(()));
        assert_eq!(Worker::new(Arc::new(Fixed(true))).check(), Err(Cancelled));
    }
}
