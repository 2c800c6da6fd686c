//! A program as a process: standard error, pipes, signals and exit status.
//!
//! Tests pass the path of the program, `env!("CARGO_BIN_EXE_corelane")`. The process is killed when
//! its value is dropped. Its standard error is copied to that of the test, where the test harness
//! shows it for failed tests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;

pub use rustix::process::Signal;
use rustix::process::{Pid, kill_process};

use crate::TIMEOUT;
use crate::line_client::LineClient;

/// A running process.
pub struct Process {
    child: Child,
    events: Receiver<String>,
    /// Lines of standard error so far.
    stderr_lines: Vec<String>,
}

/// The result of a process that has exited.
#[derive(Debug)]
pub struct ExitResult {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

fn exit_code(status: ExitStatus) -> i32 {
    status.code().expect("no signal ended the process")
}

/// Runs a program to its end.
pub fn run_program<'a>(program: &str, arguments: impl IntoIterator<Item = &'a str>) -> ExitResult {
    Command::new(program).args(arguments).output().expect("process starts").into()
}

impl From<Output> for ExitResult {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
        let Output { status, stdout, stderr } = output;
        Self { status: exit_code(status), stdout: text(stdout), stderr: text(stderr) }
    }
}

impl Process {
    /// Starts a program with `arguments` and an empty environment.
    pub fn start(program: &str, arguments: &[&str]) -> Self {
        Self::spawn(Command::new(program).args(arguments).env_clear())
    }

    /// Starts a command whose standard streams are pipes.
    pub fn spawn(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("process starts");
        let stderr = BufReader::new(child.stderr.take().expect("standard error is a pipe"));
        let (sender, events) = channel();
        thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                eprintln!("{line}");
                // Read to the end, so that the process never blocks on a full pipe.
                sender.send(line).ok();
            }
        });
        Self { child, events, stderr_lines: Vec::new() }
    }

    /// Waits for a line of standard error that matches `wanted`, and returns it.
    pub fn wait_for(&mut self, wanted: impl Fn(&str) -> bool) -> String {
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
    pub fn stderr_lines(&self) -> &[String] {
        &self.stderr_lines
    }

    /// Takes standard input and output as a client; may be called once.
    pub fn take_pipes(&mut self) -> LineClient {
        let stdin = self.child.stdin.take().expect("standard input is not taken");
        let stdout = self.child.stdout.take().expect("standard output is not taken");
        LineClient::over_pipes(stdin, stdout)
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        let id = Pid::from_child(&self.child);
        kill_process(id, signal).expect("process is running");
    }

    /// Kills the process.
    pub fn kill(&mut self) {
        // Both fail only if the process has already exited.
        drop(self.child.kill());
        drop(self.child.wait());
    }

    /// Writes standard input to its end and waits until the process exits by itself.
    pub fn wait_with_input(mut self, input: &str) -> ExitResult {
        let mut stdin = self.child.stdin.take().expect("standard input is not taken");
        stdin.write_all(input.as_bytes()).expect("the process reads its input");
        drop(stdin);
        self.wait()
    }

    /// Closes standard input and waits until the process exits by itself.
    pub fn wait(mut self) -> ExitResult {
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
        let status = self.child.wait().expect("child is waited for");
        let stdout = stdout.map(|receiver| receiver.recv_timeout(TIMEOUT));
        ExitResult {
            status: exit_code(status),
            stdout: stdout.transpose().expect("standard output ends").unwrap_or_default(),
            stderr: self.stderr_lines.join("\n"),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Small rings: the kernel counts the locked memory of all rings of a user against one limit
/// (`ulimit -l`, often 8 MiB), and tests run in parallel.
pub const SMALL_RINGS: [&str; 8] = [
    "--ring-sockets-max",
    "256",
    "--ring-submissions-max",
    "256",
    "--ring-completions-max",
    "2048",
    "--ring-receive-buffers",
    "64",
];

/// A running `corelane serve` or `corelane gateway` on a free port of 127.0.0.1.
pub struct ServeProcess {
    pub process: Process,
    pub address: SocketAddr,
}

impl ServeProcess {
    /// Starts a server over TCP, or TLS, with small rings and `arguments`, and waits until it
    /// listens.
    pub fn tcp(program: &str, arguments: &[&str]) -> Self {
        Self::tcp_as_configured(program, &[SMALL_RINGS.as_slice(), arguments].concat())
    }

    /// Like [`Self::tcp`], with rings of the default or configured size.
    pub fn tcp_as_configured(program: &str, arguments: &[&str]) -> Self {
        let fixed = ["serve", "--tcp", "127.0.0.1:0", "--http", "off"];
        Self::start(program, &[&fixed, arguments].concat(), "listening t")
    }

    /// Like [`Self::tcp`], over HTTP and WebSocket.
    pub fn http(program: &str, arguments: &[&str]) -> Self {
        let fixed = ["serve", "--tcp", "off", "--http", "127.0.0.1:0"];
        let arguments = [&fixed, SMALL_RINGS.as_slice(), arguments].concat();
        Self::start(program, &arguments, "listening http")
    }

    /// Starts a gateway over HTTP and WebSocket, in front of the upstreams that `arguments` name,
    /// and waits until it listens.
    pub fn gateway(program: &str, arguments: &[&str]) -> Self {
        let fixed = ["gateway", "--tcp", "off", "--http", "127.0.0.1:0"];
        let arguments = [&fixed, SMALL_RINGS.as_slice(), arguments].concat();
        Self::start(program, &arguments, "listening http")
    }

    fn start(program: &str, arguments: &[&str], listening: &str) -> Self {
        let mut process = Process::start(program, arguments);
        let line = process.wait_for(|line| line.contains(listening));
        // With the log as JSON, the end of the line follows.
        let url = line.rsplit(' ').next().unwrap_or_default().trim_end_matches(['"', '}']);
        let address = url.split('/').next().unwrap_or_default().parse();
        Self { process, address: address.unwrap_or_else(|error| panic!("{error}: {line}")) }
    }

    /// Connects over TCP.
    pub fn connect(&self) -> LineClient {
        LineClient::connect(self.address)
    }

    /// Returns the URL of `path`; MCP is at `/mcp`.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}
