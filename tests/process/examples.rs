//! The programs of `examples/` do what their heads document.
//!
//! `cargo test` builds them. A test starts one on a free port, sends the `curl` commands of its
//! head, compares the responses with the JSON below them, and ends it. In that JSON `…` stands for
//! any text, and in a command for the text of the response before.

use std::fs;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use corelane_test_support::process::Signal;
use corelane_test_support::{HttpClient, Process, Request};
use serde_json::Value;

#[expect(dead_code, reason = "only its tests run here, its `main` is that of a program")]
#[path = "../../examples/own_tests.rs"]
mod own_tests;

/// The address in the commands, which the test replaces.
const ADDRESS: &str = "127.0.0.1:8080";

/// A running example. The process is killed when it is dropped.
struct Example {
    name: &'static str,
    process: Process,
    address: SocketAddr,
}

impl Example {
    fn start(name: &'static str) -> Self {
        let tests = std::env::current_exe().expect("the path of the tests");
        // Cargo puts tests into target/debug/deps.
        let target = tests.ancestors().nth(2).expect("a target directory");
        let path = target.join("examples").join(name);
        let path = path.to_str().expect("the path is UTF-8");
        assert!(Path::new(path).exists(), "build the examples first: cargo build --examples");
        let mut process = Process::start(path, &["127.0.0.1:0"]);
        let line = process.wait_for(|line| line.contains("listening http "));
        let url = line.rsplit(' ').next().unwrap_or_default();
        let address = url.split('/').next().unwrap_or_default().parse();
        Self { name, process, address: address.unwrap_or_else(|error| panic!("{error}: {line}")) }
    }

    fn connect(&self) -> HttpClient {
        HttpClient::connect(self.address)
    }

    /// Sends the requests of the head in order and compares their responses.
    fn expect_documented_responses(&self) -> &Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("examples/{}.rs", self.name));
        let exchanges = documented_exchanges(&fs::read_to_string(path).expect("the source"));
        assert!(!exchanges.is_empty(), "the head of {} has no request", self.name);
        let mut last = Value::Null;
        for (command, mut expected) in exchanges {
            let command = command.replace(ADDRESS, &self.address.to_string());
            let response = self.connect().exchange(&curl_request(&command, &last)).message();
            fill_in(&mut expected, &response);
            assert_eq!(response, expected, "{command}");
            last = response;
        }
        self
    }

    /// Ends the program by SIGINT, which it handles.
    fn interrupt(self) {
        self.process.signal(Signal::INT);
        assert_eq!(self.process.wait().status, 0);
    }
}

/// Returns the commands in the head of a source, each with the response below it.
fn documented_exchanges(source: &str) -> Vec<(String, Value)> {
    let lines = source.lines().map_while(|line| line.strip_prefix("//!"));
    let head = lines.map(str::trim_start).collect::<Vec<_>>().join("\n");
    let mut exchanges = Vec::new();
    let mut command = None;
    // Text and code blocks alternate.
    for block in head.split("```").skip(1).step_by(2) {
        match block.split_once('\n') {
            Some(("sh", text)) if text.starts_with("curl ") => command = Some(text.to_owned()),
            Some(("json", text)) => {
                let response = serde_json::from_str(text).expect("a response is JSON");
                exchanges.push((command.take().expect("a command precedes it"), response));
            }
            _ => assert!(command.is_none(), "a response follows its command"),
        }
    }
    exchanges
}

/// Returns the request that a `curl` command sends; `last` is the response before it.
fn curl_request(command: &str, last: &Value) -> Request {
    let words = shlex::split(command).expect("the quotes are balanced");
    let mut request = Request::new("POST", "/mcp");
    let mut words = words.iter().map(String::as_str).skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().expect("an option has a value");
        request = match word {
            "-H" => {
                let (name, value) = value().split_once(": ").expect("a header");
                request.field(name, value)
            }
            "-d" => {
                let mut message = serde_json::from_str(value()).expect("a request is JSON");
                let params: &mut Value = &mut message;
                fill_in(&mut params["params"], &last["result"]);
                request.body(message.to_string())
            }
            url => request.target(url.split_once("/mcp").map_or(url, |_| "/mcp")),
        };
    }
    request
}

/// Replaces each `…` with the value at the same place of `other`.
fn fill_in(value: &mut Value, other: &Value) {
    match value {
        Value::String(text) if text == "…" => *value = other.clone(),
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                fill_in(item, &other[index]);
            }
        }
        Value::Object(members) => {
            for (key, member) in members {
                fill_in(member, &other[key]);
            }
        }
        _ => {}
    }
}

#[test]
fn every_example_has_a_test() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    for entry in fs::read_dir(folder).expect("the examples") {
        let file = entry.expect("an entry").file_name().into_string().expect("UTF-8");
        let start = format!("Example::start(\"{}\")", file.trim_end_matches(".rs"));
        assert!(include_str!("examples.rs").contains(&start), "{start}");
    }
}

#[test]
fn server_greets() {
    let example = Example::start("server");
    example.expect_documented_responses();
    example.interrupt();
}

#[test]
fn state_counts_calls() {
    let example = Example::start("state");
    example.expect_documented_responses();
    example.interrupt();
}

#[test]
fn http_client_fetches_page() {
    let example = Example::start("http_client");
    example.expect_documented_responses();
    example.interrupt();
}

#[test]
#[cfg(target_os = "linux")]
fn call_server_calls_without_io_thread() {
    let example = Example::start("call_server");
    example.expect_documented_responses().expect_documented_responses();
    let tasks = fs::read_dir(format!("/proc/{}/task", example.process.id())).expect("its threads");
    let names = tasks.map(|task| fs::read_to_string(task.expect("a thread").path().join("comm")));
    let names: Vec<_> = names.map(|name| name.expect("the name of a thread")).collect();
    assert!(names.iter().any(|name| name == "corelane-0\n"), "{names:?}");
    assert!(!names.iter().any(|name| name.starts_with("corelane-client")), "{names:?}");
    example.interrupt();
}

#[test]
fn connection_pool_queries_database() {
    let example = Example::start("connection_pool");
    example.expect_documented_responses();
    example.interrupt();
}

#[test]
fn embedded_server_drains_on_interrupt() {
    let example = Example::start("embedded");
    example.expect_documented_responses();
    example.process.signal(Signal::INT);
    let ended = example.process.wait();
    assert_eq!((ended.status, ended.stderr.contains("served 1 calls")), (0, true), "{ended:?}");
}

#[test]
fn elicitation_asks_then_completes() {
    let example = Example::start("elicitation");
    example.expect_documented_responses();
    example.interrupt();
}

#[test]
fn own_tests_example_serves_its_tool() {
    let example = Example::start("own_tests");
    example.expect_documented_responses();
    example.interrupt();
}

#[test]
fn axum_serves_mcp_beside_other_routes() {
    let example = Example::start("axum");
    example.expect_documented_responses();
    // A response of axum, without the fields that each of Corelane has.
    let mut stream = TcpStream::connect(example.address).expect("connect");
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request).expect("send the request");
    let index = io::read_to_string(stream).expect("read the response");
    assert!(index.starts_with("HTTP/1.1 200") && index.ends_with("MCP is at /mcp"), "{index}");
    let foreign = Request::post("{}").field("Host", "evil.example");
    example.connect().exchange(&foreign).expect_error(403, -32600, None);
    example.interrupt();
}

#[test]
#[cfg(target_os = "linux")]
fn glommio_reads_file() {
    // It handles no signal: the end of the test kills it.
    Example::start("glommio").expect_documented_responses();
}
