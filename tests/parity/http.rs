//! The dialect over HTTP: posted messages, the event stream, statuses; on one shard and on two.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use corelane::Options;
use corelane::options::ParityMode;
use corelane_test_support::{TIMEOUT, TestServer};
use serde_json::{Value, json};

use crate::client::{call, handshake, request, streamed};
use crate::options;

/// A response without its body.
pub(crate) struct Head {
    pub(crate) status: u16,
    fields: Vec<(String, String)>,
}

impl Head {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

/// A response that is read while it comes.
pub(crate) struct Exchange {
    reader: BufReader<TcpStream>,
    pub(crate) head: Head,
}

/// One event of an event stream.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) id: Option<String>,
    pub(crate) data: Value,
}

impl Exchange {
    pub(crate) fn start(
        server: &TestServer,
        method: &str,
        path: &str,
        fields: &str,
        body: impl AsRef<[u8]>,
    ) -> Self {
        Self::read(Self::send(server, method, path, fields, body))
    }

    /// Sends a request.
    pub(crate) fn send(
        server: &TestServer,
        method: &str,
        path: &str,
        fields: &str,
        body: impl AsRef<[u8]>,
    ) -> TcpStream {
        let mut stream = TcpStream::connect(server.http()).expect("a connection");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        let body = body.as_ref();
        let length = body.len();
        let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{fields}");
        let content = "Content-Type: application/json\r\nContent-Length:";
        let text = format!("{head}{content} {length}\r\nConnection: close\r\n\r\n");
        stream.write_all(&[text.as_bytes(), body].concat()).expect("the server reads");
        stream
    }

    /// Reads the head of the response.
    pub(crate) fn read(stream: TcpStream) -> Self {
        let mut reader = BufReader::new(stream);
        let head = read_head(&mut reader);
        Self { reader, head }
    }

    fn body(mut self) -> Vec<u8> {
        let mut body = Vec::new();
        self.reader.read_to_end(&mut body).expect("a body");
        body
    }

    pub(crate) fn text(self) -> String {
        String::from_utf8(self.body()).expect("UTF-8")
    }

    pub(crate) fn json(self) -> Value {
        let body = self.body();
        serde_json::from_slice(&body).unwrap_or_else(|_| panic!("{}", body.escape_ascii()))
    }

    /// Reads the next event; `None` at the end of the stream.
    pub(crate) fn next_event(&mut self) -> Option<Event> {
        let (mut name, mut id, mut data) = (None, None, None);
        loop {
            let mut line = String::new();
            assert!(self.reader.read_line(&mut line).expect("a line") > 0, "no last chunk");
            match line.trim_end().split_once(": ") {
                Some(("event", value)) => name = Some(value.to_owned()),
                Some(("id", value)) => id = Some(value.to_owned()),
                Some(("data", value)) => data = serde_json::from_str(value).ok(),
                // The size of a chunk; the last one is empty.
                None if line.trim_end() == "0" => return None,
                _ => {}
            }
            if line == "\n"
                && let (Some(name), Some(data)) = (name.take(), data.take())
            {
                return Some(Event { name, id, data });
            }
        }
    }
}

fn read_head(reader: &mut impl BufRead) -> Head {
    let mut lines = std::iter::from_fn(|| {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a head");
        let line = line.trim_end().to_owned();
        (!line.is_empty()).then_some(line)
    });
    let first = lines.next().expect("a status line");
    let status = first.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    let fields = lines.filter_map(|line| {
        let (name, value) = line.split_once(": ")?;
        Some((name.to_owned(), value.to_owned()))
    });
    Head { status, fields: fields.collect() }
}

/// A client with a session.
pub(crate) struct Session<'s> {
    server: &'s TestServer,
    pub(crate) id: String,
    ack: Value,
}

impl<'s> Session<'s> {
    pub(crate) fn begin(server: &'s TestServer) -> Self {
        Self::begin_with(server, &handshake())
    }

