//! A client of the dialect over lines.

use std::fmt::Display;

use corelane_test_support::{LineClient, TestServer};
use serde_json::{Value, json};

/// A handshake that offers everything.
pub(crate) fn handshake() -> Value {
    json!({
        "type": "handshake",
        "protocolVersion": "1.0",
        "capabilities": {
            "tools": true,
            "resources": true,
            "prompts": true,
            "streaming": true,
            "resume": true,
            "cancellation": true,
        },
        "clientInfo": {"name": "test", "version": "1"},
    })
}

/// A handshake that resumes the session of `ack`.
pub(crate) fn resuming(ack: &Value, last_ack_seq: Value) -> Value {
    let mut handshake = handshake();
    handshake["resumeToken"] = ack["resumeToken"].clone();
    handshake["lastAckSeq"] = last_ack_seq;
    handshake
}

/// A request without params.
pub(crate) fn request(id: impl Into<Value>, method: &str) -> Value {
    json!({"type": "request", "id": id.into(), "method": method})
}

/// A call of a tool.
pub(crate) fn call(id: impl Into<Value>, tool: &str, arguments: Value) -> Value {
    let mut params = json!({"name": tool});
    params["arguments"] = arguments;
    json!({"type": "request", "id": id.into(), "method": "tools/call", "params": params})
}

/// The same request, its result streamed.
pub(crate) fn streamed(mut request: Value) -> Value {
    request["stream"] = json!(true);
    request
}

/// A connection that carries messages of the dialect.
pub(crate) struct ParityClient {
    pub(crate) lines: LineClient,
}

impl ParityClient {
    pub(crate) const fn new(lines: LineClient) -> Self {
        Self { lines }
    }

    /// Connects over TCP.
    pub(crate) fn connect(server: &TestServer) -> Self {
        Self::new(server.connect_tcp())
    }

    /// Connects over TCP and makes the handshake.
    pub(crate) fn ready(server: &TestServer) -> Self {
        let mut client = Self::connect(server);
        let ack = client.exchange(&handshake());
        assert_eq!(ack["type"], "handshakeAck", "{ack}");
        client
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.lines.send(message);
    }

    /// Receives the next message.
    pub(crate) fn receive(&mut self) -> Value {
        let line = self.lines.receive_line().expect("a message");
        let message: Value = serde_json::from_str(&line).expect("JSON");
        assert!(message.get("jsonrpc").is_none(), "{line}");
        assert!(message["type"].is_string(), "{line}");
        message
    }

    /// Receives the next message if the connection is not closed.
    pub(crate) fn receive_or_end(&mut self) -> Option<Value> {
        let line = self.lines.receive_line_or_reset()?;
        Some(serde_json::from_str(&line).expect("JSON"))
    }

    /// Receives the next message, if one comes within the read timeout of the socket.
    pub(crate) fn try_receive(&mut self) -> Option<Value> {
        let has_message = self.lines.socket().peek(&mut [0]).is_ok_and(|bytes| bytes > 0);
        has_message.then(|| self.receive())
    }

    pub(crate) fn exchange(&mut self, message: &impl Display) -> Value {
        self.lines.send(message);
        self.receive()
    }

    /// Sends a request and returns its result.
    #[track_caller]
    pub(crate) fn result(&mut self, request: &Value) -> Value {
        let mut response = self.exchange(request);
        assert_eq!(response["type"], "response", "{response}");
        assert_eq!(response["id"], request["id"], "{response}");
        assert!(response.get("error").is_none(), "{response}");
        response["result"].take()
    }

    /// Sends a message and checks that it gets this error, in a message of this type.
    #[track_caller]
    pub(crate) fn expect_error(&mut self, message: &Value, kind: &str, code: &str) -> Value {
        let mut response = self.exchange(message);
        assert_eq!(response["type"], kind, "{message} {response}");
        assert_eq!(response["error"]["code"], code, "{message} {response}");
        response["error"].take()
    }

    /// Opens a stream and returns its id.
    #[track_caller]
    pub(crate) fn open_stream(&mut self, request: Value) -> String {
        let result = self.result(&streamed(request));
        result["streamId"].as_str().expect("a stream").to_owned()
    }

    /// Receives the chunks of a stream, up to its end. Their numbers begin at `first`.
    #[track_caller]
    pub(crate) fn receive_stream(&mut self, stream: &str, first: u64) -> Vec<Value> {
        let mut chunks = Vec::new();
        for seq in first.. {
            let chunk = self.receive();
            assert_eq!(chunk["type"], "stream.chunk", "{chunk}");
            assert_eq!(chunk["streamId"], stream, "{chunk}");
            assert_eq!(chunk["seq"], seq, "{chunk}");
            let is_last = chunk["chunkType"] == "eos";
            chunks.push(chunk);
            if is_last {
                break;
            }
        }
        chunks
    }

    /// Checks that the connection is served.
    #[track_caller]
    pub(crate) fn ping(&mut self) {
        assert_eq!(self.result(&request("alive?", "ping")), json!({}));
    }
}

/// The types of chunks.
pub(crate) fn kinds(chunks: &[Value]) -> Vec<&str> {
    chunks.iter().map(|chunk| chunk["chunkType"].as_str().expect("a type")).collect()
}
