//! `corelane stdio` with files, devices, closed descriptors and closed readers instead of pipes.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::thread;

use corelane_test_support::messages::{echo, modern};
use corelane_test_support::{SMALL_RINGS, TIMEOUT};
use serde_json::Value;

use crate::CORELANE;

/// Both rings: the process must exit by itself on each.
const RINGS: [&str; 2] = ["uring", "poll"];

fn command(ring: &str) -> Command {
    let mut command = Command::new(CORELANE);
    command.args(["stdio", "--ring", ring]).args(SMALL_RINGS).env_clear().stderr(Stdio::null());
    command
}

/// A modern call of `echo` as a line.
fn echo_line(id: u32, message: &str) -> String {
    format!("{}\n", modern(echo(id, message)))
}

/// Creates a temporary file with `text`, positioned at its start.
fn file_with(text: &str) -> File {
    let mut file = tempfile::tempfile().expect("temporary file");
    file.write_all(text.as_bytes()).expect("temporary file is written");
    file.rewind().expect("temporary file is rewound");
    file
}

/// Waits for a process to exit; kills it after the timeout.
fn wait_for_exit(mut child: Child) -> ExitStatus {
    let id = rustix::process::Pid::from_child(&child);
    let (tx, rx) = channel();
    let waiter = thread::spawn(move || {
        tx.send(child.wait().expect("child is waited for")).expect("receiver waits");
    });
    let status = rx.recv_timeout(TIMEOUT);
    if status.is_err() {
        rustix::process::kill_process(id, rustix::process::Signal::KILL)
            .expect("process is running");
    }
    waiter.join().expect("waiter does not panic");
    status.expect("process exits by itself")
}

fn response_ids(responses: &str) -> Vec<u64> {
    let responses =
        responses.lines().map(|line| serde_json::from_str::<Value>(line).expect("line is JSON"));
    responses.map(|response| response["id"].as_u64().expect("id is a number")).collect()
}

#[test]
fn stdio_serves_requests_from_file_into_file() {
    for ring in RINGS {
        let requests: String = (0..500).map(|id| echo_line(id, &"x".repeat(500))).collect();
        // The last line has no newline.
        let input = file_with(requests.trim_end());
        let mut output = tempfile::tempfile().unwrap();
        let child = command(ring).stdin(input).stdout(output.try_clone().unwrap()).spawn();
        assert!(wait_for_exit(child.unwrap()).success(), "{ring}");
        let mut responses = String::new();
        output.rewind().unwrap();
        output.read_to_string(&mut responses).unwrap();
        assert!(response_ids(&responses).into_iter().eq(0..500), "{ring}");
    }
}

#[test]
fn stdio_with_null_input_exits_successfully() {
    for ring in RINGS {
        let output = command(ring).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success() && output.stdout.is_empty(), "{ring}");
    }
}

#[test]
fn closed_output_ends_stdio() {
    for ring in RINGS {
        let mut child = command(ring).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut input = child.stdin.take().unwrap();
        input.write_all(echo_line(1, "unread").as_bytes()).unwrap();
        // The input stays open: the failed write ends the process.
        assert!(wait_for_exit(child).success(), "{ring}");
        drop(input);
    }
}

#[test]
fn output_closed_inside_response_ends_stdio() {
    for ring in RINGS {
        let mut child = command(ring).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        // Larger than a pipe, so that the write is incomplete when the reader closes.
        input.write_all(echo_line(1, &"x".repeat(400_000)).as_bytes()).unwrap();
        output.read_exact(&mut [0; 1_000]).unwrap();
        drop(output);
        assert!(wait_for_exit(child).success(), "{ring}");
        drop(input);
    }
}

#[test]
fn closed_standard_streams_do_not_hang_stdio() {
    for ring in RINGS {
        for closed in ["<&-", ">&-", "<&- >&-", "<&- >&- 2>&-"] {
            let script = format!("exec \"$@\" {closed}");
            let program = command(ring);
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", &script, "sh"]).arg(program.get_program()).args(program.get_args());
            // Where only the output is closed, the input ends after one request.
            let input = file_with(&echo_line(1, "unread"));
            let child = shell.stdin(input).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
            assert!(wait_for_exit(child.unwrap()).code().is_some(), "{ring} {closed}");
        }
    }
}

#[test]
fn full_output_device_ends_stdio() {
    for ring in RINGS {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut child = command(ring).stdin(Stdio::piped()).stdout(full).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(echo_line(1, "unwritten").as_bytes()).unwrap();
        assert!(wait_for_exit(child).success(), "{ring}");
        drop(input);
    }
}
