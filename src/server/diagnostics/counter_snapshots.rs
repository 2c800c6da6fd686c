//! The counters that each shard has published last, for threads that are no shards.
//!
//! Invariants: a shard publishes only on request and once at its end; counters never decrease; a
//! reader waits for a shard for at most [`REPLY_TIMEOUT`].

use std::sync::{Condvar, MutexGuard, PoisonError};
use std::time::Duration;

use corelane_engine::mesh::ShardId;

use crate::telemetry::counters::Counters;

/// Locked for one copy of counters.
#[expect(
    clippy::disallowed_types,
    reason = "a shard locks it only when its counters are requested"
)]
type Mutex<T> = std::sync::Mutex<T>;

/// Longest time for which a reader waits for the shards.
pub const REPLY_TIMEOUT: Duration = Duration::from_micros(500);

/// The last published counters of every shard.
#[derive(Debug)]
pub struct CounterSnapshots {
    state: Mutex<State>,
    published: Condvar,
}

#[derive(Debug)]
struct State {
    /// Number of the last request.
    request: u64,
    shards: Vec<ShardSnapshot>,
}

#[derive(Clone, Debug, Default)]
struct ShardSnapshot {
    counters: Counters,
    /// The latest request that they answer; [`u64::MAX`] if the shard has ended.
    request: u64,
}

impl CounterSnapshots {
    pub fn new(shards: usize) -> Self {
        let shards = vec![ShardSnapshot::default(); shards];
        Self { state: Mutex::new(State { request: 0, shards }), published: Condvar::new() }
    }

    /// Begins a request; returns its number.
    pub fn begin_request(&self) -> u64 {
        let mut state = self.lock();
        state.request += 1;
        state.request
    }

    /// Publishes the counters of a shard as the reply to `request`.
    pub fn publish(&self, shard: ShardId, request: u64, counters: Counters) {
        let mut state = self.lock();
        if let Some(snapshot) = state.shards.get_mut(shard.index()) {
            snapshot.counters = counters;
            snapshot.request = snapshot.request.max(request);
        }
        drop(state);
        self.published.notify_all();
    }

    /// Publishes the counters of a shard that has ended.
    pub fn publish_last(&self, shard: ShardId, counters: Counters) {
        self.publish(shard, u64::MAX, counters);
    }

    /// Waits until the shards in `requested` have replied to `request`, or `timeout` has passed.
    /// Returns the sum of the last counters of all shards.
    pub fn wait(&self, requested: &[ShardId], request: u64, timeout: Duration) -> Counters {
        let is_pending = |state: &mut State| {
            let mut shards = requested.iter().filter_map(|shard| state.shards.get(shard.index()));
            shards.any(|snapshot| snapshot.request < request)
        };
        let waited = self.published.wait_timeout_while(self.lock(), timeout, is_pending);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let mut total = Counters::default();
        for snapshot in &state.shards {
            total.add(&snapshot.counters);
        }
        total
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARDS: [ShardId; 2] = [ShardId(0), ShardId(1)];
    const MINUTE: Duration = Duration::from_mins(1);

    fn accepted(accepted: u64) -> Counters {
        let mut counters = Counters::default();
        counters.connections.accepted = accepted;
        counters
    }

    #[test]
    fn reader_waits_for_every_requested_shard() {
        let snapshots = CounterSnapshots::new(2);
        let request = snapshots.begin_request();
        let total = std::thread::scope(|scope| {
            let reader = scope.spawn(|| snapshots.wait(&SHARDS, request, MINUTE));
            snapshots.publish(SHARDS[0], request, accepted(3));
            snapshots.publish(SHARDS[1], request, accepted(4));
            reader.join().unwrap()
        });
        assert_eq!(total, accepted(7));
    }

    #[test]
    fn slow_shard_contributes_its_last_counters() {
        let snapshots = CounterSnapshots::new(2);
        let late = snapshots.begin_request();
        assert_eq!(snapshots.wait(&SHARDS, late, Duration::ZERO), accepted(0));
        let request = snapshots.begin_request();
        snapshots.publish(SHARDS[0], late, accepted(1));
        snapshots.publish(SHARDS[1], request, accepted(10));
        assert_eq!(snapshots.wait(&SHARDS, request, Duration::ZERO), accepted(11));
    }

    #[test]
    fn ended_shard_answers_every_request() {
        let snapshots = CounterSnapshots::new(2);
        snapshots.publish_last(SHARDS[1], accepted(5));
        let request = snapshots.begin_request();
        assert_eq!(snapshots.wait(&SHARDS[1..], request, MINUTE), accepted(5));
    }
}
