//! A server with small rings, its client, and the server's final counters.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use corelane::protocol::model::Implementation;
use corelane::server::Options;
use corelane::service::{Catalog, Tool};
use corelane::telemetry::counters::Counters;
use serde_json::{Value, json};

use crate::loopback::Loopback;

/// Read timeout, after which a test fails.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A running server.
pub(crate) struct TestServer {
    server: Loopback,
}

impl TestServer {
    /// Starts a server with `tools`.
    pub(crate) fn start(options: Options, tools: impl IntoIterator<Item = Tool>) -> Self {
        let info = Implementation::new("accounting", "1");
        let catalog = Catalog::builder(info).tools(tools).build().unwrap();
        Self { server: Loopback::start(catalog, options) }
    }

    /// Opens a connection.
    pub(crate) fn connect(&self) -> TestClient {
        let stream = TcpStream::connect(self.server.address()).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        TestClient { reader: BufReader::new(stream.try_clone().unwrap()), stream, last_id: 0 }
    }

    /// Drains the server, waits until it has stopped and returns its counters.
    pub(crate) fn stop(self) -> Counters {
        self.server.close()
    }
}

/// A client of the modern protocol version.
pub(crate) struct TestClient {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
    last_id: u64,
}

impl TestClient {
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Returns the next request id and a request line.
    fn request(&mut self, method: &str, mut params: Value) -> (u64, String) {
        self.last_id += 1;
        let id = self.last_id;
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        });
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        (id, format!("{request}\n"))
    }

    /// Sends a request and returns its id.
    pub(crate) fn send_request(&mut self, method: &str, params: Value) -> u64 {
        let (id, request) = self.request(method, params);
        self.send_bytes(request.as_bytes());
        id
    }

    /// Sends a call of `tool` and returns its id.
    pub(crate) fn send_call(&mut self, tool: &str) -> u64 {
        self.send_request("tools/call", json!({"name": tool, "arguments": {}}))
    }

    /// Receives the next message.
    pub(crate) fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// Calls `tool` and returns the response.
    pub(crate) fn call(&mut self, tool: &str) -> Value {
        let id = self.send_call(tool);
        let response = self.receive();
        assert_eq!(response["id"], id, "{response}");
        response
    }

    /// Calls `tool`; returns the next message, or `None` if the connection is closed.
    pub(crate) fn try_call(&mut self, tool: &str) -> Option<Value> {
        let request = self.request("tools/call", json!({"name": tool, "arguments": {}})).1;
        self.stream.write_all(request.as_bytes()).ok()?;
        let mut line = String::new();
        self.reader.read_line(&mut line).ok()?;
        serde_json::from_str(&line).ok()
    }

    /// Waits until the server closes or resets the connection.
    pub(crate) fn wait_for_end(mut self) {
        let mut line = String::new();
        while self.reader.read_line(&mut line).is_ok_and(|length| length > 0) {
            line.clear();
        }
    }

    /// Closes the connection with a TCP reset.
    pub(crate) fn reset(self) {
        socket2::SockRef::from(&self.stream).set_linger(Some(Duration::ZERO)).unwrap();
    }
}
