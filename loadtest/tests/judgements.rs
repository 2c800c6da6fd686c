//! The commands that answer questions from several runs, as a script uses them.
//!
//! What they read is written by the library, so that a result of this program is always one that it
//! reads; the one sweep that is carried out asks for rates that any machine bears.

#![expect(clippy::unwrap_used, reason = "what a test sets up for itself has to be there")]

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use corelane::protocol::message::ServerInfo;
use corelane::server::{Options, Server};
use corelane::service::demo;
use corelane_load::plan::{Plan, SweepPlan};
use corelane_load::probe::{Found, Probe, Trial};
use corelane_load::result::{Cost, Manifest, Percentiles, RunResult, Totals, Verdict};
use corelane_load::search::{Answer, Bounds};
use corelane_load::sweep::{Step, SweepResult};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use self::program::{Ended, load};
use self::stage::Stage;

#[path = "support/program.rs"]
mod program;
#[path = "support/stage.rs"]
mod stage;

/// How long something may take that has to happen.
const PATIENCE: Duration = Duration::from_mins(1);

/// A place for a file of one test.
fn place(name: &str) -> String {
    let path: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    path.to_str().unwrap().to_owned()
}

fn write(name: &str, value: &impl serde::Serialize) -> String {
    let path = place(name);
    std::fs::write(&path, serde_json::to_string(value).unwrap()).unwrap();
    path
}

fn read(path: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// A result of ten seconds around this 99th percentile.
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
        p50_us: 10.0,
        p99_us,
        p999_us: p99_us * 2.0,
        ..Percentiles::default()
    };
    let cost = Cost {
        cpu_us_per_answer: 500.0,
        cores: 0.5,
        resident_bytes_max: 64 << 20,
        ..Cost::default()
    };
    let totals = Totals { span_s: 10.0, rate: 1_000.0, opened: 64, ..Totals::default() };
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

/// A sweep that found this rate with so many connections.
fn sweep(connections: usize, rate: f64, resident_bytes: u64) -> SweepResult {
    let mut result = run(100.0);
    result.plan.connections = connections;
    result.plan.thresholds.p99 = Some("1ms".parse().unwrap());
    let cost = Cost {
        cpu_us_per_answer: 100.0,
        cores: 0.5,
        resident_bytes_max: resident_bytes,
        ..Cost::default()
    };
    result.server = Some(cost);
    SweepResult {
        plan: result.plan.clone(),
        manifest: result.manifest.clone(),
        search: Found {
            answer: Answer::Found { rate, passes: 3, is_ceiling: false },
            probes: vec![Probe { number: 1, rate, trial: Trial::of(&result) }],
        },
        steps: vec![Step { part: 0.5, rate: rate / 2.0, runs: vec![result.into()] }],
    }
}

/// Asserts that nothing came of a command and that one line says why, with all of these parts.
fn assert_fruitless(ended: &Ended, parts: &[&str]) {
    let Ended { status, out, said } = ended;
    assert_eq!((*status, out.as_str(), said.lines().count()), (2, "", 1), "{said}");
    assert_says(said, parts);
}

fn assert_says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "'{part}' is not in:\n{text}");
    }
}

#[test]
fn a_result_is_not_worse_than_itself() {
    let same = write("same.json", &run(100.0));
    let Ended { status, out, said } = load(["compare", &same, &same]);
    assert_eq!((status, said.as_str()), (0, ""), "{out}");
    let expected =
        ["10 and 10 seconds", "depend on one another", "not told from chance", "nothing is"];
    assert_says(&out, &expected);
}

#[test]
fn a_longer_tail_is_significantly_worse_and_ends_with_one() {
    let base = write("tail-base.json", &run(100.0));
    let new = write("tail-new.json", &run(200.0));
    let kept = place("tail-kept.json");
    let Ended { status, out, .. } = load(["compare", &base, &new, "--json", &kept]);
    assert_eq!(status, 1, "{out}");
    let row = out.lines().find(|line| line.starts_with("p99 us")).unwrap();
    assert!(row.ends_with("WORSE"), "{out}");
    let rows = &read(&kept)["compared"][0][1]["rows"];
    let p99 = rows.as_array().unwrap().iter().find(|row| row["figure"] == "p99").unwrap();
    assert_eq!(p99["judgement"], "worse");
    assert!(p99["difference"]["ratio_low"].as_f64().unwrap() > 1.5);
    let Ended { status, .. } = load(["compare", &new, &base]);
    assert_eq!(status, 0);
    let Ended { status, out, .. } = load(["compare", &base, &new, "--tolerance=1.5"]);
    assert_eq!(status, 0, "{out}");
    let Ended { status, out, .. } = load(["compare", &base, &base, &new]);
    assert_eq!((status, out.matches("medians").count()), (1, 2), "{out}");
}

