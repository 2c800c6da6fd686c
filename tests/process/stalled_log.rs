//! Standard error as a pipe that is not read.

use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Write, pipe};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;

use corelane_test_support::messages::{LEGACY, echo, modern};
use corelane_test_support::process::Signal;
use corelane_test_support::{HttpClient, LineClient, Request, SMALL_RINGS, TIMEOUT};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, kill_process};
use tempfile::NamedTempFile;

use crate::CORELANE;

const RINGS: [&str; 2] = ["uring", "poll"];
const KEY: &str = "key-of-ada";
const KEY_LINE: &str = "ada:5532e44183f47ed1fc146851b96d585c24da5bd5fe31a885cebc357261ed8f7f\n";
/// Audited calls, each of which is a line.
const CALLS: u32 = 200;

/// Returns a file with the API key [`KEY`].
fn key_file() -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("temporary file");
    file.write_all(KEY_LINE.as_bytes()).expect("keys are written");
    file
}

/// A process whose standard error is a pipe. It is killed when this is dropped.
struct StalledProcess {
    child: Child,
    reader: BufReader<PipeReader>,
    writer: PipeWriter,
}

impl StalledProcess {
    /// Starts the program with all calls audited, and a queue of 4 KiB for the log.
    fn start(command: &str, ring: &str, arguments: &[&str]) -> Self {
        let (reader, writer) = pipe().expect("a pipe");
        let mut program = Command::new(CORELANE);
        program.args([command, "--ring", ring, "--auth-audit", "*", "--drain-timeout", "100"]);
        program.args(["--log-queue-bytes-max", "4096"]).args(SMALL_RINGS).args(arguments);
        program.env_clear().env("MCP_AUTH_TOKEN", KEY);
        program.stdin(Stdio::piped()).stdout(Stdio::piped());
        program.stderr(writer.try_clone().expect("a descriptor"));
        let child = program.spawn().expect("the process starts");
        Self { child, reader: BufReader::new(reader), writer }
    }

    /// Reads standard error up to a line that contains `wanted`.
    fn wait_for(&mut self, wanted: &str) -> String {
        loop {
            let mut line = String::new();
            self.reader.read_line(&mut line).expect("a line");
            assert!(!line.is_empty(), "the process has ended");
            if line.contains(wanted) {
                return line.trim_end().to_owned();
            }
        }
    }

    /// Fills the pipe, with lines.
    fn stall(&mut self) {
        let line = [&[b'x'; 4_095][..], b"\n"].concat();
        loop {
            let mut descriptors = [PollFd::new(&self.writer, PollFlags::OUT)];
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            if poll(&mut descriptors, Some(&now)).expect("the pipe is polled") == 0 {
                return;
            }
            self.writer.write_all(&line).expect("the pipe is written");
        }
    }

    /// Sends SIGTERM and waits until the process ends by itself.
    fn terminate(mut self) -> i32 {
        let id = Pid::from_child(&self.child);
        kill_process(id, Signal::TERM).expect("the process runs");
        let (sender, receiver) = channel();
        let waiter = thread::spawn(move || {
            sender.send(self.child.wait().expect("a child")).expect("the test waits");
            // Not read before the process has ended.
            drop(self);
        });
        let status = receiver.recv_timeout(TIMEOUT);
        if status.is_err() {
            kill_process(id, Signal::KILL).expect("the process runs");
        }
        waiter.join().expect("the waiter does not panic");
        status.expect("the process ends by itself").code().expect("no signal has ended it")
    }
}

impl Drop for StalledProcess {
    fn drop(&mut self) {
        // Both fail only if the process has already ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Returns a call by the owner of [`KEY`].
fn audited_call(id: u32) -> Request {
    let call = modern(echo(id, "served"));
    Request::modern(&call).field("Authorization", format!("Bearer {KEY}"))
}

/// Starts a server over HTTP, and returns it with a client.
fn start_http(ring: &str, keys: &str) -> (StalledProcess, HttpClient) {
    let arguments = ["--tcp", "off", "--http", "127.0.0.1:0", "--auth-api-keys", keys];
    let mut server = StalledProcess::start("serve", ring, &arguments);
    let line = server.wait_for("listening http ");
    let address = line.rsplit(' ').next().and_then(|url| url.split('/').next());
    let address = address.expect("an address").parse().expect("an address");
    (server, HttpClient::connect(address))
}

fn lost_lines(client: &mut HttpClient) -> usize {
    let response = client.exchange(&Request::new("GET", "/metrics"));
    let text = String::from_utf8(response.body).expect("UTF-8");
    let name = "corelane_log_lines_lost_total{log=\"stderr\"} ";
    let sample = text.lines().find_map(|line| line.strip_prefix(name)).expect(name);
    sample.parse().expect("a number")
}

#[test]
fn stalled_stderr_delays_neither_calls_nor_sigterm() {
    for ring in RINGS {
        let keys = key_file();
        let (mut server, mut client) = start_http(ring, keys.path().to_str().unwrap());
        server.stall();
        for id in 0..CALLS {
            client.exchange(&audited_call(id)).message();
        }
        assert!(lost_lines(&mut client) > 0, "{ring}");
        drop(client);
        assert_eq!(server.terminate(), 0, "{ring}");
    }
}

#[test]
fn stalled_stderr_does_not_hang_stdio() {
    for ring in RINGS {
        let keys = key_file();
        let keys = keys.path().to_str().unwrap();
        let mut server = StalledProcess::start("stdio", ring, &["--auth-api-keys", keys]);
        let pipes = (server.child.stdin.take().unwrap(), server.child.stdout.take().unwrap());
        server.wait_for("shard started");
        server.stall();
        let mut client = LineClient::over_pipes(pipes.0, pipes.1);
        client.handshake(LEGACY);
        for id in 0..CALLS {
            assert_eq!(client.exchange(echo(id, "served"))["id"], id, "{ring}");
        }
        assert_eq!(server.terminate(), 0, "{ring}");
        drop(client);
    }
}

#[test]
fn lost_lines_are_reported_in_their_place() {
    let keys = key_file();
    let (mut server, mut client) = start_http("uring", keys.path().to_str().unwrap());
    server.stall();
    for id in 0..CALLS {
        client.exchange(&audited_call(id)).message();
    }
    let lost = lost_lines(&mut client);
    let kept = CALLS as usize - lost;
    for _ in 0..kept {
        server.wait_for("tool called");
    }
    let line = server.wait_for("");
    assert!(line.ends_with(&format!("WARN log lines lost lines={lost}")), "{line}");
    client.exchange(&audited_call(CALLS)).message();
    server.wait_for("tool called");
    drop(client);
    assert_eq!(server.terminate(), 0);
}
