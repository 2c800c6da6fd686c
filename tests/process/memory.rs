//! Resident memory of the process.

use std::fs;

use corelane_test_support::messages::{call, echo, modern, result_text};
use corelane_test_support::{LineClient, ServeProcess};
use serde_json::json;

use crate::CORELANE;

/// Offers `slow_compute`.
const FIXTURE: [&str; 2] = ["--demo", "conformance"];
/// Clients whose calls are in flight at the same time.
const CLIENTS: i64 = 8;
/// Argument of a call, and its result.
const TEXT_BYTES: usize = 8 << 20;
/// Clients, the calls of each, and the arguments of a call that is smaller than a mapping.
const SMALL_CLIENTS: i64 = 40;
const SMALL_CALLS: i64 = 20;
const SMALL_BYTES: usize = 60 << 10;
/// Calls of the observer after which the memory must have been returned.
const WAITS_MAX: usize = 100;

/// Returns the resident memory of the server in KiB.
fn resident_kib(server: &ServeProcess) -> usize {
    status_kib(server, "VmRSS:")
}

/// Returns the highest resident memory of the server so far in KiB.
fn peak_kib(server: &ServeProcess) -> usize {
    status_kib(server, "VmHWM:")
}

fn status_kib(server: &ServeProcess, field: &str) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", server.process.id()));
    let status = status.expect("process is running");
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
    kib.unwrap_or_else(|| panic!("{status}"))
}

#[test]
fn memory_of_large_messages_is_returned() {
    let server = ServeProcess::tcp(CORELANE, &FIXTURE);
    let mut observer = server.connect();
    observer.exchange(modern(echo(1, "warm")));
    let before = resident_kib(&server);

    let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
    let label = "x".repeat(TEXT_BYTES);
    for client in &mut clients {
        client.send(modern(call(1, "slow_compute", json!({"seconds": 0.1, "label": label}))));
    }
    for client in &mut clients {
        assert!(result_text(&client.receive()).len() > TEXT_BYTES);
    }
    // The next large strings would be parts of a heap if the allocator had adapted to these.
    for client in &mut clients {
        assert!(result_text(&client.exchange(modern(echo(2, &label)))).len() == TEXT_BYTES);
    }
    drop(clients);

    assert_returned(&server, &mut observer, before);
}

#[test]
fn idle_server_returns_memory_of_small_messages() {
    let server = ServeProcess::tcp(CORELANE, &FIXTURE);
    let mut observer = server.connect();
    observer.exchange(modern(echo(1, "warm")));
    let before = resident_kib(&server);

    let mut clients: Vec<_> = (0..SMALL_CLIENTS).map(|_| server.connect()).collect();
    let label = "x".repeat(SMALL_BYTES);
    for client in &mut clients {
        for id in 0..SMALL_CALLS {
            client.send(modern(call(id, "slow_compute", json!({"seconds": 0.3, "label": label}))));
        }
    }
    for client in &mut clients {
        for _ in 0..SMALL_CALLS {
            assert!(result_text(&client.receive()).len() > SMALL_BYTES);
        }
    }
    assert!(peak_kib(&server) > 2 * before);
    assert_returned(&server, &mut observer, before);
}

/// Waits until `server`, idle but for calls of `observer` that wait, has returned its memory.
fn assert_returned(server: &ServeProcess, observer: &mut LineClient, before: usize) {
    let is_returned = (0..WAITS_MAX).any(|_| {
        observer.exchange(modern(call(3, "slow_compute", json!({"seconds": 0.2}))));
        resident_kib(server) < 2 * before
    });
    assert!(is_returned, "{} KiB, {before} KiB before", resident_kib(server));
}
