//! The program as a script uses it: what it prints where, and the status that it ends with.
//!
//! Runs that have to count are closed loops: nothing of their verdict depends on how busy the
//! machine of the tests is.

#![expect(clippy::unwrap_used, reason = "what a test sets up for itself has to be there")]

use std::net::TcpListener;
use std::path::{Path, PathBuf};

use corelane_load::report::table::table;
use corelane_load::result::RunResult;
use serde_json::Value;

use self::program::{Ended, load};
use self::stage::Stage;

#[path = "support/program.rs"]
mod program;
#[path = "support/stage.rs"]
mod stage;

/// A short run that counts on every machine.
const SHORT: [&str; 4] = ["--closed", "--connections=2", "--warm-up=0s", "--span=300ms"];

/// A short run of this server with further flags.
fn run(target: &str, flags: &[&str]) -> Ended {
    load(["run", target].into_iter().chain(SHORT).chain(flags.iter().copied()))
}

/// A file of this test alone.
fn file(name: &str, text: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// Asserts that nothing was measured and that one line says why, with all of these parts.
fn assert_fruitless(ended: &Ended, parts: &[&str]) {
    let Ended { status, out, said } = ended;
    assert_eq!((*status, out.as_str(), said.lines().count()), (2, "", 1), "{said}");
    assert!(said.starts_with("corelane-load: "), "{said}");
    for part in parts {
        assert!(said.contains(part), "'{part}' is not in: {said}");
    }
}

#[test]
fn a_run_that_passes_prints_its_table_and_ends_with_zero() {
    let stage = Stage::new();
    let (tcp, http) = (stage.tcp, stage.http);
    for (target, shown) in [
        (format!("tcp://{tcp}"), format!("tcp://{tcp} · modern · closed loop · 2 connections")),
        (format!("http://{http}"), format!("http://{http} · modern")),
        (format!("ws://{http}"), format!("ws://{http} · modern")),
    ] {
        let Ended { status, out, said } =
            run(&target, &["--quiet", "--p99-max=1h", "--errors-max=0"]);
        assert_eq!((status, said.as_str()), (0, ""), "{out}");
        assert!(out.starts_with(&shown), "{out}");
        for row in ["requests ", "response", "service", "lag", "generator"] {
            assert!(out.lines().any(|line| line.starts_with(row)), "{row} is not in: {out}");
        }
        assert!(!out.contains("INVALID") && !out.contains("failed"), "{out}");
    }
}

#[test]
fn a_missed_threshold_is_shown_and_ends_with_one() {
    let stage = Stage::new();
    let target = format!("tcp://{}", stage.tcp);
    let Ended { status, out, .. } = run(&target, &["--era=legacy", "--p99-max=1ns"]);
    assert_eq!(status, 1, "{out}");
    assert!(out.contains("MISSED   p99") && out.contains("1ns allowed"), "{out}");
}

#[test]
fn a_run_whose_plan_could_not_be_kept_is_shown_and_ends_with_three() {
    // It lets clients connect and never says a word.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = silent.local_addr().unwrap();
    let plan = format!(
        "target = \"tcp://{target}\"\nconnections = 1\nwarm_up = \"0s\"\nanswer_max = \"100ms\"\n\
         [[phase]]\nrate = 100\nspan = \"300ms\"\n"
    );
    let plan = file("silent.toml", &plan);
    let Ended { status, out, .. } = load(["run", "--plan", plan.to_str().unwrap()]);
    assert_eq!(status, 3, "{out}");
    // Whose fault it is depends on how busy the machine of the test is.
    assert!(out.contains("  only ") && out.contains("timeout 1"), "{out}");
}

#[test]
fn a_result_that_was_written_says_what_the_table_says() {
    let stage = Stage::new();
    let path = file("result.json", "");
    let flags = ["--json", path.to_str().unwrap()];
    let Ended { status, out, .. } = run(&format!("http://{}", stage.http), &flags);
    assert_eq!(status, 0, "{out}");
    let text = std::fs::read_to_string(&path).unwrap();
    let result: RunResult = serde_json::from_str(&text).unwrap();
    assert_eq!(table(&result), out);
    let written: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_value(&result).unwrap(), written);
}

