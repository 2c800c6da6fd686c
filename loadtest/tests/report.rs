//! What a run leaves behind: rows, histograms, a page; and the same made of a kept result.
//!
//! Runs are closed loops: nothing of what is asserted depends on how busy the machine is.

#![expect(clippy::unwrap_used, reason = "what a test sets up for itself has to be there")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use corelane_load::result::RunResult;
use csv::{Reader, StringRecord};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

use self::stage::Stage;

#[path = "support/stage.rs"]
mod stage;

/// A file of these tests.
fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn load(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_corelane-load")).args(arguments).output().unwrap()
}

/// Runs a server for a moment with further flags.
fn run(stage: &Stage, flags: &[&str]) -> Output {
    run_target(&format!("http://{}", stage.http), flags)
}

fn run_target(target: &str, flags: &[&str]) -> Output {
    let short = ["run", target, "--closed", "--connections=2", "--warm-up=0s", "--span=1200ms"];
    load(&[&short[..], flags].concat())
}

/// Runs a server and keeps the result with these flags, each with a file of this name.
fn keep(stage: &Stage, name: &str, forms: &[&str]) -> RunResult {
    let mut flags = vec!["--quiet".to_owned(), format!("--json={}", path(name).display())];
    flags.extend(forms.iter().map(|form| format!("--{form}={}.{form}", path(name).display())));
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let output = run(stage, &flags);
    assert_eq!((output.status.code(), &output.stderr[..]), (Some(0), &b""[..]));
    serde_json::from_str(&read(&path(name))).unwrap()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

fn rows(path: &Path) -> (StringRecord, Vec<StringRecord>) {
    let mut reader = Reader::from_path(path).unwrap();
    let header = reader.headers().unwrap().clone();
    (header, reader.records().map(Result::unwrap).collect())
}

fn said(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

#[test]
fn the_rows_of_a_run_add_up_to_its_result() {
    let result = keep(&Stage::new(), "rows", &["csv"]);
    let (header, rows) = rows(&path("rows.csv"));
    let column = |name: &str| {
        let place = header.iter().position(|column| column == name).unwrap();
        rows.iter().map(move |row| row[place].to_owned())
    };
    assert_eq!(rows.len(), result.seconds.len());
    let answered: u64 = column("answered").map(|count| count.parse::<u64>().unwrap()).sum();
    assert_eq!(answered, result.totals.answered);
    assert!(column("connections_open").all(|open| open == "2"));
    assert!(column("server_cores").all(|cores| cores.is_empty()));
}

#[test]
fn the_histograms_of_a_run_add_up_to_its_result() {
    let result = keep(&Stage::new(), "histograms", &["hlog"]);
    let text = read(&path("histograms.hlog"));
    let mut all: [Histogram<u64>; 2] = [(); 2].map(|()| Histogram::new(3).unwrap());
    let mut began = 0;
    for entry in IntervalLogIterator::new(text.as_bytes()) {
        match entry.unwrap() {
            LogEntry::Interval(interval) => {
                let bytes = STANDARD.decode(interval.encoded_histogram()).unwrap();
                let some: Histogram<u64> =
                    Deserializer::new().deserialize(&mut &bytes[..]).unwrap();
                let is_response = interval.tag().unwrap().as_str() == "response";
                all[usize::from(!is_response)].add(some).unwrap();
            }
            LogEntry::StartTime(time) | LogEntry::BaseTime(time) => began = time.as_secs(),
        }
    }
    let [response, service] = all;
    assert_eq!(response.len(), result.totals.answered);
    assert_eq!(service.len(), result.totals.answered);
    #[expect(clippy::cast_precision_loss, reason = "a latency")]
    let longest_us = response.max() as f64 / 1e3;
    assert!((longest_us - result.response.max_us).abs() < 1.0);
    let ended = result.manifest.ended_unix_s;
    assert!((1..=3).contains(&(ended - began)), "from {began} to {ended}");
}

#[test]
fn a_kept_result_makes_the_page_and_the_rows_of_its_run() {
    let stage = Stage::new();
    let result = keep(&stage, "kept", &["html", "csv"]);
    let (kept, page, rows) = (path("kept"), path("again.html"), path("again.csv"));
    let output = load(&[
        "report",
        kept.to_str().unwrap(),
        "--html",
        page.to_str().unwrap(),
        "--csv",
        rows.to_str().unwrap(),
    ]);
    assert_eq!((output.status.code(), said(&output)), (Some(0), ""));
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        corelane_load::report::table::table(&result)
    );
    assert_eq!(read(&page), read(&path("kept.html")));
    assert_eq!(read(&rows), read(&path("kept.csv")));
    let page = read(&page);
    let target = format!("<h1>http://{}</h1>", stage.http);
    for part in [&target, "PASSED", r#"id="percentiles""#, r#"id="throughput""#, r#"id="plan""#] {
        assert!(page.contains(part), "{part} is not in the page");
    }
    assert!(!page.contains("src=") && !page.contains("href=") && !page.contains("<script"));
}

#[test]
fn a_kept_sweep_makes_the_page_of_its_sweep_and_has_no_rows() {
    let stage = Stage::new();
    let (kept, page, again) = (path("sweep.json"), path("sweep.html"), path("sweep-again.html"));
    let target = format!("tcp://{}", stage.tcp);
    let flags = ["--connections=2", "--warm-up=0s", "--p99-max=1h", "--parts=0.5", "--rounds=1"];
    let bounds = ["--span=200ms", "--search-span=200ms", "--confirmations=1", "--quiet"];
    let rates = ["--rate-first=50", "--rate-min=50", "--rate-max=50", "--runs-max=1"];
    let files = ["--json", kept.to_str().unwrap(), "--html", page.to_str().unwrap()];
    let arguments = [&["sweep", &target], &flags[..], &bounds, &rates, &files].concat();
    let output = load(&arguments);
    // On a machine that is too busy for the generator itself there is no rate, and it says so.
    assert!([0, 1, 3].contains(&output.status.code().unwrap()), "{}", said(&output));
    let shown = load(&["report", kept.to_str().unwrap(), "--html", again.to_str().unwrap()]);
    assert_eq!((shown.status.code(), said(&shown)), (Some(0), ""));
    assert_eq!(shown.stdout, output.stdout);
    assert_eq!(read(&page), read(&again));
    let title = format!("<h1>{target}</h1>");
    assert!(read(&page).contains(&title) && read(&page).contains(r#"id="search""#));
    let rows = path("sweep.csv");
    let refused = load(&["report", kept.to_str().unwrap(), "--csv", rows.to_str().unwrap()]);
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(2), 0));
    assert!(said(&refused).contains("leave --csv out") && !rows.exists(), "{}", said(&refused));
}

#[test]
fn a_missed_threshold_stands_on_the_page() {
    let page = path("missed.html");
    let flags = ["--quiet", "--p99-max=1ns", "--html", page.to_str().unwrap()];
    assert_eq!(run(&Stage::new(), &flags).status.code(), Some(1));
    assert!(read(&page).contains("MISSED"));
}

#[test]
fn a_run_without_a_terminal_is_told_line_by_line() {
    let stage = Stage::new();
    let output = run_target(&format!("tcp://{}", stage.tcp), &[]);
    let lines: Vec<&str> = said(&output).lines().collect();
    assert!((1..=4).contains(&lines.len()) && lines[0].contains("open 2"), "{lines:?}");
    assert!(!said(&output).contains('\x1b'));
    assert_eq!(said(&run(&stage, &["--quiet"])), "");
}

#[test]
fn a_block_is_drawn_anew_in_plain_text_where_no_terminal_is() {
    let output = run(&Stage::new(), &["--progress=block"]);
    let text = said(&output);
    assert!(text.contains("\x1b[4A") && text.contains("p99"), "{text}");
    assert!(!text.contains("\x1b[1m"), "{text}");
}

#[test]
fn a_file_that_cannot_be_written_is_told_before_the_run() {
    let stage = Stage::new();
    for form in ["json", "html", "csv", "hlog"] {
        let output = run(&stage, &[&format!("--{form}=/nowhere/a.{form}")]);
        let text = said(&output);
        assert_eq!((output.status.code(), text.lines().count()), (Some(2), 1), "{text}");
        assert!(output.stdout.is_empty(), "{form}");
        assert!(text.contains(&format!("/nowhere/a.{form} cannot be written")), "{text}");
    }
    let target = format!("tcp://{}", stage.tcp);
    for form in ["json", "html"] {
        let file = format!("--{form}=/nowhere/a.{form}");
        let output = load(&["sweep", &target, "--p99-max=1s", &file]);
        let text = said(&output);
        assert_eq!((output.status.code(), text.lines().count()), (Some(2), 1), "{text}");
        assert!(text.contains(&format!("/nowhere/a.{form} cannot be written")), "{text}");
    }
}

#[test]
fn a_result_that_is_none_is_told_in_a_line() {
    let none = path("none.json");
    std::fs::write(&none, "{}").unwrap();
    for (kept, why) in [(none.to_str().unwrap(), "with --json"), ("/nowhere.json", "be read")] {
        let output = load(&["report", kept]);
        let text = said(&output);
        assert_eq!((output.status.code(), text.lines().count()), (Some(2), 1), "{text}");
        assert!(text.contains(kept) && text.contains(why), "{text}");
    }
}
