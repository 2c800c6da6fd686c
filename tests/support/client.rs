//! A line-based MCP client over a blocking TCP socket.
//!
//! It checks only that each line is a JSON-RPC message. Include it with
//! `#[path = "../support/client.rs"] mod client;`.

use std::fmt::Display;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};
use socket2::{Domain, SockRef, Socket, Type};

/// Read and write timeout, after which a test fails.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

/// The newest protocol version with a handshake.
pub(crate) const LEGACY: &str = "2025-11-25";

/// The protocol version without a handshake.
pub(crate) const MODERN: &str = "2026-07-28";

/// One connection to the server.
pub(crate) struct TestClient {
    reader: BufReader<TcpStream>,
}

impl TestClient {
    /// Connects without sending anything.
    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self::from_stream(TcpStream::connect(address).expect("connection is accepted"))
    }

    /// Connects with socket buffers of about `bytes` in each direction.
    pub(crate) fn connect_with_buffers(address: SocketAddr, bytes: usize) -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("socket is created");
        socket.set_recv_buffer_size(bytes).expect("receive buffer size is set");
        socket.set_send_buffer_size(bytes).expect("send buffer size is set");
        socket.connect(&address.into()).expect("connection is accepted");
        Self::from_stream(socket.into())
    }

    fn from_stream(stream: TcpStream) -> Self {
        stream.set_nodelay(true).expect("TCP_NODELAY is set");
        stream.set_read_timeout(Some(TIMEOUT)).expect("read timeout is set");
        stream.set_write_timeout(Some(TIMEOUT)).expect("write timeout is set");
        Self { reader: BufReader::new(stream) }
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        self.reader.get_ref()
    }

    /// Sends bytes as they are.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.reader.get_mut().write_all(bytes).expect("server reads");
    }

    /// Sends `text` and a newline.
    pub(crate) fn send(&mut self, text: impl Display) {
        self.send_bytes(format!("{text}\n").as_bytes());
    }

    /// Receives a line without its terminator, or `None` at an orderly end of the stream.
    pub(crate) fn receive_line(&mut self) -> Option<String> {
        self.read_line().expect("line or end of stream")
    }

    /// Like [`Self::receive_line`]; a connection reset is also `None`.
    pub(crate) fn receive_line_or_reset(&mut self) -> Option<String> {
        match self.read_line() {
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => None,
            line => line.expect("line, end of stream or reset"),
        }
    }

    fn read_line(&mut self) -> io::Result<Option<String>> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        assert_eq!(line.pop(), Some('\n'), "incomplete line: {line}");
        Ok(Some(line))
    }

    /// Receives the next message.
    pub(crate) fn receive(&mut self) -> Value {
        let line = self.receive_line().expect("message before the end of stream");
        let message = serde_json::from_str(&line).expect("server sends JSON");
        if let Value::Object(message) = &message {
            assert_eq!(message.get("jsonrpc"), Some(&json!("2.0")), "{line}");
        }
        message
    }

    /// Sends `text` and receives the next message.
    pub(crate) fn exchange(&mut self, text: impl Display) -> Value {
        self.send(text);
        self.receive()
    }

    /// Sends a `ping`; the next message must be its response.
    pub(crate) fn ping(&mut self) {
        let pong = self.exchange(r#"{"jsonrpc":"2.0","id":"alive?","method":"ping"}"#);
        assert_eq!(pong, json!({"jsonrpc": "2.0", "id": "alive?", "result": {}}));
    }

    /// Completes the handshake of a legacy protocol version.
    pub(crate) fn handshake(&mut self, revision: &str) {
        let response = self.exchange(initialize(0, revision));
        assert_eq!(response["result"]["protocolVersion"], revision, "{response}");
        self.send(notification("notifications/initialized"));
    }

    /// Shuts down the sending side; responses can still be received.
    pub(crate) fn shutdown_write(&self) {
        self.stream().shutdown(Shutdown::Write).expect("connection is open");
    }

    /// Receives all messages until an orderly end of the stream.
    pub(crate) fn receive_rest(&mut self) -> Vec<Value> {
        std::iter::from_fn(|| self.receive_line())
            .map(|line| serde_json::from_str(&line).expect("server sends JSON"))
            .collect()
    }

    /// Like [`Self::receive_rest`]; the connection may also be reset.
    pub(crate) fn receive_rest_or_reset(&mut self) -> Vec<Value> {
        std::iter::from_fn(|| self.receive_line_or_reset())
            .map(|line| serde_json::from_str(&line).expect("server sends JSON"))
            .collect()
    }

    /// Receives all bytes until an orderly end of the stream.
    pub(crate) fn receive_rest_bytes(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.reader.read_to_end(&mut bytes).expect("orderly end of stream");
        bytes
    }

    /// Waits for an orderly end of the stream, before which no message may arrive.
    pub(crate) fn expect_end(&mut self) {
        assert_eq!(self.receive_line(), None);
    }

    /// Closes the connection with a TCP reset.
    pub(crate) fn reset(self) {
        let socket = SockRef::from(self.stream());
        socket.set_linger(Some(Duration::ZERO)).expect("SO_LINGER is set");
    }
}

