//! `HttpClient`: an HTTP client over a blocking socket that checks every response against RFC 9112,
//! the event stream format and the JSON schema of its revision.

use std::io::{self, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};

use serde_json::Value;

use super::request::Request;
use super::response_parser::{BodyFraming, ResponseHead, SseEvent, read_chunk};
use crate::messages::MODERN;
use crate::schema_checker::{SchemaChecker, check_once};
use crate::sockets;

/// One connection.
pub struct HttpClient {
    reader: BufReader<TcpStream>,
    /// Framing of the event stream that is being read.
    stream: Option<BodyFraming>,
    checker: SchemaChecker,
}

/// A response with its whole body.
#[derive(Debug)]
pub struct Response {
    pub head: ResponseHead,
    pub body: Vec<u8>,
}

impl Response {
    pub const fn status(&self) -> u16 {
        self.head.status
    }

    /// Returns the JSON message in the body.
    pub fn message(&self) -> Value {
        assert_eq!(self.head.field("Content-Type"), Some("application/json"), "{self:?}");
        serde_json::from_slice(&self.body).expect("body is not JSON")
    }

    /// Asserts this status and an empty body.
    #[track_caller]
    pub fn expect_empty_body(&self, status: u16) {
        assert_eq!(self.status(), status, "{self:?}");
        assert!(self.body.is_empty(), "{self:?}");
    }

    /// Asserts this status and a JSON-RPC error with this code and id.
    #[track_caller]
    pub fn expect_error(&self, status: u16, code: i64, id: Option<Value>) -> Value {
        assert_eq!(self.status(), status, "{self:?}: {}", String::from_utf8_lossy(&self.body));
        let message = self.message();
        crate::messages::expect_error(&message, code, id);
        message
    }
}

impl HttpClient {
    pub fn connect(address: SocketAddr) -> Self {
        Self::new(sockets::connect(address))
    }

    /// Connects with socket buffers of about `bytes` in each direction.
    pub fn connect_with_buffers(address: SocketAddr, bytes: usize) -> Self {
        Self::new(sockets::connect_with_buffers(address, bytes))
    }

    /// Connects from the local address `from`.
    pub fn connect_from(from: IpAddr, address: SocketAddr) -> Self {
        Self::new(sockets::connect_from(from, address))
    }

    fn new(socket: TcpStream) -> Self {
        let checker = SchemaChecker::new(MODERN, false);
        Self { reader: BufReader::new(socket), stream: None, checker }
    }

    /// Checks messages against the schema of `revision` from now on.
    pub const fn with_revision(mut self, revision: &'static str) -> Self {
        self.checker.revision = revision;
        self
    }

    pub fn socket(&self) -> &TcpStream {
        self.reader.get_ref()
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.reader.get_mut().write_all(bytes).expect("write to server");
    }

    pub fn send(&mut self, request: &Request) {
        self.register_request(request);
        self.send_bytes(&request.bytes());
    }

    /// Records the ids and methods of a request, so that the response can be checked.
    pub fn register_request(&mut self, request: &Request) {
        if let Some(message) = request.message() {
            self.checker.register(&message);
        }
    }

    /// Sends a request and reads its response, which must not be an event stream.
    pub fn exchange(&mut self, request: &Request) -> Response {
        self.send(request);
        if request.is_head() { self.read_head_response() } else { self.read_response() }
    }

    /// Sends a request and reads its response. Returns the status, or `None` if the connection was
    /// closed or reset.
    pub fn try_exchange(&mut self, request: &Request) -> Option<u16> {
        self.reader.get_mut().write_all(&request.bytes()).ok()?;
        let head = self.try_read_head().ok()??;
        let status = head.status;
        self.discard_body(head);
        Some(status)
    }

    /// Sends a request and reads the head of the event stream in response. The stream that a GET
    /// opens in a session begins with a comment, which is read, too.
    pub fn request_stream(&mut self, request: &Request) -> ResponseHead {
        self.send(request);
        let head = self.read_stream_head();
        if request.opens_session_stream() {
            let first = self.read_event().expect("the stream ended");
            assert!(first.is_comment, "{first:?}");
        }
        head
    }

    /// Sends a request and reads the response in either form. Returns the messages before the last
    /// one, and the last one.
    pub fn exchange_to_end(&mut self, request: &Request) -> (Vec<Value>, Value) {
        self.send(request);
        let head = self.read_head();
        if head.field("Content-Type") != Some("text/event-stream") {
            return (Vec::new(), self.read_body(head).message());
        }
        self.start_stream(&head);
        let mut messages = self.read_stream_to_end();
        let last = messages.pop().expect("stream without a response");
        (messages, last)
    }

    pub fn read_head(&mut self) -> ResponseHead {
        self.try_read_head().expect("read head").expect("connection closed before a response")
    }

    fn try_read_head(&mut self) -> io::Result<Option<ResponseHead>> {
        assert_eq!(self.stream, None, "an event stream has not ended");
        ResponseHead::read(&mut self.reader)
    }

    /// Reads a response, which must not be an event stream.
    pub fn read_response(&mut self) -> Response {
        let head = self.read_head();
        self.read_body(head)
    }

