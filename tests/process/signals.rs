//! SIGTERM, SIGINT and SIGHUP.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use corelane_test_support::process::Signal;
use corelane_test_support::{Process, SMALL_RINGS, ServeProcess};

use crate::CORELANE;
use crate::mcp_client::McpClient;

/// Sends `signal` while a call is in flight: its response arrives, then the process exits with 0.
fn check_drain(signal: Signal) {
    let server = ServeProcess::tcp(CORELANE, &[]);
    let mut idle = McpClient::modern(server.connect());
    idle.check_echo("before");
    let mut busy = McpClient::legacy(server.connect(), "2025-11-25");
    let (id, _) = busy.start_slow(10, 20);
    let progress = busy.receive(None);
    assert_eq!(progress["method"], "notifications/progress");

    server.process.signal(signal);
    let response = busy.receive_response(id, "tools/call");
    assert!(response.get("result").is_some(), "{response}");
    busy.peer.expect_end_or_reset();
    idle.peer.expect_end_or_reset();

    let address = server.address;
    let ended = server.process.wait();
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    assert_eq!(ended.stdout, "");
    assert!(TcpStream::connect(address).is_err(), "the listener is still open");
}

#[test]
fn sigterm_drains_call_in_flight() {
    check_drain(Signal::TERM);
}

#[test]
fn sigint_drains_call_in_flight() {
    check_drain(Signal::INT);
}

#[test]
fn sigterm_ends_idle_server() {
    let server = ServeProcess::tcp(CORELANE, &[]);
    server.process.signal(Signal::TERM);
    let ended = server.process.wait();
    assert_eq!(ended.status, 0, "{}", ended.stderr);
}

#[test]
fn sighup_keeps_server_and_sessions() {
    let server = ServeProcess::tcp(CORELANE, &[]);
    let mut session = McpClient::legacy(server.connect(), "2025-11-25");
    for _ in 0..3 {
        server.process.signal(Signal::HUP);
        session.check_echo("alive");
        McpClient::modern(server.connect()).check_echo("new connection");
    }
    server.process.signal(Signal::TERM);
    assert_eq!(server.process.wait().status, 0);
}

#[test]
fn sighup_reloads_limits_and_ignores_broken_file() {
    let folder = tempfile::tempdir().expect("temporary directory");
    let file = folder.path().join("corelane.toml");
    let path = file.to_str().expect("path is UTF-8");
    fs::write(&file, "message_bytes_max = 4096\n").expect("configuration is written");
    let mut server = ServeProcess::tcp(CORELANE, &["--config", path]);
    let long = "7".repeat(10_000);
    let refused = |server: &ServeProcess| {
        let mut session = McpClient::modern(server.connect());
        session.peer.send_line(long.as_bytes());
        let code = session.receive(None)["error"]["code"].take();
        session.peer.expect_end_or_reset();
        code
    };
    assert_eq!(refused(&server), -32012);

    fs::write(&file, "message_bytes_max = \"many\"\n").expect("configuration is written");
    server.process.signal(Signal::HUP);
    server.process.wait_for(|line| line.contains("configuration not reloaded"));
    assert_eq!(refused(&server), -32012);

    fs::write(&file, "message_bytes_max = 65536\n").expect("configuration is written");
    server.process.signal(Signal::HUP);
    server.process.wait_for(|line| line.contains("configuration reloaded"));
    McpClient::modern(server.connect()).check_echo(&long);
}

#[test]
fn sighup_reloads_http_limits_and_keeps_listeners() {
    let folder = tempfile::tempdir().expect("temporary directory");
    let file = folder.path().join("corelane.toml");
    let path = file.to_str().expect("path is UTF-8");
    let head_bytes_max = "tcp.address = \"off\"\nhttp.head_bytes_max = ";
    let listener = "http.address = \"127.0.0.1:0\"";
    fs::write(&file, format!("{head_bytes_max}512\n{listener}\n"))
        .expect("configuration is written");
    let mut process =
        Process::start(CORELANE, &[&["serve", "--config", path], SMALL_RINGS.as_slice()].concat());
    let line = process.wait_for(|line| line.starts_with("listening http "));
    let address = line.trim_start_matches("listening http ");
    let status = || {
        let mut stream = TcpStream::connect(address).expect("server accepts");
        let padding = "7".repeat(1000);
        let request = format!(
            "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Padding: {padding}\r\n\
             Connection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).expect("server reads");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("response is text");
        response.split(' ').nth(1).expect("status line has a status").to_owned()
    };
    assert_eq!(status(), "431");
    fs::write(&file, format!("{head_bytes_max}4096\nhttp.address = \"off\"\n"))
        .expect("configuration is written");
    process.signal(Signal::HUP);
    process.wait_for(|line| line.contains("configuration reloaded"));
    assert_eq!(status(), "200");
}