#[test]
fn several_runs_a_side_are_compared_as_runs() {
    let files = |side: &str, p99_us: f64| -> Vec<String> {
        let write =
            |number: u32| write(&format!("{side}-{number}.json"), &run(p99_us + f64::from(number)));
        (0..6).map(write).collect()
    };
    let (base, new) = (files("runs-base", 100.0), files("runs-new", 150.0));
    let arguments = |base: &[String], new: &[String]| -> Vec<String> {
        let words = ["compare".to_owned(), "--base".to_owned()].into_iter();
        let words = words.chain(base.iter().cloned()).chain(["--new".to_owned()]);
        words.chain(new.iter().cloned()).collect()
    };
    let all = arguments(&base, &new);
    let Ended { status, out, .. } = load(all.iter().map(String::as_str));
    assert_eq!(status, 1, "{out}");
    assert_says(&out, &["6 and 6 runs", "WORSE"]);
    assert!(!out.contains("depend on one another"), "{out}");
    let few = arguments(&base[..3], &new[..3]);
    assert_fruitless(&load(few.iter().map(String::as_str)), &["four runs a side"]);
}

#[test]
fn results_that_are_no_comparison_are_refused_with_what_differs() {
    let base = write("unlike-base.json", &run(100.0));
    let mut other = run(100.0);
    other.manifest.kernel = "6.1".into();
    other.plan.connections = 3;
    other.plan.target = "http://127.0.0.1:1".into();
    let other = write("unlike-new.json", &other);
    let expected = [
        "kernel (6.18 / 6.1)",
        "connections (64 / 3)",
        "transport (tcp / http)",
        "--even-different",
    ];
    assert_fruitless(&load(["compare", &base, &other]), &expected);
    let Ended { status, said, .. } = load(["compare", &base, &other, "--even-different"]);
    assert_eq!(status, 0, "{said}");
    assert_says(&said, &["differs: kernel (6.18 / 6.1)"]);
}

#[test]
fn runs_that_do_not_count_are_refused_unless_they_are_asked_for() {
    let base = write("invalid-base.json", &run(100.0));
    let mut other = run(100.0);
    other.verdict.beyond.push("only 50.0 % of what was due".into());
    let other = write("invalid-new.json", &other);
    let expected = ["invalid-new.json does not count", "only 50.0 %", "--even-invalid"];
    assert_fruitless(&load(["compare", &base, &other]), &expected);
    assert_eq!(load(["compare", &base, &other, "--even-invalid"]).status, 0);
}

#[test]
fn files_that_are_no_results_are_told_in_a_line() {
    let good = write("good.json", &run(100.0));
    let bad = write("bad.json", &json!({ "plan": 3 }));
    let of_sweep = write("of-sweep.json", &sweep(64, 1_000.0, 1 << 20));
    assert_fruitless(&load(["compare", &good, &bad]), &["bad.json is no result", "--json"]);
    assert_fruitless(&load(["compare", &good, "/nowhere.json"]), &["cannot be read"]);
    assert_fruitless(&load(["compare", &good, &of_sweep]), &["of a sweep"]);
    assert_fruitless(&load(["compare", &good]), &["two results or more"]);
    assert_fruitless(&load(["compare"]), &["RESULT"]);
    assert_fruitless(&load(["capacity", &bad]), &["bad.json is no result"]);
    assert_fruitless(&load(["compare", &good, &good, "--tolerance=-1"]), &["0.03"]);
}

#[test]
fn a_sweep_finds_a_rate_and_runs_at_parts_of_it() {
    let stage = Stage::new();
    let (tcp, http) = (format!("tcp://{}", stage.tcp), format!("http://{}", stage.http));
    for (number, target) in [tcp, http].iter().enumerate() {
        sweep_once(target, &place(&format!("sweep-{number}.toml")));
    }
}