/// Joins messages to newline-terminated lines.
pub(crate) fn join_lines(texts: impl IntoIterator<Item = Value>) -> String {
    texts.into_iter().fold(String::new(), |lines, text| lines + &text.to_string() + "\n")
}

#[expect(clippy::needless_pass_by_value, reason = "most callers pass a literal")]
pub(crate) fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    let id = id.into();
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

pub(crate) fn request_without_params(id: impl Into<Value>, method: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method})
}

pub(crate) fn notification(method: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": method})
}

/// An `initialize` request.
pub(crate) fn initialize(id: impl Into<Value>, revision: &str) -> Value {
    let client = json!({"name": "test", "version": "1"});
    let params = json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": client});
    request(id, "initialize", params)
}

/// A `tools/call` request.
#[expect(clippy::needless_pass_by_value, reason = "most callers pass a literal")]
pub(crate) fn call(id: impl Into<Value>, tool: &str, arguments: Value) -> Value {
    request(id, "tools/call", json!({"name": tool, "arguments": arguments}))
}

/// A call of the tool `echo`.
pub(crate) fn echo(id: impl Into<Value>, message: &str) -> Value {
    call(id, "echo", json!({"message": message}))
}

/// A call of the tool `slow` that takes longer than any test.
pub(crate) fn endless(id: impl Into<Value>) -> Value {
    call(id, "slow", json!({"steps": 1000, "step_ms": 60_000}))
}

/// The `_meta` of a modern request.
pub(crate) fn modern_meta(revision: &str) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": revision,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    })
}

/// Returns `request` with the `_meta` of a modern request.
pub(crate) fn modern(mut request: Value) -> Value {
    request["params"]["_meta"] = modern_meta(MODERN);
    request
}

/// A `notifications/cancelled` for request `id`.
pub(crate) fn cancelled(id: impl Into<Value>) -> Value {
    let params = json!({"requestId": id.into(), "reason": "changed my mind"});
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
}

/// Returns the text of an `echo` result.
pub(crate) fn echoed(response: &Value) -> &str {
    response["result"]["content"][0]["text"].as_str().expect("text content")
}

/// Checks that `answer` is an error with `code` and `id`; `None` means no id.
#[expect(clippy::needless_pass_by_value, reason = "most callers pass a literal")]
pub(crate) fn expect_error(response: &Value, code: i64, id: Option<Value>) {
    assert_eq!(response["error"]["code"], code, "{response}");
    assert!(
        response["error"]["message"].as_str().is_some_and(|text| !text.is_empty()),
        "{response}"
    );
    assert_eq!(response.get("id"), id.as_ref(), "{response}");
    assert!(response.get("result").is_none(), "{response}");
}
