//! The growth of the memory of a server that leaks at a known rate.

use std::net::TcpListener;

use corelane_load::result::{MemoryGrowth, RunResult, RunStatus};

use crate::{file_path, load};

/// A server that allocates so many bytes a second, and keeps them.
const LEAKING_SERVER: &str = r#"
import json, selectors, socket, sys, time
listener = socket.create_server((sys.argv[1], int(sys.argv[2])), backlog=100)
ready = selectors.DefaultSelector()
ready.register(listener, selectors.EVENT_READ)
start, kept, kept_bytes = time.monotonic(), [], 0
while True:
    for key, _ in ready.select(0.02):
        if key.fileobj is listener:
            ready.register(listener.accept()[0], selectors.EVENT_READ)
            continue
        data = key.fileobj.recv(65536)
        if not data:
            ready.unregister(key.fileobj)
            continue
        for line in data.splitlines():
            answer = {"jsonrpc": "2.0", "id": json.loads(line)["id"], "result": {"content": []}}
            key.fileobj.sendall(json.dumps(answer).encode() + b"\n")
    due = int((time.monotonic() - start) * int(sys.argv[3])) - kept_bytes
    if due > 65536:
        kept.append(b"x" * due)
        kept_bytes += due
"#;
const MIB: f64 = 1_048_576.0;

/// Runs with a limit of 10 MiB a minute against a server that leaks so many MiB a minute.
fn run_leaking(mib_per_minute: u32) -> RunResult {
    let script = file_path(&format!("leaking-server-{mib_per_minute}.py"));
    std::fs::write(&script, LEAKING_SERVER).unwrap();
    // Another process may take the port in between; the run then fails with that error.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let rate = mib_per_minute * 1_048_576 / 60;
    let (script, host, port) = (script.display(), address.ip(), address.port());
    let command = format!("python3 {script} {host} {port} {rate}");
    let file = file_path(&format!("leaking-server-{mib_per_minute}.json"));
    let (target, json) = (format!("tcp://{address}"), format!("--json={}", file.display()));
    let flags = ["--connections=2", "--warm-up=1s", "--rate=50", "--duration=12s", "--quiet"];
    let call = ["--era=modern", "--tool=leak", "--arguments={}", "--server", &command, &json];
    let limits = ["--memory-growth-max=10MiB", "--lag-max=1min"];
    let all = ["run", &target].into_iter().chain(flags).chain(call).chain(limits);
    let ended = load(all);
    let text = std::fs::read_to_string(file).expect(&ended.stderr);
    assert!(ended.stdout.contains("\nmemory    growth "), "{}", ended.stdout);
    serde_json::from_str(&text).unwrap()
}

fn is_within(growth: &MemoryGrowth, mib_per_minute: u32) -> bool {
    let truth = f64::from(mib_per_minute) * MIB;
    (growth.low_bytes_per_minute..=growth.high_bytes_per_minute).contains(&truth)
}

#[ignore = "needs Python 3: ./test.sh runs it"]
#[test]
fn leaking_server_misses_limit_of_growth() {
    let leaking = std::thread::spawn(|| run_leaking(60));
    let steady = run_leaking(0);
    let leaking = leaking.join().unwrap();
    let growth = leaking.memory_growth.unwrap();
    assert!(is_within(&growth, 60), "{growth:?}");
    assert!((growth.bytes_per_minute / MIB - 60.0).abs() < 6.0, "{growth:?}");
    let missed = &leaking.verdict.missed_thresholds;
    assert!(missed[0].starts_with("memory growth +") && missed.len() == 1, "{missed:?}");
    let growth = steady.memory_growth.unwrap();
    assert!(
        growth.low_bytes_per_minute <= MIB && growth.high_bytes_per_minute >= -MIB,
        "{growth:?}"
    );
    assert_eq!(steady.status(), RunStatus::Passed, "{:?}", steady.verdict);
}

#[test]
fn limit_of_growth_needs_server_and_time() {
    let target = "tcp://127.0.0.1:1";
    for (flags, part) in [
        (&["--duration=12s"][..], "add --pid or --server"),
        (&["--duration=5s", "--pid=1"], "measure for 10 s or longer"),
    ] {
        let flags = flags.iter().copied().chain(["--memory-growth-max=10MiB"]);
        let ended = load(["run", target].into_iter().chain(flags));
        assert_eq!(ended.status, 2);
        assert!(ended.stderr.contains(part), "{}", ended.stderr);
    }
}
