//! The same sessions on every ring backend and executor.

use corelane_test_support::process::Signal;
use corelane_test_support::{Process, ServeProcess};

use crate::CORELANE;
use crate::mcp_client::McpClient;

/// Runs sessions of both eras and a drain on two shards with `ring` and `executor`.
fn check_backend(ring: &str, executor: &str) {
    let server =
        ServeProcess::tcp(CORELANE, &["--ring", ring, "--executor", executor, "--shards", "2"]);
    let engine_line =
        server.process.stderr_lines().iter().find(|line| line.contains("INFO corelane "));
    let engine_line = engine_line.expect("engine line is printed");
    assert!(engine_line.contains(ring) && engine_line.contains(executor), "{engine_line}");

    // More connections than shards, so that each shard carries some.
    let mut sessions: Vec<McpClient> =
        (0..8).map(|_| McpClient::modern(server.connect())).collect();
    for session in &mut sessions {
        session.use_all_tools();
    }
    let mut session = McpClient::legacy(server.connect(), "2025-11-25");
    session.use_all_tools();
    session.check_echo(&"large ☃ ".repeat(40_000));
    let (id, _) = session.start_slow(5, 10);
    session.receive(None);
    server.process.signal(Signal::TERM);
    session.receive_response(id, "tools/call");
    let ended = server.process.wait();
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    assert_eq!(ended.stdout, "");
}

#[test]
fn uring_on_native_executor_serves_sessions() {
    check_backend("uring", "native");
}

#[test]
fn poll_on_native_executor_serves_sessions() {
    check_backend("poll", "native");
}

#[cfg(feature = "glommio")]
#[test]
fn uring_on_glommio_executor_serves_sessions() {
    check_backend("uring", "glommio");
}

/// Glommio itself requires `io_uring`.
#[test]
fn poll_on_glommio_executor_is_rejected() {
    let process = Process::start(CORELANE, &["serve", "--ring", "poll", "--executor", "glommio"]);
    let ended = process.wait();
    assert_eq!(ended.status, 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("executor = native"), "{}", ended.stderr);
}
