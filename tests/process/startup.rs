//! Successful and failed starts: output lines, exit codes, hints.

use std::net::TcpListener;
use std::process::{Command, Stdio};

use corelane_test_support::messages::{echo, modern};
use corelane_test_support::process::SMALL_RINGS;
use corelane_test_support::{ExitResult, HttpClient, Process, Request, ServeProcess};

use crate::CORELANE;

fn run(arguments: &[&str]) -> ExitResult {
    Process::start(CORELANE, arguments).wait()
}

/// Checks that the process exited with `code` without serving: standard error contains each of
/// `parts`, standard output is empty.
fn expect_start_error(ended: &ExitResult, code: i32, parts: &[&str]) {
    assert_eq!(ended.status, code, "{}", ended.stderr);
    assert_eq!(ended.stdout, "");
    for part in parts {
        assert!(ended.stderr.contains(part), "`{part}` is missing in:\n{}", ended.stderr);
    }
}

#[test]
fn engine_line_precedes_listener_line() {
    let server = ServeProcess::tcp_as_configured(CORELANE, &["--shards", "1"]);
    let lines = server.process.stderr_lines();
    let engine = lines.iter().find(|line| line.contains("INFO corelane "));
    let engine = engine.expect("engine line is printed");
    for word in ["ring", "executor", "shards", "cpus", "connections"] {
        assert!(engine.contains(word), "`{word}` is missing in: {engine}");
    }
    let last = lines.last().expect("listener line is printed");
    assert!(last.ends_with(&format!("INFO listening tcp {}", server.address)), "{last}");
}

#[test]
fn engine_line_counts_connections_of_all_listeners() {
    let bounds = [
        "--tcp-connections-max",
        "30",
        "--http-connections-max",
        "12",
        "--websocket-connections-max",
        "7",
        "--shards",
        "1",
    ];
    let listeners = ["serve", "--tcp", "127.0.0.1:0", "--http", "127.0.0.1:0"];
    let mut process = Process::start(CORELANE, &[listeners.as_slice(), &bounds].concat());
    process.wait_for(|line| line.contains("INFO listening http 127.0.0.1:"));
    let lines = process.stderr_lines();
    let engine = lines.iter().find(|line| line.contains("INFO corelane "));
    let engine = engine.expect("engine line is printed");
    let wanted = "connections 49 (bound by tcp.connections_max, http.connections_max and \
                  websocket.connections_max)";
    assert!(engine.ends_with(wanted), "{engine}");
    assert!(lines.iter().any(|line| line.contains("INFO listening tcp 127.0.0.1:")), "{lines:?}");
}

#[test]
fn stdio_engine_line_counts_one_connection() {
    let mut process = Process::start(CORELANE, &["stdio"]);
    let engine = process.wait_for(|line| line.contains("INFO corelane "));
    assert!(engine.ends_with("connections 1 (bound by standard input and output)"), "{engine}");
}

#[test]
fn invalid_http_host_fails_before_listening() {
    let ended = run(&["serve", "--http-hosts", "https://mcp.example.com"]);
    expect_start_error(
        &ended,
        1,
        &["flag --http-hosts", "\"https://mcp.example.com\" is not a host"],
    );
    assert!(!ended.stderr.contains("listening"), "{}", ended.stderr);
}

#[test]
fn listener_line_is_printed_with_log_off() {
    let server = ServeProcess::tcp(CORELANE, &["--log", "off"]);
    server.process.signal(rustix::process::Signal::TERM);
    assert_eq!(server.process.wait().status, 0);
}

#[test]
fn unknown_flag_is_usage_error() {
    expect_start_error(&run(&["serve", "--tpc", "127.0.0.1:0"]), 2, &["--tpc", "--tcp"]);
    expect_start_error(&run(&["sevre"]), 2, &["sevre", "serve"]);
    expect_start_error(&run(&[]), 2, &["serve", "stdio", "check"]);
}

#[test]
fn invalid_flag_value_error_names_flag() {
    expect_start_error(&run(&["serve", "--tcp", "nowhere"]), 1, &["tcp", "nowhere"]);
    expect_start_error(&run(&["serve", "--ring", "wheel"]), 1, &["ring", "wheel", "uring"]);
    expect_start_error(&run(&["stdio", "--shards", "-1"]), 1, &["shards", "-1"]);
}

#[test]
fn invalid_file_error_names_file_key_and_hint() {
    let folder = tempfile::tempdir().expect("temporary directory");
    let file = folder.path().join("corelane.toml");
    let path = file.to_str().expect("path is UTF-8");
    std::fs::write(&file, "[tcp]\nconections_max = 7\n").expect("configuration is written");
    for command in ["serve", "stdio", "check"] {
        let ended = run(&[command, "--config", path]);
        expect_start_error(&ended, 1, &[path, "conections_max", "connections_max"]);
    }
    std::fs::write(&file, "tcp = [").expect("configuration is written");
    expect_start_error(&run(&["serve", "--config", path]), 1, &[path]);
    std::fs::remove_file(&file).expect("configuration is removed");
    expect_start_error(&run(&["serve", "--config", path]), 1, &[path]);
}

#[test]
fn invalid_variable_error_names_variable() {
    let mut command = Command::new(CORELANE);
    command.arg("serve").env_clear().env("CORELANE_TCP", "nowhere");
    let ended = Process::spawn(&mut command).wait();
    expect_start_error(&ended, 1, &["CORELANE_TCP", "nowhere"]);
}

