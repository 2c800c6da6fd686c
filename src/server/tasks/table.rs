//! The tasks of one shard, from creation until their ttl expires.
//!
//! Invariants: a task is in the table before its id is sent to a client, and stays until its ttl
//! expires; the number of tasks and the bytes of their results are bounded; a task is visible only
//! to the protocol generation that created it. The caller sends the notifications of tasks returned
//! by [`TaskTable::take_changed`].

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::task::{NewTask, Task, TaskOutcome};
use crate::base::slab::{Key, Slab};
use crate::base::time::Instant;
use crate::engine::mesh::ShardId;
use crate::engine::timer::TimerWheel;
use crate::protocol::error::{Error, ErrorKind};
use crate::protocol::model::TaskStatus;
use crate::server::owner_id::{OwnerIds, TaskId};
use crate::server::reply_to::PeerId;
use crate::server::shard_message::TaskLimits;

/// The tasks of one shard, each with a handler `W`.
#[derive(Debug)]
pub(in crate::server) struct TaskTable<W> {
    /// Limits from now on; the ttl of stored tasks is not changed.
    pub(in crate::server) limits: TaskLimits,
    slab: Slab<Task<W>>,
    keys: HashMap<TaskId, Key>,
    /// Number of tasks per connection, without those that have none.
    tasks_by_peer: HashMap<PeerId, usize>,
    ids: OwnerIds,
    expiry_timers: TimerWheel<Key>,
    /// Tasks with unsent changes, each once.
    changed: VecDeque<Key>,
    result_bytes: usize,
    created: u64,
    running: usize,
    /// Number of rejected tasks.
    pub(in crate::server) rejected: RejectedTasks,
}

/// Numbers of rejected tasks, by limit.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::server) struct RejectedTasks {
    /// Limit of the shard.
    pub(in crate::server) by_shard: u64,
    /// Limit of the connection.
    pub(in crate::server) by_connection: u64,
}

/// What a table holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::server) struct TaskUsage {
    /// Tasks, running or completed.
    pub(in crate::server) tasks: usize,
    /// Bytes of their results.
    pub(in crate::server) result_bytes: usize,
}

impl<W> TaskTable<W> {
    pub(in crate::server) fn new(limits: TaskLimits, ids: OwnerIds) -> Self {
        Self {
            limits,
            slab: Slab::new(usize::MAX),
            keys: HashMap::new(),
            tasks_by_peer: HashMap::new(),
            ids,
            expiry_timers: TimerWheel::new(),
            changed: VecDeque::new(),
            result_bytes: 0,
            created: 0,
            running: 0,
            rejected: RejectedTasks::default(),
        }
    }

    /// Creates a task.
    ///
    /// # Errors
    ///
    /// A limit of the shard or of the connection is reached, or no id can be generated.
    pub(in crate::server) fn create(&mut self, birth: NewTask, now: Instant) -> Result<Key, Error> {
        self.check_limits(birth.peer)?;
        let id =
            self.ids.task_id().ok_or_else(|| Error::internal("no random bits for a task id"))?;
        let TaskLimits { ttl: ttl_default, ttl_max, .. } = self.limits;
        let ttl = birth.ttl.map_or(ttl_default, |ttl| ttl.max(TTL_MIN)).min(ttl_max);
        self.created += 1;
        let peer = birth.peer;
        let task = Task::new((id, self.created), birth, ttl, now);
        let key = self.slab.insert(task).map_err(|_| too_many_tasks(self.limits.tasks_max))?;
        self.keys.insert(id, key);
        // Removed tasks that could not be started leave their deadlines in the wheel.
        self.expiry_timers.purge_stale(self.slab.len(), |key| self.slab.get(*key).is_some());
        self.expiry_timers.insert(now.after(ttl), key);
        self.running += 1;
        *self.tasks_by_peer.entry(peer).or_default() += 1;
        Ok(key)
    }

    fn check_limits(&mut self, peer: PeerId) -> Result<(), Error> {
        if self.slab.len() >= self.limits.tasks_max {
            self.rejected.by_shard += 1;
            return Err(too_many_tasks(self.limits.tasks_max));
        }
        let share = self.tasks_by_peer.get(&peer).copied().unwrap_or_default();
        if share >= self.limits.tasks_per_connection_max {
            self.rejected.by_connection += 1;
            return Err(too_many_tasks_of_connection(self.limits.tasks_per_connection_max));
        }
        Ok(())
    }

    /// Stores the handler of a task.
    pub(in crate::server) fn attach_handler(&mut self, key: Key, work: W) {
        if let Some(task) = self.slab.get_mut(key) {
            task.set_handler(Some(work));
        }
    }

