//! The programs that a client starts: their start, their standard error and their end.

mod events;
mod exit;
mod watcher;

mod server_process;

mod start;

pub use self::events::ProgramCallback;
pub use self::events::ProgramEvent;
pub(super) use self::exit::ProgramExit;
pub(super) use self::server_process::{ExitNotifier, ServerProcess};
pub(super) use self::start::{StartedProgram, start};
