//! The client commands of the `corelane` binary in the parity dialect.

use corelane_test_support::{ExitResult, TestServer, http_options, run_program, tcp_options};
use serde_json::Value;

use crate::CORELANE;

/// Runs a command with `--dialect parity`.
fn run(command: &str, target: &str, arguments: &[&str]) -> ExitResult {
    let first = [command, target, "--dialect", "parity"];
    run_program(CORELANE, first.into_iter().chain(arguments.iter().copied()))
}

/// Runs a command that succeeds and returns what it prints.
fn output(command: &str, target: &str, arguments: &[&str]) -> String {
    let result = run(command, target, arguments);
    assert_eq!((result.status, result.stderr.as_str()), (0, ""), "{command} {arguments:?}");
    result.stdout
}

/// Runs a command that fails, and returns its exit status and the first line of its error.
fn failure(command: &str, target: &str, arguments: &[&str]) -> (i32, String) {
    let result = run(command, target, arguments);
    assert_eq!(result.stdout, "", "{command} {arguments:?}");
    let first = result.stderr.lines().next().unwrap_or_default();
    (result.status, first.to_owned())
}

#[test]
fn parity_commands_print_what_mcp_prints() {
    let server = TestServer::with_test_tools(tcp_options());
    let target = format!("tcp://{}", server.tcp());
    assert_eq!(output("call", &target, &["echo", "message=5"]), "5\n");
    for command in ["tools", "resources"] {
        let mcp = run_program(CORELANE, [command, &*target, "--era", "2025-11-25"]);
        assert_eq!(output(command, &target, &[]), mcp.stdout, "{command}");
    }
    assert!(output("ping", &target, &[]).contains("answered in"));
    let page = output("inspect", &target, &[]);
    assert!(page.contains("parity 1.0") && page.contains("resumeWindow"), "{page}");
    let page: Value = serde_json::from_str(&output("inspect", &target, &["--json"])).unwrap();
    assert_eq!(page["tools"][0]["name"], "echo");
    server.close();
    let server = TestServer::start(http_options());
    let ping = output("ping", &format!("http://{}", server.http()), &[]);
    assert!(ping.contains("/parity answered in"), "{ping}");
    for scheme in ["ws", "http"] {
        let target = format!("{scheme}://{}", server.http());
        assert_eq!(output("call", &target, &["echo", "message=hi"]), "hi\n");
    }
    server.close();
    let target = format!("stdio:{CORELANE} stdio --log error");
    // The program writes to the same standard error.
    assert_eq!(run("call", &target, &["echo", "message=hi"]).stdout, "hi\n");
}

#[test]
fn parity_progress_is_shown_if_verbose() {
    let server = TestServer::start(tcp_options());
    let target = format!("tcp://{}", server.tcp());
    let result = run("call", &target, &["slow", "steps=2", "step_ms=0", "-v"]);
    assert_eq!((result.status, &*result.stdout), (0, "took 2 steps of 0 ms\n"));
    for expected in ["the session is ready", "progress 1/2", "progress 2/2", "parity 1.0"] {
        assert!(result.stderr.contains(expected), "{}", result.stderr);
    }
    let result = run("call", &target, &["hash", "bytes=9", "-v"]);
    let part = format!("part {}", result.stdout.split_whitespace().collect::<String>());
    assert!(result.stderr.contains(&part), "{part}: {}", result.stderr);
    server.close();
}

#[test]
fn parity_failures_are_explained() {
    let server = TestServer::start(tcp_options());
    let target = format!("tcp://{}", server.tcp());
    let (status, text) = failure("call", &target, &["ecco"]);
    let hint = "there is no tool ecco, did you mean echo?";
    assert!(status == 1 && text.contains(hint), "{text}");
    let (status, text) = failure("tasks", &target, &[]);
    assert_eq!((status, &*text), (2, "error: the parity dialect has no tasks"));
    let (status, text) = failure("call", &target, &["echo", "--era", "modern"]);
    assert!(status == 2 && text.contains("cannot be used with"), "{text}");
    let mut options = tcp_options();
    options.parity.mode = corelane::options::ParityMode::Off;
    let mcp = TestServer::start(options);
    let (status, text) = failure("call", &format!("tcp://{}", mcp.tcp()), &["echo"]);
    let hint = "check that the target serves the parity dialect";
    assert!(status == 1 && text.contains(hint), "{text}");
    mcp.close();
    server.close();
}