/// Sweeps a server by a plan at this place.
fn sweep_once(target: &str, path: &str) {
    let plan = format!(
        "target = \"{target}\"\nconnections = 2\nwarm_up = \"0s\"\n\
         [thresholds]\np99 = \"1h\"\nerrors = 0\n\
         [sweep]\nparts = [0.5]\nrounds = 1\nspan = \"200ms\"\nsearch_span = \"200ms\"\n\
         rate_first = 50\nrate_max = 50\nrate_min = 50\nconfirmations = 1\nruns_max = 1\n",
    );
    std::fs::write(path, plan).unwrap();
    let kept = format!("{path}.json");
    let pid = std::process::id().to_string();
    let arguments = ["--plan", path, "--parts=0.5,1", "--json", &kept, "--pid", &pid];
    let Ended { status, out, said } = load(["sweep"].into_iter().chain(arguments));
    // On a machine that is too busy for the generator itself there is no rate, and it says so.
    assert!([0, 1, 3].contains(&status), "{said}{out}");
    assert_says(&out, &["bears ", "confidence ", "limit "]);
    let result: SweepResult = serde_json::from_value(read(&kept)).unwrap();
    assert!((1..=3).contains(&result.search.probes.len()), "{said}");
    assert!(!result.manifest.kernel.is_empty());
    if result.search.answer.rate().is_none() {
        return;
    }
    let parts: Vec<_> = result.steps.iter().map(|step| (step.part, step.rate)).collect();
    assert_eq!(parts, [(0.5, 25.0), (1.0, 50.0)]);
    assert!(result.steps.iter().all(|step| step.runs.len() == 1));
    let run = &result.steps[1].runs[0];
    assert_eq!(run.totals.due, 10, "{said}{out}");
    assert!(run.server.is_some_and(|cost| cost.resident_bytes_max > 0));
    assert_says(&out, &["p99.9 us", "RSS MiB", "50 %", "100 %", "of 1"]);
    assert_eq!(said.lines().filter(|line| line.starts_with("round")).count(), 2, "{said}");
}

#[test]
fn a_search_ends_where_not_every_connection_opens() {
    let mut options = Options::default();
    options.tcp.address = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    options.tcp.connections_max = 1;
    options.http.address = None;
    options.engine.shards = Some(1);
    let catalog = demo::catalog(ServerInfo::new("full", "1")).unwrap();
    let running = Server::new(catalog).options(options).start().unwrap();
    let target = format!("tcp://{}", running.addresses()[0].1);
    // In the legacy era a connection is open when its session is.
    let flags = ["--era=legacy", "--connections=2", "--connect-max=300ms", "--errors-max=0"];
    let flags = flags.into_iter().chain(["--warm-up=0s", "--quiet"]);
    for (command, span) in [("search", "--span=100ms"), ("sweep", "--search-span=100ms")] {
        let ended = load([command, &target, span].into_iter().chain(flags.clone()));
        assert_fruitless(&ended, &[&target, "only 1 of 2 connections", "--connections"]);
    }
    running.handle().drain();
    running.join().unwrap();
}

#[test]
fn a_sweep_that_makes_no_sense_is_told_in_a_line() {
    let sweep = |flags: &[&'static str]| {
        load(["sweep", "tcp://127.0.0.1:1"].into_iter().chain(flags.iter().copied()))
    };
    assert_fruitless(&sweep(&[]), &["--p99-max"]);
    assert_fruitless(&sweep(&["--errors-max=0", "--parts=0.5,2"]), &["at most 1"]);
    assert_fruitless(&sweep(&["--errors-max=0", "--rounds=0"]), &["1 or more"]);
    assert_fruitless(&sweep(&["--errors-max=0", "--rate-min=0"]), &["above 0"]);
}

#[test]
fn a_server_that_is_started_for_the_runs_has_to_listen_where_it_is_looked_for() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("tcp://{}", taken.local_addr().unwrap());
    let run = |target: &str, command: &str| {
        load(["run", target, "--connect-max=300ms", "--quiet", "--server", command])
    };
    assert_fruitless(&run(&target, "sleep 60"), &["something listens there already"]);
    drop(taken);
    assert_fruitless(&run(&target, "/nowhere/server"), &["cannot be started", "--server"]);
    assert_fruitless(&run(&target, "true"), &["has ended by itself", "exit status: 0"]);
    assert_fruitless(&run(&target, "sleep 60"), &["does not answer", "--connect-max"]);
    assert_fruitless(&run(&target, "  "), &["there is no command"]);
    assert_fruitless(&run("stdio:x", "sleep 60"), &["stdio"]);
}

