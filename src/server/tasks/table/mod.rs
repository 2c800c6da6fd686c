//! The tasks of one shard, from creation until their ttl expires.
//!
//! Invariants: a task is in the table before its id is sent to a client, and stays until its ttl
//! expires or it is evicted; the number of tasks and the bytes of their results are bounded, also
//! for each connection and caller; at a limit ended tasks whose owner has gone are evicted, and no
//! others: of the caller at the limit of its share, of the caller with most of them at a limit of
//! the shard, and those of authenticated callers only for such callers; a task is
//! visible only to the protocol generation that created it; a place that becomes free when the ttl
//! of a task expires is kept for its caller for a second. The caller sends the notifications of
//! tasks returned by [`TaskTable::take_changed`].

mod kept_places;
mod stored_tasks;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::time::Duration;

use corelane_base::holders::{Holder, PlaceOwner};
use corelane_base::slab::Key;
use corelane_base::time::Instant;
use corelane_engine::mesh::ShardId;
use corelane_engine::timer::TimerWheel;
use corelane_protocol::error::Error;
use corelane_protocol::model::TaskStatus;

use self::stored_tasks::StoredTasks;
pub use self::stored_tasks::{Room, TaskUsage};
use super::task::{NewTask, Task, TaskMut, TaskOutcome, TaskOwner};
use crate::server::calls::HandlerWork;
use crate::server::owner_id::{OwnerIds, TaskId};
use crate::server::reply_to::PeerId;
use crate::server::shard_message::TaskLimits;
use crate::telemetry::label::TaskLimit;

/// The tasks of one shard, each with a handler `W`.
#[derive(Debug)]
pub struct TaskTable<W> {
    /// Limits from now on; the ttl of stored tasks is not changed.
    pub limits: TaskLimits,
    pub(super) tasks: StoredTasks<W>,
    ids: OwnerIds,
    expiry_timers: TimerWheel<Key>,
    /// Tasks with unsent changes, each once.
    changed: VecDeque<Key>,
    created: u64,
}

/// Why a task was not created.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TaskRefusal {
    /// A limit is reached, although `evicted` tasks were removed.
    Limit { limit: TaskLimit, evicted: usize },
    /// No id can be generated.
    NoRandomBits,
}

/// A task that was created, and how many others were evicted for it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CreatedTask {
    pub key: Key,
    /// Number of tasks that were evicted for it.
    pub evicted: usize,
}

impl<W> TaskTable<W> {
    pub fn new(limits: TaskLimits, ids: OwnerIds) -> Self {
        Self {
            limits,
            tasks: StoredTasks::new(),
            ids,
            expiry_timers: TimerWheel::new(),
            changed: VecDeque::new(),
            created: 0,
        }
    }

    /// Creates a task.
    ///
    /// # Errors
    ///
    /// A limit of the connection, the caller or the shard is reached, or no id can be generated.
    pub fn create(&mut self, birth: NewTask, now: Instant) -> Result<CreatedTask, TaskRefusal> {
        let id = self.ids.task_id().ok_or(TaskRefusal::NoRandomBits)?;
        let TaskOwner { peer, address } = birth.owner;
        let holder = PlaceOwner { principal: birth.principal.as_deref(), address };
        let holder = self.tasks.holder_of(holder);
        let room = self.tasks.make_room_for_task(&self.limits, peer, holder, now);
        let Room { evicted, refused } = room;
        if let Some(limit) = refused {
            return Err(TaskRefusal::Limit { limit, evicted });
        }
        let TaskLimits { ttl: ttl_default, ttl_max, .. } = self.limits;
        let ttl = birth.ttl.map_or(ttl_default, |ttl| ttl.max(TTL_MIN)).min(ttl_max);
        self.created += 1;
        let task = Task::new(id, self.created, birth, holder, ttl, now);
        let full = TaskRefusal::Limit { limit: TaskLimit::Tasks, evicted };
        let key = self.tasks.insert(task).ok_or(full)?;
        // Tasks that were evicted or could not be started leave their deadlines in the wheel.
        let tasks = &self.tasks;
        self.expiry_timers.purge_stale(tasks.usage().tasks, |key| tasks.get(*key).is_some());
        self.expiry_timers.insert(now.after(ttl), key);
        Ok(CreatedTask { key, evicted })
    }

    /// Marks the tasks of a connection or session that has gone: they are evicted at the limits
    /// once they have ended.
    pub fn remove_owner(&mut self, peer: PeerId) {
        self.tasks.remove_owner(peer);
    }

    /// Records that the outcome of a task was written to a client.
    pub fn mark_fetched(&mut self, key: Key) {
        self.tasks.mark_fetched(key);
    }

    /// Returns the holder of each task.
    pub fn holders(&self) -> impl Iterator<Item = Holder> {
        self.tasks.holders()
    }

