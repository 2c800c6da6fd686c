//! Tests of servers that are still starting when the command is.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use corelane_test_support::ExitResult;
use serde_json::{Value, json};

use super::{SHORT, response, run, start};

/// A connect timeout that no test lasts for.
const FOREVER: &str = "--connect-timeout=1h";

#[test]
fn silent_server_is_awaited_until_it_answers() {
    let received = Arc::new(AtomicUsize::new(0));
    let address = start(move |body| {
        // The first attempt, of `server/discover` and `initialize`, gets no answer.
        if received.fetch_add(1, Ordering::Relaxed) < 2 {
            return Some(String::new());
        }
        let call: Value = serde_json::from_str(body).unwrap();
        let result = match call["method"].as_str().unwrap() {
            "server/discover" => json!({ "supportedVersions": ["2026-07-28"],
                "capabilities": { "tools": {} } }),
            "tools/list" => json!({ "tools": [{ "name": "now", "inputSchema": { "type": "object" },
                "annotations": { "readOnlyHint": true } }] }),
            _ => json!({ "content": [] }),
        };
        let answer = json!({ "jsonrpc": "2.0", "id": call["id"], "result": result });
        Some(response("200 OK", &answer.to_string()))
    });
    let target = format!("http://{address}/mcp");
    let flags: Vec<&str> = SHORT.into_iter().chain(["--timeout=1", FOREVER]).collect();
    let ExitResult { status, stdout, stderr } = run(&target, &flags);
    assert_eq!((status, stderr.as_str()), (0, ""), "{stdout}");
    assert!(stdout.contains("\ncalls    tools/call now {}\n"), "{stdout}");
}

#[test]
fn refusing_address_is_not_awaited() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("http://{}/mcp", listener.local_addr().unwrap());
    drop(listener);
    for flags in [&[][..], &["--era=modern", "--tool=now", "--arguments={}"]] {
        let flags = [flags, &[FOREVER, "--quiet"]].concat();
        let ExitResult { status, stdout, stderr } = run(&target, &flags);
        assert_eq!((status, stdout.as_str(), stderr.lines().count()), (2, "", 1), "{stderr}");
        let why = "no connection could be opened: Connection refused";
        assert!(stderr.contains(why), "{stderr}");
    }
}

/// Returns a target, and the command of a server for it that closes 64 connections without an
/// answer, and then does this.
fn closing_server(then: &str) -> (String, String) {
    // Another process may take the port in between; the run then fails with that error.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let listening = format!("socket.create_server(('127.0.0.1', {}))", address.port());
    let script = format!(
        "import socket, sys\nserver = {listening}\n\
         for _ in range(64):\n    server.accept()[0].close()\n{then}\n"
    );
    (format!("http://{address}/mcp"), format!("python3 -c {}", shlex::try_quote(&script).unwrap()))
}

#[ignore = "needs Python 3: ./test.sh runs it"]
#[test]
fn started_server_is_awaited_while_it_runs() {
    // The attempts take longer than those at a server that was not started.
    let answer = "HTTP/1.1 500 Broken\\r\\nContent-Length: 5\\r\\n\\r\\nlater";
    let serve = format!(
        "while True:\n    peer, _ = server.accept()\n    peer.recv(65536)\n    \
         peer.sendall(b'{answer}')\n    peer.close()"
    );
    let (target, command) = closing_server(&serve);
    let ended = run(&target, &["--quiet", FOREVER, "--server", &command]);
    assert_eq!(ended.status, 2, "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stderr.contains("HTTP status 500: later"), "{}", ended.stderr);
    let (target, command) = closing_server("sys.exit(5)");
    let ended = run(&target, &["--quiet", FOREVER, "--server", &command]);
    assert_eq!(ended.status, 2, "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stderr.contains("exited (exit status: 5)"), "{}", ended.stderr);
}
