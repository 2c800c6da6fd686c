//! Tests of `corelane stdio` with directories of resources and prompts.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use crossbeam::channel::{Receiver, unbounded};
use serde_json::{Value, json};

use crate::fixtures::write;

/// The program with its pipes, and the messages it sends.
struct StdioServer {
    child: Child,
    input: ChildStdin,
    output: Receiver<Value>,
    next_id: u64,
}

impl StdioServer {
    fn start(resources: &Path, prompts: &Path) -> Self {
        Self::start_with(&[], resources, prompts)
    }

    fn start_with(flags: &[&str], resources: &Path, prompts: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_corelane"));
        command.env_clear().arg("stdio").args(flags).arg("--resources").arg(resources);
        command.arg("--prompts").arg(prompts).stderr(Stdio::null());
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.expect("the program starts");
        let input = child.stdin.take().expect("piped standard input");
        let lines = BufReader::new(child.stdout.take().expect("piped standard output")).lines();
        let (sender, output) = unbounded();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let message = serde_json::from_str(&line).expect("standard output is JSON only");
                sender.send(message).ok();
            }
        });
        let mut peer = Self { child, input, output, next_id: 0 };
        let client = json!({ "name": "test", "version": "1" });
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client,
        });
        let result = peer.request("initialize", &params);
        assert!(result["capabilities"]["resources"].is_object(), "{result}");
        assert!(result["capabilities"]["prompts"].is_object(), "{result}");
        peer.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        peer
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input, "{message}").expect("standard input is open");
    }

    /// Sends a request; returns its result or error and skips notifications before it.
    fn request(&mut self, method: &str, params: &Value) -> Value {
        self.next_id += 1;
        let id = self.next_id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        loop {
            let timeout = Duration::from_secs(20);
            let mut message = self.output.recv_timeout(timeout).expect("no response in 20 s");
            if message["id"] == id {
                let member = if message.get("error").is_some() { "error" } else { "result" };
                return message[member].take();
            }
        }
    }

    /// Waits for a notification.
    fn wait_for_notification(&mut self, method: &str) -> Value {
        loop {
            let timeout = Duration::from_secs(20);
            let mut message = self.output.recv_timeout(timeout).expect("no notification in 20 s");
            if message["method"] == method {
                return message["params"].take();
            }
        }
    }

    /// Returns all entries of a list, from all pages.
    fn list(&mut self, method: &str, member: &str) -> Vec<Value> {
        let mut entries = Vec::new();
        let mut params = json!({});
        loop {
            let mut page = self.request(method, &params);
            entries.append(page[member].as_array_mut().expect("a list"));
            let Some(cursor) = page.get("nextCursor") else { return entries };
            params = json!({ "cursor": cursor });
        }
    }
}

#[test]
fn stdio_serves_directories_as_resources_and_prompts() {
    let (docs, prompts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(docs.path(), "guide/start.md", "# Start");
    write(docs.path(), "logo.png", [0x89, b'P']);
    write(prompts.path(), "ask.md", "Explain {{topic}}.");
    let mut peer = StdioServer::start(docs.path(), prompts.path());

    let resources = peer.list("resources/list", "resources");
    let start = resources.iter().find(|it| it["name"] == "guide/start.md").unwrap();
    assert_eq!((&start["mimeType"], &start["size"]), (&json!("text/markdown"), &json!(7)));
    let uri = start["uri"].as_str().unwrap().to_owned();
    let result = peer.request("resources/read", &json!({ "uri": uri }));
    assert_eq!(result["contents"][0]["text"], "# Start");
    let result = peer.request("resources/read", &json!({ "uri": format!("{uri}?offset=2") }));
    assert_eq!(result["contents"][0]["text"], "Start");
    let outside = format!("{uri}/../../../../etc/passwd");
    assert_eq!(peer.request("resources/read", &json!({ "uri": outside }))["code"], -32602);
    let missing = peer.request("resources/read", &json!({ "uri": format!("{uri}x") }));
    assert_eq!(missing["code"], -32002);

    let templates = peer.list("resources/templates/list", "resourceTemplates");
    let suffix = "{+path}{?offset,length}";
    assert!(templates.iter().any(|it| it["uriTemplate"].as_str().unwrap().ends_with(suffix)));

    let prompts = peer.list("prompts/list", "prompts");
    let ask = prompts.iter().find(|it| it["name"] == "ask").unwrap();
    assert_eq!(ask["arguments"], json!([{ "name": "topic", "required": true }]));
    let params = json!({ "name": "ask", "arguments": { "topic": "rings" } });
    let result = peer.request("prompts/get", &params);
    assert_eq!(result["messages"][0]["content"]["text"], "Explain rings.");

    drop(peer.input);
    assert_eq!(peer.child.wait().unwrap().code(), Some(0));
}

#[test]
fn demo_false_lists_only_the_files() {
    let (docs, prompts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(docs.path(), "a.txt", "a");
    write(prompts.path(), "ask.md", "Explain {{topic}}.");
    let mut peer = StdioServer::start_with(&["--demo", "false"], docs.path(), prompts.path());
    let mut names = |method, member| {
        let entries = peer.list(method, member);
        entries.into_iter().map(|mut entry| entry["name"].take()).collect::<Vec<_>>()
    };
    assert!(names("tools/list", "tools").is_empty());
    assert_eq!(names("resources/list", "resources"), ["a.txt"]);
    assert_eq!(names("prompts/list", "prompts"), ["ask"]);
    drop(peer.input);
    assert_eq!(peer.child.wait().unwrap().code(), Some(0));
}

#[test]
fn client_is_notified_of_file_changes() {
    let (docs, prompts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(docs.path(), "a.txt", "a");
    let mut peer = StdioServer::start(docs.path(), prompts.path());
    let resources = peer.list("resources/list", "resources");
    let a = resources.iter().find(|it| it["name"] == "a.txt").unwrap()["uri"].clone();
    peer.request("resources/subscribe", &json!({ "uri": a }));
    write(docs.path(), "a.txt", "aa");
    assert_eq!(peer.wait_for_notification("notifications/resources/updated")["uri"], a);
    write(docs.path(), "b.txt", "b");
    peer.wait_for_notification("notifications/resources/list_changed");
    let resources = peer.list("resources/list", "resources");
    assert!(resources.iter().any(|it| it["name"] == "b.txt"));
    write(prompts.path(), "ask.md", "Explain {{topic}}.");
    peer.wait_for_notification("notifications/prompts/list_changed");
    let prompts = peer.list("prompts/list", "prompts");
    assert!(prompts.iter().any(|it| it["name"] == "ask"));
    drop(peer.input);
    assert_eq!(peer.child.wait().unwrap().code(), Some(0));
}
