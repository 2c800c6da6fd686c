//! Tests of the output files of a run: CSV, histogram log, HTML; and of `corelane-load report`.
//!
//! Runs are closed loops, so that the assertions do not depend on the load of the machine.

#![expect(clippy::unwrap_used, reason = "test setup")]

use std::path::Path;
use std::process::{Command, Output};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use corelane_load::result::RunResult;
use corelane_test_support::TestServer;
use csv::{Reader, StringRecord};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

use crate::{LOAD, file_path, lines_without_warnings};

fn load(arguments: &[&str]) -> Output {
    Command::new(LOAD).args(arguments).output().unwrap()
}

/// Performs a short run with further flags.
fn run(test_server: &TestServer, flags: &[&str]) -> Output {
    run_target(&format!("http://{}", test_server.http()), flags)
}

fn run_target(target: &str, flags: &[&str]) -> Output {
    let short = ["run", target, "--closed", "--connections=2", "--warm-up=0s", "--duration=1200ms"];
    load(&[&short[..], flags].concat())
}

/// Performs a run that writes its result in these formats to files of this name.
fn keep(test_server: &TestServer, name: &str, forms: &[&str]) -> RunResult {
    let mut flags = vec!["--quiet".to_owned(), format!("--json={}", file_path(name).display())];
    flags.extend(forms.iter().map(|form| format!("--{form}={}.{form}", file_path(name).display())));
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let output = run(test_server, &flags);
    assert_eq!((output.status.code(), &output.stderr[..]), (Some(0), &b""[..]));
    serde_json::from_str(&read(&file_path(name))).unwrap()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

fn rows(path: &Path) -> (StringRecord, Vec<StringRecord>) {
    let mut reader = Reader::from_path(path).unwrap();
    let header = reader.headers().unwrap().clone();
    (header, reader.records().map(Result::unwrap).collect())
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

#[test]
fn csv_rows_sum_to_result() {
    let result = keep(&TestServer::for_load(), "rows", &["csv"]);
    let (header, rows) = rows(&file_path("rows.csv"));
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
fn hlog_histograms_sum_to_result() {
    let result = keep(&TestServer::for_load(), "histograms", &["hlog"]);
    let text = read(&file_path("histograms.hlog"));
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
    assert!((longest_us - result.response.max_us.unwrap()).abs() < 1.0);
    let ended = result.manifest.ended_unix_s;
    assert!((1..=3).contains(&(ended - began)), "from {began} to {ended}");
}

#[test]
fn report_reproduces_html_and_csv_of_run() {
    let test_server = TestServer::for_load();
    let result = keep(&test_server, "kept", &["html", "csv"]);
    let (kept, page, rows) = (file_path("kept"), file_path("again.html"), file_path("again.csv"));
    let output = load(&[
        "report",
        kept.to_str().unwrap(),
        "--html",
        page.to_str().unwrap(),
        "--csv",
        rows.to_str().unwrap(),
    ]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        corelane_load::report::table::table(&result)
    );
    assert_eq!(read(&page), read(&file_path("kept.html")));
    assert_eq!(read(&rows), read(&file_path("kept.csv")));
    let page = read(&page);
    let target = format!("<h1>http://{}</h1>", test_server.http());
    for part in [&target, "COMPLETED", r#"id="percentiles""#, r#"id="throughput""#, r#"id="plan""#]
    {
        assert!(page.contains(part), "{part} is not in the page");
    }
    assert!(!page.contains("src=") && !page.contains("href=") && !page.contains("<script"));
}

#[test]
fn report_reproduces_search_page_without_csv() {
    let test_server = TestServer::for_load();
    let (kept, page, again) =
        (file_path("sweep.json"), file_path("sweep.html"), file_path("sweep-again.html"));
    let target = format!("tcp://{}", test_server.tcp());
    let flags =
        ["--connections=2", "--warm-up=0s", "--p99-max=1h", "--fractions=0.5", "--rounds=1"];
    let bounds = ["--duration=200ms", "--fraction-duration=200ms", "--confirmations=1", "--quiet"];
    let rates = ["--rate-first=50", "--rate-min=50", "--rate-max=50", "--runs-max=1"];
    let files = ["--json", kept.to_str().unwrap(), "--html", page.to_str().unwrap()];
    let arguments = [&["search", &target], &flags[..], &bounds, &rates, &files].concat();
    let output = load(&arguments);
    // On an overloaded machine the load generator may be the limit.
    assert!([0, 1, 3].contains(&output.status.code().unwrap()), "{}", stderr(&output));
    let shown = load(&["report", kept.to_str().unwrap(), "--html", again.to_str().unwrap()]);
    assert_eq!((shown.status.code(), stderr(&shown)), (Some(0), ""));
    assert_eq!(shown.stdout, output.stdout);
    assert_eq!(read(&page), read(&again));
    let title = format!("<h1>{target}</h1>");
    assert!(read(&page).contains(&title) && read(&page).contains(r#"id="search""#));
    let rows = file_path("sweep.csv");
    let refused = load(&["report", kept.to_str().unwrap(), "--csv", rows.to_str().unwrap()]);
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(2), 0));
    assert!(stderr(&refused).contains("remove --csv") && !rows.exists(), "{}", stderr(&refused));
}

#[test]
fn missed_threshold_is_shown_in_html() {
    let page = file_path("missed.html");
    let flags = ["--quiet", "--p99-max=1ns", "--html", page.to_str().unwrap()];
    assert_eq!(run(&TestServer::for_load(), &flags).status.code(), Some(1));
    assert!(read(&page).contains("MISSED"));
}

#[test]
fn progress_without_terminal_is_lines() {
    let test_server = TestServer::for_load();
    let output = run_target(
        &format!("tcp://{}", test_server.tcp()),
        &["--era=modern", "--tool=echo", "--arguments={\"message\":\"a\"}"],
    );
    let lines = lines_without_warnings(stderr(&output));
    assert!((1..=4).contains(&lines.len()) && lines[0].contains("open 2"), "{lines:?}");
    assert!(!stderr(&output).contains('\x1b'));
    assert_eq!(stderr(&run(&test_server, &["--quiet"])), "");
}

#[test]
fn progress_block_without_terminal_has_no_colours() {
    let output = run(&TestServer::for_load(), &["--progress=block"]);
    let text = stderr(&output);
    assert!(text.contains("\x1b[4A") && text.contains("p99"), "{text}");
    assert!(!text.contains("\x1b[1m"), "{text}");
}

#[test]
fn unwritable_file_is_reported_before_the_run() {
    let test_server = TestServer::for_load();
    for form in ["json", "html", "csv", "hlog"] {
        let output = run(&test_server, &[&format!("--{form}=/nowhere/a.{form}")]);
        let text = stderr(&output);
        assert_eq!((output.status.code(), text.lines().count()), (Some(2), 1), "{text}");
        assert!(output.stdout.is_empty(), "{form}");
        assert!(text.contains(&format!("cannot write /nowhere/a.{form}")), "{text}");
    }
    let target = format!("tcp://{}", test_server.tcp());
    for form in ["json", "html"] {
        let file = format!("--{form}=/nowhere/a.{form}");
        let output = load(&["search", &target, "--p99-max=1s", &file]);
        let text = stderr(&output);
        assert_eq!((output.status.code(), text.lines().count()), (Some(2), 1), "{text}");
        assert!(text.contains(&format!("cannot write /nowhere/a.{form}")), "{text}");
    }
}

#[test]
fn invalid_result_file_is_reported() {
    let none = file_path("none.json");
    std::fs::write(&none, "{}").unwrap();
    for (kept, why) in [(none.to_str().unwrap(), "with --json"), ("/nowhere.json", "cannot read")] {
        let output = load(&["report", kept]);
        let text = stderr(&output);
        assert_eq!((output.status.code(), text.lines().count()), (Some(2), 1), "{text}");
        assert!(text.contains(kept) && text.contains(why), "{text}");
    }
}
