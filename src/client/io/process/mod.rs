//! The programs that a client starts: their start, their standard error and their end.

mod events;
mod exit;

mod server_process;

pub use self::events::{ProgramCallback, ProgramEvent};
pub(super) use self::exit::ProgramExit;
pub(super) use self::server_process::{ExitNotifier, ServerProcess, StartedProgram, start};
