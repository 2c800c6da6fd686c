//! Tests of the commands that evaluate several runs: `compare`, `sweep`, `search`, `capacity`.
//!
//! Their input is written by the library; the one sweep that is performed uses rates that any
//! machine sustains.

#![expect(clippy::unwrap_used, reason = "test setup")]

mod capacity;
mod compare;

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;

use corelane_load::plan::Plan;
use corelane_load::probe::{Probe, SearchResult, Trial};
use corelane_load::result::{Manifest, Percentiles, ProcessCost, RunResult, Totals, Verdict};
use corelane_load::search::SearchOutcome;
use corelane_load::sweep::{SweepResult, SweepStep};
use corelane_test_support::{ExitResult, TIMEOUT, TestServer, tcp_options};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{LOAD, file_path, load};

/// Returns the path of a file of one test, as text.
fn path_text(name: &str) -> String {
    file_path(name).to_str().unwrap().to_owned()
}

fn write(name: &str, value: &impl serde::Serialize) -> String {
    let path = path_text(name);
    std::fs::write(&path, serde_json::to_string(value).unwrap()).unwrap();
    path
}

fn read(path: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Returns a result of ten seconds around this 99th percentile.
fn run(p99_us: f64) -> RunResult {
    let second = |number: u32| {
        json!({
            "answered": 1_000 + number % 3, "failed": 0, "p50_us": 10 + number % 4,
            "p99_us": p99_us + f64::from(number % 5), "p999_us": p99_us * 2.0, "max_us": 1e4,
            "open": 64, "server_cores": 0.5, "server_resident_bytes": 64 << 20,
        })
    };
    let response = Percentiles {
        count: 10_000,
        p50_us: Some(10.0),
        p99_us: Some(p99_us),
        p999_us: Some(p99_us * 2.0),
        ..Percentiles::default()
    };
    let cost = ProcessCost {
        cpu_us_per_response: Some(500.0),
        cores: 0.5,
        resident_bytes_max: Some(64 << 20),
        ..ProcessCost::default()
    };
    let totals = Totals { duration_s: 10.0, rate: 1_000.0, opened: 64, ..Totals::default() };
    let mut plan = Plan::new("tcp://127.0.0.1:1");
    plan.warm_up = "0s".parse().unwrap();
    let result = json!({
        "verdict": Verdict::default(), "plan": plan, "totals": totals,
        "manifest": Manifest { kernel: "6.18".into(), ..Manifest::default() },
        "response": response, "service": response, "lag": Percentiles::default(),
        "generator": cost, "server": cost,
        "seconds": (0..10).map(second).collect::<Vec<_>>(),
    });
    serde_json::from_value(result).unwrap()
}

/// Returns a sweep that found this rate with this many connections.
fn sweep(connections: usize, rate: f64, resident_bytes: u64) -> SweepResult {
    let mut result = run(100.0);
    result.plan.connections = connections;
    result.plan.thresholds.p99 = Some("1ms".parse().unwrap());
    let cost = ProcessCost {
        cpu_us_per_response: Some(100.0),
        cores: 0.5,
        resident_bytes_max: Some(resident_bytes),
        ..ProcessCost::default()
    };
    result.server = Some(cost);
    SweepResult {
        plan: result.plan.clone(),
        manifest: result.manifest.clone(),
        search: SearchResult {
            is_stopped: false,
            answer: SearchOutcome::Found { rate, passes: 3, failures: 0, is_ceiling: false },
            probes: vec![Probe { number: 1, rate, trial: Trial::from_result(&result) }],
        },
        steps: vec![SweepStep { fraction: 0.5, rate: rate / 2.0, runs: vec![result.into()] }],
    }
}

/// Asserts exit status 2 and a single error line that contains all parts.
fn assert_usage_error(ended: &ExitResult, parts: &[&str]) {
    let ExitResult { status, stdout, stderr } = ended;
    assert_eq!((*status, stdout.as_str(), stderr.lines().count()), (2, "", 1), "{stderr}");
    assert_contains_all(stderr, parts);
}

fn assert_contains_all(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "'{part}' is not in:\n{text}");
    }
}

