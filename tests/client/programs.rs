//! Servers that the client starts as programs.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use corelane::Client;
use corelane::client::{
    ClientError, ClientErrorKind, EraPreference, Program, ProgramEvent, ProgramStderr,
};
use corelane::testing::block_on;
use corelane_test_support::TIMEOUT;
use serde_json::json;

use crate::CORELANE;

#[test]
fn program_serves_calls_over_its_standard_streams() {
    let program = Program::new(CORELANE).arg("stdio").arg("--log").arg("off");
    let client = Client::builder(program).connect_blocking().unwrap();
    let result = client.call_tool("echo", &json!({ "message": "hi" })).wait().unwrap();
    assert_eq!(result.text(), "hi");
    block_on(client.close());
}

#[test]
fn program_that_cannot_start_fails_connect() {
    let error = Client::builder(Program::new("/no/such/program")).connect_blocking().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Connect);
    assert!(error.to_string().contains("/no/such/program"), "{error}");
}

#[test]
fn program_that_ends_fails_the_handshake() {
    let error = Client::builder("stdio:false").connect_blocking().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Closed, "{error}");
}

/// Runs `script` in a shell as a server, and returns how often it was started and why the handshake
/// failed.
fn failed_start(script: &str) -> (usize, ClientError) {
    let starts = tempfile::NamedTempFile::new().expect("a file");
    let script = format!("echo started >> {}; {script}", starts.path().display());
    let program = Program::new("sh").arg("-c").arg(script);
    let error = Client::builder(program).connect_blocking().expect_err("the program ends");
    (fs::read_to_string(starts.path()).expect("the starts").lines().count(), error)
}

#[test]
fn program_that_dies_at_start_runs_once() {
    for (script, expected) in [
        ("exit 3", "the server exited with status 3"),
        ("exit 0", "the server exited with status 0"),
        ("exec 0<&-; exit 7", "the server exited with status 7"),
        ("exec 1>&-; sleep 0.1; exit 5", "the server exited with status 5"),
        ("kill -KILL $$", "the server was killed by signal 9 (SIGKILL)"),
        ("read -r request; kill -SEGV $$", "the server was killed by signal 11 (SIGSEGV)"),
    ] {
        let (starts, error) = failed_start(script);
        assert_eq!(starts, 1, "{script}: {error}");
        assert_eq!(error.kind(), ClientErrorKind::Closed, "{script}: {error}");
        assert!(error.to_string().contains(expected), "{script}: {error}");
    }
}

#[test]
fn program_that_refuses_discover_gets_initialize() {
    // Servers of earlier revisions exit if the first request is not `initialize`.
    let script = r"read -r request; case $request in *initialize*) exit 8;; *) exit 9;; esac";
    let (starts, error) = failed_start(script);
    assert_eq!(starts, 2, "{error}");
    let text = error.to_string();
    assert!(text.contains("the server exited with status 8"), "{error}");
    assert!(text.contains("server/discover: ") && text.contains("with status 9"), "{error}");
}

#[test]
fn call_error_names_end_of_program() {
    let program = shell_server("read -r request; kill -ABRT $$");
    let client = Client::builder(program).connect_blocking().unwrap();
    let error = client.call_tool("a", &json!({})).wait().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Closed, "{error}");
    assert!(error.to_string().contains("was killed by signal 6 (SIGABRT)"), "{error}");
    block_on(client.close());
}

