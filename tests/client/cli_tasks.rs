//! Tasks on the command line: `corelane call --task` and `corelane tasks`.

use std::net::TcpListener;
use std::process::Command;
use std::thread;

use corelane_test_support::{
    ExitResult, LineClient, Process, TestServer, http_options, run_program, tcp_options,
};
use serde_json::{Value, json};

use super::tasks::catalog;
use super::{discover_result, response};

use crate::CORELANE;

/// The revisions that have tasks.
const ERAS: [&str; 2] = ["2026-07-28", "2025-11-25"];

fn spawn(arguments: &[&str]) -> Process {
    Process::spawn(Command::new(CORELANE).args(arguments))
}

fn run(arguments: &[&str]) -> ExitResult {
    run_program(CORELANE, arguments.iter().copied())
}

/// Returns the id of the task that a note names.
fn task_id(note: &str) -> &str {
    let rest = note.strip_prefix("task ").expect("a note of a task");
    rest.split(": ").next().expect("an id")
}

#[test]
fn task_call_prints_states_and_result() {
    for options in [tcp_options(), http_options()] {
        let is_http = options.http.address.is_some();
        let server = TestServer::with_gate(options, catalog);
        let tcp = || format!("tcp://{}", server.tcp());
        let target = if is_http { format!("http://{}/mcp", server.http()) } else { tcp() };
        for era in ERAS {
            server.close_gate();
            let call = spawn(&["call", &target, "hold", "--task", "--ttl", "60", "--era", era]);
            assert_eq!(server.next_signal(), "begun");
            server.open_gate();
            let result = call.wait();
            assert_eq!((result.status, result.stdout.as_str()), (0, "held\n"), "{era}");
            let notes: Vec<&str> = result.stderr.lines().collect();
            let id = task_id(notes[0]);
            assert_eq!(notes, [format!("task {id}: working"), format!("task {id}: completed")]);
        }
        let result = run(&["call", &target, "hold", "--task", "--json"]);
        let document: Value = serde_json::from_str(&result.stdout).expect("one document");
        assert_eq!(document["content"][0]["text"], "held");
    }
}

#[test]
fn failed_task_exits_with_one() {
    let server = TestServer::with_gate(tcp_options(), catalog);
    let target = format!("tcp://{}", server.tcp());
    for era in ERAS {
        let result = run(&["call", &target, "fail", "--task", "--era", era]);
        assert_eq!((result.status, result.stdout.as_str()), (1, ""), "{era}");
        assert!(result.stderr.ends_with("error: the tool fail failed: no luck\n"), "{era}");
    }
    let result = run(&["call", &target, "hold", "--task", "--era", "2025-06-18"]);
    assert_eq!(result.status, 1);
    assert!(result.stderr.contains("does not offer tasks"), "{}", result.stderr);
}

#[test]
fn tasks_command_follows_and_cancels_task() {
    let server = TestServer::with_gate(tcp_options(), catalog);
    let target = format!("tcp://{}", server.tcp());
    let mut ids = Vec::new();
    for _ in 0..2 {
        // The client goes, and its task stays.
        let mut call = LineClient::connect(server.tcp());
        call.send(json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
                "name": "hold", "arguments": {}, "_meta": {
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientInfo": { "name": "a", "version": "1" },
                    "io.modelcontextprotocol/clientCapabilities": {
                        "extensions": { "io.modelcontextprotocol/tasks": {} },
                    },
                },
            },
        }));
        let created = call.receive();
        ids.push(created["result"]["taskId"].as_str().expect("an id").to_owned());
        assert_eq!(server.next_signal(), "begun");
    }
    let shown = run(&["tasks", &target, "get", &ids[0]]);
    let lines: Vec<&str> = shown.stdout.lines().collect();
    assert_eq!(lines[..2], [format!("task        {}", ids[0]), "status      working".to_owned()]);
    let document = run(&["tasks", &target, "get", &ids[0], "--json"]).stdout;
    assert_eq!(serde_json::from_str::<Value>(&document).expect("JSON")["status"], "working");

    let cancelled = run(&["tasks", &target, "cancel", &ids[0]]);
    assert_eq!((cancelled.status, cancelled.stdout.as_str()), (0, ""));
    assert!(cancelled.stderr.contains("asked to cancel"), "{}", cancelled.stderr);
    let result = run(&["tasks", &target, "result", &ids[0]]);
    assert_eq!(result.status, 1);
    assert!(result.stderr.contains("the task was cancelled"), "{}", result.stderr);

    server.open_gate();
    let result = run(&["tasks", &target, "result", &ids[1]]);
    assert_eq!((result.status, result.stdout.as_str()), (0, "held\n"));
    let unknown = run(&["tasks", &target, "result", "unknown"]);
    assert_eq!((unknown.status, unknown.stdout.as_str()), (1, ""));
    assert!(unknown.stderr.contains("-32602"), "{}", unknown.stderr);
    let list = run(&["tasks", &target]);
    assert_eq!(list.status, 1);
    assert!(list.stderr.contains("only servers of MCP 2025-11-25 list tasks"), "{}", list.stderr);
}

