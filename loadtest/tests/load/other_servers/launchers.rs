//! Tests of servers behind programs that start them: their processes are measured and end.

use std::net::TcpListener;
use std::process::Command;

use corelane_test_support::ExitResult;
use serde_json::Value;

use super::SHORT;
use super::installed::{everything, installed};
use crate::{LOAD, file_path};

/// Variable of the environment that marks the processes of a test.
const MARK: &str = "CORELANE_LOAD_TEST";
/// Memory that no shell needs, and every server here does.
const RESIDENT_MIN: u64 = 30 << 20;
/// Cores that no shell uses while it waits.
const CORES_MIN: f64 = 0.02;

/// Runs the command where npx and uvx find what is installed without a network, and returns its
/// result with that in JSON. No process is left.
fn run(mark: &str, target: &str, flags: &[&str]) -> (ExitResult, Value) {
    let json = file_path(&format!("{mark}.json"));
    let ended = Command::new(LOAD)
        .args(["run", target])
        .args(SHORT)
        .args(flags)
        .arg("--json")
        .arg(&json)
        .current_dir(installed("node"))
        .envs([(MARK, mark), ("npm_config_offline", "true"), ("UV_OFFLINE", "1")])
        .env("UV_TOOL_DIR", installed("uv/tools"))
        .env("UV_CACHE_DIR", installed("uv/cache"))
        .output()
        .unwrap();
    assert_eq!(processes(mark), Vec::<String>::new());
    let result = std::fs::read_to_string(&json).unwrap_or_default();
    // A refused run has none.
    (ended.into(), serde_json::from_str(&result).unwrap_or_default())
}

/// Returns the command lines of the processes with this mark.
fn processes(mark: &str) -> Vec<String> {
    let mark = format!("{MARK}={mark}\0");
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let marked = entries.filter(|entry| {
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        String::from_utf8_lossy(&environment).contains(&mark)
    });
    marked
        .map(|entry| std::fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default())
        .collect()
}

/// Asserts a run without failures whose cost is that of the server, not that of its launcher.
fn assert_measured(mark: &str, target: &str, flags: &[&str], call: &str) {
    let (ExitResult { status, stdout, stderr }, result) = run(mark, target, flags);
    assert_eq!(status, 0, "{stdout}{stderr}");
    assert!(stdout.starts_with("completed without thresholds\n"), "{stdout}");
    // A note on what else used the machine may come before.
    let head = stdout.lines().find(|line| line.starts_with(target)).unwrap_or_default();
    assert!(head.contains("closed loop"), "{stdout}");
    assert!(stdout.lines().any(|line| line.starts_with(&format!("calls    {call}"))), "{stdout}");
    let server = &result["server"];
    assert!(server["resident_bytes_max"].as_u64().unwrap() > RESIDENT_MIN, "{server}");
    assert!(server["cores"].as_f64().unwrap() > CORES_MIN, "{server}");
}

/// Runs the reference server over HTTP with a command that starts it.
fn assert_started_over_http(mark: &str, server: &str) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let target = format!("http://127.0.0.1:{port}/mcp");
    let server = format!("env PORT={port} {server}");
    assert_measured(mark, &target, &["--server", &server], "tools/call echo {\"message\":\"abc");
}

#[ignore = "needs Node.js: ./test.sh runs it"]
#[test]
fn shell_wrappers_of_servers_are_measured() {
    let server = everything();
    let server = server.display();
    let target = format!("stdio:sh -c 'node {server} stdio; echo ended >&2'");
    assert_measured("sh-stdio", &target, &[], "tools/call echo {\"message\":\"abc");
    assert_started_over_http("sh-http", &format!("sh -c 'node {server} streamableHttp; exit 1'"));
    // The shell does not wait for the server.
    assert_started_over_http(
        "sh-left",
        &format!("sh -c 'node {server} streamableHttp & sleep 600'"),
    );
}

#[ignore = "needs Node.js: ./test.sh runs it"]
#[test]
fn npx_servers_are_measured() {
    let server = "npx -y @modelcontextprotocol/server-everything";
    let call = "tools/call echo {\"message\":\"abc";
    assert_measured("npx-stdio", &format!("stdio:{server}"), &[], call);
    assert_started_over_http("npx-http", &format!("{server} streamableHttp"));
}

#[ignore = "needs uv: ./test.sh runs it"]
#[test]
fn uvx_server_is_measured_with_named_tool() {
    let target = format!("stdio:{} mcp-server-time", installed("python/bin/uvx").display());
    assert_measured("uvx-list", &target, &[], "tools/list");
    let arguments = r#"{"timezone":"UTC"}"#;
    let flags = ["--tool=get_current_time", "--arguments", arguments];
    let call = format!("tools/call get_current_time {arguments}");
    assert_measured("uvx", &target, &flags, &call);
}
