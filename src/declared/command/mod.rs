//! Commands: a program with words from arguments, its input and its output.
//!
//! Invariants: no shell reads a value; the program has no variables but those declared; when the
//! call ends, by its result, a limit or a cancellation, the program and its process group end.

mod declaration;
mod paths;
mod result;
mod words;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use corelane_process::{ChildSpec, ChildStdio, Exit, Sandbox, Supervisor, User, Variable};
use rustix::fs::{Access, OFlags, access, fcntl_setfl};
use rustix::pipe::{PipeFlags, pipe_with};
use serde_json::{Map, Value};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::declared::arguments::Arguments;
use crate::declared::call::{Call, Failure, Output, ProgressSink};
pub use crate::declared::command::declaration::{InputDeclaration, SandboxDeclaration};
use crate::declared::command::paths::Folders;
pub use crate::declared::command::paths::{PathFault, open_beneath};
use crate::declared::command::result::{ResultKind, last_lines};
pub use crate::declared::command::words::WordDeclaration;
use crate::declared::command::words::Words;
use crate::declared::fill::{fill, text_of};
use crate::declared::problem::Problem;
use crate::declared::room::CallRoom;
use crate::declared::services::Services;
use crate::declared::template::Template;

/// What a declaration says about its command.
#[derive(Clone, Copy, Debug)]
pub struct CommandSettings<'a> {
    /// Program and words.
    pub words: &'a [WordDeclaration],
    /// What is on standard input.
    pub input: Option<&'a InputDeclaration>,
    /// What standard output is.
    pub result: Option<&'a str>,
    /// The environment.
    pub env: &'a BTreeMap<String, String>,
    /// The folder that it runs in.
    pub cwd: Option<&'a Path>,
    /// The user that it runs as.
    pub user: Option<&'a str>,
    /// What it may reach.
    pub sandbox: Option<&'a SandboxDeclaration>,
}

/// A command that can be called.
#[derive(Debug)]
pub struct Command {
    /// Name of the program in failures.
    name: String,
    program: PathBuf,
    words: Words,
    folders: Folders,
    env: Vec<(String, Template)>,
    input: Input,
    result: ResultKind,
    directory: PathBuf,
    user: Option<User>,
    sandbox: Option<Sandbox>,
    supervisor: Supervisor,
}

#[derive(Debug)]
enum Input {
    None,
    Json,
    Argument(String),
}

/// Time for the output of a program that has ended: another process may hold its pipe.
const DRAIN_TIME: Duration = Duration::from_millis(500);

/// Bytes of standard error that are kept, the last ones.
const STDERR_BYTES_MAX: usize = 8 * 1024;

/// Bytes of one read.
const READ_BYTES: usize = 16 * 1024;

impl Command {
    /// Checks the settings; `folder` is where relative paths start.
    ///
    /// # Errors
    ///
    /// What is wrong with them.
    pub fn new(
        settings: &CommandSettings<'_>,
        arguments: &Arguments,
        folder: &Path,
        services: &Services,
    ) -> Result<Self, Vec<Problem>> {
        let base = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let (name, program) = find_program(settings.words.first(), base)?;
        let words = Words::parse(&settings.words[1..], arguments)?;
        let input = read_input(settings.input, &words, arguments)?;
        let mut env = Vec::new();
        for (variable, value) in settings.env {
            let key = format!("env.{variable}");
            if variable.is_empty() || variable.contains(['=', '\0']) {
                return Err(Problem::new(key, "is not the name of a variable", "rename it").into());
            }
            env.push((variable.clone(), Template::parse(&key, value)?));
        }
        let directory = settings.cwd.map_or_else(|| base.to_owned(), |cwd| base.join(cwd));
        let directory =
            directory.canonicalize().ok().filter(|it| it.is_dir()).ok_or_else(|| {
                let message = format!("{} is not a folder", directory.display());
                Problem::new("cwd", message, "name a folder that exists")
            })?;
        let user = settings.user.map(find_user).transpose()?;
        let sandbox = settings.sandbox.map(|it| Sandbox {
            read: it.read.iter().map(|path| base.join(path)).collect(),
            write: it.write.iter().map(|path| base.join(path)).collect(),
            network: it.network,
        });
        let supervisor = services.supervisor().map_err(|error| {
            let message = format!("no process can be started: {error}");
            Problem::new("command", message, "raise the limit of processes")
        })?;
        if let Some(sandbox) = &sandbox {
            supervisor.check(sandbox).map_err(|reason| {
                Problem::new("sandbox", reason, "remove what this machine does not offer")
            })?;
        }
        Ok(Self {
            name,
            program,
            words,
            folders: Folders::new(arguments, base)?,
            env,
            input,
            result: ResultKind::parse(settings.result)?,
            directory,
            user,
            sandbox,
            supervisor,
        })
    }

