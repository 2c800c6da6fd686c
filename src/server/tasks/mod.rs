//! Tasks: calls whose result is stored until the client fetches it.
//!
//! A task is owned by the shard whose connection created it. Its id names that shard (`task_id`),
//! so a request that arrives at another shard is forwarded to the owner (`task_message`). `task`
//! holds one task, `table` all of a shard, `task_inputs` the input requests of its handler. This
//! module is a state machine: it runs no handler, writes to no connection and reads no clock.
//!
//! Both generations of the protocol are served: the core tasks of 2025-11-25, which the caller
//! requests, and the extension `io.modelcontextprotocol/tasks` of 2026-07-28, where the server
//! decides. A task is visible only to the generation that created it.
//!
//! A task id is a bearer credential, as there is no authorization to bind it to: therefore ids are
//! unguessable, tasks are short-lived, and `tasks/list` (2025-11-25) returns only the tasks of the
//! same connection.

mod task_id;

mod task_inputs;

mod task;

mod table;

mod task_message;

pub(super) use self::table::{TaskLimits, TaskTable};
pub(super) use self::task::{NewTask, Task, TaskOutcome, TaskWaiter};
pub(super) use self::task_id::{TaskId, TaskIds};
pub(super) use self::task_inputs::TaskInputs;
pub(super) use self::task_message::{RemoteTaskRequest, TaskEvent, TaskMessage, TaskOp};

#[cfg(test)]
mod tests;
