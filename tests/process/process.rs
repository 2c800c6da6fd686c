//! A running `corelane` process: standard error, pipes, signals and exit status.
//!
//! The process is killed when the value is dropped. Every wait has a timeout, long enough for a
//! loaded machine.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::peer::Peer;

/// Timeout of every wait.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);

/// A running `corelane` process.
pub(crate) struct Process {
    child: Child,
    events: Receiver<String>,
    /// Lines of standard error so far.
    stderr_lines: Vec<String>,
}

/// The result of a process that has exited.
#[derive(Debug)]
pub(crate) struct ExitResult {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Process {
    /// Starts `corelane` with `arguments` and an empty environment.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_with(arguments, &[])
    }

    /// Like [`Self::start`], with environment variables.
    pub(crate) fn start_with(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_corelane"));
        let mut child = command
            .args(arguments)
            .env_clear()
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("process starts");
        let stderr = BufReader::new(child.stderr.take().expect("standard error is a pipe"));
        let (sender, events) = channel();
        thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self { child, events, stderr_lines: Vec::new() }
    }

    /// Waits for a line of standard error that matches `wanted`, and returns it.
    pub(crate) fn wait_for(&mut self, wanted: impl Fn(&str) -> bool) -> String {
        loop {
            match self.events.recv_timeout(TIMEOUT) {
                Ok(line) => {
                    self.stderr_lines.push(line.clone());
                    if wanted(&line) {
                        return line;
                    }
                }
                Err(reason) => {
                    panic!("{reason} while waiting; stderr:\n{}", self.stderr_lines.join("\n"))
                }
            }
        }
    }

    /// The lines of standard error that were received while waiting.
    pub(crate) fn stderr_lines(&self) -> &[String] {
        &self.stderr_lines
    }

    /// Takes standard input and output as a peer; may be called once.
    pub(crate) fn take_pipes(&mut self) -> Peer {
        let stdin = self.child.stdin.take().expect("standard input is not taken");
        let stdout = self.child.stdout.take().expect("standard output is not taken");
        Peer::new(stdin, stdout)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let id = Pid::from_child(&self.child);
        kill_process(id, signal).expect("process is running");
    }

    /// Closes standard input and waits until the process exits by itself.
    pub(crate) fn wait(mut self) -> ExitResult {
        drop(self.child.stdin.take());
        let stdout = self.child.stdout.take().map(|mut stdout| {
            let (sender, receiver) = channel();
            thread::spawn(move || {
                let mut text = String::new();
                let result = stdout.read_to_string(&mut text).map(|_| text);
                drop(sender.send(result.expect("standard output is UTF-8")));
            });
            receiver
        });
        // Standard error is closed when the process exits.
        loop {
            match self.events.recv_timeout(TIMEOUT) {
                Ok(line) => self.stderr_lines.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    panic!("process does not exit; stderr:\n{}", self.stderr_lines.join("\n"))
                }
            }
        }
        let status: ExitStatus = self.child.wait().expect("child is waited for");
        let stdout = stdout.map(|receiver| receiver.recv_timeout(TIMEOUT));
        ExitResult {
            code: status.code(),
            stdout: stdout.transpose().expect("standard output ends").unwrap_or_default(),
            stderr: self.stderr_lines.join("\n"),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only if the process has already exited.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Small rings: the kernel counts the locked memory of all rings of a user against one limit
/// (`ulimit -l`, often 8 MiB), and tests run in parallel.
pub(crate) const SMALL_RINGS: [&str; 8] = [
    "--ring-sockets-max",
    "256",
    "--ring-submissions-max",
    "256",
    "--ring-completions-max",
    "2048",
    "--ring-receive-buffers",
    "64",
];

/// A running `corelane serve` on a free port of 127.0.0.1.
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Starts the server with small rings and `arguments`, and waits until it listens.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let small = [SMALL_RINGS.as_slice(), arguments].concat();
        Self::start_as_configured(&small)
    }

    /// Like [`Self::start`], with rings of the default or configured size.
    pub(crate) fn start_as_configured(arguments: &[&str]) -> Self {
        let fixed = ["serve", "--tcp", "127.0.0.1:0", "--http", "off"];
        let mut process = Process::start(&[&fixed, arguments].concat());
        let line = process.wait_for(|line| line.starts_with("listening tcp "));
        let address = line.trim_start_matches("listening tcp ").parse();
        Self { process, address: address.unwrap_or_else(|error| panic!("{error}: {line}")) }
    }

    /// Opens a connection.
    pub(crate) fn connect(&self) -> Peer {
        let stream = TcpStream::connect(self.address).expect("server accepts");
        let reader = stream.try_clone().expect("socket is cloned");
        Peer::new(WriteHalf(stream), reader)
    }
}

/// The sending half of a connection, shut down when it is dropped.
struct WriteHalf(TcpStream);

impl Write for WriteHalf {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Drop for WriteHalf {
    fn drop(&mut self) {
        // Fails only if the connection is already closed.
        drop(self.0.shutdown(Shutdown::Write));
    }
}
