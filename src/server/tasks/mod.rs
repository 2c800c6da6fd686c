//! Tasks: calls whose answer is kept until somebody asks for it.
//!
//! A task belongs to the shard whose connection began it. Its name tells which shard that is
//! (`identity`), so a request that lands elsewhere becomes a letter to the owner and back (`hop`),
//! and no shard knows the tasks of another. `task` is one of them, `table` all of a shard,
//! `inquiry` what a handler asks its client in the meantime. This room is a state machine: it runs
//! no handler, writes to no connection and reads no clock.
//!
//! Both generations of the protocol are served, side by side: the core tasks of 2025-11-25, which
//! the caller asks for, and the extension `io.modelcontextprotocol/tasks` of 2026-07-28, where the
//! server decides. A task is known to the generation that began it.
//!
//! Who knows the name of a task may use it: there is no authorization yet that could bind it to
//! anybody. That is why names cannot be guessed, why tasks do not live long, and why `tasks/list`
//! (2025-11-25) shows a connection no other tasks than its own: the connection is the one thing
//! that tells one client from another.

mod identity;

mod inquiry;

mod task;

mod table;

mod hop;

pub(super) use self::hop::{Asking, TaskLetter, TaskNote, Wish};
pub(super) use self::identity::{Names, TaskId};
pub(super) use self::inquiry::Inquiries;
pub(super) use self::table::{Bounds, Tasks};
pub(super) use self::task::{Birth, End, Task, Waiter};

#[cfg(test)]
mod tests;
