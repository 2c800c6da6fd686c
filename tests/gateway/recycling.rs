//! Programs that are replaced after a number of calls or at an age: no call is lost.

use std::collections::BTreeSet;

use corelane_test_support::process::run_program;
use serde_json::json;

use crate::CORELANE;
use crate::client::{Client, text_of};
use crate::gateway::{
    Folder, Gateway, KINDS, LEGACY_HTTP, LEGACY_TCP, MODERN_HTTP, MODERN_TCP, eventually, fixture,
    upstream, wait_for_exit,
};
use crate::status::status;

const RECORD: [&str; 2] = ["--record", "FOLDER/record"];

fn pid(client: &mut Client) -> u32 {
    client.text("pid", json!({})).parse().expect("a process id")
}

/// A gateway whose programs, of this era, are recycled as `keys` state.
fn gateway(era: &str, keys: &str) -> Gateway {
    Gateway::with_keys(
        &format!("share = \"all\"\n{keys}"),
        &[&RECORD[..], &["--era", era]].concat(),
    )
}

#[test]
fn program_ends_after_its_calls() {
    for era in ["legacy", "modern"] {
        let gateway = gateway(era, "max_calls = 3");
        let mut programs = Vec::new();
        for kind in [LEGACY_TCP, LEGACY_HTTP, MODERN_TCP, MODERN_HTTP].into_iter().cycle().take(9) {
            programs.push(pid(&mut gateway.client(kind)));
        }
        let distinct: BTreeSet<u32> = programs.iter().copied().collect();
        assert!(programs.chunks(3).all(|three| three.iter().all(|it| *it == three[0])));
        assert_eq!((distinct.len(), gateway.folder.starts()), (3, 3), "{era}: {programs:?}");
        programs.truncate(6);
        programs.into_iter().for_each(wait_for_exit);
        let children = status(&gateway, "fixture")["children"].take();
        assert_eq!((&children["started"], &children["restarts"]), (&json!(3), &json!(2)));
        assert_eq!(status(&gateway, "fixture")["calls"]["failed"], 0);
        let log = gateway.end();
        assert!(!log.contains("upstream failed"), "{log}");
    }
}

#[test]
fn recycled_program_finishes_calls_in_flight() {
    for (era, keys) in [("legacy", "max_calls = 4"), ("modern", "max_calls = 4")] {
        let gateway = gateway(era, keys);
        let mut client = gateway.client(MODERN_HTTP);
        let old = pid(&mut client);
        let release = gateway.folder.text_path("release");
        let slow = json!({"name": "slow", "arguments": {"release": release}});
        let mut waiting = [LEGACY_TCP, MODERN_HTTP].map(|kind| gateway.client(kind));
        let ids = waiting.each_mut().map(|it| it.start("tools/call", slow.clone()));
        eventually("two calls", || status(&gateway, "fixture")["calls"]["in_flight"] == 2);
        assert_eq!(pid(&mut client), old);
        let next = pid(&mut client);
        assert_ne!(next, old);
        assert_eq!(status(&gateway, "fixture")["calls"]["in_flight"], 2);
        assert!(gateway.folder.processes().contains(&old), "{era}");
        gateway.folder.write("release", "");
        for (client, id) in waiting.iter_mut().zip(ids) {
            assert_eq!(text_of(&client.response(id)), "released");
        }
        wait_for_exit(old);
        assert_eq!(pid(&mut client), next);
        gateway.end();
    }
}

#[test]
fn old_program_gets_no_new_call() {
    let gateway = gateway("legacy", "max_age = \"200ms\"");
    let mut client = gateway.client(LEGACY_TCP);
    let old = pid(&mut client);
    let release = gateway.folder.text_path("release");
    let slow = json!({"name": "slow", "arguments": {"release": release}});
    let mut waiting = gateway.client(MODERN_TCP);
    let id = waiting.start("tools/call", slow);
    eventually("another program", || pid(&mut client) != old);
    gateway.folder.write("release", "");
    // It may have begun in the first program or in a later one.
    assert_eq!(text_of(&waiting.response(id)), "released");
    wait_for_exit(old);
    gateway.end();
}