    /// Runs the command once. Dropping the future ends it: SIGTERM, and SIGKILL soon after.
    ///
    /// # Errors
    ///
    /// An argument is refused, the program cannot be started, fails, or its output is not what was
    /// declared.
    pub async fn call(
        &self,
        arguments: &Arguments,
        call: Call,
        room: &CallRoom<'_>,
    ) -> Result<Output, Failure> {
        let resolved = self.folders.resolve(&call)?;
        let words = self.words.fill(&call, arguments, &resolved)?;
        let spec = ChildSpec {
            arguments: words.into_iter().map(OsString::from).collect(),
            environment: self.environment(&call)?,
            directory: Some(self.directory.clone()),
            user: self.user,
            sandbox: self.sandbox.clone(),
            ..ChildSpec::new(&self.program)
        };
        let input = self.input_of(&call, &resolved)?;
        let failed = |error: io::Error| Failure::failed(format_args!("{}: {error}", self.name));
        let pipes = Pipes::new(input.is_some()).map_err(failed)?;
        let (ended, exit) = oneshot::channel();
        let on_exit = move |exit| drop(ended.send(exit));
        let child = self.supervisor.spawn(&spec, pipes.child, on_exit).map_err(failed)?;
        let Pipes { stdin, stdout, stderr, .. } = pipes;
        let lines = call.progress.filter(|_| self.result == ResultKind::Lines);
        let mut output = OutputReader::new(stdout, lines, room);
        let mut errors = ErrorReader { pipe: stderr, bytes: Vec::new(), is_cut: false };
        let exit = {
            let transfer = async {
                let others = async {
                    tokio::join!(write_input(stdin, input), errors.read());
                    Ok(())
                };
                // Beyond its limit the program is ended, whatever else it has open.
                tokio::try_join!(output.read(), others).map(drop)
            };
            self.wait(transfer, exit, room).await?
        };
        // The process group has ended with its leader.
        drop(child);
        self.finish(exit, output.bytes, errors.whole_lines())
    }

    /// Waits for the exit of the child and for its output.
    async fn wait(
        &self,
        transfer: impl Future<Output = Result<(), Failure>>,
        mut exit: oneshot::Receiver<Exit>,
        room: &CallRoom<'_>,
    ) -> Result<Exit, Failure> {
        let mut transfer = std::pin::pin!(transfer);
        let gone = |_| Failure::failed(format_args!("{} was lost", self.name));
        tokio::select! {
            read = &mut transfer => {
                read.map_err(|failure| self.name_in(&failure))?;
                exit.await.map_err(gone)
            }
            exit = &mut exit => {
                loop {
                    match timeout(DRAIN_TIME, &mut transfer).await {
                        Ok(read) => break read.map_err(|failure| self.name_in(&failure))?,
                        // The rest of the output is read when there is room.
                        Err(_) if room.is_waiting() => {}
                        Err(_) => break,
                    }
                }
                exit.map_err(gone)
            }
        }
    }

    fn name_in(&self, failure: &Failure) -> Failure {
        Failure::failed(format_args!("{} {failure}", self.name))
    }

    fn finish(&self, exit: Exit, output: Vec<u8>, errors: &[u8]) -> Result<Output, Failure> {
        let name = &self.name;
        let reason = match exit {
            Exit::Code(0) => return self.result.read(name, output),
            Exit::NotStarted(reason) => format!("{name} could not be started: {reason}"),
            other => format!("{name} {other}"),
        };
        let errors = last_lines(errors);
        let separator = if errors.is_empty() { "" } else { ": " };
        Err(Failure::failed(format_args!("{reason}{separator}{errors}")))
    }