    /// Reads the response to a HEAD request.
    pub fn read_head_response(&mut self) -> Response {
        Response { head: self.read_head(), body: Vec::new() }
    }

    pub fn discard_body(&mut self, head: ResponseHead) {
        drop(self.read_body(head));
    }

    /// Reads the body that follows `head`.
    pub fn read_body(&mut self, head: ResponseHead) -> Response {
        let mut body = Vec::new();
        match head.body_framing() {
            BodyFraming::None => {}
            BodyFraming::ContentLength(bytes) => {
                body.resize(bytes, 0);
                self.reader.read_exact(&mut body).expect("read body");
            }
            BodyFraming::Chunked | BodyFraming::UntilClose => {
                panic!("unexpected body framing: {head:?}")
            }
        }
        if head.field("Content-Type") == Some("application/json") {
            let message: Value = serde_json::from_slice(&body).expect("body is not JSON");
            if head.status >= 400 && message.get("id").is_none() {
                // Belongs to no message and so to no revision: the newest schema applies.
                check_once(MODERN, &message, None);
            } else if message.get("jsonrpc").is_some() || message.is_array() {
                self.checker.check(&message);
            }
        }
        Response { head, body }
    }

    /// Reads the head of an event stream.
    pub fn read_stream_head(&mut self) -> ResponseHead {
        let head = self.read_head();
        self.start_stream(&head);
        head
    }

    /// Starts reading the event stream that follows `head`.
    pub fn start_stream(&mut self, head: &ResponseHead) {
        assert_eq!(head.field("Content-Type"), Some("text/event-stream"), "{head:?}");
        self.stream = Some(head.body_framing());
    }

    /// Reads the next event, or `None` at the end of the stream.
    pub fn read_event(&mut self) -> Option<SseEvent> {
        self.try_read_event().expect("read event")
    }

    /// Like [`Self::read_event`]; returns errors of the connection.
    pub fn try_read_event(&mut self) -> io::Result<Option<SseEvent>> {
        let framing = self.stream.expect("no event stream is open");
        let event = match framing {
            BodyFraming::Chunked => {
                read_chunk(&mut self.reader)?.map(|chunk| SseEvent::parse(&chunk))
            }
            _ => SseEvent::read(&mut self.reader)?,
        };
        if event.is_none() {
            self.stream = None;
        }
        Ok(event)
    }

    /// Reads an event that must hold a message. Returns the event id and the message.
    pub fn read_message(&mut self) -> (Option<String>, Value) {
        let event = self.read_event().expect("stream ended before a message");
        assert_eq!(event.event_type.as_deref(), Some("message"), "{event:?}");
        let data = event.data.expect("event without data");
        let message = serde_json::from_str(&data).unwrap_or_else(|_| panic!("not JSON: {data}"));
        self.checker.check(&message);
        (event.id, message)
    }

    /// Reads an event that must hold a message and no event id.
    pub fn read_message_without_id(&mut self) -> Value {
        let (id, message) = self.read_message();
        assert_eq!(id, None, "{message}");
        message
    }

    /// Reads an event with an id, a `retry` field and empty data, and returns its id.
    pub fn read_priming_event(&mut self) -> String {
        let event = self.read_event().expect("stream ended before an event");
        assert_eq!(event.data.as_deref(), Some(""), "{event:?}");
        assert!(event.retry_ms.is_some(), "{event:?}");
        event.id.expect("event without id")
    }

    pub fn expect_end_of_stream(&mut self) {
        let event = self.read_event();
        assert_eq!(event, None);
    }

    /// Reads the remaining messages of the stream.
    pub fn read_stream_to_end(&mut self) -> Vec<Value> {
        let mut messages = Vec::new();
        while let Some(event) = self.read_event() {
            if let Some(data) = event.data.filter(|data| !data.is_empty()) {
                let message = serde_json::from_str(&data).expect("event data is not JSON");
                self.checker.check(&message);
                messages.push(message);
            }
        }
        messages
    }

    /// Asserts that the server still answers requests on this connection.
    pub fn expect_alive(&mut self) {
        let response = self.exchange(&Request::new("GET", "/status"));
        assert_eq!(response.status(), 200, "{response:?}");
        assert!(response.message()["shards"].is_number(), "{response:?}");
    }

    /// Shuts down the write side; responses can still be read.
    pub fn shutdown_write(&self) {
        sockets::shutdown_write(self.socket());
    }

    /// Asserts that the server closes the connection in order without sending more.
    pub fn expect_eof(&mut self) {
        let head = self.try_read_head().expect("read until EOF");
        assert!(head.is_none(), "{head:?}");
    }

    /// Like [`Self::expect_eof`]; also accepts a reset.
    pub fn expect_eof_or_reset(&mut self) {
        match self.try_read_head() {
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
            head => assert!(head.expect("read until EOF").is_none()),
        }
    }

    /// Reads the remaining bytes until the connection ends in any way.
    pub fn read_to_end(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self.reader.read_to_end(&mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
            read => drop(read.expect("read until EOF")),
        }
        bytes
    }

    /// Closes the connection with a reset.
    pub fn reset(self) {
        sockets::reset_on_close(self.socket());
    }
}
