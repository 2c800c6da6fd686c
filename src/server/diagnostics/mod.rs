//! What a running server reports of itself.

mod counter_snapshots;

pub(super) use self::counter_snapshots::{CounterSnapshots, REPLY_TIMEOUT};
