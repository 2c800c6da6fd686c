//! `corelane read --output`: resources that are larger than a response.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use corelane::files::{Directory, Files};
use corelane::model::Implementation;
use corelane::{Catalog, Server};
use corelane_test_support::{ExitResult, TestServer, http_and_tcp_options, run_program};
use serde_json::{Value, json};

use super::http_peer::http_response;
use super::http_responder::{HttpResponder, Reply};
use super::response;

use crate::CORELANE;

/// Bytes of a file in a response, at most.
const LIMIT: usize = 1_024;

fn read(target: &str, uri: &str, path: &Path, flags: &[&str]) -> ExitResult {
    let path = path.to_str().expect("UTF-8");
    run_program(CORELANE, [&["read", target, uri, "--output", path], flags].concat())
}

/// Files of each kind and their contents.
fn files() -> [(&'static str, Vec<u8>); 6] {
    let text = |count: usize| "a€😀\n".repeat(count).into_bytes();
    let bytes = |count: usize| [0xff, 0x80, b'a'].repeat(count);
    [
        ("empty.txt", Vec::new()),
        ("short.bin", bytes(3)),
        ("even.txt", vec![b'x'; 3 * LIMIT]),
        ("long.txt", text(LIMIT / 2)),
        ("even.bin", bytes(2 * LIMIT)),
        ("long.bin", [bytes(LIMIT), vec![b'b']].concat()),
    ]
}

#[test]
fn output_has_all_ranges_on_each_transport() {
    let root = tempfile::tempdir().unwrap();
    for (name, content) in files() {
        fs::write(root.path().join(name), content).unwrap();
    }
    let directory = Directory::new(root.path()).unwrap().file_bytes_max(LIMIT);
    let catalog = Catalog::builder(Implementation::new("files", "1")).build().unwrap();
    let options = http_and_tcp_options();
    let server = TestServer::with_server(|_| {
        let server = Server::builder(catalog).options(options);
        server.files(Files::new().resources(directory).without_watch()).unwrap()
    });
    let (tcp, http) = (format!("tcp://{}", server.tcp()), format!("http://{}", server.http()));
    let ws = format!("ws://{}", server.http());
    let stdio = format!(
        "stdio:{CORELANE} stdio --log error --resources {} --resources-file-bytes-max {LIMIT}",
        root.path().display()
    );
    let folder = root.path().canonicalize().unwrap();
    let output = folder.join(".output");
    for (target, flags) in [
        (&tcp, &[][..]),
        (&tcp, &["--dialect", "parity"]),
        (&http, &[]),
        (&http, &["--era", "2024-11-05"]),
        (&ws, &["--era", "2025-06-18"]),
        (&stdio, &[]),
    ] {
        for (name, content) in files() {
            let uri = format!("file://{}", folder.join(name).display());
            let result = read(target, &uri, &output, flags);
            assert_eq!(result.status, 0, "{target} {flags:?} {name}: {}", result.stderr);
            assert!(fs::read(&output).unwrap() == content, "{target} {flags:?} {name}");
        }
    }
    let uri = format!("file://{}", folder.join("long.txt").display());
    let result = run_program(CORELANE, ["read", &tcp, &uri]);
    assert_eq!(result.status, 1);
    assert!(result.stderr.contains("; read all of it with --output FILE"), "{}", result.stderr);
    server.close();
}

/// The `_meta` of a range of four bytes.
fn range(offset: u64, size: u64, etag: &str) -> Value {
    let range = json!({ "offset": offset, "length": 4, "size": size, "etag": etag });
    json!({ "corelane/range": range })
}

/// Answers a request.
type Answer = Box<dyn Fn(&Value) -> Value + Send + Sync>;

#[test]
fn resource_that_changes_leaves_the_output() {
    let part = move |request: &Value, meta: Value| {
        response(request, &json!({ "contents": [{ "uri": "a:b", "text": "abcd", "_meta": meta }] }))
    };
    let error = |request: &Value, data: Value| {
        let error = json!({ "code": -32602, "message": "offset 4 is beyond", "data": data });
        json!({ "jsonrpc": "2.0", "id": request["id"], "error": error })
    };
    let cases: [(Answer, &str); 3] = [
        (Box::new(move |it| part(it, range(4, 11, "x"))), "has changed since the first range"),
        (Box::new(move |it| part(it, range(4, 9, "y"))), "has changed since the first range"),
        (Box::new(move |it| error(it, Value::Null)), "cannot be read on at byte 4 of 9"),
    ];
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("output");
    fs::write(&output, "old").unwrap();
    for (second, expected) in cases {
        let reads = AtomicUsize::new(0);
        let server = HttpResponder::start(move |request| {
            let body = match request.body["method"].as_str() {
                Some("server/discover") => response(
                    &request.body,
                    &json!({
                        "supportedVersions": ["2026-07-28"], "capabilities": { "resources": {} },
                    }),
                ),
                _ => match reads.fetch_add(1, Ordering::Relaxed) {
                    0 => error(&request.body, range(0, 9, "x")),
                    1 => part(&request.body, range(0, 9, "x")),
                    _ => second(&request.body),
                },
            };
            let fields = "Content-Type: application/json\r\n";
            Reply::Send(http_response("200 OK", fields, &body.to_string()))
        });
        let result = read(&server.url(), "a:b", &output, &[]);
        assert_eq!(result.status, 1, "{expected}");
        assert!(result.stderr.contains(expected), "{}", result.stderr);
        assert_eq!(fs::read_to_string(&output).unwrap(), "old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        server.stop();
    }
}
