//! Commands of an I/O thread to itself, from callbacks and tasks that run on it.
//!
//! They do not pass through the inbox: a thread that waited for its own inbox would wait for good.
//! What a session does not accept is refused by the session.
//!
//! Invariants: a server that the thread adds is added before the commands of other threads are
//! handled, to which its client may have been passed; other commands are handled after those.

use std::cell::RefCell;
use std::collections::VecDeque;

use super::command::Command;
use corelane_engine::mesh::Inbox;

/// The commands of a thread to itself.
#[derive(Debug)]
struct OwnCommands {
    /// Those that add servers.
    additions: VecDeque<Command>,
    others: VecDeque<Command>,
}

thread_local! {
    static COMMANDS: RefCell<OwnCommands> = const {
        RefCell::new(OwnCommands { additions: VecDeque::new(), others: VecDeque::new() })
    };
}

/// Adds a command to the calling thread. Fails if the thread is ending.
pub fn push(command: Command) -> Result<(), ()> {
    let pushed = COMMANDS.try_with(|commands| {
        let mut commands = commands.borrow_mut();
        match command {
            Command::AddPeer(..) | Command::AddParityPeer(..) => {
                commands.additions.push_back(command);
            }
            _ => commands.others.push_back(command),
        }
    });
    pushed.map_err(|_| ())
}

/// Appends to `commands` the servers that the calling thread adds, and then at most `commands_max`
/// commands of other threads. Returns whether more of these wait.
pub fn receive(
    inbox: &mut Inbox<Command>,
    commands: &mut Vec<Command>,
    commands_max: usize,
) -> bool {
    COMMANDS.with_borrow_mut(|own| commands.extend(own.additions.drain(..)));
    inbox.receive(commands, commands_max)
}

/// Removes the oldest command of the calling thread; first those that add servers.
pub fn pop() -> Option<Command> {
    COMMANDS.with_borrow_mut(|own| own.additions.pop_front().or_else(|| own.others.pop_front()))
}

/// Returns whether the calling thread has no commands to itself.
pub fn is_empty() -> bool {
    COMMANDS.with_borrow(|own| own.additions.is_empty() && own.others.is_empty())
}
