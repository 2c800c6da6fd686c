//! Who shares a program, and when it ends.

use std::collections::BTreeSet;

use serde_json::json;

use crate::client::{Client, all_inputs, error_text, text_of};
use crate::gateway::{
    Gateway, KINDS, Kind, LEGACY_HTTP, LEGACY_TCP, MODERN_HTTP, MODERN_TCP, wait_for_exit,
};

const SESSIONS: [Kind; 2] = [LEGACY_TCP, LEGACY_HTTP];

/// The process that answers a client.
fn pid(client: &mut Client) -> u32 {
    client.text("pid", json!({})).parse().expect("a process id")
}

#[test]
fn legacy_sessions_have_programs_of_their_own() {
    for share in ["auto", "session"] {
        let gateway = Gateway::with_keys(&format!("share = \"{share}\""), &[]);
        let mut clients: Vec<Client> =
            [SESSIONS, SESSIONS].concat().into_iter().map(|kind| gateway.client(kind)).collect();
        let programs: BTreeSet<u32> = clients.iter_mut().map(pid).collect();
        assert_eq!(programs.len(), clients.len());
        for client in &mut clients {
            let identity = client.text("whoami", json!({}));
            assert_eq!(client.text("count", json!({})), "3");
            assert_eq!(client.text("whoami", json!({})), identity);
        }
        gateway.end();
    }
}

#[test]
fn end_of_session_ends_its_program() {
    for share in ["auto", "session"] {
        let gateway = Gateway::with_keys(&format!("share = \"{share}\""), &[]);
        for kind in SESSIONS {
            let mut client = gateway.client(kind);
            let mut other = gateway.client(kind);
            let program = pid(&mut client);
            let other_program = pid(&mut other);
            client.end_session(&gateway);
            wait_for_exit(program);
            assert_eq!(pid(&mut other), other_program);
        }
        gateway.end();
    }
}

#[test]
fn closed_connection_cancels_calls_of_its_program() {
    let gateway = Gateway::new(&[]);
    let mut client = gateway.client(LEGACY_TCP);
    let program = pid(&mut client);
    let release = gateway.folder.text_path("never");
    client.start("tools/call", json!({"name": "slow", "arguments": {"release": release}}));
    while client.state()["waiting"] != 1 {}
    client.reset();
    wait_for_exit(program);
    gateway.end();
}

#[test]
fn modern_upstream_is_shared_by_all() {
    let gateway = Gateway::new(&["--era", "modern", "--record", "FOLDER/record"]);
    let programs: BTreeSet<u32> =
        [KINDS, KINDS].concat().into_iter().map(|kind| pid(&mut gateway.client(kind))).collect();
    assert_eq!(programs.len(), 1);
    // Also by those who may be asked.
    let mut client = Client::with_capabilities(&gateway, LEGACY_HTTP, all_inputs());
    assert!(programs.contains(&pid(&mut client)));
    assert_eq!(gateway.folder.starts(), 1);
    gateway.end();
}

#[test]
fn declared_upstream_is_shared_by_all() {
    let arguments = ["--record", "FOLDER/record"];
    let gateway = Gateway::with_keys("share = \"all\"", &arguments);
    let programs: BTreeSet<u32> =
        [KINDS, KINDS].concat().into_iter().map(|kind| pid(&mut gateway.client(kind))).collect();
    assert_eq!(programs.len(), 1);
    assert_eq!(gateway.folder.starts(), 1);
    gateway.end();
}