    fn environment(&self, call: &Call) -> Result<Vec<Variable>, Failure> {
        let variable = |(name, value): &(String, Template)| {
            let text = fill(value, call);
            if text.contains('\0') {
                let reason = format_args!("variable {name} would contain a NUL character");
                return Err(Failure::invalid_argument(reason));
            }
            Ok(Variable::new(name, text))
        };
        self.env.iter().map(variable).collect()
    }

    fn input_of(
        &self,
        call: &Call,
        resolved: &Map<String, Value>,
    ) -> Result<Option<Vec<u8>>, Failure> {
        match &self.input {
            Input::None => Ok(None),
            Input::Json => {
                let mut arguments = call.arguments.clone();
                arguments.extend(resolved.clone());
                serde_json::to_vec(&arguments).map(Some).map_err(Failure::failed)
            }
            Input::Argument(name) => {
                let value = resolved.get(name).or_else(|| call.arguments.get(name));
                Ok(Some(value.map(text_of).unwrap_or_default().into_owned().into_bytes()))
            }
        }
    }
}

/// The pipes of one call, and their ends for the child.
struct Pipes {
    child: ChildStdio,
    /// `None` if the program has an empty input.
    stdin: Option<Sender>,
    stdout: Receiver,
    stderr: Receiver,
}

impl Pipes {
    fn new(has_input: bool) -> io::Result<Self> {
        let (child_stdin, stdin) = if has_input {
            let (child_stdin, stdin) = pipe()?;
            fcntl_setfl(&child_stdin, OFlags::empty())?;
            (child_stdin, Some(Sender::from_owned_fd_unchecked(stdin)?))
        } else {
            (File::open("/dev/null")?.into(), None)
        };
        let output = || -> io::Result<(Receiver, OwnedFd)> {
            let (output, child_output) = pipe()?;
            fcntl_setfl(&child_output, OFlags::empty())?;
            Ok((Receiver::from_owned_fd_unchecked(output)?, child_output))
        };
        let ((stdout, child_stdout), (stderr, child_stderr)) = (output()?, output()?);
        let child = ChildStdio { stdin: child_stdin, stdout: child_stdout, stderr: child_stderr };
        Ok(Self { child, stdin, stdout, stderr })
    }
}

/// A pipe whose ends do not block; that of a child must.
fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?)
}

/// Writes the input and closes the pipe. A program need not read its input.
async fn write_input(pipe: Option<Sender>, input: Option<Vec<u8>>) {
    if let (Some(mut pipe), Some(input)) = (pipe, input) {
        pipe.write_all(&input).await.ok();
    }
}

/// Reads standard output within its limit.
struct OutputReader<'a, 'r> {
    pipe: Receiver,
    bytes: Vec<u8>,
    lines: Option<Lines>,
    room: &'a CallRoom<'r>,
}

/// Reports each line as progress, but the last one, which is the result.
struct Lines {
    progress: ProgressSink,
    count: u32,
    /// Where the first line that was not reported begins.
    start: usize,
}

impl<'a, 'r> OutputReader<'a, 'r> {
    fn new(pipe: Receiver, progress: Option<ProgressSink>, room: &'a CallRoom<'r>) -> Self {
        let lines = progress.map(|progress| Lines { progress, count: 0, start: 0 });
        Self { pipe, bytes: Vec::new(), lines, room }
    }

    async fn read(&mut self) -> Result<(), Failure> {
        let bytes_max = self.room.bytes_max();
        loop {
            if self.bytes.len() == self.bytes.capacity() {
                let more = self.bytes.len().max(READ_BYTES).min(bytes_max + 1 - self.bytes.len());
                self.room.grow(self.bytes.len() + more).await;
                self.bytes.reserve_exact(more);
            }
            match self.pipe.read_buf(&mut self.bytes).await {
                Ok(0) => return Ok(()),
                Ok(_) if self.bytes.len() > bytes_max => {
                    return Err(Failure::failed(format_args!(
                        "wrote more than {bytes_max} bytes and was ended (limits.output_bytes)"
                    )));
                }
                Ok(_) => self.report_lines(),
                Err(error) => {
                    return Err(Failure::failed(format_args!("cannot be read: {error}")));
                }
            }
        }
    }

