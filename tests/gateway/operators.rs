//! Operators restart, disable and enable one upstream while the gateway runs, and approve what it
//! has changed.

use corelane_test_support::process::{ExitResult, run_program};
use corelane_test_support::{HttpClient, Request, Response};
use serde_json::{Value, json};

use crate::CORELANE;
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

/// Runs `corelane gateway CHANGE NAME` for a gateway at `http`, with a file of the token.
fn run_change(arguments: [&str; 2], http: &str, token: &str) -> ExitResult {
    let [change, name] = arguments;
    let options = ["--url", http, "--admin-token", token];
    run_program(CORELANE, ["gateway", change, name].into_iter().chain(options))
}

#[test]
fn commands_change_upstreams() {
    let gateway = gateway("share = \"all\"");
    let (http, token) = (format!("http://{}", gateway.http), gateway.folder.text_path("token"));
    let mut client = gateway.client(LEGACY_TCP);
    let before = pid(&mut client, "one");
    for (change, state) in
        [("restart", "ready"), ("disable", "disabled"), ("enable", "ready"), ("approve", "ready")]
    {
        let ended = run_change([change, "one"], &http, &token);
        assert_eq!(ended.status, 0, "{}", ended.stderr);
        assert!(ended.stdout.starts_with(&format!("one: {change} accepted")), "{}", ended.stdout);
        eventually(state, || status(&gateway, "one")["state"] == state);
    }
    assert_ne!(pid(&mut client, "one"), before);
    assert_eq!(status(&gateway, "two")["children"]["restarts"], 0);
    gateway.end();
}

#[test]
fn commands_name_what_is_wrong() {
    let gateway = gateway("");
    let (http, token) = (format!("http://{}", gateway.http), gateway.folder.text_path("token"));
    gateway.folder.write("other", "token-of-others---");
    let other = gateway.folder.text_path("other");
    let without_token = Gateway::declared(&upstream("one", "", &[]), &[]);
    let other_http = format!("http://{}", without_token.http);
    // Nothing listens at the port of a listener that is closed.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = closed.local_addr().expect("an address");
    drop(closed);
    let nowhere = format!("http://{address}");
    for (name, http, token, part) in [
        ("three", &http, &token, "has no upstream `three`"),
        ("../healthz", &http, &token, "has no upstream `../healthz`"),
        ("..", &http, &token, "has no upstreams (status 404)"),
        ("one", &http, &other, "refuses the token (status 401)"),
        ("one", &other_http, &token, "status 403: upstreams are changed only with the token of"),
        ("one", &nowhere, &token, "no server at http://127.0.0.1:"),
        ("one", &http, &"/no/such/file".to_owned(), "admin.token: /no/such/file: "),
        ("one", &"http://example.com".to_owned(), &token, "must begin with https"),
    ] {
        let ended = run_change(["restart", name], http, token);
        assert_eq!(ended.status, 1, "{part}: {}", ended.stderr);
        assert!(ended.stderr.starts_with("error: ") && ended.stderr.contains(part), "{ended:?}");
        assert!(!ended.stderr.contains("token-of"), "{ended:?}");
    }
    for arguments in [&["--http", "127.0.0.1:0"][..], &["--admin-address", "127.0.0.1:0"]] {
        let command = ["gateway", "restart", "one"].into_iter();
        let ended = run_program(CORELANE, command.chain(arguments.iter().copied()));
        assert!(ended.status == 1 && ended.stderr.contains("--url"), "{ended:?}");
    }
    let ended = run_program(CORELANE, ["gateway", "restart"]);
    assert!(ended.status == 2 && ended.stderr.contains("<NAME>"), "{ended:?}");
    assert_eq!(status(&gateway, "one")["children"]["restarts"], 0);
    gateway.end();
    without_token.end();
}
