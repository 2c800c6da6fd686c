//! How children end, and what they leave behind.

use std::sync::mpsc::channel;

use super::{
    TIMEOUT, TestChild, is_running, no_stdio, run, shell, supervisor, supervisor_id, wait_for_end,
};
use crate::proc_table::Stat;
use crate::{ChildSpec, Exit};

#[test]
fn exit_status_is_reported() {
    let supervisor = supervisor();
    let outcome = run(&supervisor, &shell("echo out; echo err >&2; exit 3"));
    assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("out\n", "err\n"));
    assert_eq!(outcome.exit, Exit::Code(3));
}

#[test]
fn signal_that_kills_is_reported() {
    let supervisor = supervisor();
    assert_eq!(run(&supervisor, &shell("kill -KILL $$")).exit, Exit::Signal(9));
    // A real-time signal.
    assert_eq!(run(&supervisor, &shell("kill -40 $$")).exit, Exit::Signal(40));
    assert_eq!(run(&supervisor, &shell("exit 0")).exit, Exit::Code(0));
}

#[test]
fn terminated_child_may_exit_by_itself() {
    let supervisor = supervisor();
    let mut spec = shell("trap 'exit 7' TERM; echo ready; while :; do read line || :; done");
    spec.grace = TIMEOUT;
    let mut child = TestChild::spawn(&supervisor, &spec);
    assert_eq!(child.read_line(), "ready");
    child.handle.terminate();
    assert_eq!(child.exit.recv_timeout(TIMEOUT), Ok(Exit::Code(7)));
}

#[test]
fn child_that_ignores_sigterm_is_killed() {
    let supervisor = supervisor();
    let mut spec = shell("trap '' TERM; echo ready; sleep 1000; sleep 1000");
    spec.grace = std::time::Duration::from_millis(50);
    let mut child = TestChild::spawn(&supervisor, &spec);
    assert_eq!(child.read_line(), "ready");
    child.handle.terminate();
    child.handle.terminate();
    assert_eq!(child.finish().exit, Exit::Signal(9));
}

#[test]
fn stopped_child_is_terminated() {
    let supervisor = supervisor();
    let mut spec = shell("echo ready; kill -STOP $$; exec sleep 1000");
    spec.grace = TIMEOUT;
    let mut child = TestChild::spawn(&supervisor, &spec);
    assert_eq!(child.read_line(), "ready");
    child.handle.terminate();
    assert_eq!(child.finish().exit, Exit::Signal(15));
}

#[test]
fn dropped_handle_terminates_the_child() {
    let supervisor = supervisor();
    let mut spec = shell("echo ready; exec sleep 1000");
    spec.grace = TIMEOUT;
    let mut child = TestChild::spawn(&supervisor, &spec);
    assert_eq!(child.read_line(), "ready");
    drop(child.handle);
    assert_eq!(child.exit.recv_timeout(TIMEOUT), Ok(Exit::Signal(15)));
}

#[test]
fn child_of_detached_handle_runs_on() {
    let supervisor = supervisor();
    let mut child = TestChild::spawn(&supervisor, &shell("echo ready; read line; exit 5"));
    assert_eq!(child.read_line(), "ready");
    child.handle.detach();
    assert_eq!(run(&supervisor, &ChildSpec::new("true")).exit, Exit::Code(0));
    drop(child.stdin);
    assert_eq!(child.exit.recv_timeout(TIMEOUT), Ok(Exit::Code(5)));
}

#[test]
fn grandchildren_end_with_the_child() {
    let supervisor = supervisor();
    // The output ends once none of them has the pipe.
    for script in [
        "sleep 1000 & exit 4",
        "setsid sleep 1000 & read line; exit 4",
        "(setsid sleep 1000 & setsid setsid sleep 1000 &) ; read line; exit 4",
        "(trap '' TERM HUP; setsid sh -c '(setsid sleep 1000 &) ; sleep 1000' &) ; exit 4",
    ] {
        assert_eq!(run(&supervisor, &shell(script)).exit, Exit::Code(4), "{script}");
    }
}

#[test]
fn daemons_of_running_children_stay() {
    let supervisor = supervisor();
    let script = "(setsid sh -c 'echo $$; exec sleep 1000' &) ; read line; exit 6";
    let mut child = TestChild::spawn(&supervisor, &shell(script));
    let daemon = child.read_line();
    for _ in 0..20 {
        assert_eq!(run(&supervisor, &shell("(setsid sleep 1000 &)")).exit, Exit::Code(0));
    }
    assert!(is_running(&daemon));
    assert_eq!(child.finish().exit, Exit::Code(6));
    wait_for_end(daemon.parse().unwrap());
}

#[test]
fn thousand_children_leave_no_zombie() {
    let supervisor = supervisor();
    let id = supervisor_id(&supervisor);
    let (exit_tx, exit_rx) = channel();
    for _ in 0..1_000 {
        let exit_tx = exit_tx.clone();
        let on_exit = move |exit| exit_tx.send(exit).unwrap_or(());
        let handle = supervisor.spawn(&ChildSpec::new("true"), no_stdio(), on_exit).unwrap();
        assert_eq!(exit_rx.recv_timeout(TIMEOUT), Ok(Exit::Code(0)));
        drop(handle);
    }
    assert_eq!(children_of(id), 0);
}

#[test]
fn thousand_children_at_once_end() {
    let supervisor = supervisor();
    let id = supervisor_id(&supervisor);
    let (exit_tx, exit_rx) = channel();
    let spec = shell("exit 2");
    let handles: Vec<_> = (0..1_000)
        .map(|_| {
            let exit_tx = exit_tx.clone();
            let on_exit = move |exit| exit_tx.send(exit).unwrap_or(());
            supervisor.spawn(&spec, no_stdio(), on_exit).unwrap()
        })
        .collect();
    for _ in 0..1_000 {
        assert_eq!(exit_rx.recv_timeout(TIMEOUT), Ok(Exit::Code(2)));
    }
    drop(handles);
    assert_eq!(children_of(id), 0);
}

/// The number of children of a process, zombies included.
fn children_of(id: i32) -> usize {
    let all = crate::proc_table::all_ids().into_iter();
    all.filter(|child| Stat::of(*child).is_some_and(|stat| stat.parent == id)).count()
}