/// A command that starts a server which says back what it hears, one connection after another.
fn echoing(script: &str, address: SocketAddr) -> String {
    let script = place(script);
    let listening = "import socket, sys\nserver = socket.create_server((sys.argv[1], \
                     int(sys.argv[2])))\nwhile True:\n    peer, _ = server.accept()\n    \
                     while (said := peer.recv(65536)):\n        peer.sendall(said)\n";
    std::fs::write(&script, listening).unwrap();
    format!("python3 {script} {} {}", address.ip(), address.port())
}

#[test]
fn a_server_that_was_started_ends_with_the_program_that_a_signal_ends() {
    let program = env!("CARGO_BIN_EXE_corelane-load");
    for (ignored, signal) in
        [("", Signal::TERM), ("", Signal::HUP), ("", Signal::INT), ("HUP", Signal::TERM)]
    {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let command = echoing("signalled.py", address);
        let mut running = Command::new("sh")
            .args(["-c", &format!("trap '' {ignored} USR2; exec \"$@\""), "sh", program])
            .args(["run", &format!("tcp://{address}"), "--connections=1", "--rate=1"])
            .args(["--span=1h", "--server", &command])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        while TcpStream::connect(address).is_err() {
            assert!(running.try_wait().unwrap().is_none(), "it has ended by itself");
            std::thread::yield_now();
        }
        if !ignored.is_empty() {
            // Nothing comes of it: the program ends by the other.
            kill_process(Pid::from_child(&running), Signal::HUP).unwrap();
        }
        kill_process(Pid::from_child(&running), signal).unwrap();
        let status = running.wait().unwrap();
        assert_eq!(status.signal(), Some(signal.as_raw()), "{status}");
        // The server is the last that holds this pipe: it ends when the server does.
        let mut said = running.stderr.take().unwrap();
        let (tell, told) = channel();
        std::thread::spawn(move || tell.send(said.read_to_end(&mut Vec::new()).is_ok()).unwrap());
        assert_eq!(told.recv_timeout(PATIENCE), Ok(true), "the server goes on");
    }
}

#[test]
fn a_server_that_is_started_for_a_run_is_driven_watched_and_ended() {
    // Who binds a port to find a free one frees it again; whoever takes it in between is told of.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let command = echoing("server.py", address);
    let target = format!("tcp://{address}");
    let kept = place("started.json");
    let arguments = ["--closed", "--connections=1", "--warm-up=0s", "--span=100ms", "--quiet"];
    let arguments = arguments.into_iter().chain(["--server", &command, "--json", &kept]);
    let Ended { said, .. } = load(["run", &target].into_iter().chain(arguments));
    let result: RunResult =
        serde_json::from_value(read(&kept)).unwrap_or_else(|_| panic!("{said}"));
    // It says back what it hears, which is no answer; what counts is that it was watched.
    assert!(result.server.is_some() && result.totals.answered == 0, "{:?}", result.totals);
    assert!(TcpListener::bind(address).is_ok() || TcpStream::connect(address).is_err());
}

#[test]
fn capacity_is_told_from_sweeps_at_several_sizes() {
    // 1,000·n / (1 + 0.1·(n − 1)), and 10 MiB with 1 KiB a connection.
    let bytes = |connections: u64| (10 << 20) + connections * 1_024;
    let one = write("cores-1.json", &sweep(64, 1_000.0, bytes(64)));
    let two = write("cores-2.json", &sweep(1_000, 2_000.0 / 1.1, bytes(1_000)));
    let four = write("cores-4.json", &sweep(4_000, 4_000.0 / 1.3, bytes(4_000)));
    let (one, two, four) = (format!("1={one}"), format!("2={two}"), format!("4={four}"));
    let kept = place("capacity.json");
    let target = ["--target-rate=7000", "--target-connections=40000", "--cores-per-machine=8"];
    let arguments = ["capacity", &one, &two, &four, "--json", &kept].into_iter().chain(target);
    let Ended { status, out, said } = load(arguments);
    assert_eq!((status, said.as_str()), (0, ""), "{out}");
    let expected = [
        "rates keep p99 ≤ 1ms",
        "X(n) = 1000.0·n / (1 + 0.100000",
        "8 cores bear X(8) = 4705.9/s by the law (beyond what was measured)",
        "→ 3 machines × 8 = 24 cores",
        "10.0 MiB + 1024 B a connection",
        "EXTRAPOLATION",
        "decides",
    ];
    assert_says(&out, &expected);
    let kept = read(&kept);
    assert_eq!(kept["need"]["machines"], 3);
    assert_eq!(kept["survey"]["points"].as_array().unwrap().len(), 3);
}

