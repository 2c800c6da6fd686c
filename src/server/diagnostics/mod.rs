//! What a running server reports of itself.

mod connection_list;
mod counter_snapshots;

use std::sync::atomic::{AtomicU64, Ordering};

pub(super) use self::connection_list::{
    ConnectionPage, ListPosition, PageBuilder, Rows, SLOTS_PER_TURN, write_page,
};
pub(super) use self::counter_snapshots::{CounterSnapshots, REPLY_TIMEOUT};
use crate::telemetry::metrics::ReloadTotals;

/// Counts reloads; the thread that reloads writes, the shards read.
#[derive(Debug, Default)]
pub(super) struct ConfigReloads {
    succeeded: AtomicU64,
    failed: AtomicU64,
    /// Seconds since 1970 of the last success; 0 before the first.
    succeeded_at: AtomicU64,
}

impl ConfigReloads {
    /// Counts a reload that has ended at the time `unix_seconds`.
    #[cfg(feature = "signals")]
    pub fn record(&self, is_success: bool, unix_seconds: u64) {
        if is_success {
            self.succeeded_at.store(unix_seconds, Ordering::Relaxed);
        }
        let counter = if is_success { &self.succeeded } else { &self.failed };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the numbers.
    pub fn totals(&self) -> ReloadTotals {
        let Self { succeeded, failed, succeeded_at } = self;
        let [succeeded, failed, succeeded_at] =
            [succeeded, failed, succeeded_at].map(|it| it.load(Ordering::Relaxed));
        ReloadTotals { succeeded, failed, succeeded_at }
    }
}
