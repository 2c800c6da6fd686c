//! Outputs of a run for CI, and what a result says of its origin.

use std::path::Path;
use std::process::Command;

use corelane_load::result::{RunResult, RunStatus};
use serde_json::Value;

use super::{Run, ServerModel, TruthServer, run};
use crate::{LOAD, file_path, load};

/// Flags of a short run of 30 requests.
const SHORT: [&str; 5] =
    ["-r=50", "--connections=8", "--warm-up=0s", "--duration=600ms", "--lag-max=1min"];

fn path_text(name: &str) -> String {
    file_path(name).to_str().unwrap().to_owned()
}

/// Runs once with files for CI, and returns their paths: `JUnit` and `OpenMetrics`.
fn run_with_files(name: &str) -> (Run, [String; 2]) {
    let files = ["xml", "prom"].map(|extension| path_text(&format!("{name}.{extension}")));
    let [junit, metrics] = [("junit", &files[0]), ("openmetrics", &files[1])]
        .map(|(flag, path)| format!("--{flag}={path}"));
    let flags = ["--p99-max=9ms", "--errors-max=0", "--commit=abc", "--markdown=-"];
    let flags: Vec<&str> = SHORT.into_iter().chain(flags).chain([&*junit, &metrics]).collect();
    (run(ServerModel { workers: 8, ..ServerModel::default() }, &flags), files)
}

#[test]
fn run_writes_files_for_ci() {
    let (Run { result, ended, .. }, files) = run_with_files("ci-files");
    assert_eq!((result.status(), ended.status), (RunStatus::Missed, 1), "{}", ended.stdout);
    assert!(ended.stdout.starts_with("### MISSED: p99 "), "{}", ended.stdout);
    assert!(ended.stdout.contains("\n| response | "), "{}", ended.stdout);
    let [junit, metrics] = files.map(|path| std::fs::read_to_string(path).unwrap());
    for part in [
        "tests=\"3\" failures=\"1\" errors=\"0\"",
        "name=\"p99\"><failure message=\"p99 ",
        "name=\"errors\"><system-out>errors 0.0000, limit 0<",
        "name=\"valid\"><system-out>",
    ] {
        assert!(junit.contains(part), "{part} is not in {junit}");
    }
    for line in [
        "corelane_load_requests{state=\"answered\"} 30",
        "corelane_load_threshold_kept{threshold=\"p99\"} 0",
        "corelane_load_threshold_kept{threshold=\"errors\"} 1",
        "corelane_load_run_passed 0",
    ] {
        assert!(metrics.lines().any(|it| it == line), "{line} is not in {metrics}");
    }
}

#[test]
fn stored_result_is_converted_for_ci() {
    let result = path_text("ci-stored.json");
    let server = TruthServer::start(ServerModel { workers: 8, ..ServerModel::default() });
    let json = format!("--json={result}");
    let written = path_text("ci-written.xml");
    let junit = format!("--junit={written}");
    let target = server.target();
    load(["run", &target, "--quiet", &json, &junit].into_iter().chain(SHORT));
    let converted = path_text("ci-converted.xml");
    let ended = load(["report", &result, "--junit", &converted, "--markdown", "-"]);
    assert!(ended.status == 0 && ended.stdout.starts_with("### "), "{ended:?}");
    let [written, converted] = [written, converted].map(|path| std::fs::read(path).unwrap());
    assert_eq!(written, converted);
}

#[test]
fn result_names_server_host_start_and_commit() {
    let (Run { result, .. }, _) = run_with_files("ci-origin");
    let manifest = result.manifest;
    let server = manifest.server.unwrap();
    assert_eq!((&*server.name, &*server.version), ("truth", "1"));
    assert_eq!(manifest.commit.as_deref(), Some("abc"));
    assert!(!manifest.host.is_empty());
    assert!(manifest.started_unix_s > 0 && manifest.started_unix_s <= manifest.ended_unix_s);
}

/// Runs in a directory with this commit of the CI system, and returns that of the result.
fn commit_in(directory: &Path, of_ci: &str) -> Value {
    let server = TruthServer::start(ServerModel { workers: 8, ..ServerModel::default() });
    let result = path_text(&format!("ci-commit-{of_ci}.json"));
    let mut command = Command::new(LOAD);
    command.args(["run", &server.target(), "--quiet", "--json", &result]).args(SHORT);
    command.current_dir(directory).env("GITHUB_SHA", of_ci);
    for name in ["CI_COMMIT_SHA", "BUILDKITE_COMMIT", "CIRCLE_SHA1", "GIT_COMMIT"] {
        command.env_remove(name);
    }
    command.output().unwrap();
    let result: RunResult =
        serde_json::from_str(&std::fs::read_to_string(result).unwrap()).unwrap();
    result.manifest.commit.into()
}

#[test]
fn commit_comes_from_ci_or_git() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(commit_in(directory.path(), "f00"), "f00");
    assert_eq!(commit_in(directory.path(), ""), Value::Null);
    let git = |arguments: &[&str]| {
        let identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
        Command::new("git")
            .args(identity)
            .args(arguments)
            .current_dir(directory.path())
            .output()
            .is_ok_and(|ended| ended.status.success())
    };
    if git(&["init", "-q"]) && git(&["commit", "-q", "--allow-empty", "-m", "a"]) {
        let commit = commit_in(directory.path(), "");
        assert!(commit.as_str().is_some_and(|commit| commit.len() == 40), "{commit}");
    }
}

#[test]
#[ignore = "needs promtool: ./test.sh installs it and runs the test"]
fn openmetrics_pass_promtool() {
    let (_, [_, metrics]) = run_with_files("ci-promtool");
    let installed = file_path("promtool/usr/bin/promtool");
    let promtool = if installed.exists() { installed } else { "promtool".into() };
    let metrics = std::fs::File::open(metrics).unwrap();
    let ended = Command::new(promtool).args(["check", "metrics"]).stdin(metrics).output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
}
