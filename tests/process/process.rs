//! A running `corelane`: started, listened to, signalled and waited for.
//!
//! It never outlives its test: what was not waited for is killed when it is dropped. No wait is
//! without end; the patience is long, because a loaded machine is no reason to fail.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::peer::Peer;

/// How long a test waits for anything.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// The program, running.
pub(crate) struct Process {
    child: Child,
    events: Receiver<String>,
    /// The lines of standard error so far.
    told: Vec<String>,
}

/// How it ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Process {
    /// Starts `corelane` with these arguments, in an empty environment.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_with(arguments, &[])
    }

    /// The same with these variables in the environment.
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
            .expect("the program starts");
        let stderr = BufReader::new(child.stderr.take().expect("standard error is a pipe"));
        let (sender, events) = channel();
        thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self { child, events, told: Vec::new() }
    }

    /// Waits for a line of standard error that satisfies `wanted`.
    pub(crate) fn wait_for(&mut self, wanted: impl Fn(&str) -> bool) -> String {
        loop {
            match self.events.recv_timeout(PATIENCE) {
                Ok(line) => {
                    self.told.push(line.clone());
                    if wanted(&line) {
                        return line;
                    }
                }
                Err(reason) => panic!("{reason} while waiting; it told:\n{}", self.told.join("\n")),
            }
        }
    }

    /// The lines of standard error that waiting has passed.
    pub(crate) fn told(&self) -> &[String] {
        &self.told
    }

    /// Its standard input and output as a peer.
    pub(crate) fn pipes(&mut self) -> Peer {
        let stdin = self.child.stdin.take().expect("standard input was not taken yet");
        let stdout = self.child.stdout.take().expect("standard output was not taken yet");
        Peer::new(stdin, stdout)
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let id = Pid::from_child(&self.child);
        kill_process(id, signal).expect("a process that was not waited for takes signals");
    }

    /// Waits until it has ended by itself.
    pub(crate) fn end(mut self) -> Ended {
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
        // Standard error ends when the process does: there is nobody else to hold it open.
        loop {
            match self.events.recv_timeout(PATIENCE) {
                Ok(line) => self.told.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    panic!("it does not end; it told:\n{}", self.told.join("\n"))
                }
            }
        }
        let status: ExitStatus = self.child.wait().expect("a child can be waited for");
        let stdout = stdout.map(|receiver| receiver.recv_timeout(PATIENCE));
        Ended {
            code: status.code(),
            stdout: stdout.transpose().expect("standard output ends").unwrap_or_default(),
            stderr: self.told.join("\n"),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only where it has ended already, which is what is wanted.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Rings that fit beside many others: the kernel counts the memory of all rings of a user against
/// one limit (`ulimit -l`, often 8 MiB), and tests run side by side.
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

/// `corelane serve` on a free port of the loopback.
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Starts it with small rings and further arguments, and waits until it listens.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let small = [SMALL_RINGS.as_slice(), arguments].concat();
        Self::start_as_configured(&small)
    }

    /// The same with rings of the size that the arguments or the defaults say.
    pub(crate) fn start_as_configured(arguments: &[&str]) -> Self {
        let fixed = ["serve", "--tcp", "127.0.0.1:0", "--http", "off"];
        let mut process = Process::start(&[&fixed, arguments].concat());
        let line = process.wait_for(|line| line.starts_with("listening tcp "));
        let address = line.trim_start_matches("listening tcp ").parse();
        Self { process, address: address.unwrap_or_else(|error| panic!("{error}: {line}")) }
    }

    /// A new connection to it.
    pub(crate) fn connect(&self) -> Peer {
        let stream = TcpStream::connect(self.address).expect("the server accepts");
        let reader = stream.try_clone().expect("a socket can be named twice");
        Peer::new(Speech(stream), reader)
    }
}

/// The writing half of a connection: dropping it tells the server that nothing more comes.
struct Speech(TcpStream);

impl Write for Speech {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Drop for Speech {
    fn drop(&mut self) {
        // It fails only where the connection is over already.
        drop(self.0.shutdown(Shutdown::Write));
    }
}
