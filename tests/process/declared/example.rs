//! `corelane new`, `check`, `try` and `serve`: the example works as it is written.

use std::path::Path;
use std::process::Command;

use corelane_test_support::{ExitResult, run_program};
use serde_json::{Value, json};

use super::api::{Api, Reply};
use super::folder::{DeclaredServer, Folder};
use crate::CORELANE;

/// A folder with the example, whose requests go to `api`.
fn example(api: &Api) -> Folder {
    let folder = Folder::new("");
    std::fs::remove_file(folder.path("corelane.toml")).expect("file is removed");
    let written = run_program(CORELANE, ["new", &folder.text_path("")]);
    assert_eq!(written.status, 0, "{}", written.stderr);
    assert!(written.stdout.contains("corelane serve --config"), "{}", written.stdout);
    let checked = folder.run("check", &[]);
    assert_eq!(checked.status, 0, "{}", checked.stderr);
    assert!(!checked.stderr.contains("warning: "), "{}", checked.stderr);
    for file in ["corelane.toml", "openapi.json"] {
        let text = std::fs::read_to_string(folder.path(file)).expect("file is read");
        assert!(text.contains("http://127.0.0.1:8080"), "{text}");
        let text = text.replace("http://127.0.0.1:8080", &api.origin());
        folder.write(file, text);
    }
    folder
}

fn api() -> Api {
    Api::start(|target| match target {
        "/status" => Reply::json("{\"shards\": []}"),
        _ => Reply::new("200 OK", "Content-Type: text/plain", "ok"),
    })
}

#[test]
fn example_serves_each_kind() {
    let api = api();
    let server = DeclaredServer::start(example(&api), &[]);
    let mut client = server.connect();
    let disk = client.text("disk_space", json!({"path": "/", "inodes": true}));
    assert!(disk.contains("IFree"), "{disk}");
    let notes = client.text("search_notes", json!({"word": "note"}));
    assert!(notes.contains("first.md:"), "{notes}");
    let status = client.response("server_status", json!({}));
    assert_eq!(status["result"]["structuredContent"], json!({"shards": []}), "{status}");
    assert_eq!(client.text("own_health", json!({})), "ok");
    let items = client.response("find_items", json!({"price_max": 4}));
    let names: Vec<&Value> = items["result"]["structuredContent"]["rows"]
        .as_array()
        .expect("rows are a list")
        .iter()
        .map(|row| &row["name"])
        .collect();
    assert_eq!(names, ["apple", "bread"]);
    let count = client.response("shop_query", json!({"query": "select count(*) as n from items"}));
    assert_eq!(count["result"]["structuredContent"]["rows"], json!([{"n": 3}]));
    assert_eq!(client.text("word_count", json!({"text": "one two three"})).trim(), "3");
    let read = |uri: &str| json!({ "uri": uri });
    let about = client.expect_result("resources/read", read("example://about"));
    assert_eq!(about["contents"][0]["text"], "An example of a server without Rust.");
    let note = client.expect_result("resources/read", read("notes://first"));
    assert_eq!(note["contents"][0]["mimeType"], "text/markdown");
    let arguments = json!({"note": "first", "sentences": "2"});
    let params = json!({"name": "summarize", "arguments": arguments});
    let prompt = client.expect_result("prompts/get", params);
    let text = &prompt["messages"][0]["content"]["text"];
    assert_eq!(text, "Read notes://first and summarize it in 2 sentences.");
    let log = server.end();
    // On a busy machine any handler may be slow.
    let mut warnings = log.lines().filter(|line| line.contains(" WARN "));
    assert!(warnings.all(|line| line.contains("slow handler")), "{log}");
}

#[test]
fn example_is_called_by_the_client() {
    let api = api();
    let server = DeclaredServer::start(example(&api), &[]);
    let url = format!("http://{}/mcp", server.http);
    let call = run_program(CORELANE, ["call", &url, "word_count", "text=one two"]);
    assert_eq!((call.status, call.stdout.trim()), (0, "2"), "{}", call.stderr);
    let list = run_program(CORELANE, ["tools", &url]);
    assert!(list.status == 0 && list.stdout.contains("disk_space"), "{list:?}");
}

#[test]
fn try_runs_one_tool_without_server() {
    let folder = example(&api());
    let tried = folder.run("try", &["disk_space", "path=/"]);
    assert!(tried.status == 0 && tried.stdout.contains("Mounted on"), "{tried:?}");
    let tried = folder.run("try", &["word_count", "text=one two three"]);
    assert_eq!((tried.status, tried.stdout.trim()), (0, "3"), "{}", tried.stderr);
    let tried = folder.run("try", &["find_items", "price_max=1"]);
    assert!(tried.status == 0 && tried.stdout.contains("apple"), "{tried:?}");
    let refused = folder.run("try", &["disk_space", "path=5", "other=1"]);
    assert!(refused.status != 0 && refused.stderr.contains("other"), "{refused:?}");
    let unknown = folder.run("try", &["no_such_tool"]);
    assert!(unknown.status != 0 && unknown.stderr.contains("no_such_tool"), "{unknown:?}");
}

#[test]
fn new_overwrites_nothing() {
    let folder = Folder::new("mine = 1");
    let written = run_program(CORELANE, ["new", &folder.text_path("")]);
    assert_eq!(written.status, 1, "{}", written.stdout);
    assert!(written.stderr.contains("corelane.toml exists already; name"), "{}", written.stderr);
    let kept = std::fs::read_to_string(folder.path("corelane.toml")).expect("file is read");
    assert_eq!((kept.as_str(), folder.path("tools").exists()), ("mine = 1", false));
}

#[test]
fn schema_describes_the_example() {
    let ExitResult { status, stdout, .. } = run_program(CORELANE, ["schema"]);
    let schema: Value = serde_json::from_str(&stdout).expect("the schema is JSON");
    assert_eq!(status, 0);
    let validator = jsonschema::validator_for(&schema).expect("the schema is valid");
    let folder = tempfile::tempdir().expect("temporary directory");
    let mut new = Command::new(CORELANE);
    new.arg("new").current_dir(&folder).output().expect("process starts");
    let validate = |path: &Path| {
        let text = std::fs::read_to_string(path).expect("file is read");
        let file: toml::Table = toml::from_str(&text).expect("the file is TOML");
        let file = serde_json::to_value(file).expect("TOML becomes JSON");
        validator.iter_errors(&file).map(|error| error.to_string()).collect::<Vec<_>>()
    };
    let path = folder.path().join("corelane.toml");
    assert_eq!(validate(&path), [""; 0]);
    std::fs::write(&path, "[[tool]]\nname = \"a\"\ncomand = [\"df\"]\n").expect("file is written");
    assert!(!validate(&path).is_empty());
}
