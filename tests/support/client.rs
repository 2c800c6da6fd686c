//! A client over a plain socket: it says whatever it is told and reads line by line.
//!
//! It judges nothing but that every line is a message. Use it with
//! `#[path = "../support/client.rs"] mod client;`.

use std::fmt::Display;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};
use socket2::{Domain, SockRef, Socket, Type};

/// How long a client waits for an answer before its test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The newest revision with a handshake.
pub(crate) const LEGACY: &str = "2025-11-25";

/// The revision without one.
pub(crate) const MODERN: &str = "2026-07-28";

/// One connection.
pub(crate) struct Client {
    reader: BufReader<TcpStream>,
}

impl Client {
    /// Connects and says nothing.
    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).expect("a connection"))
    }

    /// Connects with socket buffers of about `bytes` in each direction.
    pub(crate) fn connect_narrow(address: SocketAddr, bytes: usize) -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.set_recv_buffer_size(bytes).expect("a receive buffer");
        socket.set_send_buffer_size(bytes).expect("a send buffer");
        socket.connect(&address.into()).expect("a connection");
        Self::over(socket.into())
    }

    fn over(stream: TcpStream) -> Self {
        stream.set_nodelay(true).expect("an option of TCP");
        stream.set_read_timeout(Some(PATIENCE)).expect("an option of sockets");
        stream.set_write_timeout(Some(PATIENCE)).expect("an option of sockets");
        Self { reader: BufReader::new(stream) }
    }

    /// The socket itself.
    pub(crate) fn stream(&self) -> &TcpStream {
        self.reader.get_ref()
    }

    /// Sends bytes as they are.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.reader.get_mut().write_all(bytes).expect("a server that reads");
    }

    /// Sends one text and the end of its line.
    pub(crate) fn send(&mut self, text: impl Display) {
        self.send_bytes(format!("{text}\n").as_bytes());
    }

    /// The next line without its terminator; `None` where the server has ended the connection, in
    /// order.
    pub(crate) fn line(&mut self) -> Option<String> {
        self.read_line().expect("a line or an end in order")
    }

    /// The same where the server need not end in order.
    pub(crate) fn line_or_reset(&mut self) -> Option<String> {
        match self.read_line() {
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => None,
            line => line.expect("a line or an end"),
        }
    }

    fn read_line(&mut self) -> io::Result<Option<String>> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        assert_eq!(line.pop(), Some('\n'), "cut off: {line}");
        Ok(Some(line))
    }

    /// The next message.
    pub(crate) fn answer(&mut self) -> Value {
        let line = self.line().expect("an answer before the end of the connection");
        let message = serde_json::from_str(&line).expect("what the server says is JSON");
        if let Value::Object(message) = &message {
            assert_eq!(message.get("jsonrpc"), Some(&json!("2.0")), "{line}");
        }
        message
    }

    /// Sends one text and waits for the next message.
    pub(crate) fn ask(&mut self, text: impl Display) -> Value {
        self.send(text);
        self.answer()
    }

    /// Asks whether the server still reads and answers this connection; the next message must be
    /// the answer to that.
    pub(crate) fn expect_alive(&mut self) {
        let answer = self.ask(r#"{"jsonrpc":"2.0","id":"alive?","method":"ping"}"#);
        assert_eq!(answer, json!({"jsonrpc": "2.0", "id": "alive?", "result": {}}));
    }

    /// Makes the handshake of a legacy revision.
    pub(crate) fn handshake(&mut self, revision: &str) {
        let answer = self.ask(initialize(0, revision));
        assert_eq!(answer["result"]["protocolVersion"], revision, "{answer}");
        self.send(notification("notifications/initialized"));
    }

    /// Says that nothing more will be sent; answers may still come.
    pub(crate) fn finish(&self) {
        self.stream().shutdown(Shutdown::Write).expect("a connection that is open");
    }

    /// Everything that still comes until the server ends the connection.
    pub(crate) fn rest(&mut self) -> Vec<Value> {
        std::iter::from_fn(|| self.line())
            .map(|line| serde_json::from_str(&line).expect("what the server says is JSON"))
            .collect()
    }

    /// The same where the server need not end in order.
    pub(crate) fn rest_or_reset(&mut self) -> Vec<Value> {
        std::iter::from_fn(|| self.line_or_reset())
            .map(|line| serde_json::from_str(&line).expect("what the server says is JSON"))
            .collect()
    }

    /// Everything that still comes, as bytes.
    pub(crate) fn rest_bytes(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.reader.read_to_end(&mut bytes).expect("an end in order");
        bytes
    }

    /// Waits until the server ends the connection; nothing more may come before.
    pub(crate) fn expect_end(&mut self) {
        assert_eq!(self.line(), None);
    }

    /// Ends the connection by a reset.
    pub(crate) fn reset(self) {
        let socket = SockRef::from(self.stream());
        socket.set_linger(Some(Duration::ZERO)).expect("an option of sockets");
    }
}

/// Texts as they are sent together, each on a line of its own.
pub(crate) fn lines(texts: impl IntoIterator<Item = Value>) -> String {
    texts.into_iter().fold(String::new(), |lines, text| lines + &text.to_string() + "\n")
}

/// A request.
#[expect(clippy::needless_pass_by_value, reason = "a literal stands in most calls")]
pub(crate) fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    let id = id.into();
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// A request without params.
pub(crate) fn bare(id: impl Into<Value>, method: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method})
}

/// A notification without params.
pub(crate) fn notification(method: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": method})
}

/// `initialize`.
pub(crate) fn initialize(id: impl Into<Value>, revision: &str) -> Value {
    let client = json!({"name": "test", "version": "1"});
    let params = json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": client});
    request(id, "initialize", params)
}

/// `tools/call`.
#[expect(clippy::needless_pass_by_value, reason = "a literal stands in most calls")]
pub(crate) fn call(id: impl Into<Value>, tool: &str, arguments: Value) -> Value {
    request(id, "tools/call", json!({"name": tool, "arguments": arguments}))
}

/// `tools/call` of `echo`.
pub(crate) fn echo(id: impl Into<Value>, message: &str) -> Value {
    call(id, "echo", json!({"message": message}))
}

/// `tools/call` of `slow`, which then takes longer than any test.
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

/// The same request with the `_meta` of a modern one.
pub(crate) fn modern(mut request: Value) -> Value {
    request["params"]["_meta"] = modern_meta(MODERN);
    request
}

/// `notifications/cancelled`.
pub(crate) fn cancelled(id: impl Into<Value>) -> Value {
    let params = json!({"requestId": id.into(), "reason": "changed my mind"});
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
}

/// What `echo` said.
pub(crate) fn echoed(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().expect("a text")
}

/// The answer must be an error with this code and this id; `None` where none could be read.
#[expect(clippy::needless_pass_by_value, reason = "a literal stands in most calls")]
pub(crate) fn expect_error(answer: &Value, code: i64, id: Option<Value>) {
    assert_eq!(answer["error"]["code"], code, "{answer}");
    assert!(answer["error"]["message"].as_str().is_some_and(|text| !text.is_empty()), "{answer}");
    assert_eq!(answer.get("id"), id.as_ref(), "{answer}");
    assert!(answer.get("result").is_none(), "{answer}");
}
