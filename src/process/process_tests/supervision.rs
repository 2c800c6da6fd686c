//! The end of the server, and of the supervisor.

use std::io::{BufRead, BufReader, Read, stdout};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::{
    TIMEOUT, TestChild, is_running, no_stdio, run, shell, supervisor, supervisor_id,
    test_arguments, wait_for_end,
};
use crate::{ChildSpec, ChildStdio, Exit, Supervisor, SupervisorCommand};

/// Starts processes that do not end by themselves, each with its output.
const TREE: &str = "trap '' TERM; (setsid sleep 1000 &) ; sleep 1000 & echo child $PPID; read line;
    sleep 1000";

/// Name of the variable that makes [`server_process`] a server.
const SERVER_VARIABLE: &str = "CORELANE_TEST_SERVER";

/// Does nothing among the other tests.
#[test]
#[ignore = "the server process of a test"]
#[expect(clippy::disallowed_methods, reason = "it is a program of its own")]
fn server_process() {
    if std::env::var_os(SERVER_VARIABLE).is_none() {
        return;
    }
    let supervisor = supervisor();
    let handles: Vec<_> = (0..5)
        .map(|_| {
            let stdout = stdout().as_fd().try_clone_to_owned().unwrap();
            let stdio = ChildStdio { stdout, ..no_stdio() };
            supervisor.spawn(&shell(TREE), stdio, |_| {}).unwrap()
        })
        .collect();
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    drop(handles);
}

#[test]
fn nothing_is_left_after_sigkill_of_server() {
    let mut server = Command::new("/proc/self/exe")
        .args(test_arguments("supervision::server_process"))
        .env(SERVER_VARIABLE, "")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(server.stdout.take().unwrap());
    let mut supervisors = Vec::new();
    while supervisors.len() < 5 {
        let mut line = String::new();
        assert_ne!(output.read_line(&mut line).unwrap(), 0);
        if let Some((_, id)) = line.split_once("child ") {
            supervisors.push(id.trim().parse::<i32>().unwrap());
        }
    }
    server.kill().unwrap();
    server.wait().unwrap();
    // Ends once no process has the pipe.
    output.read_to_end(&mut Vec::new()).unwrap();
    supervisors.dedup();
    assert_eq!(supervisors.len(), 1);
    wait_for_end(supervisors[0]);
}

#[test]
fn nothing_is_left_after_drop_of_supervisor() {
    let supervisor = supervisor();
    let mut child = TestChild::spawn(&supervisor, &shell(TREE));
    let line = child.read_line();
    child.handle.detach();
    drop(supervisor);
    assert_eq!(child.exit.recv_timeout(TIMEOUT), Ok(Exit::Signal(9)));
    child.stdout.read_to_end(&mut Vec::new()).unwrap();
    wait_for_end(line.strip_prefix("child ").unwrap().parse().unwrap());
}

#[test]
fn killed_supervisor_is_started_again() {
    let supervisor = supervisor();
    let id = supervisor_id(&supervisor);
    let mut child = TestChild::spawn(&supervisor, &shell(TREE));
    assert_eq!(child.read_line(), format!("child {id}"));
    kill_process(Pid::from_raw(id).unwrap(), Signal::KILL).unwrap();
    // The processes of the child are gone, too.
    assert_eq!(child.finish().exit, Exit::SupervisorGone);
    assert!(!is_running(&id.to_string()));
    assert_ne!(supervisor_id(&supervisor), id);
}

#[test]
fn signals_of_a_terminal_do_not_end_supervisor() {
    let supervisor = supervisor();
    let id = supervisor_id(&supervisor);
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
        kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
    }
    assert_eq!(supervisor_id(&supervisor), id);
    let own = crate::proc_table::Stat::of(std::process::id().cast_signed()).unwrap();
    assert_ne!(crate::proc_table::Stat::of(id).unwrap().session, own.session);
}

#[test]
fn panic_of_callback_ends_no_other() {
    let supervisor = supervisor();
    let handle = supervisor.spawn(&ChildSpec::new("true"), no_stdio(), |_| panic!("of a test"));
    assert_eq!(run(&supervisor, &ChildSpec::new("true")).exit, Exit::Code(0));
    drop(handle);
}

#[test]
fn program_that_is_no_supervisor_is_an_error() {
    let command = SupervisorCommand { program: "/bin/true".into(), arguments: Vec::new() };
    let supervisor = Supervisor::start(command).unwrap();
    let (exit_tx, exit_rx) = std::sync::mpsc::channel();
    let on_exit = move |exit| exit_tx.send(exit).unwrap_or(());
    match supervisor.spawn(&ChildSpec::new("true"), no_stdio(), on_exit) {
        Ok(_handle) => assert_eq!(exit_rx.recv_timeout(TIMEOUT), Ok(Exit::SupervisorGone)),
        Err(error) => assert!(error.to_string().contains("ends at once"), "{error}"),
    }
    let command = SupervisorCommand { program: "/no/such".into(), arguments: Vec::new() };
    assert_eq!(Supervisor::start(command).unwrap_err().kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn supervisor_without_server_is_an_error() {
    let error = crate::run_supervisor().unwrap_err();
    assert!(error.to_string().contains("started by the server"), "{error}");
    let supervisor = supervisor();
    assert_eq!(run(&supervisor, &ChildSpec::new("true")).exit, Exit::Code(0));
}