#[test]
fn principals_have_programs_of_their_own() {
    let folder = crate::gateway::Folder::new();
    folder.write("keys.txt", crate::held::KEYS);
    let keys = folder.text_path("keys.txt");
    let declaration = crate::gateway::upstream("fixture", "share = \"principal\"", &[]);
    let gateway = Gateway::declared(&declaration, &["--auth-api-keys", &keys]);
    let program = |kind, key: &str| {
        pid(&mut Client::with_key(&gateway, kind, json!({}), Some(&format!("key-of-{key}"))))
    };
    let (ada, bea) = (program(MODERN_HTTP, "ada"), program(MODERN_HTTP, "bea"));
    assert_ne!(ada, bea);
    assert_eq!(program(LEGACY_HTTP, "ada"), ada);
    assert_eq!(program(LEGACY_HTTP, "bea"), bea);
    assert_eq!(program(MODERN_HTTP, "ada"), ada);
    gateway.end();
}

#[test]
fn call_that_may_ask_has_own_program() {
    for share in ["auto", "all", "principal"] {
        let gateway = Gateway::with_keys(&format!("share = \"{share}\""), &[]);
        let shared = pid(&mut gateway.client(MODERN_TCP));
        let mut client = Client::with_capabilities(&gateway, MODERN_TCP, all_inputs());
        let own = [pid(&mut client), pid(&mut client)];
        assert!(own[0] != own[1] && !own.contains(&shared), "{share}: {own:?}, {shared}");
        own.into_iter().for_each(wait_for_exit);
        assert_eq!(pid(&mut gateway.client(MODERN_TCP)), shared);
        // Roots alone are no reason.
        let roots = json!({"roots": {}});
        let mut client = Client::with_capabilities(&gateway, MODERN_TCP, roots);
        assert_eq!(pid(&mut client), shared);
        gateway.end();
    }
}

#[test]
fn call_with_roots_has_own_program_on_request() {
    for share in ["all", "principal"] {
        let gateway = Gateway::with_keys(&format!("share = \"{share}\"\nroots = true"), &[]);
        for kind in [LEGACY_TCP, LEGACY_HTTP, MODERN_TCP, MODERN_HTTP] {
            let shared = pid(&mut gateway.client(kind));
            let mut client = Client::with_capabilities(&gateway, kind, json!({"roots": {}}));
            let own = [pid(&mut client), pid(&mut client)];
            assert!(own[0] != own[1] && !own.contains(&shared), "{share}: {own:?}, {shared}");
            own.into_iter().for_each(wait_for_exit);
            let roots = client.text("roots", json!({}));
            assert!(roots.contains("file:///home/ada"), "{roots}");
            assert_eq!(pid(&mut gateway.client(kind)), shared);
        }
        gateway.end();
    }
}

#[test]
fn full_upstream_refuses_until_session_ends() {
    let gateway = Gateway::with_keys("max_children = 3", &[]);
    let mut clients: Vec<Client> = (0..3).map(|_| gateway.client(LEGACY_TCP)).collect();
    let mut programs: Vec<u32> = clients.iter_mut().map(pid).collect();
    for kind in SESSIONS {
        let mut late = gateway.client(kind);
        let response = late.call("pid", json!({}));
        let text = error_text(&response);
        assert!(text.contains("max_children 3"), "{text}");
        clients.pop().expect("a client").reset();
        wait_for_exit(programs.pop().expect("a program"));
        let program = loop {
            let response = late.call("pid", json!({}));
            if response.get("result").is_some() {
                break text_of(&response).parse().expect("a process id");
            }
        };
        programs.insert(0, program);
        clients.insert(0, late);
    }
    gateway.end();
}

#[test]
fn many_first_calls_start_one_program() {
    for era in ["legacy", "modern"] {
        let arguments = ["--era", era, "--record", "FOLDER/record"];
        let gateway = Gateway::with_keys("share = \"all\"", &arguments);
        gateway.expect_one_start_for_first_calls();
        gateway.end();
    }
}

#[test]
fn idle_program_ends_and_starts_again() {
    let arguments = ["--record", "FOLDER/record"];
    let gateway = Gateway::with_keys("idle_stop = \"200ms\"", &arguments);
    let mut client = gateway.client(LEGACY_TCP);
    let program = pid(&mut client);
    wait_for_exit(program);
    assert_ne!(pid(&mut client), program);
    gateway.end();
}