    /// Returns the task of a key.
    pub fn get(&self, key: Key) -> Option<&Task<W>> {
        self.tasks.get(key)
    }

    /// Returns the task of a key, to change it.
    pub fn get_mut(&mut self, key: Key) -> Option<TaskMut<'_, W>> {
        self.tasks.get_mut(key)
    }

    /// Returns the task `id` if it was created by a caller of the same generation.
    pub fn find(&self, id: TaskId, is_modern: bool) -> Option<Key> {
        let key = self.tasks.find(id)?;
        let task = self.tasks.get(key)?;
        (task.caller.revision().is_modern() == is_modern).then_some(key)
    }

    /// Returns one page of the tasks that `peer` created with revisions up to 2025-11-25, in the
    /// order of creation, and the cursor of the next page.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) for a cursor that this shard did not issue.
    pub fn list_page(
        &self,
        peer: PeerId,
        cursor: Option<&str>,
    ) -> Result<(Vec<&Task<W>>, Option<String>), Error> {
        let after = cursor.map_or(Ok(0), |cursor| parse_cursor(cursor, self.created))?;
        let is_listed =
            |task: &&Task<W>| !task.caller.revision().is_modern() && task.number() > after;
        let listed = self.tasks.tasks_of(peer).filter(is_listed);
        let mut tasks: Vec<_> = listed.take(PAGE_SIZE + 1).collect();
        let has_more = tasks.len() > PAGE_SIZE;
        tasks.truncate(PAGE_SIZE);
        let last = tasks.last().filter(|_| has_more);
        let next = last.map(|task| format!("{:016x}", task.number()));
        Ok((tasks, next))
    }

    /// Stores the outcome of a handler, unless the task has ended before. A task whose outcome is
    /// refused has failed.
    pub fn complete(&mut self, key: Key, end: TaskOutcome, now: Instant) -> Room {
        let Some(mut task) = self.tasks.get_mut(key) else { return Room::default() };
        task.set_handler(None);
        if task.has_ended() {
            return Room::default();
        }
        let (holder, is_modern) = (task.caller.holder(), task.caller.revision().is_modern());
        drop(task);
        let room = self.tasks.make_room_for_result(&self.limits, holder, end.bytes());
        let end = room.refused.map_or(end, |limit| TaskOutcome::Error(result_refused(limit)));
        let (status, message) = match &end {
            TaskOutcome::Error(error) => (TaskStatus::Failed, Some(error.message.clone())),
            // A tool that failed has a result all the same; only 2025-11-25 reports that as a
            // failed task.
            TaskOutcome::Result { is_failed: true, .. } if !is_modern => {
                (TaskStatus::Failed, Some(Cow::Borrowed("the tool failed; its result says why")))
            }
            TaskOutcome::Result { .. } => (TaskStatus::Completed, None),
        };
        self.end(key, status, message, Some(end), now);
        room
    }

    /// Cancels a task; returns `false` if it has ended before. The caller cancels its handler.
    pub fn cancel(&mut self, key: Key, why: &'static str, now: Instant) -> bool {
        self.end(key, TaskStatus::Cancelled, Some(Cow::Borrowed(why)), None, now)
    }

    /// Fails a task whose input request was not fulfilled; returns `false` if it has ended before.
    /// The caller cancels its handler.
    pub fn fail(&mut self, key: Key, error: Error, now: Instant) -> bool {
        let message = Some(error.message.clone());
        self.end(key, TaskStatus::Failed, message, Some(TaskOutcome::Error(error)), now)
    }

    /// Ends a task; returns `false` if it has ended before.
    fn end(
        &mut self,
        key: Key,
        status: TaskStatus,
        message: Option<Cow<'static, str>>,
        outcome: Option<TaskOutcome>,
        now: Instant,
    ) -> bool {
        let has_ended = self.tasks.end(key, status, message, outcome, now);
        if has_ended {
            self.mark_changed(key);
        }
        has_ended
    }

    /// Adds request `number` of a task to its client; returns `false` if the task has ended or has
    /// too many open requests.
    pub fn add_client_request(
        &mut self,
        key: Key,
        number: u64,
        open_max: usize,
        now: Instant,
    ) -> bool {
        let task = self.tasks.get_mut(key).filter(|task| !task.has_ended());
        let is_asked =
            task.is_some_and(|mut task| task.requests.client_requests.add(number, open_max, now));
        if is_asked {
            self.update_input_status(key, now);
        }
        is_asked
    }

    /// Removes request `number` of a task, which was completed.
    pub fn remove_client_request(&mut self, key: Key, number: u64, now: Instant) {
        if let Some(mut task) = self.tasks.get_mut(key) {
            task.requests.client_requests.remove(number, now);
        }
        self.update_input_status(key, now);
    }

    /// Updates the status of a task: `input_required` while a request is open.
    pub fn update_input_status(&mut self, key: Key, now: Instant) {
        if self.tasks.get_mut(key).is_some_and(|mut task| task.update_input_status(now)) {
            self.mark_changed(key);
        }
    }

    /// Subscribes a shard to a task; the current state is sent first.
    pub fn watch(&mut self, key: Key, shard: ShardId) {
        if let Some(mut task) = self.tasks.get_mut(key) {
            task.observers.add_watcher(shard);
        }
        self.mark_changed(key);
    }

    fn mark_changed(&mut self, key: Key) {
        if let Some(mut task) = self.tasks.get_mut(key)
            && task.observers.mark_changed()
        {
            self.changed.push_back(key);
        }
    }

    /// Takes one task with unsent changes; several changes are sent as one.
    pub fn take_changed(&mut self) -> Option<Key> {
        while let Some(key) = self.changed.pop_front() {
            if let Some(mut task) = self.tasks.get_mut(key) {
                task.observers.mark_sent();
                return Some(key);
            }
        }
        None
    }

    /// Removes and returns one task whose ttl has expired; its handler may still run, and calls may
    /// wait for its end.
    pub fn expire(&mut self, now: Instant) -> Option<Task<W>> {
        loop {
            let Some(key) = self.expiry_timers.pop_expired(now) else {
                self.tasks.release_kept(now);
                return None;
            };
            // A task that could not be started left its deadline in the wheel.
            if let Some(task) = self.tasks.expire(key) {
                return Some(task);
            }
        }
    }

    /// Removes a task; also one whose id was not sent to a client, because it could not be started.
    pub fn remove(&mut self, key: Key) -> Option<Task<W>> {
        self.tasks.remove(key)
    }

    /// Returns when the next ttl expires.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.expiry_timers.next_deadline()
    }

    /// Returns the number of deadlines, those of removed tasks included.
    #[cfg(test)]
    pub(super) const fn deadlines(&self) -> usize {
        self.expiry_timers.len()
    }

    /// Returns what the table holds.
    #[inline]
    pub const fn usage(&self) -> TaskUsage {
        self.tasks.usage()
    }

    /// Returns the bytes of all tasks without their results and what their handlers hold.
    #[inline]
    pub const fn held_bytes(&self) -> usize {
        self.tasks.held_bytes()
    }

    /// Returns the bytes of the tables without what [`TaskTable::held_bytes`] has of them. Cost: a
    /// pass over the owners.
    pub fn place_bytes(&self) -> usize {
        let changed = self.changed.capacity() * size_of::<Key>();
        self.tasks.place_bytes(self.expiry_timers.allocated_bytes() + changed)
    }

    /// Returns the open requests to `peer` of the tasks that it created.
    pub fn client_requests_to(&self, peer: PeerId) -> Vec<u64> {
        let own = self.tasks.tasks_of(peer);
        own.flat_map(|task| task.requests.client_requests.numbers()).copied().collect()
    }

    /// Returns all tasks that have not ended.
    pub fn unfinished(&self) -> Vec<Key> {
        self.tasks.iter().filter(|(_, task)| !task.has_ended()).map(|(key, _)| key).collect()
    }
}