#[test]
fn a_server_that_is_not_there_is_told_in_a_line() {
    let target = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("tcp://{}", listener.local_addr().unwrap())
    };
    let ended = run(&target, &["--connect-max=100ms"]);
    assert_fruitless(&ended, &[&target, "refused", "start the server"]);
    let ended = load(["search", &target, "--errors-max=0", "--connect-max=100ms"]);
    assert_fruitless(&ended, &[&target, "refused"]);
}

#[test]
fn a_target_that_is_none_is_told_in_a_line() {
    assert_fruitless(&run("127.0.0.1:8888", &[]), &["tcp://HOST:PORT"]);
    assert_fruitless(&run("stdio:sh -c 'exit", &[]), &["a quote does not end"]);
    assert_fruitless(&run("tls://127.0.0.1", &[]), &["no port"]);
}

#[test]
fn a_plan_that_is_none_is_told_in_a_line() {
    let load = |plan: &Path| load(["run", "--plan", plan.to_str().unwrap()]);
    let mistaken = file("mistaken.toml", "target = \"tcp://127.0.0.1:1\"\nconections = 3\n");
    assert_fruitless(
        &load(&mistaken),
        &["mistaken.toml", "line 2", "unknown field `conections`", "`connections`"],
    );
    let broken = file("broken.toml", "target = \n");
    assert_fruitless(&load(&broken), &["broken.toml", "line 1"]);
    let senseless = file(
        "senseless.toml",
        "target = \"tcp://127.0.0.1:1\"\n[[phase]]\nrate = -1\nspan = \"1s\"\n",
    );
    assert_fruitless(&load(&senseless), &["rate = -1", "from 0 to"]);
    assert_fruitless(&load(Path::new("/nowhere.toml")), &["/nowhere.toml", "cannot be read"]);
}

#[test]
fn a_flag_that_is_not_understood_is_told_in_a_line() {
    let target = "tcp://127.0.0.1:1";
    assert_fruitless(&run(target, &["--era=middle"]), &["'middle'", "--era", "modern or legacy"]);
    assert_fruitless(&run(target, &["--p99-max=fast"]), &["'fast'", "--p99-max", "20ms"]);
    assert_fruitless(&run(target, &["--header=secret"]), &["--header", "Name: value"]);
    assert_fruitless(&run(target, &["--dept=2"]), &["'--dept'", "'--depth'"]);
    assert_fruitless(&load(["run"]), &["<TARGET>", "--help"]);
}

#[test]
fn a_search_shows_each_run_and_answers_with_its_confidence() {
    let stage = Stage::new();
    let target = format!("tcp://{}", stage.tcp);
    let Ended { status, out, said } = load([
        "search",
        &target,
        "--p99-max=1h",
        "--connections=2",
        "--warm-up=0s",
        "--span=300ms",
        "--rate-first=50",
        "--rate-max=50",
        "--confirmations=2",
        "--runs-max=4",
    ]);
    // A run that the generator spoiled is done again, at most twice.
    assert!((1..=12).contains(&said.lines().count()), "{said}");
    for (number, line) in (1..).zip(said.lines()) {
        assert!(line.starts_with(&format!("run {number:>3}")), "{line}");
    }
    // On a machine that is too busy for the generator itself the runs are invalid, and say so.
    if said.lines().all(|line| line.contains("passed")) {
        assert_eq!((status, said.lines().count()), (0, 2), "{said}{out}");
        assert!(out.contains("bears      50.0/s · 2 runs in a row passed"), "{out}");
        assert!(out.contains("at least 0.22") && out.contains("--rate-max"), "{out}");
    }
    assert!(out.starts_with(&format!("{target} · modern · open loop · 2 connections")), "{out}");
    for row in ["bears ", "confidence ", "limit "] {
        assert!(out.lines().any(|line| line.starts_with(row)), "{row} is not in: {out}");
    }
}

#[test]
fn a_search_that_makes_no_sense_is_told_in_a_line() {
    let search = |flags: &[&'static str]| {
        load(["search", "tcp://127.0.0.1:1"].into_iter().chain(flags.iter().copied()))
    };
    assert_fruitless(&search(&[]), &["--p99-max", "--errors-max"]);
    assert_fruitless(&search(&["--errors-max=0", "--rate-min=0"]), &["above 0"]);
    assert_fruitless(&search(&["--errors-max=0", "--runs-max=1"]), &["a run for each"]);
}
