//! What a child is started with, and how it ends.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;
use std::{fmt, io};

use nix::sys::signal::Signal;

use crate::Sandbox;

/// A child to start.
#[derive(Clone)]
pub struct ChildSpec {
    /// The program: a path, or a name that is searched for in `PATH` of `environment`, or in the
    /// usual directories of programs if that has none. A relative path is relative to `directory`.
    pub program: OsString,
    /// The words after the name of the program.
    pub arguments: Vec<OsString>,
    /// The whole environment; nothing is inherited.
    pub environment: Vec<Variable>,
    /// Working directory; by default that of the server when the supervisor was started.
    pub directory: Option<PathBuf>,
    /// User of the child; by default that of the server. Needs root.
    pub user: Option<User>,
    /// Time between SIGTERM and SIGKILL when the child is terminated.
    pub grace: Duration,
    /// Resource limits.
    pub limits: ResourceLimits,
    /// What the child may reach; by default everything that its user may.
    pub sandbox: Option<Sandbox>,
}

impl ChildSpec {
    /// Default of `grace`.
    pub const GRACE: Duration = Duration::from_secs(2);

    /// A child without arguments, environment, limits and sandbox.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            directory: None,
            user: None,
            grace: Self::GRACE,
            limits: ResourceLimits::default(),
            sandbox: None,
        }
    }
}

impl fmt::Debug for ChildSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without arguments and environment, which may be secrets.
        formatter.debug_struct("ChildSpec").field("program", &self.program).finish_non_exhaustive()
    }
}

/// A variable of an environment.
#[derive(Clone, Eq, PartialEq)]
pub struct Variable {
    /// Its name, without `=`.
    pub name: OsString,
    /// Its value.
    pub value: OsString,
}

impl Variable {
    /// A variable.
    pub fn new(name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        Self { name: name.into(), value: value.into() }
    }
}

impl fmt::Debug for Variable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Variable").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The standard streams of a child. The descriptors are closed in the server and the supervisor
/// once the child has them.
#[derive(Debug)]
pub struct ChildStdio {
    /// Standard input.
    pub stdin: OwnedFd,
    /// Standard output.
    pub stdout: OwnedFd,
    /// Standard error.
    pub stderr: OwnedFd,
}

/// A user and its group. A child that runs as another user has no supplementary groups.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct User {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

impl User {
    /// Finds the user `name`: a name that the system knows, or `UID:GID`.
    pub fn find(name: &str) -> io::Result<Self> {
        if let Some((uid, gid)) = name.split_once(':')
            && let (Ok(uid), Ok(gid)) = (uid.parse(), gid.parse())
        {
            return Ok(Self { uid, gid });
        }
        match nix::unistd::User::from_name(name)? {
            Some(user) => Ok(Self { uid: user.uid.as_raw(), gid: user.gid.as_raw() }),
            None => Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!("there is no user {name:?}; write a name of /etc/passwd, or UID:GID"),
            )),
        }
    }
}

/// Limits of a child (`setrlimit`), each of it and of what it starts.
///
/// They are set by process id right after the start, since nothing of this process may run in the
/// child before its program does. For these microseconds the child has the limits of the server;
/// what it has by then, it keeps. A limit above that of the server is that of the server.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ResourceLimits {
    /// Bytes of address space of each process.
    pub address_space_bytes: Option<u64>,
    /// Seconds of CPU of each process. It gets SIGXCPU then, and SIGKILL a second later.
    pub cpu_seconds: Option<u64>,
    /// Open descriptors of each process.
    pub open_files: Option<u64>,
    /// Processes and threads of the user of the child, those outside included. Root has no such
    /// limit.
    pub processes: Option<u64>,
}

/// How a child has ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Exit {
    /// It has exited with this status, 0 to 255.
    Code(i32),
    /// It was killed by the signal of this number.
    Signal(i32),
    /// It was not started; a sentence that says why.
    NotStarted(String),
    /// The supervisor has ended before it. The child was killed.
    SupervisorGone,
}

impl fmt::Display for Exit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(formatter, "exited with status {code}"),
            Self::Signal(number) => match Signal::try_from(*number) {
                Ok(signal) => write!(formatter, "killed by {}", signal.as_str()),
                Err(_) => write!(formatter, "killed by signal {number}"),
            },
            Self::NotStarted(why) => formatter.write_str(why),
            Self::SupervisorGone => {
                formatter.write_str("killed, because the process that supervises it has ended")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_is_found_by_name_and_id() {
        assert_eq!(User::find("root").unwrap(), User { uid: 0, gid: 0 });
        assert_eq!(User::find("12:34").unwrap(), User { uid: 12, gid: 34 });
        let error = User::find("no such user").unwrap_err();
        assert!(error.to_string().contains("UID:GID"), "{error}");
    }

    #[test]
    fn exit_names_its_signal() {
        assert_eq!(Exit::Signal(9).to_string(), "killed by SIGKILL");
        assert_eq!(Exit::Signal(40).to_string(), "killed by signal 40");
        assert_eq!(Exit::Code(3).to_string(), "exited with status 3");
    }

    #[test]
    fn debug_output_hides_secrets() {
        let mut spec = ChildSpec::new("env");
        spec.arguments.push("secret".into());
        spec.environment.push(Variable::new("KEY", "secret"));
        let text = format!("{spec:?} {:?}", spec.environment);
        assert!(!text.contains("secret"), "{text}");
    }
}
