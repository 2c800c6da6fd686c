//! No process outlives its call or the server.

use std::process::Command;

use corelane_test_support::messages::cancelled;
use corelane_test_support::process::Signal;
use corelane_test_support::{LineClient, Process};
use serde_json::json;

use super::fifo::{Gate, Lifeline};
use super::folder::{DeclaredServer, Folder, result_text};
use crate::CORELANE;
use crate::mcp_client::McpClient;

/// A tool whose processes hold the pipe `alive`: a child, one that ignores SIGTERM, and one with a
/// session of its own.
const FAMILY: &str = "
[[tool]]
name = \"family\"
command = [\"sh\", \"family.sh\"]
";

const SCRIPT: &str = "exec 3>alive
sleep 1000 &
sh -c 'trap \"\" TERM; sleep 1000; sleep 1000' &
setsid sleep 1000 &
echo up >&3
sleep 1000
";

fn family() -> (DeclaredServer, Lifeline) {
    let server = DeclaredServer::new(FAMILY);
    server.folder.write("family.sh", SCRIPT);
    let alive = Lifeline::new(&server.folder.path("alive"));
    (server, alive)
}

#[test]
fn cancelled_call_ends_process_group() {
    let (server, mut alive) = family();
    let mut client = McpClient::legacy(LineClient::connect(server.tcp), "2025-11-25");
    let id = client.send_request("tools/call", json!({"name": "family"}));
    alive.read_lines(1);
    client.peer.send(cancelled(id));
    alive.wait_for_end();
    // A cancelled call has no response; the session goes on.
    client.expect_result("tools/list", json!({}));
    server.end();
}

#[test]
fn closed_connection_ends_process_group() {
    let (server, mut alive) = family();
    let mut client = server.connect();
    client.send_request("tools/call", json!({"name": "family"}));
    alive.read_lines(1);
    client.peer.reset();
    alive.wait_for_end();
    server.end();
}

#[test]
fn sigkill_of_server_ends_all_processes() {
    let (mut server, mut alive) = family();
    let mut clients: Vec<McpClient> = (0..3).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send_request("tools/call", json!({"name": "family"}));
    }
    alive.read_lines(3);
    server.process.kill();
    alive.wait_for_end();
}

#[test]
fn sigkill_of_client_ends_its_program() {
    let folder = Folder::new("");
    folder.write("family.sh", SCRIPT);
    let mut alive = Lifeline::new(&folder.path("alive"));
    let mut client = Command::new(CORELANE);
    client.args(["tools", "stdio:sh family.sh"]).current_dir(folder.path("."));
    let mut client = Process::spawn(&mut client);
    alive.read_lines(1);
    client.kill();
    alive.wait_for_end();
}

#[test]
fn drain_ends_calls_after_its_timeout() {
    let folder = Folder::new(FAMILY);
    folder.write("family.sh", SCRIPT);
    let mut alive = Lifeline::new(&folder.path("alive"));
    let server = DeclaredServer::start(folder, &["--drain-timeout", "200"]);
    let mut client = server.connect();
    let id = client.send_request("tools/call", json!({"name": "family"}));
    alive.read_lines(1);
    server.process.signal(Signal::TERM);
    let response = client.receive_response(id, "tools/call");
    assert!(response.get("error").is_some(), "{response}");
    alive.wait_for_end();
    assert_eq!(server.process.wait().status, 0);
}

#[test]
fn sigterm_awaits_command_in_flight() {
    let server = DeclaredServer::new(
        "[[tool]]\nname = \"wait\"\n\
         command = [\"sh\", \"-c\", \"exec 3>alive; echo up >&3; read line < gate; echo done\"]\n",
    );
    let mut alive = Lifeline::new(&server.folder.path("alive"));
    let mut gate = Gate::new(&server.folder.path("gate"));
    let mut client = server.connect();
    let id = client.send_request("tools/call", json!({"name": "wait"}));
    alive.read_lines(1);
    server.process.signal(Signal::TERM);
    gate.open();
    assert_eq!(result_text(&client.receive_response(id, "tools/call")), "done\n");
    assert_eq!(server.process.wait().status, 0);
}