/// A shell that answers `server/discover` and then runs `script`, in which `answer` reads a request
/// and answers it with a result.
fn shell_server(script: &str) -> Program {
    let functions = r#"
        answer() {
            read -r request || exit
            id=${request#*\"id\":}
            printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "${id%%,*}" "$1"
        }
        answer '{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}'
    "#;
    Program::new("sh").arg("-c").arg(format!("{functions}\n{script}"))
}

const HELLO: &str = r#"answer '{"content":[{"type":"text","text":"hello"}]}'"#;

#[test]
fn ended_program_is_started_again() {
    let client = Client::builder(shell_server(HELLO)).connect_blocking().unwrap();
    let call = || client.call_tool("a", &json!({})).wait();
    assert_eq!(call().unwrap().text(), "hello");
    // The program has ended, or ends: a call that it does not read may have run.
    let mut texts = (0..3).map(|_| call()).filter_map(Result::ok);
    assert_eq!(texts.next().expect("a result").text(), "hello");
    block_on(client.close());
}

/// Passes on a line of standard error.
fn send_line(line_tx: &mpsc::Sender<String>, event: ProgramEvent<'_>) {
    if let ProgramEvent::Stderr(line) = event {
        line_tx.send(line.to_owned()).expect("the test receives");
    }
}

#[test]
fn exit_status_follows_last_line() {
    let (event_tx, event_rx) = mpsc::channel();
    let program = Program::new("sh").arg("-c").arg("echo no licence >&2; exit 4");
    let client = Client::builder(program)
        .era(EraPreference::Modern)
        .on_program_event(move |event| event_tx.send(format!("{event:?}")).unwrap())
        .connect_lazy()
        .unwrap();
    block_on(client.server()).unwrap_err();
    block_on(client.close());
    let events: Vec<String> = event_rx.into_iter().collect();
    assert_eq!(events.len(), 2, "{events:?}");
    assert_eq!(events[0], r#"Stderr("no licence")"#);
    assert!(events[1].starts_with("Exited(") && events[1].contains('4'), "{events:?}");
}

#[test]
fn program_inherits_all_variables_on_request() {
    // Of the variables of cargo, which are not inherited by default.
    for (inherits, expected) in [(false, ""), (true, env!("CARGO_PKG_NAME"))] {
        let script = r#"answer "{\"content\":[{\"type\":\"text\",\"text\":\"$CARGO_PKG_NAME\"}]}""#;
        let program = shell_server(script);
        let program = if inherits { program.inherit_env() } else { program };
        let client = Client::builder(program).connect_blocking().unwrap();
        assert_eq!(client.call_tool("a", &json!({})).wait().unwrap().text(), expected);
        block_on(client.close());
    }
}

#[test]
fn lines_of_standard_error_are_passed_on() {
    let (line_tx, line_rx) = mpsc::channel();
    let program = shell_server("echo one >&2; echo two >&2; cat");
    let client = Client::builder(program)
        .on_program_event(move |event| send_line(&line_tx, event))
        .connect_blocking()
        .unwrap();
    for expected in ["one", "two"] {
        assert_eq!(line_rx.recv_timeout(TIMEOUT).unwrap(), expected);
    }
    block_on(client.close());
    assert!(line_rx.recv_timeout(TIMEOUT).is_err());
}

#[test]
fn discarded_or_logged_stderr_disturbs_no_call() {
    for stderr in [ProgramStderr::Discard, ProgramStderr::Log] {
        let program = shell_server(&format!("echo lost >&2; {HELLO}")).stderr(stderr);
        let client = Client::builder(program).connect_blocking().unwrap();
        let result = client.call_tool("a", &json!({})).wait().unwrap();
        assert_eq!(result.text(), "hello", "{stderr:?}");
        block_on(client.close());
    }
}

#[test]
fn output_that_is_no_message_fails_the_handshake() {
    let error = Client::builder("stdio:echo Listening on port 80").connect_blocking().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Protocol, "{error}");
    assert!(error.to_string().contains("not a JSON-RPC message: Listening on port 80"), "{error}");
}

#[test]
fn output_between_messages_is_ignored() {
    let program = shell_server(&format!("echo 'a banner'; {HELLO}; cat"));
    let client = Client::builder(program).connect_blocking().unwrap();
    assert_eq!(client.call_tool("a", &json!({})).wait().unwrap().text(), "hello");
    block_on(client.close());
}

#[test]
fn program_that_stays_is_terminated() {
    for (trap, is_trapped) in [("trap 'echo TERM >&2; exit' TERM", true), ("trap '' TERM", false)] {
        let (line_tx, line_rx) = mpsc::channel();
        // The shell runs its trap between commands.
        let script = format!("{trap}; while :; do sleep 0.01; done");
        let program = shell_server(&script).exit_timeout(Duration::from_millis(50));
        let client = Client::builder(program)
            .on_program_event(move |event| send_line(&line_tx, event))
            .connect_blocking()
            .unwrap();
        // Ends once the program has.
        block_on(client.close());
        // The shell may also report the end of its last command.
        let mut lines = std::iter::from_fn(|| line_rx.recv_timeout(TIMEOUT).ok());
        assert_eq!(lines.any(|line| line == "TERM"), is_trapped, "{trap}");
    }
}

#[test]
fn program_ends_with_a_client_that_is_killed() {
    // The program inherits the standard error of the client, which ends with both.
    let target = "stdio:sh -c 'echo started >&2; exec sleep 600'";
    let mut client = Command::new(CORELANE)
        .args(["tools", target])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = BufReader::new(client.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    assert_eq!(line, "started\n");
    client.kill().unwrap();
    client.wait().unwrap();
    let (end_tx, end_rx) = mpsc::channel();
    thread::spawn(move || end_tx.send(stderr.read_to_end(&mut Vec::new()).unwrap()));
    end_rx.recv_timeout(TIMEOUT).expect("the program ends");
}
