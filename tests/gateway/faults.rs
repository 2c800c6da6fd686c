//! Upstreams that do wrong: the caller gets an error under its own id, other calls go on, and the
//! program starts again.

use serde_json::{Value, json};

use crate::client::{Client, error_text, text_of};
use crate::gateway::{
    Gateway, LEGACY_HTTP, LEGACY_TCP, MODERN_HTTP, MODERN_TCP, eventually, fixture, upstream,
};

/// The tool of the upstream `good`, which does nothing wrong.
const GOOD: &str = "more_00000";
/// Times that are short where a test waits for their end.
const SHORT: &str = "init_timeout = \"400ms\"\ncall_timeout = \"400ms\"\n";

/// A gateway in front of an upstream `bad` with these keys and faults, and of `good`.
fn gateway(keys: &str, faults: &[&str]) -> Gateway {
    let mut arguments = vec!["--record", "FOLDER/record"];
    for fault in faults {
        arguments.extend(["--fault", fault]);
    }
    let bad = upstream("bad", &format!("share = \"all\"\n{keys}"), &arguments);
    let good = upstream("good", "share = \"all\"", &["--tools", "1"]);
    Gateway::declared(&(bad + &good), &[])
}

/// Calls the other upstream.
fn expect_good(client: &mut Client) {
    assert_eq!(client.text(GOOD, json!({})), GOOD);
}

fn echo_params() -> Value {
    json!({"name": "bad_echo", "arguments": {"message": "hello"}})
}

/// Calls `echo` of the upstream that does wrong.
fn echo(client: &mut Client) -> Value {
    client.request("tools/call", echo_params())
}

#[test]
fn program_that_dies_at_start_is_started_again() {
    let script = "test -e ready && exec \"$0\" --tools 2; echo cannot start >&2; exit 3";
    let fixture = fixture();
    let command = ["sh", "-c", script, fixture.to_str().expect("UTF-8")];
    let bad = format!("[[upstream]]\nname = \"bad\"\nshare = \"all\"\ncommand = {command:?}\n");
    let good = upstream("good", "share = \"all\"", &["--tools", "1"]);
    let mut gateway = Gateway::declared(&(bad + &good), &[]);
    let mut client = gateway.client(LEGACY_TCP);
    expect_good(&mut client);
    assert!(!client.tools().contains(&"more_00001".to_owned()));
    for _ in 0..3 {
        gateway.wait_for_log("upstream failed");
    }
    let lines = gateway.process.stderr_lines().join("\n");
    assert!(lines.contains("cannot start") && lines.contains("status 3"), "{lines}");
    expect_good(&mut client);
    gateway.folder.write("ready", "");
    client.notification("notifications/tools/list_changed");
    assert_eq!(client.text("more_00001", json!({})), "more_00001");
    gateway.end();
}

#[test]
fn program_that_dies_in_call_fails_its_calls() {
    let gateway = gateway("", &[]);
    for kind in [LEGACY_TCP, LEGACY_HTTP, MODERN_TCP, MODERN_HTTP] {
        let mut clients: Vec<Client> = (0..5).map(|_| gateway.client(kind)).collect();
        let slow = json!({"name": "bad_slow", "arguments": {"release": "/no/such/file"}});
        let ids: Vec<u64> =
            clients.iter_mut().map(|it| it.start("tools/call", slow.clone())).collect();
        let mut last = gateway.client(kind);
        let state = |client: &mut Client| -> Value {
            serde_json::from_str(&client.text("bad_state", json!({}))).expect("JSON")
        };
        while state(&mut last)["waiting"] != 5 {}
        let ended = last.call("bad_exit", json!({"status": 3}));
        assert!(error_text(&ended).contains("status 3"), "{ended}");
        for (client, id) in clients.iter_mut().zip(ids) {
            let response = client.response(id);
            assert!(error_text(&response).contains("`bad` has ended"), "{response}");
            assert_eq!(response["error"]["code"], -32603);
        }
        // The next one waits for the program that follows.
        assert_eq!(text_of(&echo(&mut last)), "hello");
        expect_good(&mut last);
    }
    gateway.end();
}

#[test]
fn every_call_of_dying_program_has_error() {
    let gateway = gateway("", &["dies-in-call"]);
    for kind in [LEGACY_TCP, MODERN_HTTP] {
        let mut client = gateway.client(kind);
        for _ in 0..3 {
            let response = echo(&mut client);
            assert!(error_text(&response).contains("`bad` has ended"), "{response}");
            expect_good(&mut client);
        }
        assert!(client.tools().contains(&"bad_echo".to_owned()));
    }
    gateway.end();
}

#[test]
fn tenth_calls_alone_are_lost() {
    let gateway = gateway("", &["dies-at-tenth-call"]);
    let mut client = gateway.client(LEGACY_TCP);
    let failed: Vec<bool> = (0..35).map(|_| echo(&mut client).get("error").is_some()).collect();
    let expected: Vec<bool> = (1..=35).map(|number| number % 10 == 0).collect();
    assert_eq!(failed, expected);
    assert_eq!(gateway.folder.starts(), 4);
    gateway.end();
}

#[test]
fn hanging_handshake_ends_at_init_timeout() {
    let mut gateway = gateway(SHORT, &["hangs-at-initialize"]);
    let mut client = gateway.client(LEGACY_TCP);
    expect_good(&mut client);
    assert!(!client.tools().contains(&"bad_echo".to_owned()));
    let line = gateway.wait_for_log("upstream failed");
    assert!(line.contains("bad"), "{line}");
    // It is tried again.
    gateway.wait_for_log("upstream failed");
    gateway.end();
}

