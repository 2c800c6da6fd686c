//! `corelane stdio`: one peer over pipes, nothing but MCP on standard output.

use rustix::process::Signal;
use serde_json::json;

use crate::process::{Process, SMALL_RINGS};
use crate::session::Session;
use crate::{LEGACY, MODERN};

/// `corelane stdio` with small rings and further arguments.
fn start(arguments: &[&str]) -> Process {
    Process::start(&[&["stdio"], SMALL_RINGS.as_slice(), arguments].concat())
}

#[test]
fn every_revision_completes_a_session_over_pipes() {
    for revision in LEGACY.into_iter().chain([MODERN]) {
        complete_a_session(&[], revision);
    }
}

#[test]
fn every_ring_and_executor_serves_pipes() {
    complete_a_session(&["--ring", "poll"], MODERN);
    complete_a_session(&["--ring", "uring"], MODERN);
    if cfg!(feature = "glommio") {
        complete_a_session(&["--ring", "uring", "--executor", "glommio"], MODERN);
    }
}

fn complete_a_session(arguments: &[&str], revision: &'static str) {
    let mut process = start(arguments);
    let mut session = Session::of(process.pipes(), revision);
    session.try_everything();
    session.peer.finish();
    session.peer.hear_end();
    let ended = process.end();
    assert_eq!(ended.code, Some(0), "{arguments:?} {revision}: {}", ended.stderr);
}

#[test]
fn what_was_asked_before_the_end_of_input_is_answered() {
    let mut process = start(&[]);
    let mut session = Session::modern(process.pipes());
    let arguments = json!({"steps": 3, "step_ms": 10});
    let slow = session.ask("tools/call", json!({"name": "slow", "arguments": arguments}));
    session.peer.finish();
    session.answer(slow, "tools/call");
    session.peer.hear_end();
    assert_eq!(process.end().code, Some(0));
}

#[test]
fn tasks_that_still_run_at_the_end_of_input_are_let_go() {
    let mut process = start(&[]);
    let mut session = Session::legacy(process.pipes(), LEGACY[3]);
    let arguments = json!({"seconds": 600});
    let params = json!({"name": "slow_compute", "arguments": arguments, "task": {}});
    let begun = session.succeed("tools/call", params);
    assert_eq!(begun["task"]["status"], "working", "{begun}");
    session.peer.finish();
    session.peer.hear_end();
    assert_eq!(process.end().code, Some(0));
}

#[test]
fn sigterm_ends_it_while_input_is_open() {
    let mut process = start(&[]);
    let mut session = Session::modern(process.pipes());
    session.echo("it runs");
    process.signal(Signal::TERM);
    session.peer.hear_end();
    let ended = process.end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

#[test]
fn bad_input_is_answered_and_skipped() {
    let mut process = start(&[]);
    let mut session = Session::modern(process.pipes());
    session.peer.say_line(b"");
    session.peer.say_line(b"nonsense");
    assert_eq!(session.hear(None)["error"]["code"], -32700);
    // Bytes that are no UTF-8 are logged and skipped (seed 001, section 1).
    session.peer.say_line(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\xfe\"}");
    session.echo("still here");
    session.peer.finish();
    session.peer.hear_end();
    assert_eq!(process.end().code, Some(0));
}

#[test]
fn a_message_over_the_limit_is_refused_and_skipped() {
    let mut process = start(&["--message-bytes-max", "4096"]);
    let mut session = Session::modern(process.pipes());
    session.peer.say_line(&vec![b'7'; 100_000]);
    assert_eq!(session.hear(None)["error"]["code"], -32012);
    session.echo("still here");
}
