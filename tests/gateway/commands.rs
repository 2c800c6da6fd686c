//! What starts a gateway beside declarations: checks, files of other clients, tool search and the
//! bridge.

use std::process::Command;

use corelane_test_support::Process;
use corelane_test_support::process::run_program;
use serde_json::{Value, json};

use crate::CORELANE;
use crate::client::error_text;
use crate::gateway::{Folder, Gateway, KINDS, LEGACY_TCP, MODERN_TCP, fixture, upstream};

#[test]
fn check_of_configuration_starts_no_upstream() {
    let folder = Folder::new();
    let record = folder.text_path("record");
    let declared = upstream("one", "", &["--record", &record]);
    folder.write("corelane.toml", &declared);
    let config = folder.text_path("corelane.toml");
    let checked = run_program(CORELANE, ["check", "--config", &config]);
    assert_eq!(checked.status, 0, "{}", checked.stderr);
    folder.write("corelane.toml", &format!("{declared}{declared}"));
    let checked = run_program(CORELANE, ["check", "--config", &config]);
    assert_eq!(checked.status, 1, "{}", checked.stderr);
    assert!(checked.stderr.contains("two upstreams are called `one`"), "{}", checked.stderr);
    assert_eq!(folder.starts(), 0);
}

#[test]
fn gateway_check_describes_each_upstream() {
    let folder = Folder::new();
    let text = [
        upstream("old", "", &["--era", "legacy"]),
        upstream("new", "", &["--era", "modern"]),
        upstream("gone", "", &["--fault", "dies-at-start"]),
    ]
    .concat();
    folder.write("corelane.toml", &text);
    let config = folder.text_path("corelane.toml");
    let checked = run_program(CORELANE, ["gateway", "check", "--config", &config]);
    assert_eq!(checked.status, 1, "{}", checked.stderr);
    let lines: Vec<&str> = checked.stdout.lines().collect();
    assert_eq!(lines.len(), 3, "{}", checked.stdout);
    assert!(lines[0].starts_with("old  MCP 2025-11-25  ") && lines[0].contains("each session"));
    assert!(lines[1].starts_with("new  MCP 2026-07-28  ") && lines[1].contains("shared by all"));
    assert!(lines[2].starts_with("gone  failed: "), "{}", lines[2]);
    folder.wait_for_no_process();
}

#[test]
fn declared_era_decides_the_handshake() {
    let folder = Folder::new();
    let record = folder.text_path("record");
    let arguments = ["--era", "both", "--record", &record];
    let declared = |era: &str| upstream("one", &format!("era = \"{era}\""), &arguments);
    let config = folder.text_path("corelane.toml");
    let check = || run_program(CORELANE, ["gateway", "check", "--config", &config]);
    for (era, revision) in
        [("2025-06-18", "2025-06-18"), ("modern", "2026-07-28"), ("auto", "2026-07-28")]
    {
        folder.write("corelane.toml", &declared(era));
        let checked = check();
        assert!(checked.stdout.starts_with(&format!("one  MCP {revision}  ")), "{checked:?}");
        let is_legacy = revision != "2026-07-28";
        assert_eq!(folder.recorded("server/discover"), usize::from(!is_legacy), "{era}");
        std::fs::remove_file(&record).expect("there is a record");
    }
    folder.write("corelane.toml", &declared("2025"));
    let checked = check();
    assert_eq!(checked.status, 1, "{checked:?}");
    assert!(checked.stderr.contains("write auto, modern, or one of"), "{checked:?}");
    folder.wait_for_no_process();
}

#[test]
fn file_of_another_client_is_served() {
    let folder = Folder::new();
    let servers = json!({ "mcpServers": {
        "Own Server": { "command": fixture(), "args": ["--era", "legacy"] },
        "off": { "command": "/nothing", "disabled": true },
        "broken": { "command": "x", "env": { "A": "${NOT_SET_ANYWHERE}" } },
    } });
    folder.write("claude_desktop_config.json", &servers.to_string());
    let mut command = Command::new(CORELANE);
    command.args(["gateway", "--config"]).arg(folder.path("claude_desktop_config.json"));
    let gateway = Gateway::spawn(folder, &mut command);
    for kind in KINDS {
        assert_eq!(gateway.client(kind).text("echo", json!({"message": "hi"})), "hi");
    }
    let log = gateway.end();
    assert!(log.contains("NOT_SET_ANYWHERE") && log.contains("broken"), "{log}");
}

