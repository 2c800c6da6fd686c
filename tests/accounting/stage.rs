//! A whole server on small rings, its client, and what it counted when it ended.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use corelane::observe::counters::Counters;
use corelane::protocol::message::ServerInfo;
use corelane::server::Options;
use corelane::service::{Catalog, Tool};
use serde_json::{Value, json};

use crate::loopback::Loopback;

/// How long a test waits before it fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running server.
pub(crate) struct Stage {
    server: Loopback,
}

impl Stage {
    /// A server that offers these tools.
    pub(crate) fn open(options: Options, tools: impl IntoIterator<Item = Tool>) -> Self {
        let info = ServerInfo::new("accounting", "1");
        let catalog = Catalog::builder(info).tools(tools).build().unwrap();
        Self { server: Loopback::start(catalog, options) }
    }

    /// A new connection.
    pub(crate) fn connect(&self) -> Client {
        let stream = TcpStream::connect(self.server.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Client { reader: BufReader::new(stream.try_clone().unwrap()), stream, requests: 0 }
    }

    /// Drains, waits for the end and returns what was counted.
    pub(crate) fn close(self) -> Counters {
        self.server.close()
    }
}

/// A client of the modern revision.
pub(crate) struct Client {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
    requests: u64,
}

impl Client {
    /// Sends bytes as they are.
    pub(crate) fn say(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// A request, as a line, and its id.
    fn request(&mut self, method: &str, mut params: Value) -> (u64, String) {
        self.requests += 1;
        let id = self.requests;
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        });
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        (id, format!("{request}\n"))
    }

    /// Sends a request and returns its id.
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> u64 {
        let (id, request) = self.request(method, params);
        self.say(request.as_bytes());
        id
    }

    /// Asks for a tool; returns the id.
    pub(crate) fn ask_tool(&mut self, tool: &str) -> u64 {
        self.ask("tools/call", json!({"name": tool, "arguments": {}}))
    }

    /// The next message.
    pub(crate) fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// Asks for a tool and returns the answer.
    pub(crate) fn call(&mut self, tool: &str) -> Value {
        let id = self.ask_tool(tool);
        let answer = self.hear();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// Asks for a tool and returns what is said, if anything is before the end.
    pub(crate) fn try_call(&mut self, tool: &str) -> Option<Value> {
        let request = self.request("tools/call", json!({"name": tool, "arguments": {}})).1;
        self.stream.write_all(request.as_bytes()).ok()?;
        let mut line = String::new();
        self.reader.read_line(&mut line).ok()?;
        serde_json::from_str(&line).ok()
    }

    /// Waits until the server has ended the connection, in order or by a reset.
    pub(crate) fn hear_end(mut self) {
        let mut line = String::new();
        while self.reader.read_line(&mut line).is_ok_and(|length| length > 0) {
            line.clear();
        }
    }

    /// Ends the connection with a reset.
    pub(crate) fn reset(self) {
        socket2::SockRef::from(&self.stream).set_linger(Some(Duration::ZERO)).unwrap();
    }
}
