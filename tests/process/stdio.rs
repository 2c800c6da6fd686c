//! `corelane stdio`: MCP over standard input and output.

use corelane_test_support::messages::{LEGACY_REVISIONS, MODERN, echo, modern};
use corelane_test_support::process::Signal;
use corelane_test_support::{Process, SMALL_RINGS};
use serde_json::json;

use crate::CORELANE;
use crate::mcp_client::{McpClient, initialize_params};

/// Starts `corelane stdio` with small rings and further arguments.
fn start(arguments: &[&str]) -> Process {
    Process::start(CORELANE, &[&["stdio"], SMALL_RINGS.as_slice(), arguments].concat())
}

#[test]
fn stdio_serves_every_protocol_version() {
    for revision in LEGACY_REVISIONS.into_iter().chain([MODERN]) {
        run_session(&[], revision);
    }
}

#[test]
fn stdio_is_served_by_every_ring_and_executor() {
    run_session(&["--ring", "poll"], MODERN);
    run_session(&["--ring", "uring"], MODERN);
    if cfg!(feature = "glommio") {
        run_session(&["--ring", "uring", "--executor", "glommio"], MODERN);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn idle_stdio_server_has_three_threads() {
    let mut process = start(&[]);
    let mut client = process.take_pipes();
    client.exchange(modern(echo(1, "answered")));
    let threads = std::fs::read_dir(format!("/proc/{}/task", process.id()));
    let names = threads.expect("process is running").map(|thread| {
        let name = thread.expect("thread is listed").path().join("comm");
        std::fs::read_to_string(name).expect("thread runs")
    });
    let names: Vec<String> = names.collect();
    // The main thread, the shard, and the writer of the log.
    assert_eq!(names.len(), 3, "{names:?}");
    drop(client);
    assert_eq!(process.wait().status, 0);
}

/// Anonymous memory of an idle server that no file is mapped to: the relocated data of the program
/// grows with its code. A debug build has 1.8 MiB; 1 MiB more, of receive buffers or tables touched
/// before their use, exceeds it.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const IDLE_KIB_MAX: usize = 2560;

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn idle_stdio_server_holds_little_memory() {
    for ring in ["poll", "uring"] {
        let mut process = Process::start(CORELANE, &["stdio", "--ring", ring]);
        let mut client = process.take_pipes();
        client.exchange(modern(echo(1, "answered")));
        let mappings = std::fs::read_to_string(format!("/proc/{}/smaps", process.id()));
        let mappings = mappings.expect("process is running");
        let (mut has_file, mut kib) = (false, 0);
        for line in mappings.lines() {
            match line.split_once(':').map(|(name, value)| (name, value.trim())) {
                Some(("Anonymous", value)) if !has_file => {
                    let value = value.trim_end_matches(" kB").parse::<usize>();
                    kib += value.expect("Anonymous is a number");
                }
                Some((name, _)) if !name.contains('-') => {}
                // The range of a mapping, and its file.
                _ => has_file = line.contains('/'),
            }
        }
        assert!((1..=IDLE_KIB_MAX).contains(&kib), "{kib} KiB");
    }
}

fn run_session(arguments: &[&str], revision: &'static str) {
    let mut process = start(arguments);
    let mut session = McpClient::connect(process.take_pipes(), revision);
    session.use_all_tools();
    session.peer.shutdown_write();
    session.peer.expect_end_or_reset();
    let ended = process.wait();
    assert_eq!(ended.status, 0, "{arguments:?} {revision}: {}", ended.stderr);
}

#[test]
fn stdio_reads_lines_of_every_kind() {
    let mut process = start(&[]);
    let mut client = process.take_pipes();
    let text = |id: u64| modern(echo(id, "read")).to_string();
    // A byte order mark, a bare `\r` as line end and as white space, and blank lines.
    client.send_bytes(format!("\u{feff}{}\r\n", text(1)).as_bytes());
    client.send_bytes(format!(" \r\n{}\r{}\r", text(2), text(3)).as_bytes());
    client.send_bytes(format!("\n{}\n", text(4).replace(",\"id\"", ",\r\"id\"")).as_bytes());
    for id in 1..=4 {
        assert_eq!(client.receive()["id"], id);
    }
    // Text that is not UTF-8 is skipped, whatever else is wrong with it.
    for line in [&b"{\"id\":5,\"a\":\"\xff\"}\n"[..], b"\xff\n", b"\"\xff\n"] {
        client.send_bytes(line);
    }
    client.send_bytes(
        b"{\"jsonrpc\":\"2.0\",\"id\":6,\"method\":\"ping\",\"params\":{\"n\":1e400}}\n",
    );
    let response = client.receive();
    assert_eq!((&response["id"], &response["error"]["code"]), (&json!(6), &json!(-32700)));
    drop(client);
    let ended = process.wait();
    assert_eq!(ended.status, 0);
    assert_eq!(ended.stderr.matches("invalid UTF-8 skipped").count(), 3, "{}", ended.stderr);
}

#[test]
fn pending_call_is_answered_after_end_of_input() {
    let mut process = start(&[]);
    let mut session = McpClient::modern(process.take_pipes());
    let arguments = json!({"steps": 3, "step_ms": 10});
    let slow = session.send_request("tools/call", json!({"name": "slow", "arguments": arguments}));
    session.peer.shutdown_write();
    session.receive_response(slow, "tools/call");
    session.peer.expect_end_or_reset();
    assert_eq!(process.wait().status, 0);
}

#[test]
fn unfinished_call_gets_error_after_end_of_input() {
    for ring in ["poll", "uring"] {
        let mut process = start(&["--drain-timeout", "100", "--ring", ring]);
        let mut session = McpClient::modern(process.take_pipes());
        let (unfinished, _) = session.start_slow(1_000, 60_000);
        session.peer.shutdown_write();
        let response = session.receive_response(unfinished, "tools/call");
        assert_eq!(response["error"]["code"], -32603, "{response}");
        session.peer.expect_end_or_reset();
        assert_eq!(process.wait().status, 0);
    }
}

#[test]
fn sigterm_after_end_of_input_ends_stdio() {
    let mut process = start(&["--drain-timeout", "1h"]);
    let mut session = McpClient::modern(process.take_pipes());
    let (unfinished, _) = session.start_slow(1_000, 60_000);
    // Without a newline: the response shows that the end of the input is processed.
    let last = modern(echo(7, "last"));
    session.peer.send_bytes(last.to_string().as_bytes());
    session.peer.shutdown_write();
    session.receive_response(7, "tools/call");
    process.signal(Signal::TERM);
    let response = session.receive_response(unfinished, "tools/call");
    assert_eq!(response["error"]["data"]["started"], true, "{response}");
    session.peer.expect_end_or_reset();
    assert_eq!(process.wait().status, 0);
}

#[test]
fn running_task_does_not_delay_end_of_input() {
    let mut process = start(&["--demo", "conformance"]);
    let mut session = McpClient::legacy(process.take_pipes(), LEGACY_REVISIONS[3]);
    let arguments = json!({"seconds": 600});
    let params = json!({"name": "slow_compute", "arguments": arguments, "task": {}});
    let created = session.expect_result("tools/call", params);
    assert_eq!(created["task"]["status"], "working", "{created}");
    session.peer.shutdown_write();
    session.peer.expect_end_or_reset();
    assert_eq!(process.wait().status, 0);
}

#[test]
fn sized_demo_has_tools_and_texts() {
    let mut process = start(&["--demo", "tools=130,bytes=2KiB", "--page-size", "100"]);
    let mut session = McpClient::legacy(process.take_pipes(), LEGACY_REVISIONS[3]);
    let first = session.expect_result("tools/list", json!({}));
    assert_eq!(first["tools"].as_array().map(Vec::len), Some(100));
    let rest = session.expect_result("tools/list", json!({"cursor": first["nextCursor"]}));
    assert_eq!(rest["tools"].as_array().map(Vec::len), Some(30));
    let result = session.expect_result("tools/call", json!({"name": "tool_130"}));
    assert_eq!(result["content"][0]["text"].as_str().map(str::len), Some(2_048));
    drop(session);
    assert_eq!(process.wait().status, 0);
}

#[test]
fn configured_identity_is_sent_to_clients() {
    let options = [
        "--server-name",
        "library",
        "--server-version",
        "7",
        "--server-title",
        "The library",
        "--server-instructions",
        "Search first.\nThen read.",
    ];
    for (options, name, title, has_instructions) in [
        (options.as_slice(), "library", json!("The library"), true),
        (&options[..4], "library", json!(null), false),
        (&[], "corelane", json!("Corelane"), false),
    ] {
        let mut process = start(options);
        let mut session = McpClient::without_handshake(process.take_pipes(), LEGACY_REVISIONS[3]);
        let result = session.expect_result("initialize", initialize_params(LEGACY_REVISIONS[3]));
        let info = &result["serverInfo"];
        assert_eq!((&info["name"], &info["title"]), (&json!(name), &title), "{info}");
        assert_eq!(info["version"] == "7", !options.is_empty(), "{info}");
        let instructions = has_instructions.then_some("Search first.\nThen read.");
        assert_eq!(result["instructions"].as_str(), instructions, "{result}");
    }
}

#[test]
fn sigterm_ends_stdio_while_input_is_open() {
    let mut process = start(&[]);
    let mut session = McpClient::modern(process.take_pipes());
    session.check_echo("it runs");
    process.signal(Signal::TERM);
    session.peer.expect_end_or_reset();
    let ended = process.wait();
    assert_eq!(ended.status, 0, "{}", ended.stderr);
}

#[test]
fn invalid_line_gets_error_and_is_skipped() {
    let mut process = start(&[]);
    let mut session = McpClient::modern(process.take_pipes());
    session.peer.send_line(b"");
    session.peer.send_line(b"nonsense");
    assert_eq!(session.receive(None)["error"]["code"], -32700);
    // Invalid UTF-8 is logged and skipped without a response.
    session.peer.send_line(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\xfe\"}");
    session.check_echo("alive");
    session.peer.shutdown_write();
    session.peer.expect_end_or_reset();
    assert_eq!(process.wait().status, 0);
}

#[test]
fn message_over_limit_is_rejected_and_skipped() {
    let mut process = start(&["--message-bytes-max", "4096"]);
    let mut session = McpClient::modern(process.take_pipes());
    session.peer.send_line(&vec![b'7'; 100_000]);
    assert_eq!(session.receive(None)["error"]["code"], -32012);
    session.check_echo("alive");
}
