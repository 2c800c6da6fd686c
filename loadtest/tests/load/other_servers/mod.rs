//! Tests of the command on servers of others, as somebody types it who has never used it.
//!
//! Runs are closed loops of a second, so that they are valid on every machine.

#![expect(clippy::unwrap_used, reason = "test setup")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

use corelane_test_support::{ExitResult, ListeningProcess};
use serde_json::{Value, json};

use self::installed::{everything, installed, python, script};
use crate::{LOAD, file_path, load};

mod installed;

mod endings;
mod launchers;
mod scenarios;
mod starting;

/// Flags of a short run.
const SHORT: [&str; 5] = ["--closed", "-c=1", "-d=1", "--warm-up=0", "--quiet"];

/// Runs the command against a target.
fn run(target: &str, flags: &[&str]) -> ExitResult {
    let arguments = ["run", target].into_iter().chain(flags.iter().copied());
    load(arguments)
}

/// Starts the reference server of MCP over HTTP.
fn reference_server() -> ListeningProcess {
    ListeningProcess::start(|port| {
        let mut command = Command::new("node");
        command.arg(everything()).arg("streamableHttp").env("PORT", port.to_string());
        command
    })
}

/// Starts the shop that `benches/rmcp` has with rmcp.
fn rmcp_server() -> ListeningProcess {
    let program = Path::new(LOAD).with_file_name("shop_rmcp");
    ListeningProcess::start(|port| {
        let mut command = Command::new(&program);
        command.args([&format!("127.0.0.1:{port}"), ""]);
        command
    })
}

/// Returns the first lines that a run without `--quiet` writes: what was chosen.
fn chosen(target: &str) -> (Vec<String>, ExitResult) {
    let flags: Vec<&str> = SHORT.into_iter().filter(|flag| *flag != "--quiet").collect();
    let ended = run(target, &flags);
    (ended.stderr.lines().take(2).map(String::from).collect(), ended)
}

/// Asserts a run without failures that begins with these notes.
fn assert_completed(target: &str, [version, call]: [&str; 2]) {
    let (notes, ExitResult { status, stdout, stderr }) = chosen(target);
    assert_eq!(status, 0, "{stdout}{stderr}");
    assert!(notes[0].starts_with(version), "{notes:?}");
    assert!(notes[1].starts_with(call), "{notes:?}");
    assert!(stdout.starts_with("completed without thresholds\n"), "{stdout}");
    // A note on what else used the machine may come before.
    let head = stdout.lines().find(|line| line.starts_with(target)).unwrap_or_default();
    assert!(head.contains("closed loop"), "{stdout}");
    assert!(stdout.lines().any(|line| line.starts_with(&format!("calls    {call}"))), "{stdout}");
    assert!(!stdout.contains(" of all"), "{stdout}");
}

/// Asserts exit status 2 and a single line with all parts.
fn assert_refused(target: &str, parts: &[&str]) {
    let ExitResult { status, stdout, stderr } = run(target, &[]);
    assert_eq!((status, stdout.as_str(), stderr.lines().count()), (2, "", 1), "{stderr}");
    for part in parts {
        assert!(stderr.contains(part), "'{part}' is not in: {stderr}");
    }
}

/// Starts a server that answers every request on a connection with `answer`, or closes it.
fn start(answer: impl Fn(&str) -> Option<String> + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = answer.clone();
            std::thread::spawn(move || serve(stream, answer));
        }
    });
    address
}

fn serve(mut stream: TcpStream, answer: impl Fn(&str) -> Option<String>) {
    let (mut received, mut buf) = (String::new(), [0; 4_096]);
    while let Ok(len @ 1..) = stream.read(&mut buf) {
        received.push_str(&String::from_utf8_lossy(&buf[..len]));
        while let Some((body, rest)) = split_request(&received) {
            let response = answer(&body);
            received = rest;
            let Some(response) = response else { return };
            if stream.write_all(response.as_bytes()).is_err() {
                return;
            }
        }
    }
}

/// Splits the body of the first complete request from what follows.
fn split_request(received: &str) -> Option<(String, String)> {
    let (head, rest) = received.split_once("\r\n\r\n")?;
    let mut lengths = head.lines().filter_map(|line| line.strip_prefix("Content-Length: "));
    let length = lengths.next().map_or(0, |length| length.parse().unwrap());
    let (body, rest) = (rest.get(..length)?, rest.get(length..)?);
    Some((body.into(), rest.into()))
}

