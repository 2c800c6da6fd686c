//! A server of Streamable HTTP whose every byte a test decides.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use corelane::Client;
use corelane::client::{ClientBuilder, EraPreference};
use corelane::model::Revision;
use serde_json::{Value, json};

use super::{discover_result, response};

/// Time after which a test that waits fails.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A listening server.
pub(crate) struct HttpPeer {
    listener: TcpListener,
}

/// One connection of a client.
pub(crate) struct Connection {
    stream: TcpStream,
    held: Vec<u8>,
}

/// A request of a client.
pub(crate) struct HttpRequest {
    head: String,
    /// The message, `null` for a request without a body, or a form as text.
    pub(crate) body: Value,
}

impl HttpRequest {
    /// Returns the method and the path.
    pub(crate) fn line(&self) -> &str {
        self.head.split(" HTTP/1.1\r\n").next().unwrap_or_default()
    }

    /// Returns the value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.split("\r\n").filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|line| line.1)
    }
}

impl HttpPeer {
    /// Listens on a free port.
    pub(crate) fn bind() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").expect("a free port") }
    }

    /// Returns the address that it listens on.
    pub(crate) fn address(&self) -> SocketAddr {
        self.listener.local_addr().expect("an address")
    }

    /// Serves one client by `serve`.
    pub(crate) fn start(
        serve: impl FnOnce(Self) + Send + 'static,
    ) -> (ClientBuilder, JoinHandle<()>) {
        let peer = Self::bind();
        let url = format!("http://{}/mcp", peer.address());
        (Client::builder(url.as_str()), thread::spawn(move || serve(peer)))
    }

    /// Serves one modern client after its handshake, over the connection that it has opened.
    pub(crate) fn modern(
        serve: impl FnOnce(Self, Connection) + Send + 'static,
    ) -> (Client, JoinHandle<()>) {
        let (builder, peer) = Self::start(|peer| {
            let mut connection = peer.accept();
            let discover = connection.receive();
            connection.send_json(&discover_result(&discover.body));
            serve(peer, connection);
        });
        (builder.connect_blocking().expect("a handshake"), peer)
    }

    /// Serves one client of 2025-11-25 after its handshake, in the session `first`. Passes on the
    /// connection with the stream of the session, which is open.
    pub(crate) fn legacy(
        serve: impl FnOnce(Self, Connection) + Send + 'static,
    ) -> (Client, JoinHandle<()>) {
        let (opened_tx, opened_rx) = mpsc::channel();
        let (builder, peer) = Self::start(move |peer| {
            let mut connection = peer.accept();
            connection.initialize("first");
            assert_eq!(connection.receive().line(), "GET /mcp");
            connection.begin_stream();
            opened_tx.send(()).expect("a test");
            serve(peer, connection);
        });
        let builder = builder.era(EraPreference::Legacy(Revision::V2025_11_25));
        let client = builder.connect_blocking().expect("a handshake");
        opened_rx.recv_timeout(TIMEOUT).expect("a stream");
        (client, peer)
    }

    /// Waits for a connection.
    pub(crate) fn accept(&self) -> Connection {
        let (stream, _) = self.listener.accept().expect("a connection");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        Connection { stream, held: Vec::new() }
    }
}

impl Connection {
    /// Waits for the next request.
    pub(crate) fn receive(&mut self) -> HttpRequest {
        self.try_receive().expect("a request")
    }

    /// Waits for the next request; `None` at the end of the connection.
    pub(crate) fn try_receive(&mut self) -> Option<HttpRequest> {
        loop {
            if let Some(request) = self.take_request() {
                return Some(request);
            }
            let mut bytes = [0; 4096];
            match self.stream.read(&mut bytes) {
                Ok(0) => return None,
                Ok(length) => self.held.extend_from_slice(&bytes[..length]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("no request in time: {error}"),
            }
        }
    }

    /// Returns the connection, for another protocol.
    pub(crate) fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// Waits for the beginning of a request, and leaves the rest unread.
    pub(crate) fn receive_head(&mut self) {
        let mut bytes = [0; 64];
        assert!(self.stream.read(&mut bytes).expect("a request in time") > 0);
    }

    fn take_request(&mut self) -> Option<HttpRequest> {
        let text = String::from_utf8_lossy(&self.held).into_owned();
        let (head, rest) = text.split_once("\r\n\r\n")?;
        let mut request = HttpRequest { head: head.to_owned(), body: Value::Null };
        let length =
            request.header("Content-Length").map_or(0, |text| text.parse().expect("a length"));
        let body = rest.get(..length)?;
        if length > 0 {
            let is_form = request.header("Content-Type").is_some_and(|it| it.contains("form"));
            request.body = if is_form {
                body.into()
            } else {
                serde_json::from_str(body).expect("a JSON body")
            };
        }
        self.held.drain(..head.len() + 4 + length);
        Some(request)
    }

    /// Answers `initialize`, and accepts the notification that follows.
    pub(crate) fn initialize(&mut self, session: &str) {
        let initialize = self.receive();
        assert_eq!(initialize.body["method"], "initialize");
        assert_eq!(initialize.header("Mcp-Session-Id"), None);
        self.send(&initialize_response(&initialize, session));
        let initialized = self.receive();
        assert_eq!(initialized.body["method"], "notifications/initialized");
        assert_eq!(initialized.header("Mcp-Session-Id"), Some(session));
        assert_eq!(initialized.header("MCP-Protocol-Version"), Some("2025-11-25"));
        self.accept_message();
    }

    /// Sends bytes, unless the client has closed the connection.
    pub(crate) fn send(&mut self, text: &str) {
        match self.stream.write_all(text.as_bytes()) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("the client is slow"),
            Ok(()) | Err(_) => {}
        }
    }

    /// Answers a notification.
    pub(crate) fn accept_message(&mut self) {
        self.send("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n");
    }

    /// Sends a message as JSON.
    pub(crate) fn send_json(&mut self, message: &Value) {
        self.send_body("200 OK", "application/json", &message.to_string());
    }

    /// Sends a body.
    pub(crate) fn send_body(&mut self, status: &str, media_type: &str, body: &str) {
        self.send(&http_response(status, &format!("Content-Type: {media_type}\r\n"), body));
    }

    /// Begins an event stream that ends with the connection.
    pub(crate) fn begin_stream(&mut self) {
        self.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n");
    }

    /// Fails unless the client closes the connection.
    pub(crate) fn expect_end(mut self) {
        assert!(self.try_receive().is_none(), "the client sent another request");
    }
}

/// Returns the response to `initialize` of a server of 2025-11-25 with tools.
pub(crate) fn initialize_response(request: &HttpRequest, session: &str) -> String {
    let result = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": { "tools": {} },
        "serverInfo": { "name": "peer", "version": "1" },
    });
    let fields = format!("Mcp-Session-Id: {session}\r\nContent-Type: application/json\r\n");
    http_response("200 OK", &fields, &response(&request.body, &result).to_string())
}

/// Returns a response of a server.
pub(crate) fn http_response(status: &str, fields: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len())
}

/// The result of a tool with `text`.
pub(crate) fn text_result(request: &HttpRequest, text: &str) -> Value {
    response(&request.body, &json!({ "content": [{ "type": "text", "text": text }] }))
}
