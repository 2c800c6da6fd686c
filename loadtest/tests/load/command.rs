//! Tests of the command line: output and exit status.
//!
//! Runs that have to be valid are closed loops, whose verdict does not depend on the load of the
//! machine.

#![expect(clippy::unwrap_used, reason = "test setup")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};

use corelane_load::metrics::outcome::Failure;
use corelane_load::plan::Plan;
use corelane_load::report::table::table;
use corelane_load::result::RunResult;
use corelane_test_support::{ExitResult, TestServer};
use serde_json::Value;

use crate::{SHORT, file_path, lines_without_warnings, load};

/// Performs a short run with further flags.
fn run(target: &str, flags: &[&str]) -> ExitResult {
    load(["run", target].into_iter().chain(SHORT).chain(flags.iter().copied()))
}

/// Writes a file of this test.
fn file(name: &str, text: &str) -> PathBuf {
    let path = file_path(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// Asserts exit status 2 and a single error line that contains all parts.
fn assert_usage_error(ended: &ExitResult, parts: &[&str]) {
    let ExitResult { status, stdout: out, stderr } = ended;
    assert_eq!((*status, out.as_str(), stderr.lines().count()), (2, "", 1), "{stderr}");
    assert!(stderr.starts_with("corelane-load: "), "{stderr}");
    for part in parts {
        assert!(stderr.contains(part), "'{part}' is not in: {stderr}");
    }
}

#[test]
fn passed_run_prints_table_and_exits_zero() {
    let test_server = TestServer::for_load();
    let (tcp, http) = (test_server.tcp(), test_server.http());
    for (target, shown) in [
        (format!("tcp://{tcp}"), format!("tcp://{tcp} · modern · closed loop · 2 connections")),
        (format!("http://{http}"), format!("http://{http} · modern")),
        (format!("ws://{http}"), format!("ws://{http} · modern")),
    ] {
        let ExitResult { status, stdout: out, stderr } =
            run(&target, &["--quiet", "--p99-max=1h", "--errors-max=0"]);
        assert_eq!((status, stderr.as_str()), (0, ""), "{out}");
        assert_eq!(out.lines().next(), Some("PASSED   p99 ≤ 1h, errors ≤ 0"));
        // A note on what else used the machine may come before.
        assert!(out.lines().any(|line| line.starts_with(&shown)), "{out}");
        for row in ["requests ", "response", "service", "lag", "generator"] {
            assert!(out.lines().any(|line| line.starts_with(row)), "{row} is not in: {out}");
        }
        assert!(!out.contains("INVALID") && !out.contains(" of all"), "{out}");
    }
}

#[test]
fn missed_threshold_exits_one() {
    let test_server = TestServer::for_load();
    let target = format!("tcp://{}", test_server.tcp());
    let ExitResult { status, stdout: out, .. } = run(&target, &["--era=legacy", "--p99-max=1ns"]);
    assert_eq!(status, 1, "{out}");
    assert!(out.contains("MISSED   p99") && out.contains("limit 1 ns"), "{out}");
}

#[test]
fn completed_run_exits_zero_without_thresholds() {
    let test_server = TestServer::for_load();
    let ExitResult { status, stdout: out, .. } =
        run(&format!("tcp://{}", test_server.tcp()), &["--quiet"]);
    assert_eq!(status, 0, "{out}");
    assert!(out.starts_with("completed without thresholds\n") && !out.contains("PASSED"), "{out}");
}

#[test]
fn unanswered_run_exits_one() {
    // Accepts connections and never responds.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = silent.local_addr().unwrap();
    let plan = format!(
        "target = \"tcp://{target}\"\nera = \"modern\"\nconnections = 1\nwarm_up = \"0s\"\n\
         response_timeout = \"100ms\"\n[[phase]]\nrate = 100\nduration = \"300ms\"\n\
         [[call]]\ntool = \"echo\"\narguments = {{ message = \"a\" }}\n"
    );
    let plan = file("silent.toml", &plan);
    let ExitResult { status, stdout: out, .. } = load(["run", "--plan", plan.to_str().unwrap()]);
    assert_eq!(status, 1, "{out}");
    assert!(out.starts_with("FAILED   none of 30 due requests got a good answer"), "{out}");
    assert!(out.contains("no answer within 100ms"), "{out}");
}

#[test]
fn failing_server_exits_one_with_its_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer_with_500(&stream));
        }
    });
    let (path, page) = (file("failing.json", ""), file("failing.html", ""));
    let call = ["--era=modern", "--tool=echo", "--arguments={}"];
    let files = ["--json", path.to_str().unwrap(), "--html", page.to_str().unwrap()];
    let flags = [&call[..], &files].concat();
    for thresholds in [&[][..], &["--errors-max=1"], &["--errors-max=1", "--p99-max=1h"]] {
        let ExitResult { status, stdout: out, .. } =
            run(&target, &[&flags[..], thresholds].concat());
        assert_eq!(status, 1, "{out}");
        assert!(out.starts_with("FAILED   none of ") && !out.contains("PASSED"), "{out}");
        assert!(out.contains("    | HTTP/1.1 500 Broken") && out.contains("    | disk full"));
    }
    let result: RunResult = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert!(result.failure_examples["http_5xx"].ends_with("disk full"));
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("verdict failed") && page.contains("disk full"));
}