#[test]
fn invalid_result_files_are_reported() {
    let good = write("good.json", &run(100.0));
    let bad = write("bad.json", &json!({ "plan": 3 }));
    let of_sweep = write("of-sweep.json", &sweep(64, 1_000.0, 1 << 20));
    assert_usage_error(&load(["compare", &good, &bad]), &["bad.json is not a result", "--json"]);
    assert_usage_error(&load(["compare", &good, "/nowhere.json"]), &["cannot read"]);
    assert_usage_error(&load(["compare", &good, &of_sweep]), &["is a sweep"]);
    assert_usage_error(&load(["compare", &good]), &["there is only one side"]);
    assert_usage_error(&load(["capacity", &bad]), &["bad.json is not a result"]);
    assert_usage_error(&load(["compare", &good, &good, "--tolerance=-1"]), &["0.03"]);
}

#[test]
fn sweep_finds_rate_and_runs_fractions() {
    let test_server = TestServer::for_load();
    let (tcp, http) =
        (format!("tcp://{}", test_server.tcp()), format!("http://{}", test_server.http()));
    for (number, target) in [tcp, http].iter().enumerate() {
        sweep_once(target, &path_text(&format!("sweep-{number}.toml")));
    }
}

/// Performs a sweep with a plan at this path.
fn sweep_once(target: &str, path: &str) {
    let plan = format!(
        "target = \"{target}\"\nconnections = 2\nwarm_up = \"0s\"\n\
         [thresholds]\np99 = \"1h\"\nerrors = 0\n\
         [sweep]\nfractions = [0.5]\nrounds = 1\nduration = \"200ms\"\n\
         search_duration = \"200ms\"\n\
         rate_first = 50\nrate_max = 50\nrate_min = 50\nconfirmations = 1\nruns_max = 1\n",
    );
    std::fs::write(path, plan).unwrap();
    let kept = format!("{path}.json");
    let pid = std::process::id().to_string();
    let arguments = ["--plan", path, "--fractions=0.5,1", "--json", &kept, "--pid", &pid];
    let ExitResult { status, stdout, stderr } = load(["search"].into_iter().chain(arguments));
    // On an overloaded machine the load generator may be the limit.
    assert!([0, 1, 3].contains(&status), "{stderr}{stdout}");
    assert_contains_all(&stdout, &["sustained ", "runs ", "limit "]);
    let result: SweepResult = serde_json::from_value(read(&kept)).unwrap();
    assert!((1..=3).contains(&result.search.probes.len()), "{stderr}");
    assert!(!result.manifest.kernel.is_empty());
    if result.search.answer.rate().is_none() {
        return;
    }
    let parts: Vec<_> = result.steps.iter().map(|step| (step.fraction, step.rate)).collect();
    assert_eq!(parts, [(0.5, 25.0), (1.0, 50.0)]);
    assert!(result.steps.iter().all(|step| step.runs.len() == 1));
    let run = &result.steps[1].runs[0];
    assert_eq!(run.totals.due, 10, "{stderr}{stdout}");
    assert!(run.server.is_some_and(|cost| cost.resident_bytes_max.is_some()));
    assert_contains_all(&stdout, &["p99.9 ", "server RSS", "50 %", "100 %", "of 1"]);
    assert_eq!(stderr.lines().filter(|line| line.starts_with("round")).count(), 2, "{stderr}");
}

#[test]
fn search_fails_if_connections_do_not_open() {
    let mut options = tcp_options();
    options.tcp.connections_max = 1;
    let server = TestServer::start(options);
    let target = format!("tcp://{}", server.tcp());
    // In the legacy era a connection counts as open after its handshake.
    let flags = ["--era=legacy", "--connections=2", "--connect-timeout=300ms", "--errors-max=0"];
    let flags = flags.into_iter().chain(["--warm-up=0s", "--quiet"]);
    let ended = load(["search", &target, "--duration=100ms"].into_iter().chain(flags));
    assert_usage_error(&ended, &[&target, "only 1 of 2 connections", "--connections"]);
}