fn response(status: &str, body: &str) -> String {
    let kind = "Content-Type: application/json";
    format!("HTTP/1.1 {status}\r\n{kind}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

#[test]
fn server_of_old_version_is_measured() {
    let address = start(|body| {
        let Ok(call) = serde_json::from_str::<Value>(body) else {
            return Some(response("405 Method Not Allowed", ""));
        };
        let result = match call["method"].as_str().unwrap() {
            "initialize" => {
                json!({ "protocolVersion": "2025-03-26", "capabilities": { "tools": {} },
                "serverInfo": { "name": "old", "version": "1" } })
            }
            "tools/list" => json!({ "tools": [{ "name": "now", "inputSchema": { "type": "object" },
                "annotations": { "readOnlyHint": true } }] }),
            "tools/call" => json!({ "content": [{ "type": "text", "text": "12:00" }] }),
            "notifications/initialized" => return Some(response("202 Accepted", "")),
            _ => return Some(response("400 Bad Request", "no session")),
        };
        let answer = json!({ "jsonrpc": "2.0", "id": call["id"], "result": result });
        Some(response("200 OK", &answer.to_string()))
    });
    let target = format!("http://{address}/mcp");
    assert_completed(&target, ["MCP 2025-03-26, since server/discover", "tools/call now {}"]);
}

#[test]
fn server_that_answers_500_is_refused() {
    let address = start(|_| Some(response("500 Internal Server Error", "out of order")));
    let parts = ["no MCP server answers", "HTTP status 500: out of order", "at initialize: the"];
    assert_refused(&format!("http://{address}/mcp"), &parts);
}

#[test]
fn refused_run_leaves_files_as_they_are() {
    let address = start(|_| Some(response("500 Internal Server Error", "out of order")));
    let file = |name: &str| file_path(&format!("refused.{name}"));
    std::fs::write(file("json"), "before").unwrap();
    let absent = ["html", "csv", "hlog"];
    let mut flags = vec![format!("--json={}", file("json").display())];
    for kind in absent {
        // It may be there from an earlier, failed test.
        std::fs::remove_file(file(kind)).unwrap_or(());
        flags.push(format!("--{kind}={}", file(kind).display()));
    }
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let target = format!("http://{address}/mcp");
    for wrong in ["--depth=1", "--depth=0"] {
        let ended = run(&target, &[&flags[..], &[wrong]].concat());
        assert_eq!(ended.status, 2, "{}", ended.stderr);
        assert_eq!(std::fs::read_to_string(file("json")).unwrap(), "before");
        assert!(absent.iter().all(|kind| !file(kind).exists()), "{wrong}");
    }
    let nowhere = run(&target, &["--html=/nowhere/refused.html"]);
    assert!(nowhere.stderr.contains("cannot write /nowhere/refused.html"), "{}", nowhere.stderr);
}

#[test]
fn server_that_never_answers_is_refused() {
    let address = start(|_| Some(String::new()));
    let target = format!("http://{address}/mcp");
    // Time for two answers: the server is not awaited for longer.
    let flags = ["--timeout=0.2", "--connect-timeout=0.4"];
    let ExitResult { status, stderr, .. } = run(&target, &flags);
    assert_eq!((status, stderr.lines().count()), (2, 1), "{stderr}");
    assert!(stderr.contains("server/discover: no response within 200ms"), "{stderr}");
}

#[test]
fn server_that_closes_connections_is_refused() {
    let address = start(|_| None);
    assert_refused(&format!("http://{address}/mcp"), &["closed the connection", "initialize"]);
    assert_refused("stdio:sh -c 'exit 3'", &["the program did not come up: ", "exit status: 3"]);
}

#[ignore = "needs Python 3: ./test.sh runs it"]
#[test]
fn file_server_is_refused() {
    let server = ListeningProcess::start(|port| {
        let mut command = Command::new("python3");
        command.args(["-m", "http.server", "--bind", "127.0.0.1", &port.to_string()]);
        command
    });
    assert_refused(&server.url(), &["no MCP server answers", "HTTP status 501"]);
}

#[ignore = "needs Node.js: ./test.sh runs it"]
#[test]
fn reference_server_is_measured_over_stdio_and_http() {
    let notes = ["MCP 2025-11-25, since server/discover", "tools/call echo {\"message\":\"abc"];
    assert_completed(&format!("stdio:node {} stdio", everything().display()), notes);
    let server = reference_server();
    assert_completed(&server.url(), notes);
}

#[ignore = "needs FastMCP: ./test.sh runs it"]
#[test]
fn fastmcp_server_is_measured_over_stdio_and_http() {
    let notes = ["MCP 2026-07-28", "tools/call add {}"];
    let (python_path, script) = (installed("python/bin/python"), script("fastmcp_server.py"));
    assert_completed(&format!("stdio:{} {}", python_path.display(), script.display()), notes);
    let server = ListeningProcess::start(|port| python("fastmcp_server.py", port));
    assert_completed(&server.url(), notes);
}

#[ignore = "needs the official Python SDK: ./test.sh runs it"]
#[test]
fn python_sdk_server_is_measured_over_http() {
    let server = ListeningProcess::start(|port| python("sdk_server.py", port));
    assert_completed(&server.url(), ["MCP 2026-07-28", "tools/call echo {\"text\":\"abc"]);
}

#[ignore = "needs the shop of benches/rmcp: ./test.sh runs it"]
#[test]
fn rmcp_server_is_measured_with_named_tool() {
    let server = rmcp_server();
    let (notes, _) = chosen(&server.url());
    let unmarked = "list_products (not marked as read-only)";
    assert!(notes[1].starts_with("tools/list, ") && notes[1].contains(unmarked), "{notes:?}");
    let flags = [&SHORT[..], &["--tool=list_products"]].concat();
    let ExitResult { status, stdout, stderr } = run(&server.url(), &flags);
    assert_eq!(status, 0, "{stdout}{stderr}");
    assert!(stdout.starts_with("completed without thresholds\n"), "{stdout}");
    assert!(stdout.contains(&format!("\n{} · modern · closed", server.url())), "{stdout}");
    assert!(stdout.contains("\ncalls    tools/call list_products {}\n"), "{stdout}");
}
