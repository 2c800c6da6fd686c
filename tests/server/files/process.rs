//! Tests of `corelane stdio` with directories of resources and prompts.

use std::path::Path;
use std::process::Command;

use corelane_test_support::messages::{LEGACY, initialize, notification, request};
use corelane_test_support::{LineClient, Process};
use serde_json::{Value, json};

use crate::CORELANE;
use crate::files::fixtures::write;

/// The program with a client over its pipes.
struct StdioServer {
    process: Process,
    client: LineClient,
    next_id: u64,
}

impl StdioServer {
    fn start(resources: &Path, prompts: &Path) -> Self {
        Self::start_with(&[], resources, prompts)
    }

    fn start_with(flags: &[&str], resources: &Path, prompts: &Path) -> Self {
        let mut command = Command::new(CORELANE);
        command.env_clear().arg("stdio").args(flags).arg("--resources").arg(resources);
        let mut process = Process::spawn(command.arg("--prompts").arg(prompts));
        let mut peer = Self { client: process.take_pipes(), process, next_id: 0 };
        let result = peer.exchange(&initialize(0, LEGACY));
        assert!(result["capabilities"]["resources"].is_object(), "{result}");
        assert!(result["capabilities"]["prompts"].is_object(), "{result}");
        peer.client.send(notification("notifications/initialized"));
        peer
    }

    fn request(&mut self, method: &str, params: &Value) -> Value {
        self.next_id += 1;
        self.exchange(&request(self.next_id, method, params.clone()))
    }

    /// Sends a request; returns its result or error and skips notifications before it.
    fn exchange(&mut self, request: &Value) -> Value {
        self.client.send(request);
        loop {
            let mut message = self.client.receive();
            if message["id"] == request["id"] {
                let member = if message.get("error").is_some() { "error" } else { "result" };
                return message[member].take();
            }
        }
    }

    /// Waits for a notification.
    fn wait_for_notification(&mut self, method: &str) -> Value {
        loop {
            let mut message = self.client.receive();
            if message["method"] == method {
                return message["params"].take();
            }
        }
    }

