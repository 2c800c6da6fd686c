//! A client over a plain socket: it says whatever it is told, and holds what it hears against the
//! standards.

use std::cell::RefCell;
use std::collections::HashSet;
use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};
use socket2::{Domain, SockRef, Socket, Type};

use crate::judge::judge;
use crate::messages::MODERN;
use crate::request::Request;
use crate::wire::{Ending, Event, Head, read_chunk};

/// How long a client waits for an answer before its test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

thread_local! {
    /// What was found to fit: by revision, method of the request, and text.
    static JUDGED: RefCell<HashSet<(&'static str, Option<String>, String)>> = RefCell::default();
}

/// One connection.
pub(crate) struct Client {
    reader: BufReader<TcpStream>,
    /// The event stream that it is reading.
    stream: Option<Ending>,
    /// By whose schema messages are judged.
    revision: &'static str,
    /// Requests whose answers are to come: their ids and methods.
    asked: Vec<(Value, String)>,
}

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Its head.
    pub(crate) head: Head,
    /// Its body.
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// Its status.
    pub(crate) const fn status(&self) -> u16 {
        self.head.status
    }

    /// The message in its body.
    pub(crate) fn message(&self) -> Value {
        assert_eq!(self.head.field("Content-Type"), Some("application/json"), "{self:?}");
        serde_json::from_slice(&self.body).expect("JSON")
    }

    /// It must have this status and no body.
    #[track_caller]
    pub(crate) fn expect_bare(&self, status: u16) {
        assert_eq!(self.status(), status, "{self:?}");
        assert!(self.body.is_empty(), "{self:?}");
    }

    /// It must have this status, and an error with this code and this id.
    #[track_caller]
    pub(crate) fn expect_error(&self, status: u16, code: i64, id: Option<Value>) -> Value {
        assert_eq!(self.status(), status, "{self:?}: {}", String::from_utf8_lossy(&self.body));
        let message = self.message();
        crate::messages::expect_error(&message, code, id);
        message
    }
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
        let reader = BufReader::new(stream);
        Self { reader, stream: None, revision: MODERN, asked: Vec::new() }
    }

    /// The same client, who speaks another revision.
    pub(crate) const fn speaking(mut self, revision: &'static str) -> Self {
        self.revision = revision;
        self
    }

    /// The socket itself.
    pub(crate) fn socket(&self) -> &TcpStream {
        self.reader.get_ref()
    }

    /// Sends bytes as they are.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.reader.get_mut().write_all(bytes).expect("a server that reads");
    }

    /// Sends a request.
    pub(crate) fn send(&mut self, request: &Request) {
        self.expect_answer_to(request);
        self.send_bytes(&request.bytes());
    }

    /// Notes what a request asks, so that its answer can be judged.
    pub(crate) fn expect_answer_to(&mut self, request: &Request) {
        let messages = match request.message() {
            Some(Value::Array(messages)) => messages,
            message => message.into_iter().collect(),
        };
        for message in messages {
            if let (Some(id), Some(method)) = (message.get("id"), message["method"].as_str()) {
                self.asked.push((id.clone(), method.to_owned()));
            }
        }
    }

    /// Sends a request and waits for its answer, which is no stream.
    pub(crate) fn ask(&mut self, request: &Request) -> Answer {
        self.send(request);
        if request.is_head() { self.answer_without_body() } else { self.answer() }
    }

    /// Sends a request and waits for the head of the stream that answers it.
    pub(crate) fn ask_stream(&mut self, request: &Request) -> Head {
        self.send(request);
        self.begin_stream()
    }

    /// Sends a request and reads its answer to the end, whichever form that has: what was said
    /// before the last message, and that.
    pub(crate) fn ask_through(&mut self, request: &Request) -> (Vec<Value>, Value) {
        self.send(request);
        let head = self.head();
        if head.field("Content-Type") != Some("text/event-stream") {
            return (Vec::new(), self.body_of(head).message());
        }
        self.follow(&head);
        let mut messages = self.rest_of_stream();
        let last = messages.pop().expect("a stream with an answer");
        (messages, last)
    }

    /// The next head.
    pub(crate) fn head(&mut self) -> Head {
        self.try_head().expect("a head").expect("an answer before the end of the connection")
    }

    fn try_head(&mut self) -> io::Result<Option<Head>> {
        assert_eq!(self.stream, None, "a stream has not ended");
        Head::read(&mut self.reader)
    }

    /// The next answer, which is no stream.
    pub(crate) fn answer(&mut self) -> Answer {
        let head = self.head();
        self.body_of(head)
    }

    /// The answer to a HEAD.
    pub(crate) fn answer_without_body(&mut self) -> Answer {
        Answer { head: self.head(), body: Vec::new() }
    }

    /// The body of an answer whose head was read, and is of no interest.
    pub(crate) fn rest_of(&mut self, head: Head) {
        drop(self.body_of(head));
    }

    fn body_of(&mut self, head: Head) -> Answer {
        let mut body = Vec::new();
        match head.ending() {
            Ending::Empty => {}
            Ending::Counted(bytes) => {
                body.resize(bytes, 0);
                self.reader.read_exact(&mut body).expect("a whole body");
            }
            Ending::Chunked | Ending::Close => panic!("not a stream: {head:?}"),
        }
        if head.field("Content-Type") == Some("application/json") {
            let message: Value = serde_json::from_slice(&body).expect("JSON");
            if head.status >= 400 && message.get("id").is_none() {
                // Of no message, so of no revision: as the newest has it.
                fits(MODERN, &message, None);
            } else if message.get("jsonrpc").is_some() || message.is_array() {
                self.judge(&message);
            }
        }
        Answer { head, body }
    }

    /// The head of a stream.
    pub(crate) fn begin_stream(&mut self) -> Head {
        let head = self.head();
        self.follow(&head);
        head
    }

    /// Reads the stream behind a head.
    pub(crate) fn follow(&mut self, head: &Head) {
        assert_eq!(head.field("Content-Type"), Some("text/event-stream"), "{head:?}");
        self.stream = Some(head.ending());
    }

    /// The next event of a stream; `None` where that was the last.
    pub(crate) fn event(&mut self) -> Option<Event> {
        self.try_event().expect("an event, or the end of the stream")
    }

    /// The same where the connection need not end in order.
    pub(crate) fn try_event(&mut self) -> io::Result<Option<Event>> {
        let ending = self.stream.expect("a stream");
        let event = match ending {
            Ending::Chunked => read_chunk(&mut self.reader)?.map(|chunk| Event::parse(&chunk)),
            _ => Event::read(&mut self.reader)?,
        };
        if event.is_none() {
            self.stream = None;
        }
        Ok(event)
    }

    /// The next event must be a message.
    pub(crate) fn heard(&mut self) -> (Option<String>, Value) {
        let event = self.event().expect("a message before the end of the stream");
        assert_eq!(event.kind.as_deref(), Some("message"), "{event:?}");
        let data = event.data.expect("a message");
        let message = serde_json::from_str(&data).unwrap_or_else(|_| panic!("no JSON: {data}"));
        self.judge(&message);
        (event.id, message)
    }

    /// The next event must be a message without an id.
    pub(crate) fn heard_once(&mut self) -> Value {
        let (id, message) = self.heard();
        assert_eq!(id, None, "{message}");
        message
    }

    /// The next event must be a place to come back to.
    pub(crate) fn primed(&mut self) -> String {
        let event = self.event().expect("an event before the end of the stream");
        assert_eq!(event.data.as_deref(), Some(""), "{event:?}");
        assert!(event.retry_ms.is_some(), "{event:?}");
        event.id.expect("a place to come back to")
    }

    /// The stream must end.
    pub(crate) fn expect_end_of_stream(&mut self) {
        let event = self.event();
        assert_eq!(event, None);
    }

    /// The messages that still come on a stream.
    pub(crate) fn rest_of_stream(&mut self) -> Vec<Value> {
        let mut messages = Vec::new();
        while let Some(event) = self.event() {
            if let Some(data) = event.data.filter(|data| !data.is_empty()) {
                let message = serde_json::from_str(&data).expect("JSON");
                self.judge(&message);
                messages.push(message);
            }
        }
        messages
    }

    /// Asks whether the server still reads and answers this connection.
    pub(crate) fn expect_alive(&mut self) {
        let answer = self.ask(&Request::new("GET", "/healthz"));
        assert_eq!((answer.status(), &answer.body[..]), (200, &b"ok\n"[..]), "{answer:?}");
    }

    /// Says that nothing more will be sent; answers may still come.
    pub(crate) fn finish(&self) {
        self.socket().shutdown(Shutdown::Write).expect("a connection that is open");
    }

    /// Waits until the server ends the connection; nothing more may come before.
    pub(crate) fn expect_end(&mut self) {
        let head = self.try_head().expect("an end in order");
        assert!(head.is_none(), "{head:?}");
    }

    /// The same where the server need not end in order.
    pub(crate) fn expect_end_or_reset(&mut self) {
        match self.try_head() {
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
            head => assert!(head.expect("an end").is_none()),
        }
    }

    /// Everything that still comes, as bytes, until the server ends the connection in any way.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self.reader.read_to_end(&mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
            read => drop(read.expect("an end of the connection")),
        }
        bytes
    }

    /// Ends the connection by a reset.
    pub(crate) fn reset(self) {
        let socket = SockRef::from(self.socket());
        socket.set_linger(Some(Duration::ZERO)).expect("an option of sockets");
    }

    fn judge(&mut self, message: &Value) {
        if let Value::Array(messages) = message {
            assert!(!messages.is_empty());
            return messages.iter().for_each(|message| self.judge(message));
        }
        assert_eq!(message["jsonrpc"], json!("2.0"), "{message}");
        let place = self
            .asked
            .iter()
            .position(|(id, _)| message.get("method").is_none() && Some(id) == message.get("id"));
        let method = place.map(|place| self.asked.swap_remove(place).1);
        fits(self.revision, message, method.as_deref());
    }
}

/// Judges a message, unless its like was found to fit before.
fn fits(revision: &'static str, message: &Value, method: Option<&str>) {
    let said = (revision, method.map(str::to_owned), message.to_string());
    if JUDGED.with_borrow_mut(|judged| judged.insert(said)) {
        judge(revision, message, method).unwrap_or_else(|reason| panic!("{reason}"));
    }
}