    pub(crate) fn begin_with(server: &'s TestServer, handshake: &Value) -> Self {
        let exchange = Exchange::start(server, "POST", "/parity", "", handshake.to_string());
        assert_eq!(exchange.head.status, 200);
        let id = exchange.head.field("Mcp-Session-Id").expect("a session").to_owned();
        let ack = exchange.json();
        assert_eq!((&ack["type"], &ack["sessionId"]), (&json!("handshakeAck"), &json!(id)));
        Self { server, id, ack }
    }

    pub(crate) fn start(&self, method: &str, path: &str, fields: &str, body: &str) -> Exchange {
        let fields = format!("Mcp-Session-Id: {}\r\n{fields}", self.id);
        Exchange::start(self.server, method, path, &fields, body)
    }

    pub(crate) fn post(&self, message: &Value) -> (u16, Value) {
        let exchange = self.start("POST", "/parity", "", &message.to_string());
        (exchange.head.status, exchange.json())
    }

    pub(crate) fn events(&self) -> Exchange {
        let mut events = self.start("GET", "/parity/events", "Accept: text/event-stream\r\n", "");
        assert_eq!(events.head.status, 200);
        let prelude = events.next_event().expect("a prelude");
        assert_eq!(prelude.name, "handshake");
        assert_eq!(prelude.data["sessionId"], self.id);
        events
    }
}

/// Options of a server with this number of shards.
pub(crate) fn on_shards(shards: u16) -> Options {
    let mut options = options();
    options.engine.shards = Some(shards);
    options
}

/// Checks the chunks of a stream up to its end, and returns their types.
fn chunk_types(events: &mut Exchange, stream: &Value, first: u64) -> Vec<String> {
    let mut types = Vec::new();
    for seq in first.. {
        let event = events.next_event().expect("a chunk");
        assert_eq!(event.name, "stream.chunk", "{event:?}");
        assert_eq!((&event.data["streamId"], &event.data["seq"]), (stream, &json!(seq)));
        // Without the header of a session, `@` and the session follow.
        let id = event.id.as_deref().and_then(|id| id.split('@').next());
        assert_eq!(id, Some(&*format!("{}:{seq}", stream.as_str().expect("an id"))));
        types.push(event.data["chunkType"].as_str().expect("a type").to_owned());
        if event.data["chunkType"] == "eos" {
            break;
        }
    }
    types
}

#[test]
fn requests_are_answered_on_any_shard() {
    for shards in [1, 3] {
        let server = TestServer::with_test_tools(on_shards(shards));
        let session = Session::begin(&server);
        for id in 0..12 {
            let (status, pong) = session.post(&request(id, "ping"));
            let expected = json!({"type": "response", "id": id, "result": {}});
            assert_eq!((status, pong), (200, expected));
        }
        let (status, hashed) = session.post(&call(1, "hash", json!({"bytes": 10})));
        assert_eq!(status, 200);
        assert!(hashed["result"]["structuredContent"].is_object(), "{hashed}");
        let keepalive = json!({"type": "keepalive", "timeoutHintSec": 9}).to_string();
        let accepted = session.start("POST", "/parity", "", &keepalive);
        assert_eq!((accepted.head.status, accepted.body().len()), (202, 0));
        let ended = session.start("DELETE", "/parity", "", "");
        assert_eq!(ended.head.status, 204);
        let (status, unknown) = session.post(&request(1, "ping"));
        assert_eq!(status, 404);
        let error = &unknown["error"];
        assert_eq!((&error["code"], &error["retryable"]), (&json!("error.internal"), &json!(true)));
        assert_eq!(error["details"]["reason"], "unknown_session");
        server.close();
    }
}