#[test]
fn invalid_command_lines_are_named() {
    for (arguments, error) in [
        (&["gateway"][..], "no upstream"),
        (&["gateway", "--upstream", "ftp://a"], "must begin with"),
        (&["gateway", "--upstream", "tcp://a:1", "--era", "2025"], "write auto, modern, or one of"),
        (&["gateway", "--config", "/nothing.json"], "cannot be read"),
        (&["bridge"], "<TARGET>"),
        (&["bridge", "ftp://a"], "must begin with"),
    ] {
        let ended = run_program(CORELANE, arguments.iter().copied());
        assert_eq!(ended.status, 2, "{arguments:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(error), "{arguments:?}: {}", ended.stderr);
    }
}

#[test]
fn equal_names_get_prefixes_and_uris() {
    let declared = [
        upstream("one", "hide = [\"s*\"]\nrename = { pid = \"process\" }", &[]),
        upstream("two", "only = [\"echo\", \"fixture://*\"]", &["--era", "modern"]),
    ]
    .concat();
    let gateway = Gateway::declared(&declared, &[]);
    let mut client = gateway.client(MODERN_TCP);
    let tools = client.tools();
    for name in ["one_echo", "two_echo", "process", "count"] {
        assert!(tools.iter().any(|it| it == name), "{name}: {tools:?}");
    }
    for name in ["echo", "pid", "slow", "two_count"] {
        assert!(!tools.iter().any(|it| it == name), "{name}: {tools:?}");
    }
    assert_eq!(client.text("two_echo", json!({"message": "hi"})), "hi");
    for uri in ["one+fixture://one", "two+fixture://one", "two+fixture://item/7"] {
        let result = client.result("resources/read", json!({ "uri": uri }));
        assert!(result["contents"][0]["text"].is_string(), "{uri}: {result}");
    }
    gateway.end();
}

#[test]
fn tools_are_found_described_and_called() {
    let declared = upstream("fixture", "pinned = [\"pid\"]", &[]);
    let gateway = Gateway::declared(&declared, &["--gateway-expose", "search"]);
    for kind in KINDS {
        let mut client = gateway.client(kind);
        let mut tools = client.tools();
        tools.sort();
        assert_eq!(tools, ["call_tool", "describe_tool", "pid", "search_tools"], "{kind:?}");
        let found = client.text("search_tools", json!({"query": "returns message"}));
        assert!(found.starts_with("echo: "), "{found}");
        let described = client.text("describe_tool", json!({"name": "echo"}));
        let described: Value = serde_json::from_str(&described).expect("a definition");
        assert_eq!(described["inputSchema"]["properties"]["message"]["type"], "string");
        let call = json!({"name": "echo", "arguments": {"message": "hi"}});
        assert_eq!(client.text("call_tool", call), "hi");
        let unknown = client.call("call_tool", json!({"name": "nothing"}));
        assert!(error_text(&unknown).contains("nothing"), "{unknown}");
    }
    gateway.end();
}

#[test]
fn bridge_serves_remote_server_over_stdio() {
    let gateway = Gateway::with_keys("", &["--era", "modern"]);
    let url = format!("http://{}/mcp", gateway.http);
    let mut bridge = Process::start(CORELANE, &["bridge", &url]);
    let mut peer = bridge.take_pipes();
    let capabilities = json!({"elicitation": {}});
    let initialize = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "1"},
        },
    });
    peer.send(initialize);
    assert_eq!(peer.receive()["result"]["protocolVersion"], "2025-06-18");
    peer.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    peer.send(json!({
        "jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": {"name": "ask", "arguments": {}},
    }));
    let input_request = peer.receive();
    assert_eq!(input_request["method"], "elicitation/create", "{input_request}");
    let answer = json!({"action": "accept", "content": {"name": "Ada"}});
    peer.send(json!({"jsonrpc": "2.0", "id": input_request["id"], "result": answer}));
    let result = peer.receive();
    assert_eq!(result["id"], 2, "{result}");
    let text = result["result"]["content"][0]["text"].as_str().unwrap_or_default();
    assert!(text.contains("Ada"), "{result}");
    drop(peer);
    assert_eq!(bridge.wait().status, 0);
    assert_eq!(gateway.client(LEGACY_TCP).text("echo", json!({"message": "hi"})), "hi");
    gateway.end();
}
