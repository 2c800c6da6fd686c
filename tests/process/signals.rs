//! How it ends, and what does not end it.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use rustix::process::Signal;

use crate::process::{Process, SMALL_RINGS, Server};
use crate::session::Session;

/// Sends `signal` while a call is in flight: the answer still arrives, then all ends in order.
fn drain(signal: Signal) {
    let server = Server::start(&[]);
    let mut idle = Session::modern(server.connect());
    idle.echo("before");
    let mut busy = Session::legacy(server.connect(), "2025-11-25");
    let (id, _) = busy.begin_slow(10, 20);
    let progress = busy.hear(None);
    assert_eq!(progress["method"], "notifications/progress");

    server.process.signal(signal);
    let answer = busy.answer(id, "tools/call");
    assert!(answer.get("result").is_some(), "{answer}");
    busy.peer.hear_end();
    idle.peer.hear_end();

    let address = server.address;
    let ended = server.process.end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(ended.stdout, "");
    assert!(TcpStream::connect(address).is_err(), "nobody listens any more");
}

#[test]
fn sigterm_lets_a_call_in_flight_finish() {
    drain(Signal::TERM);
}

#[test]
fn sigint_lets_a_call_in_flight_finish() {
    drain(Signal::INT);
}

#[test]
fn an_idle_server_ends_at_once() {
    let server = Server::start(&[]);
    server.process.signal(Signal::TERM);
    let ended = server.process.end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

#[test]
fn a_call_that_does_not_end_is_cut_at_the_deadline() {
    let server = Server::start(&["--drain-ms-max", "100"]);
    let mut busy = Session::modern(server.connect());
    busy.begin_slow(1_000, 60_000);
    busy.echo("the call before this one is in flight");
    server.process.signal(Signal::TERM);
    let ended = server.process.end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

#[test]
fn sighup_ends_neither_the_server_nor_a_session() {
    let server = Server::start(&[]);
    let mut session = Session::legacy(server.connect(), "2025-11-25");
    for _ in 0..3 {
        server.process.signal(Signal::HUP);
        session.echo("still here");
        Session::modern(server.connect()).echo("and for newcomers");
    }
    server.process.signal(Signal::TERM);
    assert_eq!(server.process.end().code, Some(0));
}

#[test]
fn sighup_takes_a_changed_limit_and_leaves_a_broken_file_alone() {
    let folder = tempfile::tempdir().expect("a folder for a moment");
    let file = folder.path().join("corelane.toml");
    let path = file.to_str().expect("the path is UTF-8");
    fs::write(&file, "message_bytes_max = 4096\n").expect("the folder is ours");
    let mut server = Server::start(&["--config", path]);
    let long = "7".repeat(10_000);
    let refused = |server: &Server| {
        let mut session = Session::modern(server.connect());
        session.peer.say_line(long.as_bytes());
        let code = session.hear(None)["error"]["code"].take();
        session.peer.hear_end();
        code
    };
    assert_eq!(refused(&server), -32012);

    fs::write(&file, "message_bytes_max = \"many\"\n").expect("the folder is ours");
    server.process.signal(Signal::HUP);
    server.process.wait_for(|line| line.contains("configuration not reloaded"));
    assert_eq!(refused(&server), -32012);

    fs::write(&file, "message_bytes_max = 65536\n").expect("the folder is ours");
    server.process.signal(Signal::HUP);
    server.process.wait_for(|line| line.contains("configuration reloaded"));
    Session::modern(server.connect()).echo(&long);
}

#[test]
fn sighup_takes_a_changed_limit_of_http_and_leaves_the_doors_as_they_are() {
    let folder = tempfile::tempdir().expect("a folder for a moment");
    let file = folder.path().join("corelane.toml");
    let path = file.to_str().expect("the path is UTF-8");
    let head_bytes_max = "tcp.address = \"off\"\nhttp.head_bytes_max = ";
    let door = "http.address = \"127.0.0.1:0\"";
    fs::write(&file, format!("{head_bytes_max}512\n{door}\n")).expect("the folder is ours");
    let mut process =
        Process::start(&[&["serve", "--config", path], SMALL_RINGS.as_slice()].concat());
    let line = process.wait_for(|line| line.starts_with("listening http "));
    let address = line.trim_start_matches("listening http ");
    let status = || {
        let mut stream = TcpStream::connect(address).expect("the server accepts");
        let padding = "7".repeat(1000);
        let request = format!(
            "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Padding: {padding}\r\n\
             Connection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).expect("the server listens");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("the answer is text");
        answer.split(' ').nth(1).expect("an answer has a status").to_owned()
    };
    assert_eq!(status(), "431");
    fs::write(&file, format!("{head_bytes_max}4096\nhttp.address = \"off\"\n"))
        .expect("the folder is ours");
    process.signal(Signal::HUP);
    process.wait_for(|line| line.contains("configuration reloaded"));
    assert_eq!(status(), "200");
}