#[test]
fn calls_at_once_are_recycled_without_loss() {
    for era in ["legacy", "modern"] {
        let gateway = gateway(era, "max_calls = 7\nmax_children = 4");
        let kinds = KINDS.into_iter().cycle().take(60);
        let mut clients: Vec<Client> = kinds.map(|kind| gateway.client(kind)).collect();
        for round in 0..4 {
            let message = |index: usize| format!("message {index} of round {round}");
            let start = |(index, client): (usize, &mut Client)| {
                let arguments = json!({"message": message(index)});
                client.start("tools/call", json!({"name": "echo", "arguments": arguments}))
            };
            let ids: Vec<u64> = clients.iter_mut().enumerate().map(start).collect();
            for (index, (client, id)) in clients.iter_mut().zip(ids).enumerate() {
                assert_eq!(text_of(&client.response(id)), message(index));
            }
        }
        let starts = gateway.folder.starts();
        // Fewer if as many as may be were ending.
        assert!((2..=36).contains(&starts), "{era}: {starts}");
        drop(clients);
        eventually("one program", || gateway.folder.processes().len() == 1);
        let log = gateway.end();
        assert!(!log.contains("upstream failed"), "{log}");
    }
}

#[test]
fn program_stays_until_next_one_is_connected() {
    let script = "test -e broken && exit 3; exec \"$0\"";
    let fixture = fixture();
    let command = ["sh", "-c", script, fixture.to_str().expect("UTF-8")];
    let keys = "share = \"all\"\nmax_calls = 2";
    let declaration = format!("[[upstream]]\nname = \"fixture\"\ncommand = {command:?}\n{keys}\n");
    let mut gateway = Gateway::declared(&declaration, &[]);
    gateway.folder.write("broken", "");
    let mut client = gateway.client(LEGACY_TCP);
    let program = pid(&mut client);
    assert!((0..5).all(|_| pid(&mut client) == program));
    let line = gateway.wait_for_log("upstream failed");
    assert!(line.contains("status 3"), "{line}");
    gateway.end();
}

#[test]
fn changes_of_next_program_are_followed() {
    for (era, kind) in [("legacy", LEGACY_HTTP), ("legacy", MODERN_TCP), ("modern", LEGACY_TCP)] {
        let gateway = gateway(era, "max_calls = 40");
        let (mut client, mut listener) = (gateway.client(kind), gateway.client(kind));
        listener.listen(&["fixture://two"]);
        let old = pid(&mut client);
        while pid(&mut client) == old {}
        // The next program has the subscription, too.
        while !client.state()["subscriptions"].to_string().contains("fixture://two") {}
        assert_eq!(client.text("touch", json!({"uri": "fixture://two"})), "updated");
        listener.notification("notifications/resources/updated");
        assert_eq!(client.text("change", json!({})), "changed");
        listener.notification("notifications/tools/list_changed");
        gateway.end();
    }
}

#[test]
fn limits_of_private_programs_are_faults() {
    for (keys, fault) in [
        ("share = \"session\"\nmax_calls = 5", "max_calls"),
        ("share = \"principal\"\nmax_age = \"1h\"", "max_age"),
        ("share = \"all\"\nmax_calls = 0", "is 0"),
        ("share = \"all\"\nmax_age = \"soon\"", "max_age"),
    ] {
        let folder = Folder::new();
        folder.write("corelane.toml", &upstream("one", keys, &[]));
        let config = folder.text_path("corelane.toml");
        let checked = run_program(CORELANE, ["check", "--config", &config]);
        assert_eq!(checked.status, 1, "{keys}: {}", checked.stderr);
        assert!(checked.stderr.contains(fault), "{keys}: {}", checked.stderr);
    }
}

#[test]
fn programs_of_sessions_are_not_recycled() {
    let gateway = Gateway::with_keys("max_calls = 2", &RECORD);
    let mut client = gateway.client(LEGACY_TCP);
    let program = pid(&mut client);
    assert!((0..5).all(|_| pid(&mut client) == program));
    gateway.end();
}
