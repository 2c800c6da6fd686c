//! Limits of declarations: calls at once, rate, bytes.

use std::fs;

use corelane_test_support::messages::{call, join_lines, modern};
use serde_json::json;

use super::fifo::{Gate, Lifeline};
use super::folder::{DeclaredServer, Folder, result_text};

const COUNTED: &str = "
[[tool]]
name = \"counted\"
command = [\"sh\", \"-c\", \"echo begin >> calls.log; echo end >> calls.log; echo {n}\"]
arguments.n = { type = \"integer\" }
limits = { calls = 8, timeout = \"60s\" }

[[tool]]
name = \"other\"
command = [\"echo\", \"other\"]
";

#[test]
fn thousand_calls_keep_to_eight_at_once() {
    let server = DeclaredServer::new(COUNTED);
    let mut clients: Vec<_> = (0..5).map(|_| server.connect()).collect();
    for client in &mut clients {
        let calls = (1..=200).map(|n| modern(call(n, "counted", json!({ "n": n }))));
        client.peer.send_bytes(join_lines(calls).as_bytes());
    }
    // Another tool does not wait behind them.
    assert_eq!(server.connect().text("other", json!({})), "other\n");
    for client in &mut clients {
        let mut seen = [false; 201];
        for _ in 1..=200 {
            let response = client.receive(Some("tools/call"));
            let n = result_text(&response).trim().parse::<usize>().expect("a number");
            assert_eq!(response["id"], n);
            assert!(!std::mem::replace(&mut seen[n], true), "{n} was answered twice");
        }
    }
    let log = fs::read_to_string(server.folder.path("calls.log")).expect("calls have run");
    let (mut running, mut most) = (0, 0);
    for line in log.lines() {
        running += if line == "begin" { 1 } else { -1 };
        most = most.max(running);
    }
    assert_eq!((running, log.lines().count()), (0, 2000));
    assert!(most <= 8, "{most} calls ran at once");
}

#[test]
fn call_beyond_limit_names_it() {
    let server = DeclaredServer::new(
        "[[tool]]\nname = \"hang\"\ncommand = [\"sleep\", \"1000\"]\n\
         limits = { calls = 1, timeout = \"300ms\" }\n",
    );
    let mut client = server.connect();
    let calls = (1..=3).map(|n| modern(call(n, "hang", json!({}))));
    client.peer.send_bytes(join_lines(calls).as_bytes());
    for _ in 1..=3 {
        let response = client.receive(Some("tools/call"));
        let text = &response["result"]["content"][0]["text"];
        let is_named = text.as_str().is_some_and(|text| text.contains("(limits."));
        assert!(is_named && response["result"]["isError"] == true, "{response}");
    }
}

#[test]
fn rate_limit_refuses_and_reloads() {
    let folder = Folder::new(
        "[[tool]]\nname = \"rare\"\ntext = \"answer\"\nlimits.rate = \"2/d\"\n\
         [[tool]]\nname = \"often\"\ntext = \"answer\"\n",
    );
    let server = DeclaredServer::start(folder, &[]);
    let mut list = server.subscribe();
    let mut client = server.connect();
    for _ in 0..2 {
        assert_eq!(client.text("rare", json!({})), "answer");
    }
    let refused = client.response("rare", json!({}));
    assert!(
        refused["error"]["message"].as_str().is_some_and(|it| it.contains("rate")),
        "{refused}"
    );
    for _ in 0..5 {
        assert_eq!(client.text("often", json!({})), "answer");
    }
    server.folder.replace("limits.rate = \"2/d\"", "title = \"Often\"\nlimits.rate = \"500/d\"");
    list.wait_for_tools();
    for _ in 0..5 {
        assert_eq!(client.text("rare", json!({})), "answer");
    }
}

#[test]
fn output_limit_holds_for_each_kind() {
    let folder = Folder::new(
        "[[tool]]\nname = \"statement\"\nlimits.output_bytes = 100\n\
         sql = { database = \"sqlite:x.db\", query = \"select printf('%200s', '') as a\" }\n\
         [[tool]]\nname = \"file\"\nfile = \"long.txt\"\nlimits.output_bytes = 100\n\
         [[tool]]\nname = \"command\"\ncommand = [\"cat\", \"long.txt\"]\n\
         limits.output_bytes = 100\n\
         [[tool]]\nname = \"enough\"\nfile = \"long.txt\"\nlimits.output_bytes = 101\n",
    );
    folder.write("long.txt", "x".repeat(101));
    // An empty file is an empty database.
    folder.write("x.db", "");
    let server = DeclaredServer::start(folder, &[]);
    let mut client = server.connect();
    client.expect_failure("file", json!({}), "is longer than 100 bytes (limits.output_bytes)");
    client.expect_failure("command", json!({}), "(limits.output_bytes)");
    let text = client.failure("statement", json!({}));
    assert!(text.contains("longer than the limit of the output"), "{text}");
    assert_eq!(client.text("enough", json!({})).len(), 101);
}

#[test]
fn more_rates_than_rules_are_a_fault() {
    let tool =
        |n: usize| format!("[[tool]]\nname = \"t{n}\"\ntext = \"\"\nlimits.rate = \"1/s\"\n");
    let folder = Folder::new(&(0..33).map(tool).collect::<String>());
    let faults = folder.faults();
    assert!(faults.contains("limits.rate: there are 33 rules (limit 32); limit"), "{faults}");
}

#[test]
fn large_outputs_of_many_calls_are_complete() {
    let server = DeclaredServer::new(
        "[[tool]]\nname = \"large\"\ncommand = [\"head\", \"-c\", \"900000\", \"/dev/zero\"]\n\
         result = \"application/octet-stream\"\n\
         [[tool]]\nname = \"small\"\ncommand = [\"echo\", \"small\"]\n",
    );
    let mut clients: Vec<_> = (0..4).map(|_| server.connect()).collect();
    for client in &mut clients {
        // Together more than the room of all calls.
        let calls = (1..=20).map(|n| modern(call(n, "large", json!({}))));
        client.peer.send_bytes(join_lines(calls).as_bytes());
    }
    assert_eq!(server.connect().text("small", json!({})), "small\n");
    for client in &mut clients {
        for _ in 1..=20 {
            let response = client.receive(Some("tools/call"));
            let blob = &response["result"]["content"][0]["resource"]["blob"];
            assert_eq!(blob.as_str().map(str::len), Some(1_200_000));
        }
    }
}

#[test]
fn output_that_waits_for_room_is_complete() {
    let server = DeclaredServer::new(
        "[[tool]]\nname = \"holder\"\nlimits.output_bytes = \"64MiB\"\n\
         command = [\"sh\", \"-c\", \"exec 3>held; head -c 100000 /dev/zero; echo up >&3; \
         read line < gate\"]\n\
         [[tool]]\nname = \"waiter\"\nresult = \"application/octet-stream\"\n\
         command = [\"sh\", \"-c\", \"exec 3>alive; echo up >&3; head -c 100000 /dev/zero\"]\n\
         [[tool]]\nname = \"second\"\ncommand = [\"sleep\", \"1\"]\n",
    );
    let [mut holds, mut alive] =
        ["held", "alive"].map(|name| Lifeline::new(&server.folder.path(name)));
    let mut gate = Gate::new(&server.folder.path("gate"));
    let (mut holder, mut waiter) = (server.connect(), server.connect());
    let held = holder.send_request("tools/call", json!({"name": "holder"}));
    holds.read_lines(1);
    let waiting = waiter.send_request("tools/call", json!({"name": "waiter"}));
    alive.read_lines(1);
    // Its program ends, as what is left fits into its pipe.
    alive.wait_for_end();
    server.connect().text("second", json!({}));
    gate.open();
    holder.receive_response(held, "tools/call");
    let response = waiter.receive_response(waiting, "tools/call");
    let blob = &response["result"]["content"][0]["resource"]["blob"];
    assert_eq!(blob.as_str().map(str::len), Some(133_336));
}
