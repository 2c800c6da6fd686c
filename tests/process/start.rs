//! Starting, or saying why not: lines, exit codes and remedies.

use std::net::TcpListener;
use std::process::{Command, Stdio};

use crate::process::{Ended, Process, Server};

fn run(arguments: &[&str]) -> Ended {
    Process::start(arguments).end()
}

/// It ended without serving: the code says so, standard error names each of `parts`, and standard
/// output stays empty.
fn expect_refusal(ended: &Ended, code: i32, parts: &[&str]) {
    assert_eq!(ended.code, Some(code), "{}", ended.stderr);
    assert_eq!(ended.stdout, "");
    for part in parts {
        assert!(ended.stderr.contains(part), "`{part}` is not named in:\n{}", ended.stderr);
    }
}

#[test]
fn the_line_about_the_engine_comes_before_the_one_about_the_listener() {
    let server = Server::start_as_configured(&["--shards", "1"]);
    let told = server.process.told();
    let engine = told.iter().find(|line| line.starts_with("corelane "));
    let engine = engine.expect("it tells what carries the connections");
    for word in ["ring", "executor", "shards", "cpus", "connections"] {
        assert!(engine.contains(word), "`{word}` is not in: {engine}");
    }
    let last = told.last().expect("it told something");
    assert_eq!(*last, format!("listening tcp {}", server.address));
}

#[test]
fn both_doors_are_told_and_their_connections_counted() {
    let bounds = ["--tcp-connections-max", "30", "--http-connections-max", "12", "--shards", "1"];
    let doors = ["serve", "--tcp", "127.0.0.1:0", "--http", "127.0.0.1:0"];
    let mut process = Process::start(&[doors.as_slice(), &bounds].concat());
    process.wait_for(|line| line.starts_with("listening http 127.0.0.1:"));
    let told = process.told();
    let engine = told.iter().find(|line| line.starts_with("corelane "));
    let engine = engine.expect("it tells what carries the connections");
    let wanted = "connections 42 (bound by tcp.connections_max and http.connections_max)";
    assert!(engine.ends_with(wanted), "{engine}");
    assert!(told.iter().any(|line| line.starts_with("listening tcp 127.0.0.1:")), "{told:?}");
}

#[test]
fn over_pipes_there_is_one_connection() {
    let mut process = Process::start(&["stdio"]);
    let engine = process.wait_for(|line| line.starts_with("corelane "));
    assert!(engine.ends_with("connections 1 (bound by standard input and output)"), "{engine}");
}

#[test]
fn a_host_that_is_none_is_refused_before_anything_listens() {
    let ended = run(&["serve", "--http-hosts", "https://mcp.example.com"]);
    expect_refusal(&ended, 1, &["flag --http-hosts", "\"https://mcp.example.com\" is not a host"]);
    assert!(!ended.stderr.contains("listening"), "{}", ended.stderr);
}

#[test]
fn a_silent_log_still_tells_where_it_listens() {
    let server = Server::start(&["--log", "off"]);
    server.process.signal(rustix::process::Signal::TERM);
    assert_eq!(server.process.end().code, Some(0));
}

#[test]
fn an_unknown_flag_is_a_mistake_of_usage() {
    expect_refusal(&run(&["serve", "--tpc", "127.0.0.1:0"]), 2, &["--tpc", "--tcp"]);
    expect_refusal(&run(&["sevre"]), 2, &["sevre", "serve"]);
    expect_refusal(&run(&[]), 2, &["serve", "stdio", "check"]);
}

#[test]
fn a_flag_with_a_bad_value_is_refused_with_its_name() {
    expect_refusal(&run(&["serve", "--tcp", "nowhere"]), 1, &["tcp", "nowhere"]);
    expect_refusal(&run(&["serve", "--ring", "wheel"]), 1, &["ring", "wheel", "uring"]);
    expect_refusal(&run(&["stdio", "--shards", "-1"]), 1, &["shards", "-1"]);
}

#[test]
fn a_bad_file_is_refused_with_file_key_and_remedy() {
    let folder = tempfile::tempdir().expect("a folder for a moment");
    let file = folder.path().join("corelane.toml");
    let path = file.to_str().expect("the path is UTF-8");
    std::fs::write(&file, "[tcp]\nconections_max = 7\n").expect("the folder is ours");
    for command in ["serve", "stdio", "check"] {
        let ended = run(&[command, "--config", path]);
        expect_refusal(&ended, 1, &[path, "conections_max", "connections_max"]);
    }
    std::fs::write(&file, "tcp = [").expect("the folder is ours");
    expect_refusal(&run(&["serve", "--config", path]), 1, &[path]);
    std::fs::remove_file(&file).expect("the folder is ours");
    expect_refusal(&run(&["serve", "--config", path]), 1, &[path]);
}

#[test]
fn a_bad_variable_is_refused_with_its_name() {
    let variables = [("CORELANE_TCP", "nowhere")];
    let ended = Process::start_with(&["serve"], &variables).end();
    expect_refusal(&ended, 1, &["CORELANE_TCP", "nowhere"]);
}

#[test]
fn an_address_in_use_is_refused_with_the_address() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("the loopback has a free port");
    let address = taken.local_addr().expect("a listener has an address").to_string();
    let ended = run(&["serve", "--http", "off", "--tcp", &address]);
    expect_refusal(&ended, 1, &[&address]);
}

#[test]
fn nothing_to_serve_is_refused() {
    expect_refusal(&run(&["serve", "--tcp", "off", "--http", "off"]), 1, &["--tcp"]);
}

#[test]
fn check_prints_a_configuration_that_it_accepts_itself() {
    let ended = run(&["check", "--tcp", "127.0.0.1:0"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let folder = tempfile::tempdir().expect("a folder for a moment");
    let file = folder.path().join("corelane.toml");
    std::fs::write(&file, &ended.stdout).expect("the folder is ours");
    let again = run(&["check", "--config", file.to_str().expect("the path is UTF-8")]);
    assert_eq!(again.code, Some(0), "{}\n{}", ended.stdout, again.stderr);
}

#[test]
fn check_ends_quietly_where_its_reader_has_seen_enough() {
    let (reader, writer) = std::io::pipe().expect("there is room for a pipe");
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_corelane"));
    let child = command.arg("check").env_clear().stdout(writer).stderr(Stdio::piped()).spawn();
    let ended = child.and_then(std::process::Child::wait_with_output).expect("the program runs");
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(0), "{stderr}");
    assert!(!stderr.contains("error") && !stderr.contains("pipe"), "{stderr}");
}

#[test]
fn a_server_with_nothing_to_offer_says_so_and_serves() {
    let server = Server::start_as_configured(&["--shards", "1", "--demo", "false"]);
    let doubt = |line: &&String| line.contains("nothing is offered") && line.contains("--prompts");
    assert_eq!(server.process.told().iter().filter(doubt).count(), 1);
    let server = Server::start(&["--shards", "1"]);
    assert_eq!(server.process.told().iter().filter(doubt).count(), 0);
}