#[test]
fn legacy_tasks_are_listed_in_columns() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let target = format!("tcp://{}", listener.local_addr().expect("an address"));
    let tasks = json!({ "tasks": [
        { "taskId": "one", "status": "working", "createdAt": "2026-01-01T00:00:00Z",
          "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttl": null, "statusMessage": "a\u{1b}b" },
        { "taskId": "second", "status": "input_required", "createdAt": "2026-01-02T00:00:00Z",
          "lastUpdatedAt": "2026-01-02T00:00:00Z", "ttl": 5 },
    ] });
    let answer = tasks.clone();
    let peer = thread::spawn(move || {
        for _ in 0..2 {
            let mut peer = LineClient::accept(&listener);
            let initialize = peer.receive();
            peer.send(response(
                &initialize,
                &json!({
                    "protocolVersion": "2025-11-25",
                    "capabilities": { "tasks": { "list": {}, "cancel": {} } },
                    "serverInfo": { "name": "a", "version": "1" },
                }),
            ));
            assert_eq!(peer.receive()["method"], "notifications/initialized");
            let list = peer.receive();
            assert_eq!(list["method"], "tasks/list");
            peer.send(response(&list, &answer));
            peer.receive_rest();
        }
    });
    let list = run(&["tasks", &target, "list", "--era", "2025-11-25"]);
    assert_eq!((list.status, list.stderr.as_str()), (0, ""));
    assert_eq!(
        list.stdout,
        "one     working         2026-01-01T00:00:00Z  a b\n\
         second  input_required  2026-01-02T00:00:00Z\n"
    );
    let list = run(&["tasks", &target, "--era", "2025-11-25", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&list.stdout).expect("one document"), tasks);
    peer.join().expect("the peer has no complaint");
}

#[test]
fn task_usage_errors_exit_with_two() {
    for (arguments, part) in [
        (&["tasks", "tcp://127.0.0.1:1", "get"][..], "the id of the task is missing"),
        (&["tasks", "tcp://127.0.0.1:1", "list", "one"], "list takes no id"),
        (&["tasks", "tcp://127.0.0.1:1", "drop", "one"], "possible values"),
        (&["call", "tcp://127.0.0.1:1", "a", "--ttl", "5"], "--task"),
    ] {
        let result = run(arguments);
        assert_eq!((result.status, result.stdout.as_str()), (2, ""), "{arguments:?}");
        assert!(result.stderr.contains(part), "{}", result.stderr);
    }
}

#[test]
fn immediate_answer_to_task_call_is_printed() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let target = format!("tcp://{}", listener.local_addr().expect("an address"));
    let peer = thread::spawn(move || {
        let mut peer = LineClient::accept(&listener);
        let discover = peer.receive();
        let mut answer = discover_result(&discover);
        let extensions = json!({ "io.modelcontextprotocol/tasks": {} });
        answer["result"]["capabilities"]["extensions"] = extensions;
        peer.send(answer);
        let call = peer.receive();
        let content = json!([{ "type": "text", "text": "now" }]);
        peer.send(response(&call, &json!({ "resultType": "complete", "content": content })));
        peer.receive_rest();
    });
    let result = run(&["call", &target, "a", "--task"]);
    assert_eq!((result.status, result.stdout.as_str(), &*result.stderr), (0, "now\n", ""));
    peer.join().expect("the peer has no complaint");
}