#[test]
fn call_without_answer_ends_at_call_timeout() {
    for fault in ["never-answers", "wrong-id", "null-id"] {
        let gateway = gateway(SHORT, &[fault]);
        for kind in [LEGACY_TCP, LEGACY_HTTP, MODERN_TCP, MODERN_HTTP] {
            let mut client = gateway.client(kind);
            let id = client.start("tools/call", echo_params());
            expect_good(&mut gateway.client(kind));
            let response = client.response(id);
            let text = error_text(&response);
            // The only call in flight is the one that a response without an id belongs to.
            let is_known = fault == "null-id" && text.contains("has sent an invalid message");
            assert!(is_known || text.contains("not answered in time"), "{response}");
        }
        if fault != "null-id" {
            let text = "a cancellation of each call";
            eventually(text, || gateway.folder.recorded("notifications/cancelled") == 4);
        }
        gateway.end();
    }
}

#[test]
fn progress_extends_calls_up_to_call_max() {
    let gateway = gateway("call_max = \"400ms\"\n", &[]);
    for kind in [LEGACY_TCP, MODERN_HTTP] {
        let mut client = gateway.client(kind);
        let params = json!({
            "name": "bad_slow",
            "arguments": {"release": "/no/such/file"},
            "_meta": {"progressToken": "token"},
        });
        let response = client.request("tools/call", params);
        assert!(error_text(&response).contains("longer than call_max"), "{response}");
        assert_eq!(text_of(&echo(&mut client)), "hello");
    }
    gateway.end();
}

#[test]
fn second_answers_are_dropped() {
    let gateway = gateway("", &["answers-twice"]);
    let mut clients =
        [LEGACY_TCP, LEGACY_HTTP, MODERN_TCP, MODERN_HTTP].map(|kind| gateway.client(kind));
    for round in 0..20 {
        for client in &mut clients {
            let message = format!("round {round}");
            assert_eq!(client.text("bad_echo", json!({"message": message})), message);
            assert!(client.notifications.is_empty());
        }
    }
    gateway.end();
}

#[test]
fn noise_between_messages_is_skipped() {
    let floods = ["huge-line", "floods-stdout", "floods-stderr"];
    for fault in ["mark-and-colors", "noise"].into_iter().chain(floods) {
        let gateway = gateway("", &[fault]);
        let mut client = gateway.client(LEGACY_TCP);
        assert!(client.tools().contains(&"bad_echo".to_owned()), "{fault}");
        for _ in 0..if floods.contains(&fault) { 1 } else { 20 } {
            let id = client.start("tools/call", echo_params());
            expect_good(&mut gateway.client(MODERN_HTTP));
            assert_eq!(text_of(&client.response(id)), "hello", "{fault}");
        }
        assert_eq!(gateway.folder.starts(), 1, "{fault}");
        let log = gateway.end();
        assert!(log.lines().count() < 1_000, "{fault}: {} lines", log.lines().count());
    }
}

#[test]
fn program_that_closes_stdout_is_replaced() {
    let gateway = gateway("", &["closes-stdout"]);
    let mut client = gateway.client(LEGACY_TCP);
    for _ in 0..3 {
        let response = echo(&mut client);
        assert!(error_text(&response).contains("`bad` has ended"), "{response}");
        expect_good(&mut client);
    }
    gateway.end();
}

/// Faults of programs that are hard to end.
const STUBBORN: [&[&str]; 4] = [
    &["grandchild"],
    &["ignores-term"],
    &["survives-stdin"],
    &["grandchild", "ignores-term", "floods-stderr"],
];

#[test]
fn sigterm_of_gateway_ends_all_programs() {
    for faults in STUBBORN {
        let gateway = gateway("", faults);
        let mut client = gateway.client(LEGACY_TCP);
        assert_eq!(text_of(&echo(&mut client)), "hello");
        gateway.end();
    }
}

#[test]
fn sigkill_of_gateway_ends_all_programs() {
    for faults in STUBBORN {
        let mut gateway = gateway("", faults);
        let mut client = gateway.client(LEGACY_TCP);
        assert_eq!(text_of(&echo(&mut client)), "hello");
        let slow = json!({"name": "bad_slow", "arguments": {"release": "/no/such/file"}});
        client.start("tools/call", slow);
        assert!(gateway.folder.processes().len() >= 2);
        gateway.process.kill();
        gateway.folder.wait_for_no_process();
    }
}

#[test]
fn sigkill_ends_programs_of_sessions() {
    let mut gateway = Gateway::new(&["--fault", "grandchild", "--fault", "ignores-term"]);
    let mut clients: Vec<Client> = (0..10).map(|_| gateway.client(LEGACY_HTTP)).collect();
    for client in &mut clients {
        client.text("pid", json!({}));
    }
    assert!(gateway.folder.processes().len() >= 20);
    gateway.process.kill();
    gateway.folder.wait_for_no_process();
}

#[test]
fn failed_starts_leave_nothing() {
    let declaration = "[[upstream]]\nname = \"bad\"\ncommand = [\"/no/such/program\"]\n".to_owned()
        + &upstream("good", "", &[]);
    let mut gateway = Gateway::declared(&declaration, &[]);
    let mut client = gateway.client(LEGACY_TCP);
    assert_eq!(client.text("echo", json!({"message": "hello"})), "hello");
    gateway.wait_for_log("/no/such/program");
    gateway.end();
}