impl TaskTable<HandlerWork> {
    /// Returns the bytes of what the handlers hold, of the results, and of the tasks besides, from
    /// what is stored.
    pub fn recount_bytes(&self) -> [usize; 3] {
        let (mut handlers, mut results) = (0, 0);
        for (_, task) in self.tasks.iter() {
            handlers += task.handler().map_or(0, HandlerWork::argument_bytes);
            handlers += task.requests.inputs.recount_bytes();
            results += task.result_bytes();
        }
        [handlers, results, self.tasks.recount_bytes()]
    }
}

/// Parses a cursor, which is the number of the last task on the page before, of `created` tasks.
fn parse_cursor(cursor: &str, created: u64) -> Result<u64, Error> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_cursor = cursor.len() == 16 && cursor.bytes().all(is_digit);
    let number = u64::from_str_radix(cursor, 16).ok().filter(|_| is_cursor);
    number
        .filter(|number| (1..=created).contains(number))
        .ok_or_else(|| Error::invalid_params("params.cursor is invalid: not issued here"))
}

/// The error of a task whose result did not fit.
#[cold]
fn result_refused(limit: TaskLimit) -> Error {
    Error::internal(match limit {
        TaskLimit::AddressShare => {
            "no memory for the task's result: this caller has its share of stored results (limit \
             address_share_percent of task_bytes_max)"
        }
        _ => "no memory for the task's result: the limit of stored results is reached",
    })
}

/// Shortest ttl: a caller must be able to fetch the task at least once.
const TTL_MIN: Duration = Duration::from_secs(1);

/// Tasks on one page of `tasks/list`.
pub const PAGE_SIZE: usize = 50;
