//! Declarations that change while the server runs.

use corelane_test_support::process::Signal;
use serde_json::json;

use super::fifo::{Gate, Lifeline};
use super::folder::{DeclaredServer, Folder, result_text};

const FIRST: &str = "
[[tool]]
name = \"kept\"
text = \"kept\"

[[tool]]
name = \"slow\"
command = [\"sh\", \"-c\", \"exec 3>alive; echo up >&3; read line < gate; echo old\"]

[[tool]]
name = \"gone\"
text = \"gone\"

[[prompt]]
name = \"prompt\"
messages = [{ text = \"old\" }]

[[resource]]
uri = \"info://text\"
name = \"text\"
text = \"old\"
";

const SECOND: &str = "
[[tool]]
name = \"kept\"
text = \"kept\"

[[tool]]
name = \"slow\"
command = [\"echo\", \"new\"]

[[tool]]
name = \"added\"
text = \"added\"

[[prompt]]
name = \"prompt\"
title = \"New\"
messages = [{ text = \"new\" }]

[[resource]]
uri = \"info://text\"
name = \"text\"
title = \"New\"
text = \"new\"
";

const CHANGED: &str = "declarations changed";

fn count(methods: &[String], list: &str) -> usize {
    let method = format!("notifications/{list}/list_changed");
    methods.iter().filter(|known| **known == method).count()
}

/// Starts a server of [`FIRST`] with a call in flight, changes the declarations to [`SECOND`], and
/// checks the call and what is offered. Returns the notifications and the log.
fn check_reload(is_signalled: bool) -> (Vec<String>, String) {
    let mut server = DeclaredServer::new(FIRST);
    let mut alive = Lifeline::new(&server.folder.path("alive"));
    let mut gate = Gate::new(&server.folder.path("gate"));
    let mut list = server.subscribe();
    assert_eq!(list.tools(), ["kept", "slow", "gone"]);
    let mut client = server.connect();
    let id = client.send_request("tools/call", json!({"name": "slow"}));
    alive.read_lines(1);

    server.folder.write("corelane.toml", SECOND);
    if is_signalled {
        server.process.signal(Signal::HUP);
        server.process.wait_for(|line| line.contains("configuration reloaded"));
    } else {
        server.process.wait_for(|line| line.contains(CHANGED));
    }
    list.wait_for("notifications/tools/list_changed");
    let mut tools = list.tools();
    tools.sort();
    assert_eq!(tools, ["added", "kept", "slow"]);
    assert_eq!(list.call("slow", json!({})), "new\n");
    assert_eq!(list.call("kept", json!({})), "kept");
    let prompt = list.request("prompts/get", json!({"name": "prompt"}));
    assert_eq!(prompt["result"]["messages"][0]["content"]["text"], "new");
    let resource = list.request("resources/read", json!({"uri": "info://text"}));
    assert_eq!(resource["result"]["contents"][0]["text"], "new");

    gate.open();
    assert_eq!(result_text(&client.receive_response(id, "tools/call")), "old\n");
    for changed in ["tools", "prompts", "resources"] {
        list.wait_for(&format!("notifications/{changed}/list_changed"));
    }
    let log = server.end();
    (list.rest(), log)
}

#[test]
fn changed_file_is_one_list_change() {
    let (changes, log) = check_reload(false);
    let counts = ["tools", "prompts", "resources"].map(|list| count(&changes, list));
    assert_eq!(counts, [1, 1, 1], "{changes:?}");
    assert_eq!(log.matches(CHANGED).count(), 1, "{log}");
    assert!(log.contains("added=1 replaced=3 removed=1"), "{log}");
}

#[test]
fn sighup_is_one_list_change() {
    let (changes, log) = check_reload(true);
    let counts = ["tools", "prompts", "resources"].map(|list| count(&changes, list));
    assert_eq!(counts, [1, 1, 1], "{changes:?}");
    assert_eq!(log.matches(CHANGED).count(), 1, "{log}");
}

#[test]
fn broken_file_changes_nothing_while_calls_run() {
    let mut server = DeclaredServer::new(FIRST);
    let mut alive = Lifeline::new(&server.folder.path("alive"));
    let mut gate = Gate::new(&server.folder.path("gate"));
    let mut list = server.subscribe();
    let mut client = server.connect();
    let id = client.send_request("tools/call", json!({"name": "slow"}));
    alive.read_lines(1);
    for (broken, expected) in [
        ("[[tool]]\nname = \"added\"\ntext = \"a\"\n[[tool]]\nname = \"b\"\n", "does nothing"),
        ("[[tool]\n", "corelane.toml:1:"),
        ("[[tool]]\nname = \"a\"\ncommand = [\"/no/such/program\"]\n", "/no/such/program"),
    ] {
        server.folder.write("corelane.toml", broken);
        server.process.wait_for(|line| line.contains(expected));
        assert_eq!(list.tools(), ["kept", "slow", "gone"]);
        server.process.signal(Signal::HUP);
        server.process.wait_for(|line| line.contains("configuration not reloaded"));
        assert_eq!(list.tools(), ["kept", "slow", "gone"]);
        assert_eq!(list.call("gone", json!({})), "gone");
    }
    gate.open();
    assert_eq!(result_text(&client.receive_response(id, "tools/call")), "old\n");
    assert!(list.changes.is_empty(), "{:?}", list.changes);
    server.folder.write("corelane.toml", SECOND);
    list.wait_for_tools();
    assert_eq!(list.call("added", json!({})), "added");
}

#[test]
fn files_in_conf_d_come_and_go() {
    let mut server = DeclaredServer::new("[[tool]]\nname = \"first\"\ntext = \"1\"\n");
    let mut list = server.subscribe();
    server.folder.write("conf.d/more.toml", "[[tool]]\nname = \"more\"\ntext = \"2\"\n");
    list.wait_for_tools();
    assert_eq!(list.tools(), ["first", "more"]);
    // The same name twice is a fault of the second file.
    server
        .folder
        .write("conf.d/twice.toml", "[[tool]]\nname = \"more\"\ntitle = \"Other\"\ntext = \"3\"\n");
    let line = server.process.wait_for(|line| line.contains("twice.toml:"));
    assert!(line.contains("is declared in ") && line.contains("more.toml:1"), "{line}");
    assert_eq!(list.call("more", json!({})), "2");
    std::fs::remove_file(server.folder.path("conf.d/more.toml")).expect("file is removed");
    list.wait_for_tools();
    assert_eq!(list.call("more", json!({})), "3");
}

#[test]
fn changed_schema_file_is_followed() {
    let folder =
        Folder::new("[[tool]]\nname = \"typed\"\ntext = \"{a}\"\nschema = \"schema.json\"\n");
    let schema = |kind: &str| {
        format!("{{\"type\": \"object\", \"properties\": {{\"a\": {{\"type\": \"{kind}\"}}}}}}")
    };
    folder.write("schema.json", schema("string"));
    let server = DeclaredServer::start(folder, &[]);
    let mut list = server.subscribe();
    assert_eq!(list.call("typed", json!({"a": "x"})), "x");
    server.folder.write("schema.json", schema("integer"));
    list.wait_for_tools();
    assert_eq!(list.call("typed", json!({"a": 7})), "7");
}

const UPDATED: &str = "notifications/resources/updated";

#[test]
fn subscribers_learn_of_another_definition() {
    let server = DeclaredServer::new(FIRST);
    let mut list = server.subscribe();
    list.request("resources/subscribe", json!({"uri": "info://text"}));
    server.folder.replace("text = \"old\"\n", "text = \"new\"\n");
    list.wait_for(UPDATED);
    let resource = list.request("resources/read", json!({"uri": "info://text"}));
    assert_eq!(resource["result"]["contents"][0]["text"], "new");
}

#[test]
fn subscribers_learn_of_changed_skill_files() {
    let folder = Folder::new("");
    let skill = |text: &str| format!("---\nname: pdf\ndescription: Fills forms.\n---\n{text}\n");
    folder.write("skills/pdf/SKILL.md", skill("old"));
    let skills = folder.text_path("skills");
    let server = DeclaredServer::start(folder, &["--skills", &skills]);
    let mut list = server.subscribe();
    let uri = json!({"uri": "skill://pdf/SKILL.md"});
    list.request("resources/subscribe", uri.clone());
    server.folder.write("skills/pdf/SKILL.md", skill("new"));
    list.wait_for(UPDATED);
    let resource = list.request("resources/read", uri);
    assert_eq!(resource["result"]["contents"][0]["text"], skill("new"));
}