/// Answers every request on a connection with an error.
fn answer_with_500(mut stream: &TcpStream) {
    let mut received = [0; 4_096];
    // A request is a single segment.
    while stream.read(&mut received).is_ok_and(|length| length > 0) {
        let answer = b"HTTP/1.1 500 Broken\r\nContent-Length: 9\r\n\r\ndisk full";
        if stream.write_all(answer).is_err() {
            return;
        }
    }
}

#[test]
fn help_describes_each_failure_kind() {
    let ExitResult { status, stdout: out, .. } = load(["run", "--dialect=parity", "--help"]);
    assert_eq!(status, 0);
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/load-testing.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    let kinds = Failure::ALL.map(|failure| (failure.name(), failure.description()));
    for (name, meaning) in kinds.into_iter().chain([Failure::UNSOLICITED]) {
        // The help is wrapped at the width of the terminal.
        let line = out.lines().find(|line| line.trim_start().starts_with(&format!("{name} ")));
        let words: Vec<&str> = line.unwrap().split_whitespace().skip(1).take(3).collect();
        assert!(meaning.starts_with(&words.join(" ")), "{name}");
        assert!(docs.contains(&format!("| `{name}` | {meaning} |")), "{name}");
    }
}

#[test]
fn late_generator_exits_three() {
    let test_server = TestServer::for_load();
    let target = format!("tcp://{}", test_server.tcp());
    let flags = ["--connections=2", "--warm-up=0s", "--duration=200ms", "--lag-max=1ns", "--quiet"];
    let ExitResult { status, stdout: out, .. } = load(["run", &target].into_iter().chain(flags));
    assert_eq!(status, 3, "{out}");
    // On an overloaded machine, requests that were not sent in time are named first.
    assert!(out.starts_with("INVALID  ") && out.contains("the load generator was "), "{out}");
    assert!(out.contains("limit 1 ns") && out.contains("--cores"), "{out}");
}

#[test]
fn json_result_matches_the_table() {
    let test_server = TestServer::for_load();
    let path = file("result.json", "");
    let flags = ["--json", path.to_str().unwrap()];
    let ExitResult { status, stdout: out, .. } =
        run(&format!("http://{}", test_server.http()), &flags);
    assert_eq!(status, 0, "{out}");
    let text = std::fs::read_to_string(&path).unwrap();
    let result: RunResult = serde_json::from_str(&text).unwrap();
    assert_eq!(table(&result), out);
    let written: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_value(&result).unwrap(), written);
}

#[test]
fn mixed_requests_are_measured_apart() {
    let test_server = TestServer::for_load();
    let target = test_server.tcp();
    let plan = format!(
        "target = \"tcp://{target}\"\n[[call]]\ntool = \"echo\"\n[[call]]\n\
         method = \"tools/list\"\nweight = 2\n"
    );
    let (plan, path) = (file("mixed.toml", &plan), file("mixed.json", ""));
    let page = file("mixed.html", "");
    let arguments = ["run", "--plan", plan.to_str().unwrap(), "--json", path.to_str().unwrap()];
    let page_arguments = ["--html", page.to_str().unwrap()];
    let ExitResult { status, stdout: out, .. } =
        load(arguments.into_iter().chain(page_arguments).chain(SHORT));
    assert_eq!(status, 0, "{out}");
    let text = std::fs::read_to_string(&path).unwrap();
    let result: RunResult = serde_json::from_str(&text).unwrap();
    let [echo, list] = &result.calls[..] else { panic!("{text}") };
    assert_eq!((echo.name.as_str(), list.name.as_str()), ("echo", "tools/list"));
    assert_eq!(echo.answered + list.answered, result.totals.answered);
    assert!(list.answered > echo.answered && list.response.p95_us >= list.response.p90_us);
    assert!(out.contains("\ntools/list · ") && out.contains("p90       p95       p99"), "{out}");
    assert!(std::fs::read_to_string(&page).unwrap().contains("Response time by request"));
}