#[test]
fn event_stream_carries_chunks() {
    for shards in [1, 3] {
        let server = TestServer::with_test_tools(on_shards(shards));
        let session = Session::begin(&server);
        let mut events = session.events();
        assert_eq!(events.head.field("X-Accel-Buffering"), Some("no"));
        assert!(events.head.field("Cache-Control").expect("a value").contains("no-cache"));
        assert_eq!(events.head.field("Mcp-Session-Id"), Some(&*session.id));
        let slow = streamed(call(1, "slow", json!({"steps": 2, "step_ms": 0})));
        let (status, opened) = session.post(&slow);
        assert_eq!(status, 200);
        let stream = &opened["result"]["streamId"];
        let expected = ["progress", "progress", "result", "eos"];
        assert_eq!(chunk_types(&mut events, stream, 1), expected);
        // Chunks of a stream without an event stream wait for the next one.
        drop(events);
        server.wait_for_connections(0);
        let (_, opened) = session.post(&streamed(request(2, "ping")));
        let mut events = session.events();
        assert_eq!(chunk_types(&mut events, &opened["result"]["streamId"], 1), ["result", "eos"]);
        // The chunks may be in the response itself.
        let body = streamed(request(3, "ping")).to_string();
        let mut post = session.start("POST", "/parity", "Accept: text/event-stream\r\n", &body);
        let opened = post.next_event().expect("the response");
        assert_eq!(opened.name, "response");
        let stream = &opened.data["result"]["streamId"];
        assert_eq!(chunk_types(&mut post, stream, 1), ["result", "eos"]);
        assert!(post.next_event().is_none());
        let ended = session.start("DELETE", "/parity", "", "");
        assert_eq!(ended.head.status, 204);
        let reason = events.next_event().expect("a reason");
        assert_eq!((&*reason.name, &reason.data["type"]), ("error", &json!("error")));
        assert_eq!(reason.data["error"]["details"]["reason"], "session_ended");
        assert!(events.next_event().is_none(), "the session has ended");
        server.close();
    }
}

#[test]
fn errors_have_their_status() {
    let server = TestServer::with_test_tools(options());
    let mut other_version = handshake();
    other_version["protocolVersion"] = json!("2");
    for (message, status, code) in [
        (other_version, 400, "error.version_unsupported"),
        (
            json!({"type": "handshake", "protocolVersion": "1.0"}),
            400,
            "error.feature_not_available",
        ),
        (request(1, "ping"), 400, "error.feature_not_available"),
        (json!({"type": "nothing"}), 400, "error.internal"),
    ] {
        let refused = Exchange::start(&server, "POST", "/parity", "", message.to_string());
        assert_eq!(refused.head.status, status, "{message}");
        assert!(refused.head.field("Mcp-Session-Id").is_none());
        assert_eq!(refused.json()["error"]["code"], code, "{message}");
    }
    let mut limited = handshake();
    limited["capabilities"]["maxPayloadBytes"] = json!(200);
    let session = Session::begin_with(&server, &limited);
    let mut once = request(1, "ping");
    once["idempotencyKey"] = json!("k");
    assert_eq!(session.post(&once).0, 200);
    for (message, status, code) in [
        (once, 409, "error.already_processed"),
        (handshake(), 400, "error.feature_not_available"),
        (request(2, "no/such"), 400, "error.feature_not_available"),
        (call(3, "echo", json!({"message": "x".repeat(200)})), 413, "error.payload_too_large"),
        (json!({"type": "cancel"}), 400, "error.internal"),
    ] {
        let (found, response) = session.post(&message);
        assert_eq!((found, &response["error"]["code"]), (status, &json!(code)), "{message}");
    }
    let path = "/parity/schemas/protocol.request.schema.json";
    let schema = Exchange::start(&server, "GET", path, "", "");
    assert_eq!(schema.head.status, 200);
    assert!(schema.json()["$schema"].is_string());
    let none = Exchange::start(&server, "GET", "/parity/schemas/other.json", "", "");
    assert_eq!(none.head.status, 404);
    let get = Exchange::start(&server, "GET", "/parity", "", "");
    assert_eq!((get.head.status, get.head.field("Allow")), (405, Some("POST, DELETE, OPTIONS")));
    assert_eq!(get.json()["type"], "error");
    server.close();
}

