//! Operators restart, disable and enable one upstream while the gateway runs, and approve what it
//! has changed.

use corelane_test_support::{HttpClient, Request, Response};
use serde_json::{Value, json};

use crate::client::{Client, error_text};
use crate::gateway::{
    Gateway, KINDS, LEGACY_HTTP, LEGACY_TCP, MODERN_HTTP, TOKEN_FIELD, eventually, upstream,
};
use crate::status::status;

/// Sends a request of an operator with the token.
fn send(gateway: &Gateway, method: &str, path: &str) -> Response {
    let request = Request::new(method, path).field("Authorization", TOKEN_FIELD);
    HttpClient::connect(gateway.http).exchange(&request)
}

fn change(gateway: &Gateway, path: &str) {
    assert_eq!(send(gateway, "POST", &format!("/upstreams/{path}")).status(), 202);
}

/// A gateway in front of `one`, whose tools have its name before them, and of `two`.
fn gateway(keys: &str) -> Gateway {
    let declarations = ["one", "two"].map(|name| upstream(name, keys, &[]));
    Gateway::with_token(&declarations.concat())
}

fn pid(client: &mut Client, upstream: &str) -> String {
    client.text(&format!("{upstream}_pid"), json!({}))
}

#[test]
fn restart_ends_calls_and_starts_program() {
    let gateway = gateway("share = \"all\"");
    for kind in [LEGACY_TCP, MODERN_HTTP] {
        let mut client = gateway.client(kind);
        let before = ["one", "two"].map(|name| pid(&mut client, name));
        let restarts = status(&gateway, "one")["children"]["restarts"].as_u64().expect("a number");
        let slow = json!({"name": "one_slow", "arguments": {"release": "/no/such/file"}});
        let id = client.start("tools/call", slow);
        eventually("a call", || status(&gateway, "one")["calls"]["in_flight"] == 1);
        change(&gateway, "one/restart");
        let response = client.response(id);
        assert!(error_text(&response).contains("`one` has ended"), "{response}");
        let after = ["one", "two"].map(|name| pid(&mut client, name));
        assert_ne!(before[0], after[0]);
        assert_eq!(before[1], after[1]);
        eventually("the state", || status(&gateway, "one")["state"] == "ready");
        let children = status(&gateway, "one")["children"].take();
        assert_eq!((&children["open"], &children["restarts"]), (&json!(1), &json!(restarts + 1)));
        assert_eq!(status(&gateway, "two")["children"]["restarts"], 0);
    }
    gateway.end();
}

#[test]
fn restart_replaces_programs_of_sessions() {
    let gateway = gateway("");
    let mut clients = [LEGACY_TCP, LEGACY_HTTP].map(|kind| gateway.client(kind));
    let before = clients.each_mut().map(|client| pid(client, "one"));
    change(&gateway, "one/restart");
    eventually("the state", || status(&gateway, "one")["state"] == "ready");
    let after = clients.each_mut().map(|client| pid(client, "one"));
    assert!(before.iter().all(|it| !after.contains(it)), "{before:?} {after:?}");
    assert_eq!(status(&gateway, "one")["children"]["restarts"], 3);
    drop(clients);
    gateway.end();
}

#[test]
fn restarted_upstream_notifies_changes() {
    let gateway = gateway("share = \"all\"");
    change(&gateway, "one/restart");
    eventually("the state", || status(&gateway, "one")["state"] == "ready");
    let mut client = gateway.client(LEGACY_TCP);
    assert_eq!(client.text("one_change", json!({})), "changed");
    client.notification("notifications/tools/list_changed");
    assert!(client.tools().contains(&"added_1".to_owned()));
    gateway.end();
}

#[test]
fn changed_tool_waits_for_approval() {
    let pins = "gateway.pins = \"pins.json\"\n";
    let declared = |keys: &str| pins.to_owned() + &upstream("one", keys, &[]);
    let gateway = Gateway::with_token(&declared("share = \"all\"\non_change = \"hide\""));
    let mut client = gateway.client(LEGACY_TCP);
    let before = client.tools();
    client.text("change", json!({}));
    eventually("the change", || status(&gateway, "one")["hidden_tools"] == json!(["added_1"]));
    assert_eq!(client.tools(), before);
    assert!(!error_text(&client.call("added_1", json!({}))).is_empty());
    change(&gateway, "one/approve");
    client.notification("notifications/tools/list_changed");
    assert!(client.tools().contains(&"added_1".to_owned()));
    eventually("the state", || status(&gateway, "one")["hidden_tools"] == json!([]));
    let pinned = std::fs::read_to_string(gateway.folder.path("pins.json")).expect("a file");
    assert!(pinned.contains("\"added_1\": \"sha256:"), "{pinned}");
    let log = gateway.end();
    assert!(log.contains("changed tools are left out"), "{log}");
}

