//! Who is informed of a task: calls that wait for its end, shards with a subscription to it.

use corelane_base::time::Instant;
use corelane_engine::mesh::ShardId;
use corelane_protocol::in_flight::CallId;

/// A call, on any shard, that waits for the end of a task.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TaskWaiter {
    /// Shard of the call.
    pub shard: ShardId,
    /// The call.
    pub call: CallId,
    /// Deadline of the call.
    pub deadline: Instant,
}

/// The waiting calls and the subscribed shards of one task.
#[derive(Debug, Default)]
pub struct TaskObservers {
    waiters: Vec<TaskWaiter>,
    watchers: Vec<ShardId>,
    /// Whether the task is in the queue of unsent changes.
    has_unsent_change: bool,
}

impl TaskObservers {
    /// Returns the shards with a subscription to the task.
    pub fn watchers(&self) -> &[ShardId] {
        &self.watchers
    }

    /// Adds a shard that is notified of every change.
    pub fn add_watcher(&mut self, shard: ShardId) {
        if !self.watchers.contains(&shard) {
            self.watchers.push(shard);
        }
    }

    /// Returns whether another call may wait for the end of the task.
    pub fn has_waiter_capacity(&mut self, now: Instant) -> bool {
        if self.waiters.len() >= WAITERS_MAX {
            // Cancelled calls are not removed one by one: they time out.
            self.waiters.retain(|waiter| waiter.deadline > now);
        }
        self.waiters.len() < WAITERS_MAX
    }

    /// Adds a call that waits for the end of the task.
    pub fn add_waiter(&mut self, waiter: TaskWaiter) {
        self.waiters.push(waiter);
    }

    /// Removes and returns the calls that wait for the end of the task.
    pub fn take_waiters(&mut self) -> Vec<TaskWaiter> {
        std::mem::take(&mut self.waiters)
    }

    /// Marks a change as unsent; returns `false` if one was already.
    pub const fn mark_changed(&mut self) -> bool {
        !std::mem::replace(&mut self.has_unsent_change, true)
    }

    /// Returns whether a change is unsent.
    pub const fn has_unsent_change(&self) -> bool {
        self.has_unsent_change
    }

    /// Marks all changes as sent.
    pub const fn mark_sent(&mut self) {
        self.has_unsent_change = false;
    }
}

/// Limit of calls that wait for the end of one task.
const WAITERS_MAX: usize = 64;