#[test]
fn a_sweep_that_the_generator_limited_tells_no_capacity_unless_it_is_asked_for() {
    let mut limited = sweep(64, 1_000.0, 1 << 20);
    let against = vec!["the generator was late".to_owned()];
    let trial = Trial { is_valid: false, against, ..Trial::default() };
    limited.search.probes.push(Probe { number: 2, rate: 1_100.0, trial });
    let limited = write("limited.json", &limited);
    let expected = ["limit was the generator's", "was late", "--even-invalid"];
    assert_fruitless(&load(["capacity", &limited]), &expected);
    let Ended { status, out, .. } = load(["capacity", &limited, "--even-invalid"]);
    assert_eq!(status, 0, "{out}");
    assert_says(&out, &["limited.json (at least)"]);
}

#[test]
fn capacity_over_connections_takes_the_sizes_from_the_plans() {
    let sizes = [(64, 9_000.0), (1_000, 9_500.0), (40_000, 6_000.0)];
    let files = sizes.map(|(connections, rate)| {
        let kept = sweep(connections, rate, (10 << 20) + connections as u64 * 600);
        write(&format!("connections-{connections}.json"), &kept)
    });
    let arguments = ["capacity", "--size-of=connections"].into_iter();
    let Ended { status, out, .. } = load(arguments.chain(files.iter().map(String::as_str)));
    assert_eq!(status, 0, "{out}");
    let expected = ["capacity over connections", "80000 (logarithmic)", "600 B a connection"];
    assert_says(&out, &expected);
}

#[test]
fn of_runs_at_one_size_the_best_counts_and_one_that_failed_says_nothing() {
    let passed = |name: &str, rate: f64| {
        let mut result = run(100.0);
        result.totals.rate = rate;
        write(name, &result)
    };
    let (slow, fast) = (passed("slow.json", 10.0), passed("fast.json", 500.0));
    let Ended { status, out, .. } = load(["capacity", &format!("2={slow}"), &format!("2={fast}")]);
    assert_eq!(status, 0, "{out}");
    assert_says(&out, &["law      none", "bears 250.0/s: 500.0 ÷ 2", "fast.json"]);
    assert!(!out.contains("slow.json"), "{out}");
    let mut missed = run(100.0);
    missed.verdict.missed.push("p99 9 us, 1us allowed".into());
    let missed = write("missed.json", &missed);
    assert_fruitless(&load(["capacity", &missed]), &["missed.json has not passed", "1us allowed"]);
}

#[test]
fn targets_and_sizes_that_make_no_sense_are_told_in_a_line() {
    let good = write("sound.json", &run(100.0));
    let capacity =
        |flags: &[&'static str]| load(["capacity", &good].into_iter().chain(flags.iter().copied()));
    assert_fruitless(&capacity(&["--size-of=legs"]), &["cores, connections or workers"]);
    assert_fruitless(&capacity(&["--target-rate=5"]), &["--target-connections"]);
    let target = ["--target-rate=5", "--target-connections=1"];
    assert_fruitless(&capacity(&[&target[..], &["--headroom=1"]].concat()), &["below 1"]);
    assert_fruitless(&capacity(&[&target[..], &["--cores-per-machine=0"]].concat()), &["one core"]);
    let strict = write("strict.json", &sweep(64, 10.0, 1));
    assert_fruitless(&load(["capacity", &good, &strict]), &["different thresholds", "p99 ≤ 1ms"]);
}

#[test]
fn every_shipped_plan_of_a_capacity_can_be_swept() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("plans");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if !path.file_name().unwrap().to_str().unwrap().starts_with("capacity-") {
            continue;
        }
        count += 1;
        let plan = Plan::read(&path).unwrap();
        let sweep: SweepPlan = plan.sweep.clone().unwrap();
        sweep.check().unwrap();
        Bounds::from(&sweep).check().unwrap();
        assert!(plan.thresholds.p50.is_some() && plan.thresholds.errors.is_some());
        assert!(plan.thresholds.rate.is_none() && !plan.closed && plan.phases.is_empty());
    }
    assert_eq!(count, 12);
}