#[test]
fn started_server_has_to_accept_connections() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("tcp://{}", taken.local_addr().unwrap());
    let run = |target: &str, command: &str| {
        load(["run", target, "--connect-timeout=300ms", "--quiet", "--server", command])
    };
    assert_usage_error(&run(&target, "sleep 60"), &["already in use by another server"]);
    drop(taken);
    assert_usage_error(&run(&target, "/nowhere/server"), &["cannot start", "--server"]);
    assert_usage_error(&run(&target, "true"), &["exited (exit status: 0)"]);
    assert_usage_error(&run(&target, "sleep 60"), &["does not answer", "--connect-timeout"]);
    assert_usage_error(&run(&target, "  "), &["--server is empty"]);
    assert_usage_error(&run(&target, "sh -c 'exit"), &["unterminated quote"]);
    assert_usage_error(&run(&target, "sh -c 'exit 7'"), &["exited (exit status: 7)"]);
    assert_usage_error(&run("stdio:x", "sleep 60"), &["stdio"]);
}

/// Returns the command of an echo server that accepts one connection after another.
fn echo_server_command(script: &str, address: SocketAddr) -> String {
    let script = path_text(script);
    let listening = "import socket, sys\nserver = socket.create_server((sys.argv[1], \
                     int(sys.argv[2])))\nwhile True:\n    peer, _ = server.accept()\n    \
                     while (data := peer.recv(65536)):\n        peer.sendall(data)\n";
    std::fs::write(&script, listening).unwrap();
    format!("python3 {script} {} {}", address.ip(), address.port())
}

#[ignore = "needs Python 3: ./test.sh runs it"]
#[test]
fn signal_terminates_started_server() {
    let program = LOAD;
    for (ignored, signal) in
        [("", Signal::TERM), ("", Signal::HUP), ("", Signal::KILL), ("HUP", Signal::TERM)]
    {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let command = echo_server_command("signalled.py", address);
        let mut running = Command::new("sh")
            .args(["-c", &format!("trap '' {ignored} USR2; exec \"$@\""), "sh", program])
            .args(["run", &format!("tcp://{address}"), "--connections=1", "--rate=1"])
            .args(["--duration=1h", "--era=modern", "--tool=echo", "--arguments={}"])
            .args(["--server", &command])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        while TcpStream::connect(address).is_err() {
            assert!(running.try_wait().unwrap().is_none(), "exited");
            std::thread::yield_now();
        }
        if !ignored.is_empty() {
            // An ignored signal has no effect.
            kill_process(Pid::from_child(&running), Signal::HUP).unwrap();
        }
        kill_process(Pid::from_child(&running), signal).unwrap();
        let status = running.wait().unwrap();
        assert_eq!(status.signal(), Some(signal.as_raw()), "{status}");
        // The server holds the last copy of this pipe, so it ends when the server exits.
        let mut stderr = running.stderr.take().unwrap();
        let (tx, rx) = channel();
        std::thread::spawn(move || tx.send(stderr.read_to_end(&mut Vec::new()).is_ok()).unwrap());
        assert_eq!(rx.recv_timeout(TIMEOUT), Ok(true), "the server is still running");
    }
}

#[ignore = "needs Python 3: ./test.sh runs it"]
#[test]
fn started_server_is_measured_and_terminated() {
    // Another process may take the port in between; the run then fails with that error.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    // The server is a child of a shell.
    let command = format!("sh -c '{}; true'", echo_server_command("server.py", address));
    let target = format!("tcp://{address}");
    let kept = path_text("started.json");
    let arguments = ["--closed", "--connections=1", "--warm-up=0s", "--duration=100ms", "--quiet"];
    let arguments = arguments.into_iter().chain(["--era=modern", "--tool=echo", "--arguments={}"]);
    let arguments = arguments.into_iter().chain(["--server", &command, "--json", &kept]);
    let ExitResult { stderr, .. } = load(["run", &target].into_iter().chain(arguments));
    let result: RunResult =
        serde_json::from_value(read(&kept)).unwrap_or_else(|_| panic!("{stderr}"));
    // An echo is not a response; only the measurement of the process matters here.
    assert_eq!(result.totals.answered, 0, "{:?}", result.totals);
    // The interpreter of the server takes more than the shell around it.
    assert!(result.server.unwrap().resident_bytes_max.unwrap() > 6 << 20, "{:?}", result.server);
    assert!(TcpListener::bind(address).is_ok() || TcpStream::connect(address).is_err());
}
