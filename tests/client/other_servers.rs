//! Servers of others over their standard streams and HTTP, which `loadtest/tests/install.sh`
//! installs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use corelane::Client;
use corelane::client::{
    ClientBuilder, ClientErrorKind, EraPreference, Program, TaskStatus, TaskSupport,
};
use corelane::model::{ElicitAction, ElicitResult, Revision, Root};
use corelane::testing::block_on;
use corelane_test_support::ListeningProcess;
use serde_json::json;

/// Returns a path in the folder that install.sh fills.
fn installed(path: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("other_servers").join(path)
}

/// Every revision, and the choice of the server.
pub(super) fn eras() -> impl Iterator<Item = EraPreference> {
    let legacy = [
        Revision::V2025_11_25,
        Revision::V2025_06_18,
        Revision::V2025_03_26,
        Revision::V2024_11_05,
    ];
    std::iter::once(EraPreference::Auto).chain(legacy.map(EraPreference::Legacy))
}

/// The program of `server-everything`.
fn everything() -> PathBuf {
    installed("node/node_modules/@modelcontextprotocol/server-everything/dist/index.js")
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("loadtest/tests/load/other_servers").join(name)
}

fn client_of(server: &ListeningProcess) -> ClientBuilder {
    Client::builder(server.url().as_str())
}

/// Calls what `server-everything` has.
fn use_everything(client: ClientBuilder, era: EraPreference) {
    let client = client.era(era);
    let client = client.on_roots(async || Ok(vec![Root { uri: "file:///srv".into(), name: None }]));
    let client = client.connect_blocking().expect("a handshake");
    let tools = block_on(client.list_tools()).expect("tools");
    assert!(tools.iter().any(|tool| tool.name == "echo"), "{tools:?}");
    let result = client.call_tool("echo", &json!({ "message": "hi" })).wait().expect("a result");
    assert_eq!(result.text(), "Echo: hi", "{era:?}");
    let result = client.call_tool("get-sum", &json!({ "a": 2, "b": "x" })).wait();
    assert!(result.map_or(true, |result| result.is_error), "{era:?}");
    let resources = block_on(client.list_resources()).expect("resources");
    let read = client.read_resource(&resources[0].uri).wait().expect("contents");
    assert_eq!(read.contents[0].uri, resources[0].uri);
    let prompts = block_on(client.list_prompts()).expect("prompts");
    let simple = prompts.iter().find(|prompt| prompt.arguments.is_empty()).expect("a prompt");
    let prompt = client.get_prompt(&simple.name, &json!({})).wait().expect("messages");
    assert_eq!(prompt.messages[0].role, "user");
    block_on(client.ping()).expect("an answer");
    block_on(client.close());
}

/// Runs the tool of `server-everything` whose calls must be tasks, and which asks the user.
fn research_in_task(client: ClientBuilder) {
    let client = client.on_elicitation(async |question| {
        let field = &question.requested_schema["properties"]["interpretation"];
        let content = json!({ "interpretation": field["oneOf"][0]["const"] });
        let content = content.as_object().cloned().unwrap_or_default();
        Ok(ElicitResult { action: ElicitAction::Accept, content })
    });
    let client = client.connect_blocking().expect("a handshake");
    let tools = block_on(client.list_tools()).expect("tools");
    let tool = tools.iter().find(|tool| tool.name == "simulate-research-query").expect("a tool");
    assert_eq!(tool.task_support(), TaskSupport::Required);
    let arguments = json!({ "topic": "python", "ambiguous": true });
    let call = || client.call_tool(&tool.name, &arguments);
    let error = call().wait().expect_err("a call that must be a task");
    assert_eq!(error.kind(), ClientErrorKind::Unsupported, "{error}");
    let task = call().task(Duration::from_mins(1)).wait().expect("a task");
    assert_eq!(task.status().wait().expect("a status").status, TaskStatus::Working);
    let report = task.result().wait().expect("a result").text();
    assert!(report.contains("**Clarification**"), "{report}");
    assert_eq!(task.status().wait().expect("a status").status, TaskStatus::Completed);
    block_on(client.close());
}

/// Calls the tool of the `FastMCP` server.
fn use_fastmcp(client: ClientBuilder, era: EraPreference) {
    let client = client.era(era).connect_blocking().expect("a handshake");
    let result = client.call_tool("add", &json!({ "a": 2, "b": 3 })).wait().expect("a result");
    assert_eq!(result.text(), "5", "{era:?}");
    if let Some(content) = result.structured_content {
        assert_eq!(content, json!({ "result": 5 }));
    }
    block_on(client.close());
}

#[ignore = "needs server-everything: ./test.sh runs it"]
#[test]
fn server_everything_serves_stdio_in_every_era() {
    for era in eras() {
        let program = Program::new("node").arg(everything()).arg("stdio");
        use_everything(Client::builder(program), era);
    }
}

#[ignore = "needs server-everything: ./test.sh runs it"]
#[test]
fn server_everything_serves_http_in_every_era() {
    let server = ListeningProcess::start(|port| {
        let mut command = Command::new("node");
        command.arg(everything()).arg("streamableHttp").env("PORT", port.to_string());
        command
    });
    for era in eras() {
        use_everything(client_of(&server), era);
    }
}

#[ignore = "needs server-everything: ./test.sh runs it"]
#[test]
fn server_everything_runs_tasks() {
    let program = Program::new("node").arg(everything()).arg("stdio");
    research_in_task(Client::builder(program));
    let server = ListeningProcess::start(|port| {
        let mut command = Command::new("node");
        command.arg(everything()).arg("streamableHttp").env("PORT", port.to_string());
        command
    });
    research_in_task(client_of(&server));
}

#[ignore = "needs FastMCP: ./test.sh runs it"]
#[test]
fn fastmcp_serves_stdio_in_every_era() {
    for era in eras() {
        let program = Program::new(installed("python/bin/python"));
        use_fastmcp(Client::builder(program.arg(script("fastmcp_server.py"))), era);
    }
}

#[ignore = "needs FastMCP: ./test.sh runs it"]
#[test]
fn fastmcp_serves_http_in_every_era() {
    let server = ListeningProcess::start(|port| {
        let mut command = Command::new(installed("python/bin/python"));
        command.arg(script("fastmcp_server.py")).arg(port.to_string());
        command
    });
    for era in eras() {
        use_fastmcp(client_of(&server), era);
    }
}

#[ignore = "needs the Python SDK: ./test.sh runs it"]
#[test]
fn python_sdk_serves_http_in_every_era() {
    let server = ListeningProcess::start(|port| {
        let mut command = Command::new(installed("python/bin/python"));
        command.arg(script("sdk_server.py")).arg(port.to_string());
        command
    });
    for era in eras() {
        let client = client_of(&server).era(era).connect_blocking().unwrap();
        let result = client.call_tool("echo", &json!({ "text": "hi" })).wait().unwrap();
        assert_eq!(result.text(), "hi", "{era:?}");
        block_on(client.close());
    }
}
