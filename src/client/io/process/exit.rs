//! How a program ends.

use std::fmt;
#[cfg(feature = "supervised")]
use std::sync::Arc;

use rustix::process::Signal;

/// How a program has ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ProgramExit {
    /// It has exited with this status.
    Status(i32),
    /// This signal has ended it.
    Signal(i32),
    /// It could not be started; a sentence that says why.
    #[cfg(feature = "supervised")]
    NotStarted(Arc<str>),
}

impl fmt::Display for ProgramExit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            #[cfg(feature = "supervised")]
            Self::NotStarted(why) => write!(formatter, "was not started: {why}"),
            Self::Status(status) => write!(formatter, "exited with status {status}"),
            Self::Signal(signal) => {
                write!(formatter, "was killed by signal {signal}")?;
                match signal_name(*signal) {
                    Some(name) => write!(formatter, " ({name})"),
                    None => Ok(()),
                }
            }
        }
    }
}

/// Returns the name of a signal that ends a program, as signal(7) has it.
fn signal_name(signal: i32) -> Option<&'static str> {
    let name = match Signal::from_named_raw(signal)? {
        Signal::HUP => "SIGHUP",
        Signal::INT => "SIGINT",
        Signal::QUIT => "SIGQUIT",
        Signal::ILL => "SIGILL",
        Signal::TRAP => "SIGTRAP",
        Signal::ABORT => "SIGABRT",
        Signal::BUS => "SIGBUS",
        Signal::FPE => "SIGFPE",
        Signal::KILL => "SIGKILL",
        Signal::USR1 => "SIGUSR1",
        Signal::SEGV => "SIGSEGV",
        Signal::USR2 => "SIGUSR2",
        Signal::PIPE => "SIGPIPE",
        Signal::ALARM => "SIGALRM",
        Signal::TERM => "SIGTERM",
        Signal::XCPU => "SIGXCPU",
        Signal::XFSZ => "SIGXFSZ",
        Signal::SYS => "SIGSYS",
        _ => return None,
    };
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_is_described_by_status_or_signal() {
        let text = |exit: ProgramExit| exit.to_string();
        assert_eq!(text(ProgramExit::Status(3)), "exited with status 3");
        assert_eq!(text(ProgramExit::Signal(9)), "was killed by signal 9 (SIGKILL)");
        assert_eq!(text(ProgramExit::Signal(64)), "was killed by signal 64");
    }
}
