//! Sessions that are broken off leave no program, no descriptor and no zombie.

use std::fs;

use serde_json::json;

use crate::gateway::{Gateway, Kind, LEGACY_HTTP, LEGACY_TCP, eventually, upstream};

/// Sessions over HTTP whose clients have vanished end soon.
const ARGUMENTS: [&str; 2] = ["--http-session-idle-timeout", "100ms"];

/// What a gateway and all that it has started hold.
struct Holdings {
    /// Processes, those included that have ended and are not reaped.
    processes: usize,
    zombies: usize,
    descriptors: usize,
}

impl Holdings {
    fn of(gateway: &Gateway) -> Self {
        let mut family = vec![gateway.process.id()];
        let mut next = 0;
        while let Some(parent) = family.get(next).copied() {
            family.extend(children(parent));
            next += 1;
        }
        let is_zombie = |id: &&u32| field(**id, "State:").is_some_and(|it| it.starts_with('Z'));
        let descriptors = |id| fs::read_dir(format!("/proc/{id}/fd")).map_or(0, Iterator::count);
        Self {
            processes: family.len(),
            zombies: family.iter().filter(is_zombie).count(),
            descriptors: family.iter().map(descriptors).sum(),
        }
    }
}

/// A line of the status of a process.
fn field(process: u32, name: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let value = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(value.trim().to_owned())
}

/// The processes that `parent` has started.
fn children(parent: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").expect("/proc is read").filter_map(Result::ok);
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parent = parent.to_string();
    ids.filter(|id| field(*id, "PPid:").is_some_and(|it| it == parent)).collect()
}

/// Begins a session and breaks it off before, in, or after its first call, with its connections
/// closed in order or reset, and without `DELETE`.
fn open_and_break(gateway: &Gateway, kind: Kind, index: usize) {
    let mut client = gateway.client(kind);
    match index % 3 {
        0 => {}
        1 => drop(client.start("tools/call", json!({"name": "pid", "arguments": {}}))),
        _ => drop(client.call("pid", json!({}))),
    }
    if index.is_multiple_of(2) {
        client.reset();
    }
}

fn wait_for_one_program(gateway: &Gateway) {
    eventually("one program", || gateway.folder.processes().len() == 1);
}

/// Breaks sessions off, and then ten times as many: the gateway holds no more after these.
fn churn(kind: Kind) {
    let keys = "share = \"session\"\nmax_children = 16";
    let gateway = Gateway::declared(&upstream("fixture", keys, &[]), &ARGUMENTS);
    (0..50).for_each(|index| open_and_break(&gateway, kind, index));
    wait_for_one_program(&gateway);
    let mut before = Holdings::of(&gateway);
    eventually("no zombie", || {
        before = Holdings::of(&gateway);
        before.zombies == 0
    });
    (0..500).for_each(|index| open_and_break(&gateway, kind, index));
    wait_for_one_program(&gateway);
    eventually("as many processes and descriptors as before", || {
        let after = Holdings::of(&gateway);
        after.zombies == 0
            && after.processes <= before.processes
            && after.descriptors <= before.descriptors
    });
    gateway.end();
}

#[test]
fn broken_off_connections_leave_nothing() {
    churn(LEGACY_TCP);
}

#[test]
fn broken_off_http_sessions_leave_nothing() {
    churn(LEGACY_HTTP);
}
