//! A server with few descriptors: connections beyond are answered, files can still be read, and the
//! log names the limit once.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

use corelane_test_support::messages::{initialize, request};
use corelane_test_support::process::Signal;
use corelane_test_support::{LineClient, Process, SMALL_RINGS, TIMEOUT};
use serde_json::{Value, json};

use crate::CORELANE;

/// `RLIMIT_NOFILE` of the server.
const OPEN_FILES_MAX: usize = 64;

/// Connections that are opened; far more than the server can have.
const CONNECTIONS: usize = 2 * OPEN_FILES_MAX;

struct LimitedServer {
    process: Process,
    address: SocketAddr,
}

impl LimitedServer {
    /// Starts a server over one listener, with [`OPEN_FILES_MAX`].
    fn start(ring: &str, listener: [&str; 4], options: &[&str]) -> Self {
        let script = format!("ulimit -n {OPEN_FILES_MAX} && exec \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &script, "sh", CORELANE, "serve", "--shards", "1", "--ring", ring]);
        command.args(listener).args(SMALL_RINGS).args(options).env_clear();
        let mut process = Process::spawn(&mut command);
        let line = process.wait_for(|line| line.contains("listening"));
        let url = line.rsplit(' ').next().expect("line has words");
        let address = url.split('/').next().expect("text has a first part");
        Self { process, address: address.parse().expect("address is valid") }
    }

    /// Starts a server over HTTP.
    fn http(ring: &str, options: &[&str]) -> Self {
        Self::start(ring, ["--tcp", "off", "--http", "127.0.0.1:0"], options)
    }

    /// Ends the server and checks that its log names the limit and the remedy, once.
    fn expect_limit_in_log(self) {
        self.process.signal(Signal::TERM);
        let ended = self.process.wait();
        assert_eq!(ended.status, 0, "{}", ended.stderr);
        let lines = ended.stderr.lines().filter(|line| line.contains("no descriptor left"));
        let [line] = lines.collect::<Vec<_>>()[..] else { panic!("{}", ended.stderr) };
        for part in ["RLIMIT_NOFILE", &format!("most={OPEN_FILES_MAX}"), "ulimit -n", "LimitNOFILE"]
        {
            assert!(line.contains(part), "`{part}` is missing in: {line}");
        }
    }
}

/// Sends a request on a new connection; returns its status and the open connection.
fn send_http(address: SocketAddr, head: &str, body: &str) -> (String, BufReader<TcpStream>) {
    let mut stream = TcpStream::connect(address).expect("connection is in the backlog");
    stream.set_read_timeout(Some(TIMEOUT)).expect("timeout is valid");
    let length = body.len();
    let text = format!(
        "{head} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(text.as_bytes()).expect("request is sent");
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).expect("response comes");
    (line.split(' ').nth(1).unwrap_or_default().to_owned(), reader)
}

/// Opens a session on a new connection.
fn open_session(server: &LimitedServer) -> (String, BufReader<TcpStream>) {
    send_http(server.address, "POST /mcp", &initialize(1, "2025-11-25").to_string())
}

/// Opens connections until one is refused with 503; returns those that are served.
fn fill(server: &LimitedServer) -> Vec<BufReader<TcpStream>> {
    let mut served = Vec::new();
    for _ in 0..CONNECTIONS {
        match open_session(server) {
            (status, connection) if status == "200" => served.push(connection),
            (status, mut refused) => {
                assert_eq!(status, "503");
                let mut rest = String::new();
                refused.read_to_string(&mut rest).expect("connection ends in order");
                assert!(rest.to_lowercase().contains("retry-after: "), "{rest}");
                assert!(rest.contains("no descriptor left for new connections"), "{rest}");
            }
        }
    }
    assert!((8..OPEN_FILES_MAX).contains(&served.len()), "{} are served", served.len());
    served
}

fn check_http(ring: &str) {
    let server = LimitedServer::http(ring, &[]);
    let mut served = fill(&server);
    assert_eq!(send_http(server.address, "GET /healthz", "").0, "200");
    served.truncate(1);
    // The server notices the ends of the others after a while.
    while open_session(&server).0 != "200" {}
    server.expect_limit_in_log();
}

fn check_tcp(ring: &str) {
    let server = LimitedServer::start(ring, ["--http", "off", "--tcp", "127.0.0.1:0"], &[]);
    let mut served = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut client = LineClient::connect(server.address);
        // Fails if the server has closed already.
        client.try_send(initialize(1, "2025-11-25")).unwrap_or(());
        let response = client.receive();
        if response.get("result").is_some() {
            served.push(client);
        } else {
            assert_eq!(response["error"]["code"], 1001, "{response}");
            let message = response["error"]["message"].as_str().unwrap_or_default();
            assert!(message.contains("no descriptor left"), "{response}");
        }
    }
    assert!((8..OPEN_FILES_MAX).contains(&served.len()), "{} are served", served.len());
    for client in &mut served {
        client.ping();
    }
    drop(served);
    server.expect_limit_in_log();
}

#[test]
fn http_beyond_slots_of_uring_gets_503() {
    check_http("auto");
}

#[test]
fn http_beyond_open_files_gets_503() {
    check_http("poll");
}

#[test]
fn tcp_beyond_slots_of_uring_gets_error() {
    check_tcp("auto");
}

#[test]
fn tcp_beyond_open_files_gets_error() {
    check_tcp("poll");
}

#[test]
fn files_are_read_when_connections_are_refused() {
    let folder = tempfile::tempdir().expect("folder is created");
    std::fs::write(folder.path().join("note.txt"), "still here").expect("file is written");
    let path = folder.path().to_str().expect("path is UTF-8");
    let server = LimitedServer::http("poll", &["--resources", path]);
    let mut served = fill(&server);
    let (status, mut refused) = open_session(&server);
    assert_eq!(status, "503");
    drop(refused.read_to_end(&mut Vec::new()));
    let connection = served.pop().expect("a connection is served").into_inner();
    let uri = format!("file://{path}/note.txt");
    assert_eq!(read_file(connection, &uri)["result"]["contents"][0]["text"], "still here");
    drop(served);
    server.expect_limit_in_log();
}

/// Reads a resource by a modern request.
fn read_file(mut stream: TcpStream, uri: &str) -> Value {
    let read = request(2, "resources/read", json!({ "uri": uri }));
    let body = corelane_test_support::messages::modern(read).to_string();
    let length = body.len();
    let text = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
         Mcp-Method: resources/read\r\nMcp-Name: {uri}\r\nConnection: close\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(text.as_bytes()).expect("request is sent");
    let mut rest = String::new();
    stream.read_to_string(&mut rest).expect("connection ends in order");
    let body = rest.rsplit("\r\n\r\n").next().expect("response has a body");
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {rest}"))
}