#[test]
fn unreachable_server_is_reported() {
    let target = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("tcp://{}", listener.local_addr().unwrap())
    };
    for command in ["run", "search"] {
        let ended = load([command, &target, "--errors-max=0", "--connect-timeout=100ms"]);
        let why = "no connection could be opened: Connection refused";
        assert_usage_error(&ended, &[&target, why, "start the server or correct the address"]);
    }
}

#[test]
fn invalid_target_is_reported() {
    assert_usage_error(&run("ftp://127.0.0.1:8888", &[]), &["tcp://HOST:PORT"]);
    assert_usage_error(&run("stdio:sh -c 'exit", &[]), &["unterminated quote"]);
    assert_usage_error(&run("tls://127.0.0.1", &[]), &["no port"]);
}

#[test]
fn invalid_plan_is_reported() {
    let load = |plan: &Path| load(["run", "--plan", plan.to_str().unwrap()]);
    let mistaken = file("mistaken.toml", "target = \"tcp://127.0.0.1:1\"\nconections = 3\n");
    assert_usage_error(
        &load(&mistaken),
        &["mistaken.toml", "line 2", "unknown field `conections`", "`connections`"],
    );
    let broken = file("broken.toml", "target = \n");
    assert_usage_error(&load(&broken), &["broken.toml", "line 1"]);
    let senseless = file(
        "senseless.toml",
        "target = \"tcp://127.0.0.1:1\"\n[[phase]]\nrate = -1\nduration = \"1s\"\n",
    );
    assert_usage_error(&load(&senseless), &["rate = -1", "from 0 to"]);
    assert_usage_error(&load(Path::new("/nowhere.toml")), &["/nowhere.toml", "cannot read"]);
}

#[test]
fn invalid_flag_is_reported() {
    let target = "tcp://127.0.0.1:1";
    assert_usage_error(
        &run(target, &["--era=middle"]),
        &["'middle'", "--era", "auto, modern or legacy", "2025-06-18"],
    );
    assert_usage_error(&run(target, &["--p99-max=fast"]), &["'fast'", "--p99-max", "20ms"]);
    assert_usage_error(&run(target, &["--header=secret"]), &["--header", "Name: value"]);
    assert_usage_error(&run(target, &["--dept=2"]), &["'--dept'", "'--depth'"]);
    assert_usage_error(&load(["run"]), &["<TARGET>", "--help"]);
    assert_usage_error(&run(target, &["--era=parity"]), &["--era", "write --dialect parity"]);
    assert_usage_error(&load(["check"]), &["'check' is now part of run and search"]);
}

#[test]
fn parity_help_appears_with_the_dialect() {
    let help = |flags: &[&str]| load(["run"].into_iter().chain(flags.iter().copied())).stdout;
    let mcp = help(&["--help"]);
    assert!(mcp.contains("rpc_error"), "{mcp}");
    for hidden in ["parity", "--dialect", "--stream", "error.rate_limited", "chunk"] {
        assert!(!mcp.to_lowercase().contains(hidden), "{hidden} is in: {mcp}");
    }
    for flags in [["--dialect", "parity", "--help"].as_slice(), &["--dialect=parity", "--help"]] {
        let parity = help(flags);
        for shown in ["--dialect", "--stream", "error.rate_limited", "rpc_error"] {
            assert!(parity.contains(shown), "{shown} is not in: {parity}");
        }
    }
}

