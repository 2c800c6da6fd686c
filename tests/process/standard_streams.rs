//! `corelane stdio` between things that are no pipes of a patient client: files, closed
//! descriptors, readers that are gone.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::thread;

use serde_json::{Value, json};

use crate::MODERN;
use crate::process::{PATIENCE, SMALL_RINGS};

/// Both rings: each must end by itself whatever it is given.
const RINGS: [&str; 2] = ["uring", "poll"];

fn command(ring: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_corelane"));
    command.args(["stdio", "--ring", ring]).args(SMALL_RINGS).env_clear().stderr(Stdio::null());
    command
}

/// A modern `tools/call`, as a line.
fn echo(id: u32, message: &str) -> String {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    });
    let params = json!({"name": "echo", "arguments": {"message": message}, "_meta": meta});
    let request = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
    format!("{request}\n")
}

/// A file of no name with these bytes, at its beginning.
fn file_with(text: &str) -> File {
    let mut file = tempfile::tempfile().expect("the stage of a test stands");
    file.write_all(text.as_bytes()).expect("the stage of a test stands");
    file.rewind().expect("the stage of a test stands");
    file
}

/// Waits for the end of a process, which is killed where it does not come.
fn end(mut child: Child) -> ExitStatus {
    let id = rustix::process::Pid::from_child(&child);
    let (tell, told) = channel();
    let waiter = thread::spawn(move || {
        tell.send(child.wait().expect("the stage of a test stands"))
            .expect("the stage of a test stands");
    });
    let status = told.recv_timeout(PATIENCE);
    if status.is_err() {
        rustix::process::kill_process(id, rustix::process::Signal::KILL)
            .expect("the stage of a test stands");
    }
    waiter.join().expect("the stage of a test stands");
    status.expect("it ends by itself")
}

fn ids(answers: &str) -> Vec<u64> {
    let answers = answers
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("the stage of a test stands"));
    answers.map(|answer| answer["id"].as_u64().expect("the stage of a test stands")).collect()
}

#[test]
fn requests_in_a_file_are_answered_into_a_file() {
    for ring in RINGS {
        let requests: String = (0..500).map(|id| echo(id, &"x".repeat(500))).collect();
        // The last one without its end of line.
        let input = file_with(requests.trim_end());
        let mut output = tempfile::tempfile().unwrap();
        let child = command(ring).stdin(input).stdout(output.try_clone().unwrap()).spawn();
        assert!(end(child.unwrap()).success(), "{ring}");
        let mut answers = String::new();
        output.rewind().unwrap();
        output.read_to_string(&mut answers).unwrap();
        assert!(ids(&answers).into_iter().eq(0..500), "{ring}");
    }
}

#[test]
fn the_null_device_is_a_client_with_nothing_to_say() {
    for ring in RINGS {
        let output = command(ring).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success() && output.stdout.is_empty(), "{ring}");
    }
}

#[test]
fn answers_that_nobody_can_read_end_it() {
    for ring in RINGS {
        let mut child = command(ring).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut input = child.stdin.take().unwrap();
        input.write_all(echo(1, "anybody?").as_bytes()).unwrap();
        // The input stays open: it is the answer that finds nobody.
        assert!(end(child).success(), "{ring}");
        drop(input);
    }
}

#[test]
fn a_reader_that_leaves_in_the_middle_of_an_answer_ends_it() {
    for ring in RINGS {
        let mut child = command(ring).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        // More than a pipe holds, so that a write is under way while nobody reads.
        input.write_all(echo(1, &"x".repeat(400_000)).as_bytes()).unwrap();
        output.read_exact(&mut [0; 1_000]).unwrap();
        drop(output);
        assert!(end(child).success(), "{ring}");
        drop(input);
    }
}

#[test]
fn standard_streams_that_are_closed_are_no_reason_to_hang() {
    for ring in RINGS {
        for closed in ["<&-", ">&-", "<&- >&-", "<&- >&- 2>&-"] {
            let script = format!("exec \"$@\" {closed}");
            let program = command(ring);
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", &script, "sh"]).arg(program.get_program()).args(program.get_args());
            // Where only the output is closed there is input with an end.
            let input = file_with(&echo(1, "nobody hears this"));
            let child = shell.stdin(input).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
            assert!(end(child.unwrap()).code().is_some(), "{ring} {closed}");
        }
    }
}

#[test]
fn a_device_that_is_full_ends_it() {
    for ring in RINGS {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut child = command(ring).stdin(Stdio::piped()).stdout(full).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(echo(1, "no room").as_bytes()).unwrap();
        assert!(end(child).success(), "{ring}");
        drop(input);
    }
}
