//! Lists from manifests: clients have them before the upstream has been started.

use std::process::Command;

use corelane_test_support::process::run_program;
use serde_json::{Value, json};

use crate::CORELANE;
use crate::gateway::{
    Folder, Gateway, KINDS, LEGACY_HTTP, LEGACY_TCP, MODERN_HTTP, MODERN_TCP, eventually, upstream,
};
use crate::status::status;

const MANIFEST: &str = "manifest = \"fixture.json\"";

/// A folder with an upstream, whose program records its starts, and with its manifest.
fn folder(keys: &str, arguments: &[&str]) -> Folder {
    let folder = Folder::new();
    let record = folder.text_path("record");
    let arguments = [&["--record", &record], arguments].concat();
    folder.write("corelane.toml", &upstream("fixture", &format!("{MANIFEST}\n{keys}"), &arguments));
    let config = folder.text_path("corelane.toml");
    let written = run_program(CORELANE, ["gateway", "manifest", "--config", &config]);
    assert_eq!(written.status, 0, "{}", written.stderr);
    assert!(written.stdout.starts_with("fixture  MCP 20"), "{}", written.stdout);
    folder.wait_for_no_process();
    std::fs::remove_file(record).expect("the program was started");
    folder
}

fn start(folder: Folder) -> Gateway {
    let mut command = Command::new(CORELANE);
    command.args(["gateway", "--config"]).arg(folder.path("corelane.toml"));
    Gateway::spawn(folder, &mut command)
}

#[test]
fn lists_of_manifest_start_no_program() {
    for era in ["legacy", "modern"] {
        let direct = Gateway::new(&["--era", era]);
        let gateway = start(folder("hide = [\"slow\"]", &["--era", era]));
        for kind in KINDS {
            let list = |gateway: &Gateway, method: &str, key: &str| {
                gateway.client(kind).result(method, json!({}))[key].take()
            };
            for (method, key) in [
                ("resources/list", "resources"),
                ("resources/templates/list", "resourceTemplates"),
                ("prompts/list", "prompts"),
            ] {
                assert_eq!(list(&gateway, method, key), list(&direct, method, key), "{kind:?}");
            }
            let tools = list(&gateway, "tools/list", "tools");
            let Value::Array(mut expected) = list(&direct, "tools/list", "tools") else {
                panic!("no list")
            };
            expected.retain(|it| it["name"] != "slow");
            assert_eq!(tools, Value::Array(expected));
        }
        assert_eq!(gateway.folder.starts(), 0);
        let shown = status(&gateway, "fixture");
        assert_eq!((&shown["state"], &shown["children"]["started"]), (&json!("ready"), &json!(0)));
        for kind in KINDS {
            let message = json!({"message": "hello"});
            assert_eq!(gateway.client(kind).text("echo", message), "hello");
        }
        assert!(gateway.folder.starts() > 0);
        gateway.end();
        direct.end();
    }
}

#[test]
fn many_first_calls_start_upstream_once() {
    for era in ["legacy", "modern"] {
        let gateway = start(folder("share = \"all\"", &["--era", era]));
        assert_eq!(gateway.folder.starts(), 0);
        gateway.expect_one_start_for_first_calls();
        gateway.end();
    }
}

#[test]
fn difference_from_manifest_is_notified_once() {
    for kind in [LEGACY_TCP, LEGACY_HTTP, MODERN_TCP, MODERN_HTTP] {
        let folder = folder("share = \"all\"", &[]);
        let config = std::fs::read_to_string(folder.path("corelane.toml")).expect("a file");
        folder.write(
            "corelane.toml",
            &config.replace("\"--record\"", "\"--tools\", \"1\", \"--record\""),
        );
        let gateway = start(folder);
        let mut client = gateway.client(kind);
        client.listen(&[]);
        assert!(!client.tools().contains(&"more_00000".to_owned()));
        assert_eq!(client.text("echo", json!({"message": "hello"})), "hello");
        client.notification("notifications/tools/list_changed");
        assert!(client.tools().contains(&"more_00000".to_owned()));
        // A later change is the next notification, and the program is followed.
        assert_eq!(client.text("change", json!({})), "changed");
        client.notification("notifications/tools/list_changed");
        assert!(client.tools().contains(&"added_1".to_owned()));
        assert!(client.notifications.is_empty(), "{:?}", client.notifications);
        gateway.end();
    }
}

#[test]
fn subscription_of_client_starts_upstream() {
    let gateway = start(folder("share = \"all\"", &[]));
    let mut client = gateway.client(LEGACY_TCP);
    client.listen(&["fixture://two"]);
    eventually("a subscription", || gateway.folder.recorded("resources/subscribe") == 1);
    client.text("touch", json!({"uri": "fixture://two"}));
    client.notification("notifications/resources/updated");
    assert_eq!(gateway.folder.starts(), 1);
    gateway.end();
}

#[test]
fn invalid_manifest_is_a_fault() {
    let folder = Folder::new();
    folder.write("corelane.toml", &upstream("one", MANIFEST, &[]));
    let config = folder.text_path("corelane.toml");
    for (text, part) in [
        (None, "No such file"),
        (Some("{"), "EOF"),
        (Some("[]"), "manifest"),
        (Some(r#"{"manifest": 1}"#), "missing field"),
    ] {
        if let Some(text) = text {
            folder.write("fixture.json", text);
        }
        for command in [&["check"][..], &["gateway"]] {
            let ended = run_program(CORELANE, command.iter().copied().chain(["--config", &config]));
            assert_eq!(ended.status, 1, "{command:?}: {}", ended.stderr);
            let has = |part: &str| ended.stderr.contains(part);
            assert!(has("upstream `one`") && has("fixture.json"), "{}", ended.stderr);
            assert!(has(part) && has("corelane gateway manifest"), "{}", ended.stderr);
        }
    }
    let written = run_program(CORELANE, ["gateway", "manifest", "--config", &config]);
    assert_eq!(written.status, 0, "{}", written.stderr);
    let checked = run_program(CORELANE, ["check", "--config", &config]);
    assert_eq!(checked.status, 0, "{}", checked.stderr);
}

#[test]
fn failed_upstream_keeps_its_manifest() {
    let folder = Folder::new();
    let declared = upstream("one", MANIFEST, &["--fault", "dies-at-start"]);
    folder.write("corelane.toml", &declared);
    folder.write("fixture.json", "{\"old\": true}");
    let config = folder.text_path("corelane.toml");
    let written = run_program(CORELANE, ["gateway", "manifest", "--config", &config]);
    assert_eq!(written.status, 1, "{}", written.stderr);
    assert!(written.stdout.starts_with("one  failed: "), "{}", written.stdout);
    let kept = std::fs::read_to_string(folder.path("fixture.json")).expect("a file");
    assert_eq!(kept, "{\"old\": true}");
    folder.write("corelane.toml", &upstream("one", "", &[]));
    let written = run_program(CORELANE, ["gateway", "manifest", "--config", &config]);
    assert_eq!(written.status, 2, "{}", written.stderr);
    assert!(written.stderr.contains("no upstream has a manifest"), "{}", written.stderr);
}