#[test]
fn query_makes_a_handshake_and_resumes() {
    for shards in [1, 3] {
        let server = TestServer::with_test_tools(on_shards(shards));
        let session = Session::begin(&server);
        let (_, opened) = session.post(&streamed(call(1, "hold", json!({}))));
        let stream = opened["result"]["streamId"].clone();
        assert_eq!(server.next_signal(), "begun");
        let token = session.ack["resumeToken"].as_str().expect("a token");
        let query = format!(
            "protocolVersion=1.0&capabilities=tools,streaming,resume&resumeToken={token}\
             &lastAckSeq={}:0",
            stream.as_str().expect("an id")
        );
        let path = format!("/parity/events?{query}");
        let mut events = Exchange::start(&server, "GET", &path, "", "");
        let prelude = events.next_event().expect("a prelude");
        assert_eq!(prelude.data["resumed"], true, "{prelude:?}");
        assert_eq!(prelude.data["sessionId"], session.id);
        server.open_gate();
        assert_eq!(chunk_types(&mut events, &stream, 1), ["progress", "result", "eos"]);
        let path = "/parity/events?protocolVersion=9&capabilities=tools";
        let refused = Exchange::start(&server, "GET", path, "", "");
        assert_eq!(refused.head.status, 400);
        drop(events);
        server.close();
    }
}

#[test]
fn cancelled_and_abandoned_requests_end() {
    for shards in [1, 3] {
        let server = TestServer::with_test_tools(on_shards(shards));
        let session = Session::begin(&server);
        let message = call("c", "until-cancelled", json!({})).to_string();
        let mut waiting = TcpStream::connect(server.http()).expect("a connection");
        let head = format!("POST /parity HTTP/1.1\r\nHost: x\r\nMcp-Session-Id: {}", session.id);
        let head = head.replace("Host: x", "Host: localhost");
        let content = "Content-Type: application/json\r\nContent-Length:";
        let text = format!("{head}\r\n{content} {}\r\n\r\n{message}", message.len());
        waiting.write_all(text.as_bytes()).expect("the server reads");
        assert_eq!(server.next_signal(), "begun");
        let cancel = json!({"type": "cancel", "id": "c"}).to_string();
        assert_eq!(session.start("POST", "/parity", "", &cancel).head.status, 202);
        assert_eq!(server.next_signal(), "cancelled");
        let mut reader = BufReader::new(waiting);
        assert_eq!(read_head(&mut reader).status, 400);
        drop(reader);
        // The end of the connection cancels the call.
        let mut waiting = TcpStream::connect(server.http()).expect("a connection");
        waiting.write_all(text.as_bytes()).expect("the server reads");
        assert_eq!(server.next_signal(), "begun");
        drop(waiting);
        assert_eq!(server.next_signal(), "cancelled");
        server.close();
    }
}

#[test]
fn limited_request_names_its_time() {
    let server = TestServer::with_test_tools(options());
    let mut offered = handshake();
    offered["capabilities"]["maxConcurrent"] = json!(1);
    let session = Session::begin_with(&server, &offered);
    let (status, _) = session.post(&streamed(call(1, "hold", json!({}))));
    assert_eq!((status, server.next_signal()), (200, "begun"));
    let refused = session.start("POST", "/parity", "", &request(2, "ping").to_string());
    assert_eq!((refused.head.status, refused.head.field("Retry-After")), (429, Some("1")));
    assert_eq!(refused.json()["error"]["code"], "error.rate_limited");
    server.open_gate();
    server.close();
}

#[test]
fn only_dialect_has_no_mcp_endpoint() {
    let mut options = options();
    options.parity.mode = ParityMode::Only;
    let server = TestServer::with_test_tools(options);
    for (method, path) in [("POST", "/mcp"), ("GET", "/mcp"), ("GET", "/"), ("POST", "/messages")] {
        let exchange = Exchange::start(&server, method, path, "", "{}");
        assert_eq!(exchange.head.status, 404, "{method} {path}");
        let text = exchange.body();
        let text = String::from_utf8_lossy(&text);
        assert!(text.contains("not found: the endpoint is /parity"), "{text}");
    }
    assert_eq!(Session::begin(&server).post(&request(1, "ping")).0, 200);
    server.close();
}