    fn report_lines(&mut self) {
        let Some(lines) = &mut self.lines else { return };
        while let Some(length) = memchr::memchr(b'\n', &self.bytes[lines.start..]) {
            let end = lines.start + length;
            lines.count = lines.count.saturating_add(1);
            let line = String::from_utf8_lossy(&self.bytes[lines.start..end]);
            (lines.progress)(lines.count, line.trim_end_matches('\r'));
            lines.start = end + 1;
        }
    }
}

/// Reads standard error and keeps its end.
struct ErrorReader {
    pipe: Receiver,
    bytes: Vec<u8>,
    /// Whether the beginning is dropped.
    is_cut: bool,
}

impl ErrorReader {
    async fn read(&mut self) {
        loop {
            self.bytes.reserve(READ_BYTES);
            match self.pipe.read_buf(&mut self.bytes).await {
                Ok(0) | Err(_) => return,
                Ok(_) if self.bytes.len() > 2 * STDERR_BYTES_MAX => {
                    self.bytes.drain(..self.bytes.len() - STDERR_BYTES_MAX);
                    self.is_cut = true;
                }
                Ok(_) => {}
            }
        }
    }

    /// What was kept, from the first whole line on if there is one: the rest of a line may be that
    /// of a secret.
    fn whole_lines(&self) -> &[u8] {
        let end = memchr::memchr(b'\n', &self.bytes).filter(|_| self.is_cut);
        let lines = &self.bytes[end.map_or(0, |end| end + 1)..];
        if lines.is_empty() { &self.bytes } else { lines }
    }
}

fn read_input(
    declared: Option<&InputDeclaration>,
    words: &Words,
    arguments: &Arguments,
) -> Result<Input, Problem> {
    Ok(match declared {
        Some(InputDeclaration::Json) => Input::Json,
        Some(InputDeclaration::Argument { argument }) => {
            if arguments.property(argument).is_none() {
                let message = format!("{argument} is not an argument of this tool");
                let hint = format!("declare it under [tool.arguments.{argument}]");
                return Err(Problem::new("input", message, hint));
            }
            Input::Argument(argument.clone())
        }
        None if words.names().next().is_none() && arguments.names().next().is_some() => Input::Json,
        Some(InputDeclaration::None) | None => Input::None,
    })
}

/// Finds the program by its path from `base`, or by its name in the `PATH` of the server.
fn find_program(word: Option<&WordDeclaration>, base: &Path) -> Result<(String, PathBuf), Problem> {
    let problem = |message: String, hint: &str| Problem::new("command", message, hint);
    let Some(WordDeclaration::Word(word)) = word else {
        return Err(problem("names no program".to_owned(), "write [\"program\", …]"));
    };
    if word.is_empty() || Template::parse("command", word)?.as_text().is_none() {
        let hint = "the program is fixed; placeholders stand behind it";
        return Err(problem(format!("{word:?} is not the name of a program"), hint));
    }
    let name = Path::new(word).file_name().unwrap_or_default().to_string_lossy().into_owned();
    if word.contains('/') {
        let path = base.join(word);
        let path = path.canonicalize().map_err(|error| {
            problem(format!("{}: {error}", path.display()), "name a program that exists")
        })?;
        if !is_program(&path) {
            let hint = "make it executable: chmod +x";
            return Err(problem(format!("{} is not executable", path.display()), hint));
        }
        return Ok((name, path));
    }
    let path = search_path();
    let found =
        std::env::split_paths(&path).map(|folder| folder.join(word)).find(|it| is_program(it));
    match found {
        Some(path) => Ok((name, path)),
        None => {
            Err(problem(format!("{word} is in no folder of PATH"), "install it, or name its path"))
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "programs are found as a shell finds them")]
fn search_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into())
}

fn is_program(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

fn find_user(name: &str) -> Result<User, Problem> {
    User::find(name)
        .map_err(|error| Problem::new("user", error.to_string(), "name a user of this machine"))
}
