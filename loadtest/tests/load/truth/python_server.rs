//! A server in Python, which is a process of its own: its CPU time and memory are known.

use std::net::TcpListener;
use std::sync::atomic::Ordering;

use corelane_load::result::RunResult;
use corelane_test_support::ExitResult;

use super::NEXT_FILE;
use crate::{file_path, load};

/// A server on a single thread, which is busy for some time for each line, and allocates so many
/// bytes a second, which it keeps.
const SCRIPT: &str = r#"
import json, selectors, socket, sys, time
host, port, busy, leaked = sys.argv[1], *map(float, sys.argv[2:])
listener = socket.create_server((host, int(port)), backlog=100)
ready = selectors.DefaultSelector()
ready.register(listener, selectors.EVENT_READ)
start, kept, kept_bytes = time.monotonic(), [], 0
while True:
    for key, _ in ready.select(0.02 if leaked else None):
        if key.fileobj is listener:
            ready.register(listener.accept()[0], selectors.EVENT_READ)
            continue
        data = key.fileobj.recv(65536)
        if not data:
            ready.unregister(key.fileobj)
            continue
        for line in data.splitlines():
            until = time.perf_counter() + busy
            while time.perf_counter() < until:
                pass
            answer = {"jsonrpc": "2.0", "id": json.loads(line)["id"], "result": {"content": []}}
            key.fileobj.sendall(json.dumps(answer).encode() + b"\n")
    due = int((time.monotonic() - start) * leaked) - kept_bytes
    if due > 65536:
        kept.append(b"x" * due)
        kept_bytes += due
"#;

/// What the server does besides answering.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PythonServer {
    /// Time for which a line keeps its thread busy, in seconds.
    pub(super) busy_seconds: f64,
    /// Bytes that it allocates a second, and keeps.
    pub(super) leaked_bytes: u32,
}

impl PythonServer {
    /// Runs `corelane-load run` with these flags against the server, which the command starts.
    pub(super) fn run(self, flags: &[&str]) -> (RunResult, ExitResult) {
        let Self { busy_seconds, leaked_bytes } = self;
        let number = NEXT_FILE.fetch_add(1, Ordering::Relaxed);
        let script = file_path(&format!("server-{number}.py"));
        std::fs::write(&script, SCRIPT).unwrap();
        // Another process may take the port in between; the run then fails with that error.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let (script, host, port) = (script.display(), address.ip(), address.port());
        let command = format!("python3 {script} {host} {port} {busy_seconds} {leaked_bytes}");
        let file = file_path(&format!("python-{number}.json"));
        let (target, json) = (format!("tcp://{address}"), format!("--json={}", file.display()));
        let call = ["--era=modern", "--tool=any", "--arguments={}", "--server", &command, &json];
        let all = ["run", &target, "--quiet"].into_iter().chain(call);
        let ended = load(all.chain(flags.iter().copied()));
        let text = std::fs::read_to_string(file).expect(&ended.stderr);
        (serde_json::from_str(&text).unwrap(), ended)
    }
}