#[test]
fn address_in_use_error_names_address() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("free port");
    let address = taken.local_addr().expect("listener has an address").to_string();
    let ended = run(&["serve", "--http", "off", "--tcp", &address]);
    expect_start_error(&ended, 1, &[&address]);
}

#[test]
fn second_process_on_address_is_rejected() {
    for (transport, other) in [("--tcp", "--http"), ("--http", "--tcp")] {
        for ring in ["auto", "poll"] {
            let options = ["--shards", "2", "--ring", ring];
            let server = match transport {
                "--tcp" => ServeProcess::tcp(CORELANE, &options),
                _ => ServeProcess::http(CORELANE, &options),
            };
            let address = server.address.to_string();
            let again = [&["serve", other, "off", transport, &address], options.as_slice()];
            expect_start_error(&run(&again.concat()), 1, &[&address, "tcp.reuse_port"]);
        }
    }
}

#[test]
fn processes_with_reuse_port_share_address() {
    let options = ["--shards", "2", "--reuse-port"];
    let first = ServeProcess::tcp(CORELANE, &options);
    let address = first.address.to_string();
    let again = ["serve", "--http", "off", "--tcp", &address];
    let arguments = [again.as_slice(), &SMALL_RINGS, &options].concat();
    let mut second = Process::start(CORELANE, &arguments);
    second.wait_for(|line| line.ends_with(&format!(" listening tcp {address}")));
}

#[test]
fn serve_without_listener_is_rejected() {
    expect_start_error(&run(&["serve", "--tcp", "off", "--http", "off"]), 1, &["--tcp"]);
}

#[test]
fn check_accepts_its_own_output() {
    let ended = run(&["check", "--tcp", "127.0.0.1:0", "--http", "off"]);
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    let folder = tempfile::tempdir().expect("temporary directory");
    let file = folder.path().join("corelane.toml");
    std::fs::write(&file, &ended.stdout).expect("configuration is written");
    let again = run(&["check", "--config", file.to_str().expect("path is UTF-8")]);
    assert_eq!(again.status, 0, "{}\n{}", ended.stdout, again.stderr);
}

#[test]
fn check_with_closed_output_exits_successfully() {
    let (reader, writer) = std::io::pipe().expect("pipe is created");
    drop(reader);
    let mut command = Command::new(CORELANE);
    let child = command
        .args(["check", "--tcp", "127.0.0.1:0", "--http", "off"])
        .env_clear()
        .stdout(writer)
        .stderr(Stdio::piped())
        .spawn();
    let ended = child.and_then(std::process::Child::wait_with_output).expect("process runs");
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(0), "{stderr}");
    assert!(!stderr.contains("error") && !stderr.contains("pipe"), "{stderr}");
}

#[test]
fn empty_catalog_is_served_with_warning() {
    let server = ServeProcess::tcp_as_configured(CORELANE, &["--shards", "1", "--demo", "off"]);
    let warning =
        |line: &&String| line.contains("the server offers nothing") && line.contains("--prompts");
    assert_eq!(server.process.stderr_lines().iter().filter(warning).count(), 1);
    let server = ServeProcess::tcp(CORELANE, &["--shards", "1"]);
    assert_eq!(server.process.stderr_lines().iter().filter(warning).count(), 0);
}

#[test]
fn debug_log_has_a_line_per_connection() {
    let mut server = ServeProcess::tcp(CORELANE, &["--log", "debug"]);
    let mut client = server.connect();
    client.ping();
    drop(client);
    let line = server.process.wait_for(|line| line.contains("connection closed"));
    for field in
        ["transport=tcp", "reason=peer", "peer=127.0.0.1:", "messages_in=1", "messages_out=1"]
    {
        assert!(line.contains(field), "{line}");
    }
}

#[test]
fn refused_host_is_logged_once_a_minute() {
    let server = ServeProcess::http(CORELANE, &["--shards", "1"]);
    let mut client = HttpClient::connect(server.address);
    for _ in 0..3 {
        let request = Request::modern(&modern(echo(1, "a"))).field("Host", "mcp.example.com");
        client.exchange(&request).expect_error(403, -32600, None);
    }
    drop(client);
    server.process.signal(rustix::process::Signal::TERM);
    let ended = server.process.wait();
    let lines: Vec<&str> =
        ended.stderr.lines().filter(|line| line.contains("host refused")).collect();
    assert_eq!(lines.len(), 1, "{}", ended.stderr);
    assert!(lines[0].contains("option=http.hosts"), "{}", lines[0]);
    assert!(lines[0].contains("peer=127.0.0.1:"), "{}", lines[0]);
}

#[test]
fn public_address_without_authentication_is_refused() {
    for listener in [["--tcp", "0.0.0.0:0", "--http", "off"], ["--tcp", "off", "--http", "[::]:0"]]
    {
        for command in ["serve", "check"] {
            let ended = run(&[&[command], listener.as_slice()].concat());
            assert_eq!(ended.status, 1, "{}", ended.stderr);
            for part in ["does not authenticate clients", "auth.api_keys", "--insecure-public"] {
                assert!(ended.stderr.contains(part), "{part}: {}", ended.stderr);
            }
        }
    }
    let arguments = ["check", "--insecure-public", "--tcp", "0.0.0.0:0", "--http", "off"];
    let ended = run(&arguments);
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    assert!(ended.stderr.contains("warning: "), "{}", ended.stderr);
}