#[test]
fn changed_tool_is_in_the_log() {
    let declared = upstream("one", "share = \"all\"", &[]);
    let gateway = Gateway::declared(&format!("gateway.pins = \"pins.json\"\n{declared}"), &[]);
    let mut client = gateway.client(LEGACY_TCP);
    client.text("change", json!({}));
    client.notification("notifications/tools/list_changed");
    assert!(client.tools().contains(&"added_1".to_owned()));
    let log = gateway.end();
    let line = log.lines().find(|it| it.contains("tools have changed"));
    assert!(line.is_some_and(|it| it.contains("added_1") && it.contains("one")), "{log}");
}

/// Notifications of changed tools that have come.
fn changes_of_tools(client: &Client) -> usize {
    let method = "notifications/tools/list_changed";
    client.notifications.iter().filter(|it| it["method"] == method).count()
}

#[test]
fn disabled_upstream_leaves_the_catalog() {
    let gateway = gateway("share = \"all\"");
    let mut clients = KINDS.map(|kind| gateway.client(kind));
    for client in &mut clients {
        client.listen(&[]);
    }
    let before = clients[0].tools();
    for round in 0..2 {
        change(&gateway, "one/disable");
        for client in &mut clients {
            client.notification("notifications/tools/list_changed");
            // Without `one` there is no collision.
            let tools = client.tools();
            assert!(!tools.iter().any(|tool| tool.starts_with("one_")), "{tools:?}");
            assert_eq!(client.text("echo", json!({"message": "hello"})), "hello");
            assert!(!error_text(&client.call("one_echo", json!({}))).is_empty());
            assert_eq!(changes_of_tools(client), 0, "{:?}", client.notifications);
        }
        let shown = status(&gateway, "one");
        assert_eq!((&shown["state"], &shown["error"]), (&json!("disabled"), &Value::Null));
        eventually("no program", || status(&gateway, "one")["children"]["open"] == 0);
        // A second time nothing happens, and a restart enables it.
        change(&gateway, "one/disable");
        change(&gateway, ["one/enable", "one/restart"][round]);
        for client in &mut clients {
            client.notification("notifications/tools/list_changed");
            assert_eq!(client.text("one_echo", json!({"message": "hello"})), "hello");
            assert_eq!(client.tools(), before);
            assert_eq!(changes_of_tools(client), 0, "{:?}", client.notifications);
        }
        assert_eq!(status(&gateway, "one")["state"], "ready");
    }
    gateway.end();
}

#[test]
fn disabled_upstream_has_no_program() {
    let gateway = Gateway::with_token(&upstream("only", "", &[]));
    let mut client = gateway.client(LEGACY_TCP);
    client.text("echo", json!({"message": "hello"}));
    assert_eq!(gateway.folder.processes().len(), 2);
    change(&gateway, "only/disable");
    gateway.folder.wait_for_no_process();
    assert_eq!(client.tools(), Vec::<String>::new());
    change(&gateway, "only/enable");
    client.notification("notifications/tools/list_changed");
    client.notification("notifications/tools/list_changed");
    assert_eq!(client.text("echo", json!({"message": "hello"})), "hello");
    gateway.end();
}

#[test]
fn changes_need_token_and_name() {
    let gateway = gateway("");
    let post = |path: &str, token: Option<&str>| {
        let request = Request::new("POST", path);
        let request = match token {
            Some(token) => request.field("Authorization", token),
            None => request,
        };
        let response = HttpClient::connect(gateway.http).exchange(&request);
        (response.status(), String::from_utf8(response.body).expect("UTF-8"))
    };
    for token in [None, Some("Bearer token-of-others---")] {
        assert_eq!(post("/upstreams/one/restart", token).0, 401);
    }
    for (path, part) in [
        ("/upstreams/three/restart", "no upstream has this name"),
        ("/upstreams/one/stop", "restart, enable, disable or approve"),
        ("/upstreams/one", "POST /upstreams/NAME/restart"),
    ] {
        let (status, text) = post(path, Some(TOKEN_FIELD));
        assert!(status == 404 && text.contains(part), "{path}: {status} {text}");
    }
    let response = send(&gateway, "GET", "/upstreams/one/restart");
    assert_eq!((response.status(), response.head.field("Allow")), (405, Some("POST, OPTIONS")));
    assert_eq!(status(&gateway, "one")["children"]["restarts"], 0);
    let get = HttpClient::connect(gateway.http).exchange(&Request::new("GET", "/upstreams"));
    assert_eq!(get.status(), 401);
    gateway.end();
    let gateway = Gateway::declared(&upstream("one", "", &[]), &[]);
    let response = send(&gateway, "POST", "/upstreams/one/restart");
    let text = String::from_utf8(response.body.clone()).expect("UTF-8");
    assert!(response.status() == 403 && text.contains("admin.token"), "{text}");
    gateway.end();
}
