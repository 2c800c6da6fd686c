//! Tests of servers that end in the middle of a run.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use corelane_test_support::ListeningProcess;

use super::installed::python;
use crate::LOAD;

/// Kills the server of a run after its first second, and returns status and output of the run, its
/// words separated by single spaces.
fn kill_server_of_run(flags: &[&str]) -> (Option<i32>, String) {
    let server = ListeningProcess::start(|port| python("fastmcp_server.py", port));
    let mut load = Command::new(LOAD)
        .args(["run", &server.url(), "-c=1", "-d=4", "--warm-up=0"])
        .args(flags)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(load.stderr.take().unwrap()).lines().map_while(Result::ok);
    let progress = lines.find(|line| line.contains("/s  p50") && !line.contains("–/s"));
    drop(server);
    // Read to the end, so that the run never blocks on a full pipe.
    let rest: Vec<String> = lines.collect();
    let mut output = String::new();
    load.stdout.take().unwrap().read_to_string(&mut output).unwrap();
    assert!(progress.is_some(), "{rest:?}{output}");
    let words: Vec<&str> = output.split_whitespace().collect();
    (load.wait().unwrap().code(), words.join(" "))
}

#[ignore = "needs FastMCP: ./test.sh runs it"]
#[test]
fn server_that_ends_fails_closed_loop() {
    let (status, output) = kill_server_of_run(&["--closed"]);
    assert_eq!(status, Some(1), "{output}");
    let cause = "connections were lost and did not open again (0 of 1 at the end): ";
    let start = format!("FAILED {cause}connect: Connection refused");
    assert!(output.starts_with(&start), "{output}");
    // The request in flight is sent again if the server has sent nothing of its answer.
    let is_lost = output.contains(" lost 1 connections ");
    assert!(is_lost || output.contains(" repeated 1 requests"), "{output}");
}

#[ignore = "needs FastMCP: ./test.sh runs it"]
#[test]
fn server_that_ends_fails_open_loop() {
    let (status, output) = kill_server_of_run(&["--rate=50"]);
    assert_eq!(status, Some(1), "{output}");
    let cause = "because connections were lost and did not open again (0 of 1 at the end): ";
    assert!(output.starts_with("FAILED ") && output.contains(cause), "{output}");
}
