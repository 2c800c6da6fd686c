//! The standard streams of a program.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::pipe::{PipeFlags, pipe_with};

use crate::target::ProgramStderr;

/// The ends for the program.
pub(super) struct ProgramPipes {
    pub(super) stdin: OwnedFd,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

/// The ends for this process.
pub(super) struct OwnPipes {
    /// Written to.
    pub(super) input: OwnedFd,
    /// Read from.
    pub(super) output: OwnedFd,
    /// Read from, if its lines are events.
    pub(super) stderr: Option<File>,
}

/// Makes the streams; with `has_events` standard error is a pipe, too.
pub(super) fn open(
    stderr: ProgramStderr,
    has_events: bool,
) -> io::Result<(ProgramPipes, OwnPipes)> {
    let pipe = || pipe_with(PipeFlags::CLOEXEC);
    let ((stdin, input), (output, stdout)) = (pipe()?, pipe()?);
    let (own_stderr, stderr) = if has_events {
        let (own, program) = pipe()?;
        (Some(own.into()), program)
    } else if stderr == ProgramStderr::Discard {
        (None, OpenOptions::new().write(true).open("/dev/null")?.into())
    } else {
        (None, io::stderr().as_fd().try_clone_to_owned()?)
    };
    let own = OwnPipes { input, output, stderr: own_stderr };
    Ok((ProgramPipes { stdin, stdout, stderr }, own))
}
