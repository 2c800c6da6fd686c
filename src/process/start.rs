//! The start of a child, in the supervisor.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::{fmt, io};

use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};

use crate::program::find_program;
use crate::sandbox::Sandbox;
use crate::spec::{ChildSpec, ChildStdio, ResourceLimits};

/// Bytes of stack of a thread that restricts itself.
const STACK_BYTES: usize = 256 << 10;

/// Starts a child, and returns its process id, which is that of its group.
///
/// # Errors
///
/// A sentence that says why it was not started.
pub(crate) fn start(spec: &ChildSpec, stdio: ChildStdio) -> Result<Pid, String> {
    check(spec)?;
    let directory = spec.directory.as_deref();
    let path = spec.environment.iter().find(|it| it.name == "PATH").map(|it| it.value.as_os_str());
    let program = find_program(&spec.program, directory, path)?;
    let pid = match &spec.sandbox {
        None => spawn(spec, &program, stdio),
        Some(sandbox) => {
            on_restricted_thread(sandbox, Some(&program), || spawn(spec, &program, stdio))
        }
    }?;
    if let Err(error) = set_limits(pid, &spec.limits) {
        // It is reaped, but not reported, as a process that is left behind.
        kill_process(pid, Signal::KILL).ok();
        return Err(format!("the resource limits of the command cannot be set: {error}"));
    }
    Ok(pid)
}

/// Enters a sandbox on a thread that ends.
pub(crate) fn check_sandbox(sandbox: &Sandbox) -> Result<(), String> {
    on_restricted_thread(sandbox, None, || Ok(()))
}

/// Runs `action` on a thread that has entered `sandbox`.
fn on_restricted_thread<T: Send>(
    sandbox: &Sandbox,
    program: Option<&Path>,
    action: impl FnOnce() -> Result<T, String> + Send,
) -> Result<T, String> {
    let restricted = || sandbox.enter(program).and_then(|()| action());
    thread::scope(|scope| {
        let builder = thread::Builder::new().stack_size(STACK_BYTES);
        let thread = builder
            .spawn_scoped(scope, restricted)
            .map_err(|error| format!("no thread to start the command in its sandbox: {error}"))?;
        thread.join().map_err(|_| "the sandbox of the command cannot be entered".to_owned())?
    })
}

/// Refuses what the kernel would read differently.
fn check(spec: &ChildSpec) -> Result<(), String> {
    let has_nul = |text: &OsStr| text.as_bytes().contains(&0);
    if has_nul(&spec.program) || spec.arguments.iter().any(|it| has_nul(it)) {
        return Err("an argument of the command has a NUL character, which no command can read; \
                    leave it out"
            .to_owned());
    }
    for variable in &spec.environment {
        let name = variable.name.as_bytes();
        if name.is_empty() || name.contains(&b'=') || has_nul(&variable.name) {
            let shown = variable.name.display();
            return Err(format!("`{shown}` is not the name of an environment variable"));
        }
        if has_nul(&variable.value) {
            let shown = variable.name.display();
            return Err(format!("the environment variable `{shown}` has a NUL character"));
        }
    }
    match &spec.directory {
        Some(directory) if !directory.is_dir() => Err(format!(
            "the working directory `{}` does not exist or is not a directory",
            directory.display()
        )),
        _ => Ok(()),
    }
}

fn spawn(spec: &ChildSpec, program: &Path, stdio: ChildStdio) -> Result<Pid, String> {
    let ChildStdio { stdin, stdout, stderr } = stdio;
    let mut command = Command::new(program);
    command
        .arg0(&spec.program)
        .args(&spec.arguments)
        .env_clear()
        .envs(spec.environment.iter().map(|it| (&it.name, &it.value)))
        .process_group(0)
        .stdin::<OwnedFd>(stdin)
        .stdout::<OwnedFd>(stdout)
        .stderr::<OwnedFd>(stderr);
    if let Some(directory) = &spec.directory {
        command.current_dir(directory);
    }
    if let Some(user) = spec.user {
        command.uid(user.uid).gid(user.gid);
    }
    let child = command.spawn().map_err(|error| start_error(spec, program, &error))?;
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    id.ok_or_else(|| "the command has no process id".to_owned())
}

/// Says why `execve` or `fork` has failed.
fn start_error(spec: &ChildSpec, program: &Path, error: &io::Error) -> String {
    let shown = program.display();
    match Errno::from_io_error(error) {
        Some(Errno::NOENT) => format!(
            "the program `{shown}` cannot be started: the interpreter in its first line, or its \
             loader, does not exist"
        ),
        Some(Errno::ACCESS) if spec.sandbox.is_some() => format!(
            "the program `{shown}` may not be executed: its file or interpreter is not executable, \
             or outside of the sandbox; add the directory to sandbox.read"
        ),
        Some(Errno::ACCESS) => format!(
            "the program `{shown}` may not be executed by its user: a mode, an interpreter that is \
             not executable, or a file system that is mounted noexec"
        ),
        Some(Errno::PERM | Errno::INVAL) if spec.user.is_some() => {
            format!("the program `{shown}` cannot run as another user; only root starts it so")
        }
        Some(Errno::NOEXEC) => format!(
            "the program `{shown}` is not for this machine, nor a script whose first line is `#!` \
             with its interpreter"
        ),
        Some(Errno::TXTBSY) => format!("the program `{shown}` is open for writing; try again"),
        Some(Errno::TOOBIG) => "the arguments of the command are too long: 128 KiB each, and with \
             the environment a quarter of the stack limit, at most"
            .to_owned(),
        Some(Errno::AGAIN | Errno::NOMEM) => format!(
            "the program `{shown}` cannot be started: the limit of processes or of memory is \
             reached; try again later"
        ),
        _ => format!("the program `{shown}` cannot be started: {error}"),
    }
}

/// Sets the limits of a running child.
fn set_limits(pid: Pid, limits: &ResourceLimits) -> Result<(), LimitError> {
    let ResourceLimits { address_space_bytes, cpu_seconds, open_files, processes } = *limits;
    let named = [
        (Resource::As, "address_space", address_space_bytes, 0),
        // SIGXCPU comes first.
        (Resource::Cpu, "cpu", cpu_seconds, 1),
        (Resource::Nofile, "open_files", open_files, 0),
        (Resource::Nproc, "processes", processes, 0),
    ];
    for (resource, name, value, above) in named {
        let Some(value) = value else { continue };
        let own = getrlimit(resource).maximum;
        let bounded = |value: u64| Some(own.map_or(value, |own| own.min(value)));
        let limit =
            Rlimit { current: bounded(value), maximum: bounded(value.saturating_add(above)) };
        match prlimit(Some(pid), resource, limit) {
            // It has ended.
            Ok(_) | Err(Errno::SRCH) => {}
            Err(error) => return Err(LimitError { name, error }),
        }
    }
    Ok(())
}

/// A limit that cannot be set.
struct LimitError {
    name: &'static str,
    error: Errno,
}

impl fmt::Display for LimitError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.name, self.error)
    }
}