    /// Returns the task of a key.
    pub(in crate::server) fn get_mut(&mut self, key: Key) -> Option<&mut Task<W>> {
        self.slab.get_mut(key)
    }

    /// Returns the task `id` if it was created by a caller of the same generation.
    pub(in crate::server) fn find(&self, id: TaskId, is_modern: bool) -> Option<Key> {
        let key = *self.keys.get(&id)?;
        let task = self.slab.get(key)?;
        (task.caller.revision().is_modern() == is_modern).then_some(key)
    }

    /// Returns one page of the tasks that `peer` created with revisions up to 2025-11-25, in the
    /// order of creation, and the cursor of the next page.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) for a cursor that this shard did not issue.
    pub(in crate::server) fn list_page(
        &self,
        peer: PeerId,
        cursor: Option<&str>,
    ) -> Result<(Vec<&Task<W>>, Option<String>), Error> {
        let after = cursor.map_or(Ok(0), |cursor| self.parse_cursor(cursor))?;
        let is_listed = |task: &Task<W>| {
            let caller = &task.caller;
            caller.peer() == peer && !caller.revision().is_modern() && task.number() > after
        };
        let tasks = self.slab.iter().map(|(_, task)| task);
        let mut tasks: Vec<_> = tasks.filter(|task| is_listed(task)).collect();
        tasks.sort_unstable_by_key(|task| task.number());
        let has_more = tasks.len() > PAGE_SIZE;
        tasks.truncate(PAGE_SIZE);
        let last = tasks.last().filter(|_| has_more);
        let next = last.map(|task| format!("{:016x}", task.number()));
        Ok((tasks, next))
    }