#[test]
fn search_prints_runs_and_limit() {
    let test_server = TestServer::for_load();
    let target = format!("tcp://{}", test_server.tcp());
    let (json, html) = (file("search.json", ""), file("search.html", ""));
    let ExitResult { status, stdout: out, stderr } = load([
        "search",
        &target,
        "--era=modern",
        "--tool=echo",
        "--arguments={\"message\":\"a\"}",
        "--p99-max=1h",
        "--connections=2",
        "--warm-up=0s",
        "--duration=300ms",
        "--rate-first=50",
        "--rate-max=50",
        "--confirmations=2",
        "--runs-max=4",
        "--json",
        json.to_str().unwrap(),
        "--html",
        html.to_str().unwrap(),
    ]);
    let stored = load(["report", json.to_str().unwrap()]);
    assert_eq!((stored.status, stored.stdout.as_str()), (0, out.as_str()));
    assert!(std::fs::read_to_string(html).unwrap().contains("id=\"search\""));
    let lines = lines_without_warnings(&stderr);
    assert!((1..=4).contains(&lines.len()), "{stderr}");
    for (number, line) in (1..).zip(&lines) {
        assert!(line.starts_with(&format!("run {number:>3}")), "{line}");
    }
    // On an overloaded machine the runs are invalid.
    if lines.iter().all(|line| line.contains("passed")) {
        assert_eq!((status, lines.len()), (0, 2), "{stderr}{out}");
        assert!(out.contains("sustained  50/s\nruns       2 of 2 passed\n"), "{out}");
        assert!(out.contains("--rate-max"), "{out}");
    }
    assert!(out.starts_with(&format!("{target} · modern · open loop · 2 connections")), "{out}");
    for row in ["sustained ", "runs ", "limit "] {
        assert!(out.lines().any(|line| line.starts_with(row)), "{row} is not in: {out}");
    }
}

#[test]
fn search_starts_at_rate_of_one_connection() {
    let test_server = TestServer::for_load();
    let target = format!("tcp://{}", test_server.tcp());
    let ended = load([
        "search",
        &target,
        "--era=modern",
        "--tool=echo",
        "--arguments={\"message\":\"a\"}",
        "--errors-max=0.5",
        "--connections=2",
        "--warm-up=0s",
        "--duration=200ms",
        "--rate-max=60",
        "--confirmations=1",
        "--runs-max=3",
    ]);
    let lines = lines_without_warnings(&ended.stderr);
    let scale = "one connection, one request at a time: ";
    assert!(lines[0].starts_with(scale) && lines[0].ends_with(" a response"), "{lines:?}");
    // The highest rate is below that of one connection.
    assert!(lines[1].starts_with("run   1") && lines[1].contains(" 60/s"), "{lines:?}");
}

#[test]
fn invalid_search_arguments_are_reported() {
    let search = |flags: &[&'static str]| {
        load(["search", "tcp://127.0.0.1:1"].into_iter().chain(flags.iter().copied()))
    };
    assert_usage_error(&search(&[]), &["--p99-max", "--errors-max"]);
    assert_usage_error(&search(&["--errors-max=0", "--rate-min=0"]), &["above 0"]);
    assert_usage_error(&search(&["--errors-max=0", "--runs-max=1"]), &["a run for each"]);
    assert_usage_error(&search(&["--errors-max=0", "--fractions=0.5,3"]), &["at most 2"]);
    assert_usage_error(&search(&["--errors-max=0", "--rounds=0"]), &["1 or more"]);
    let earlier = "'--search-duration' is now --duration";
    assert_usage_error(&search(&["--search-duration=1s"]), &[earlier]);
    let ended = load(["sweep", "tcp://127.0.0.1:1"]);
    assert_usage_error(&ended, &["'sweep' is now search --fractions 0.25,0.5,0.75,0.9"]);
}

#[test]
fn short_flags_and_plain_numbers_are_accepted() {
    let test_server = TestServer::for_load();
    let address = format!("localhost:{}/mcp", test_server.http().port());
    let flags = ["-c", "2", "-n", "20", "-r", "100", "--warm-up", "0", "--timeout", "5"];
    let ended = load(["run", &address, "--quiet"].into_iter().chain(flags));
    let ExitResult { stdout: out, stderr, .. } = ended;
    assert_eq!(stderr, "", "{out}");
    assert!(out.contains("2 connections × 1 · 0.2 s"), "{out}");
    assert!(out.contains("requests 20 due"), "{out}");
    assert!(out.contains("calls    tools/call echo {\"message\":\"abc"), "{out}");
    assert!(out.lines().all(|line| line.chars().count() <= 100), "{out}");
    let closed = ["-n", "50", "-c", "3", "--closed", "--warm-up", "0", "--quiet"];
    let ExitResult { status, stdout, .. } = load(["run", &address].into_iter().chain(closed));
    assert_eq!(status, 0, "{stdout}");
    assert!(stdout.contains("requests 50 due · 50 sent · 50 answered"), "{stdout}");
    let ended = load(["run", &address, "-n", "5", "-d", "1"]);
    assert_usage_error(&ended, &["--requests", "--duration"]);
    for flag in ["-d=1", "--span=1"] {
        let ended = load(["run", &address, "--quiet", "--rate=20", "--warm-up=0", flag]);
        assert!(ended.stdout.contains(" · 1.0 s\n"), "{}{}", ended.stdout, ended.stderr);
    }
}

