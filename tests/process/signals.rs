//! SIGTERM and SIGINT, and SIGHUP without a configuration file.

use std::net::TcpStream;

use corelane_test_support::ServeProcess;
use corelane_test_support::process::Signal;

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