    /// Parses a cursor, which is the number of the last task on the page before.
    fn parse_cursor(&self, cursor: &str) -> Result<u64, Error> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_cursor = cursor.len() == 16 && cursor.bytes().all(is_digit);
        let number = u64::from_str_radix(cursor, 16).ok().filter(|_| is_cursor);
        number
            .filter(|number| (1..=self.created).contains(number))
            .ok_or_else(|| Error::invalid_params("params.cursor is invalid: not issued here"))
    }

    /// Stores the outcome of a handler, unless the task has ended before.
    pub(in crate::server) fn complete(&mut self, key: Key, end: TaskOutcome, now: Instant) {
        let room = self.limits.result_bytes_max.saturating_sub(self.result_bytes);
        let Some(task) = self.slab.get_mut(key) else { return };
        task.set_handler(None);
        if task.has_ended() {
            return;
        }
        let end =
            if end.bytes() > room { TaskOutcome::Error(result_memory_exhausted()) } else { end };
        self.result_bytes += end.bytes();
        let (status, message) = match &end {
            TaskOutcome::Error(error) => (TaskStatus::Failed, Some(error.message.clone())),
            // A tool that failed has a result all the same; only 2025-11-25 reports that as a
            // failed task.
            TaskOutcome::Result { is_failed: true, .. } if !task.caller.revision().is_modern() => {
                (TaskStatus::Failed, Some(Cow::Borrowed("the tool failed; its result says why")))
            }
            TaskOutcome::Result { .. } => (TaskStatus::Completed, None),
        };
        task.end((status, message), Some(end), now);
        self.running -= 1;
        self.mark_changed(key);
    }

    /// Cancels a task; returns `false` if it has ended before. The caller cancels its handler.
    pub(in crate::server) fn cancel(&mut self, key: Key, why: &'static str, now: Instant) -> bool {
        let Some(task) = self.slab.get_mut(key).filter(|task| !task.has_ended()) else {
            return false;
        };
        task.end((TaskStatus::Cancelled, Some(Cow::Borrowed(why))), None, now);
        self.running -= 1;
        self.mark_changed(key);
        true
    }

    /// Fails a task whose input request was not fulfilled; returns `false` if it has ended before.
    /// The caller cancels its handler.
    pub(in crate::server) fn fail(&mut self, key: Key, error: Error, now: Instant) -> bool {
        let Some(task) = self.slab.get_mut(key).filter(|task| !task.has_ended()) else {
            return false;
        };
        let end = TaskOutcome::Error(error.clone());
        self.result_bytes += end.bytes();
        task.end((TaskStatus::Failed, Some(error.message)), Some(end), now);
        self.running -= 1;
        self.mark_changed(key);
        true
    }

    /// Adds request `number` of a task to its client; returns `false` if the task has ended or has
    /// too many open requests.
    pub(in crate::server) fn add_client_request(
        &mut self,
        key: Key,
        number: u64,
        open_max: usize,
        now: Instant,
    ) -> bool {
        let task = self.slab.get_mut(key).filter(|task| !task.has_ended());
        let is_asked =
            task.is_some_and(|task| task.requests.client_requests.add(number, open_max, now));
        if is_asked {
            self.update_input_status(key, now);
        }
        is_asked
    }

    /// Removes request `number` of a task, which was completed.
    pub(in crate::server) fn remove_client_request(&mut self, key: Key, number: u64, now: Instant) {
        if let Some(task) = self.slab.get_mut(key) {
            task.requests.client_requests.remove(number, now);
            self.update_input_status(key, now);
        }
    }

    /// Updates the status of a task: `input_required` while a request is open.
    pub(in crate::server) fn update_input_status(&mut self, key: Key, now: Instant) {
        if self.slab.get_mut(key).is_some_and(|task| task.update_input_status(now)) {
            self.mark_changed(key);
        }
    }

    /// Subscribes a shard to a task; the current state is sent first.
    pub(in crate::server) fn watch(&mut self, key: Key, shard: ShardId) {
        if let Some(task) = self.slab.get_mut(key) {
            task.observers.add_watcher(shard);
            self.mark_changed(key);
        }
    }

    fn mark_changed(&mut self, key: Key) {
        if let Some(task) = self.slab.get_mut(key)
            && task.observers.mark_changed()
        {
            self.changed.push_back(key);
        }
    }

    /// Takes one task with unsent changes; several changes are sent as one.
    pub(in crate::server) fn take_changed(&mut self) -> Option<Key> {
        while let Some(key) = self.changed.pop_front() {
            if let Some(task) = self.slab.get_mut(key) {
                task.observers.mark_sent();
                return Some(key);
            }
        }
        None
    }

    /// Removes and returns one task whose ttl has expired; its handler may still run, and calls may
    /// wait for its end.
    pub(in crate::server) fn expire(&mut self, now: Instant) -> Option<Task<W>> {
        loop {
            let key = self.expiry_timers.pop_expired(now)?;
            // A task that could not be started left its deadline in the wheel.
            if let Some(task) = self.remove(key) {
                return Some(task);
            }
        }
    }

    /// Removes a task whose id was not sent to a client, because it could not be started.
    pub(in crate::server) fn remove(&mut self, key: Key) -> Option<Task<W>> {
        let task = self.slab.remove(key)?;
        self.keys.remove(&task.id());
        if let Some(share) = self.tasks_by_peer.get_mut(&task.caller.peer()) {
            *share -= 1;
            if *share == 0 {
                self.tasks_by_peer.remove(&task.caller.peer());
            }
        }
        self.result_bytes -= task.outcome().map_or(0, TaskOutcome::bytes);
        self.running -= usize::from(!task.has_ended());
        task.requests.inputs.close();
        Some(task)
    }

    /// Returns when the next ttl expires.
    pub(in crate::server) fn next_deadline(&self) -> Option<Instant> {
        self.expiry_timers.next_deadline()
    }

    /// Returns the number of deadlines, those of removed tasks included.
    #[cfg(test)]
    pub(super) const fn deadlines(&self) -> usize {
        self.expiry_timers.len()
    }

    /// Returns what the table holds.
    #[inline]
    pub(in crate::server) const fn usage(&self) -> TaskUsage {
        TaskUsage { tasks: self.slab.len(), result_bytes: self.result_bytes }
    }

    /// Returns the number of tasks that have not ended.
    pub(in crate::server) const fn running(&self) -> usize {
        self.running
    }

    /// Returns the open requests to `peer` of the tasks that it created.
    pub(in crate::server) fn client_requests_to(&self, peer: PeerId) -> Vec<u64> {
        if self.running == 0 {
            return Vec::new();
        }
        let own = self.slab.iter().filter(|(_, task)| task.caller.peer() == peer);
        own.flat_map(|(_, task)| task.requests.client_requests.numbers()).copied().collect()
    }

    /// Returns all tasks that have not ended.
    pub(in crate::server) fn unfinished(&self) -> Vec<Key> {
        self.slab.iter().filter(|(_, task)| !task.has_ended()).map(|(key, _)| key).collect()
    }
}

#[cold]
fn too_many_tasks(tasks_max: usize) -> Error {
    let message = format!("too many tasks (limit {tasks_max} per shard); try again later");
    Error::new(ErrorKind::TooManyRequests, message)
}

#[cold]
fn too_many_tasks_of_connection(tasks_max: usize) -> Error {
    let message = format!("too many tasks (limit {tasks_max} per connection); try again later");
    Error::new(ErrorKind::TooManyRequests, message)
}

#[cold]
fn result_memory_exhausted() -> Error {
    Error::internal("no memory for the task's result: the limit of stored results is reached")
}

/// Shortest ttl: a caller must be able to fetch the task at least once.
const TTL_MIN: Duration = Duration::from_secs(1);

/// Tasks on one page of `tasks/list`.
pub(in crate::server) const PAGE_SIZE: usize = 50;
