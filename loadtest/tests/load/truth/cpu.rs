//! CPU time is that of the measured window.

use corelane_load::result::RunResult;
use corelane_test_support::ExitResult;
use std::net::TcpListener;

use crate::{file_path, load};

/// A server on a single thread, which is busy for 10 ms for each line.
const BUSY_SERVER: &str = r#"
import json, selectors, socket, sys, time
listener = socket.create_server((sys.argv[1], int(sys.argv[2])), backlog=100)
ready = selectors.DefaultSelector()
ready.register(listener, selectors.EVENT_READ)
while True:
    for key, _ in ready.select():
        if key.fileobj is listener:
            ready.register(listener.accept()[0], selectors.EVENT_READ)
            continue
        data = key.fileobj.recv(65536)
        if not data:
            ready.unregister(key.fileobj)
            continue
        for line in data.splitlines():
            until = time.perf_counter() + 0.01
            while time.perf_counter() < until:
                pass
            answer = {"jsonrpc": "2.0", "id": json.loads(line)["id"], "result": {"content": []}}
            key.fileobj.sendall(json.dumps(answer).encode() + b"\n")
"#;

#[ignore = "needs Python 3: ./test.sh runs it"]
#[test]
fn cpu_of_drain_is_not_counted() {
    let script = file_path("busy-server.py");
    std::fs::write(&script, BUSY_SERVER).unwrap();
    // Another process may take the port in between; the run then fails with that error.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let command = format!("python3 {} {} {}", script.display(), address.ip(), address.port());
    let (target, json) = (format!("tcp://{address}"), file_path("busy-server.json"));
    let json = format!("--json={}", json.display());
    let flags = ["--connections=200", "--warm-up=0s", "--rate=300", "--duration=1s", "--quiet"];
    let call = ["--era=modern", "--tool=busy", "--arguments={}", "--server", &command, &json];
    let ExitResult { stdout, stderr, .. } =
        load(["run", &target].into_iter().chain(flags).chain(call));
    let text = std::fs::read_to_string(file_path("busy-server.json")).expect(&stderr);
    let result: RunResult = serde_json::from_str(&text).unwrap();
    let cores = result.server.unwrap().cores;
    assert!(cores > 0.0 && cores < 1.02, "{stdout}");
    let of_generator = result.generator.cores + result.generator.spin_cores;
    assert!(of_generator < 1.1, "{stdout}");
}
