//! Creation and completion of tasks: what a limit refuses or evicts is counted and logged.

use corelane_base::client_address::ClientAddress;
use corelane_base::slab::Key;
use corelane_base::time::Instant;
use corelane_protocol::error::{Error, ErrorKind};

use super::table::TaskRefusal;
use super::{NewTask, TaskOutcome, Tasks};
use crate::server::outbox::Outbox;
use crate::server::shard_message::TaskLimits;
use crate::telemetry::event::Event;
use crate::telemetry::label::TaskLimit;

/// Creates a task.
///
/// # Errors
///
/// The error response to the call: a limit is reached, or no id can be generated.
pub fn create_task(
    tasks: &mut Tasks,
    new_task: NewTask,
    now: Instant,
    outbox: &mut Outbox,
) -> Result<Key, Error> {
    let address = new_task.address;
    let shard = tasks.shards.own().0;
    match tasks.table.create(new_task, now) {
        Ok(created) => {
            record_evictions(created.evicted, (shard, TaskLimit::Tasks), outbox);
            Ok(created.key)
        }
        Err(TaskRefusal::NoRandomBits) => Err(Error::internal("no random bits for a task id")),
        Err(TaskRefusal::Limit { limit, evicted }) => {
            record_evictions(evicted, (shard, limit), outbox);
            let requests = &mut outbox.counters.requests;
            match limit {
                TaskLimit::AddressShare => requests.tasks_refused_address_share += 1,
                TaskLimit::TasksPerConnection => requests.tasks_refused_per_connection += 1,
                TaskLimit::Tasks | TaskLimit::TaskBytes => requests.tasks_refused_limit += 1,
            }
            let peer = address.map(ClientAddress::ip);
            outbox.log(Event::TaskRefused { shard, limit, peer });
            Err(too_many_tasks(limit, &tasks.table.limits))
        }
    }
}

/// Stores the outcome of a task's handler, unless the task has ended before.
pub fn complete_task(
    tasks: &mut Tasks,
    (key, outcome): (Key, TaskOutcome),
    now: Instant,
    outbox: &mut Outbox,
) {
    let room = tasks.table.complete(key, outcome, now);
    let shard = tasks.shards.own().0;
    record_evictions(room.evicted, (shard, TaskLimit::TaskBytes), outbox);
    let Some(limit) = room.refused else { return };
    outbox.counters.requests.task_results_refused += 1;
    let address = tasks.table.get_mut(key).and_then(|task| task.caller.address());
    let peer = address.map(ClientAddress::ip);
    outbox.log(Event::TaskResultRefused { shard, limit, peer });
}

/// Counts and logs tasks that were evicted at `limit`.
fn record_evictions(evicted: usize, (shard, limit): (u16, TaskLimit), outbox: &mut Outbox) {
    if evicted > 0 {
        outbox.counters.requests.tasks_evicted += evicted as u64;
        outbox.log(Event::TaskEvicted { shard, limit });
    }
}

#[cold]
fn too_many_tasks(limit: TaskLimit, limits: &TaskLimits) -> Error {
    let message = match limit {
        TaskLimit::TasksPerConnection => {
            let tasks_max = limits.tasks_per_connection_max;
            format!("too many tasks (limit {tasks_max} per connection); try again later")
        }
        TaskLimit::AddressShare => {
            let tasks_max = limits.address_share.of(limits.tasks_max);
            format!(
                "too many tasks from this address (limit {tasks_max} per shard: \
                 address_share_percent of tasks_max); try again later"
            )
        }
        TaskLimit::Tasks | TaskLimit::TaskBytes => {
            format!("too many tasks (limit {} per shard); try again later", limits.tasks_max)
        }
    };
    Error::new(ErrorKind::TooManyRequests, message)
}
