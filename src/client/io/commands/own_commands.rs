//! Commands of an I/O thread to itself, from callbacks and tasks that run on it.
//!
//! They do not pass through the inbox: a thread that waited for its own inbox would wait for good.
//! What a session does not accept is refused by the session.

use std::cell::RefCell;
use std::collections::VecDeque;

use super::command::Command;

thread_local! {
    static COMMANDS: RefCell<VecDeque<Command>> = const { RefCell::new(VecDeque::new()) };
}

/// Adds a command to the calling thread. Fails if the thread is ending.
pub(in crate::client::io) fn push(command: Command) -> Result<(), ()> {
    let mut command = Some(command);
    let pushed = COMMANDS.try_with(|commands| commands.borrow_mut().extend(command.take()));
    pushed.map_err(|_| ())
}

/// Removes the oldest command of the calling thread.
pub(in crate::client::io) fn pop() -> Option<Command> {
    COMMANDS.with(|commands| commands.borrow_mut().pop_front())
}

/// Returns whether the calling thread has no commands to itself.
pub(in crate::client::io) fn is_empty() -> bool {
    COMMANDS.with(|commands| commands.borrow().is_empty())
}