    /// Ends the input; the program must exit successfully.
    fn end_input(self) {
        drop(self.client);
        assert_eq!(self.process.wait().status, 0);
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

    peer.end_input();
}

#[test]
fn directories_are_offered_without_demo_services() {
    let (docs, prompts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(docs.path(), "a.txt", "a");
    write(prompts.path(), "ask.md", "Explain {{topic}}.");
    let mut peer = StdioServer::start(docs.path(), prompts.path());
    let mut names = |method, member| {
        let entries = peer.list(method, member);
        entries.into_iter().map(|mut entry| entry["name"].take()).collect::<Vec<_>>()
    };
    assert!(names("tools/list", "tools").is_empty());
    assert_eq!(names("resources/list", "resources"), ["a.txt"]);
    assert_eq!(names("prompts/list", "prompts"), ["ask"]);
    peer.end_input();
    let mut peer = StdioServer::start_with(&["--demo", "basic"], docs.path(), prompts.path());
    assert_eq!(peer.list("tools/list", "tools").len(), 4);
    assert_eq!(peer.list("resources/list", "resources").len(), 1);
    peer.end_input();
    let mut peer = StdioServer::start_with(&["--demo", "conformance"], docs.path(), prompts.path());
    assert!(peer.list("tools/list", "tools").len() > 4);
    let resources = peer.list("resources/list", "resources");
    let uris: Vec<&Value> = resources.iter().map(|entry| &entry["uri"]).collect();
    assert!(uris.iter().any(|uri| **uri == "test://static-text"), "{uris:?}");
    assert!(resources.iter().any(|entry| entry["name"] == "a.txt"), "{uris:?}");
    peer.end_input();
}

#[test]
fn uri_prefix_replaces_path_of_directory() {
    let (docs, prompts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(docs.path(), "sub/a b.txt", "text");
    let options = ["--resources-uri-prefix", "docs://"];
    let mut peer = StdioServer::start_with(&options, docs.path(), prompts.path());
    let resources = peer.list("resources/list", "resources");
    assert_eq!(resources[0]["uri"], "docs://sub/a%20b.txt");
    let result = peer.request("resources/read", &json!({ "uri": "docs://sub/a%20b.txt?offset=2" }));
    assert_eq!(result["contents"][0]["text"], "xt");
    let result = peer.request("resources/read", &json!({ "uri": "docs://../sub/a%20b.txt" }));
    assert_eq!(result["code"], -32002, "{result}");
    let templates = peer.list("resources/templates/list", "resourceTemplates");
    assert_eq!(templates[0]["uriTemplate"], "docs://{+path}{?offset,length}");
    peer.end_input();
}

#[test]
fn template_path_is_completed_with_listed_files() {
    let (docs, prompts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for file in ["guide/a b.md", "guide/deep/50%?.md", "Guide.md", "other.md", ".hidden"] {
        write(docs.path(), file, "text");
    }
    let mut peer = StdioServer::start(docs.path(), prompts.path());
    let templates = peer.list("resources/templates/list", "resourceTemplates");
    let template = templates[0]["uriTemplate"].as_str().unwrap().to_owned();
    let mut complete = |name: &str, value: &str| {
        let reference = json!({ "type": "ref/resource", "uri": template });
        let argument = json!({ "name": name, "value": value });
        let params = json!({ "ref": reference, "argument": argument });
        peer.request("completion/complete", &params)["completion"].take()
    };
    let all = ["guide/a b.md", "guide/deep/50%25%3F.md", "Guide.md", "other.md"];
    assert_eq!(complete("path", "")["total"], all.len());
    let found = complete("path", "guide/");
    assert_eq!(found["values"], json!(&all[..2]));
    assert_eq!((&found["total"], &found["hasMore"]), (&json!(2), &json!(false)));
    assert_eq!(complete("path", "guide/deep/5")["values"], json!([all[1]]));
    assert_eq!(complete("path", "missing")["values"], json!([]));
    assert_eq!(complete("offset", "")["values"], json!([]));
    // Each value, inserted in the template, is read.
    let prefix = template.strip_suffix("{+path}{?offset,length}").unwrap().to_owned();
    for path in all {
        let uri = format!("{prefix}{}", path.replace(' ', "%20"));
        assert_eq!(
            peer.request("resources/read", &json!({ "uri": uri }))["contents"][0]["text"],
            "text"
        );
    }
    peer.end_input();
}

#[test]
fn check_names_files_that_are_not_offered() {
    let (docs, prompts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::os::unix::fs::symlink("missing", docs.path().join("gone.txt")).unwrap();
    write(prompts.path(), "bad.md", "+++\ntitle = 7\n+++\n");
    let mut command = Command::new(CORELANE);
    command.env_clear().args(["check", "--tcp", "127.0.0.1:0", "--http", "off", "--resources"]);
    let output = command.arg(docs.path()).arg("--prompts").arg(prompts.path()).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && error.ends_with("ok\n"), "{error}");
    for expected in ["gone.txt: cannot be read (the link leads to nothing", "bad.md:2: invalid"] {
        assert_eq!(error.matches(expected).count(), 1, "{error}");
    }
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
    // The new size of `a.txt` changes the list, too.
    loop {
        peer.wait_for_notification("notifications/resources/list_changed");
        let resources = peer.list("resources/list", "resources");
        if resources.iter().any(|it| it["name"] == "b.txt") {
            break;
        }
    }
    write(prompts.path(), "ask.md", "Explain {{topic}}.");
    peer.wait_for_notification("notifications/prompts/list_changed");
    let prompts = peer.list("prompts/list", "prompts");
    assert!(prompts.iter().any(|it| it["name"] == "ask"));
    peer.end_input();
}