#[test]
fn mixed_tools_with_random_values_meet_expectations() {
    let test_server = TestServer::for_load();
    for target in [format!("http://{}", test_server.http()), format!("tcp://{}", test_server.tcp())]
    {
        let path = file("mixed-tools.json", "");
        let mixed = |expectation: &str| {
            let first = r#"--arguments={"message":"{{uuid}} {{int 10 99}}"}"#;
            let flags = ["--tool=echo", first, "--expect", expectation, "--weight=3"];
            let second = ["--tool=echo", r#"--arguments={"message":"b"}"#, "--expect=b"];
            let kept = ["--errors-max=0", "--quiet", "--json", path.to_str().unwrap()];
            let flags: Vec<&str> = flags.into_iter().chain(second).chain(kept).collect();
            let ended = run(&target, &flags);
            let text = std::fs::read_to_string(&path).unwrap();
            (ended, serde_json::from_str::<RunResult>(&text).unwrap())
        };
        let (ended, result) = mixed("regex:^[0-9a-f]{8}-[-0-9a-f]{27} [1-9][0-9]$");
        assert_eq!((ended.status, result.totals.failures.len()), (0, 0), "{}", ended.stdout);
        assert_eq!(result.plan.calls.len(), 2);
        let (ended, result) = mixed("contains:never");
        let wrong = result.totals.failures["wrong"];
        assert_eq!(ended.status, 1, "{}", ended.stdout);
        assert!(wrong > 0 && result.totals.answered > 0, "{}", ended.stdout);
    }
}

#[test]
fn printed_plan_repeats_the_flags() {
    let flags =
        ["plan", "--print", "localhost:1/x", "-c", "3", "-r", "7", "-d", "2", "--tool", "a"];
    let ExitResult { status, stdout: out, stderr } = load(flags);
    assert_eq!((status, stderr.as_str()), (0, ""), "{out}");
    let plan: Plan = toml::from_str(&out).unwrap();
    assert_eq!((plan.target.as_str(), plan.connections), ("localhost:1/x", 3));
    assert!((plan.phases[0].rate - 7.0).abs() < f64::EPSILON);
    assert_eq!(plan.calls[0].tool.as_deref(), Some("a"));
    let again = load(["plan", "--print", "--plan", file("printed.toml", &out).to_str().unwrap()]);
    assert_eq!(again.stdout, out);
    assert_usage_error(&load(["plan", "--print", "x", "--rat=1"]), &["--rat"]);
}

#[test]
fn plan_schema_and_reference_are_printed() {
    let schema: Value = serde_json::from_str(&load(["plan", "--schema"]).stdout).unwrap();
    assert!(schema["properties"]["target"]["description"].is_string());
    let reference = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/plan.md");
    let written = std::fs::read_to_string(reference).unwrap();
    let printed = load(["plan", "--reference"]).stdout;
    assert_eq!(written, printed, "run corelane-load plan --reference > docs/plan.md");
}

#[test]
fn help_groups_options_by_purpose() {
    let ExitResult { stdout, .. } = load(["run", "--help"]);
    let headings = [
        "Arguments:",
        "Load:",
        "Requests:",
        "Thresholds: response times, errors and rate:",
        "Server under test:",
        "Credentials and TLS:",
        "Connections:",
        "Load generator:",
        "Output:",
    ];
    let places: Vec<_> = headings.iter().map(|heading| stdout.find(heading)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}\n{stdout}");
    let first = stdout.split("\nLoad:\n").nth(1).unwrap().trim_start();
    assert!(first.starts_with("-r, --rate"), "{stdout}");
}
