//! Servers of WebSocket that a test drives: by tungstenite, or byte by byte.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::{self, JoinHandle};

use corelane::Client;
use corelane::client::ClientBuilder;
use corelane_test_support::TIMEOUT;
use serde_json::Value;
use tungstenite::handshake::derive_accept_key;
use tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tungstenite::protocol::{CloseFrame, Message, Role, WebSocket};

use super::discover_result;

/// One connection of a client, after its upgrade by tungstenite.
pub(crate) struct WebSocketPeer {
    socket: WebSocket<TcpStream>,
}

impl WebSocketPeer {
    /// Accepts a connection and its upgrade.
    #[expect(clippy::result_large_err, reason = "the signature of tungstenite")]
    pub(crate) fn accept(listener: &TcpListener) -> Self {
        let check =
            |request: &Request, mut response: Response| -> Result<Response, ErrorResponse> {
                assert_eq!(request.uri().path(), "/mcp/ws");
                let headers = request.headers();
                assert_eq!(headers["sec-websocket-protocol"], "mcp.v1, mcp");
                assert!(!headers.contains_key("sec-websocket-extensions"));
                let selected = "mcp.v1".parse().expect("a header value");
                response.headers_mut().insert("sec-websocket-protocol", selected);
                Ok(response)
            };
        let socket = tungstenite::accept_hdr(accept(listener), check);
        Self { socket: socket.expect("a valid upgrade request") }
    }

    /// Accepts an upgrade whose request has been read.
    pub(crate) fn of_request(mut stream: TcpStream, key: &str) -> Self {
        let accept = derive_accept_key(key.as_bytes());
        write!(
            stream,
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: {accept}\r\n\r\n"
        )
        .expect("the client reads");
        Self { socket: WebSocket::from_raw_socket(stream, Role::Server, None) }
    }

    /// Answers `server/discover`.
    pub(crate) fn handshake(mut self) -> Self {
        let discover = self.receive();
        assert_eq!(discover["method"], "server/discover");
        self.send(&discover_result(&discover));
        self
    }

    /// Receives a message.
    pub(crate) fn receive(&mut self) -> Value {
        let message = self.socket.read().expect("a message");
        let Message::Text(text) = message else { panic!("{message:?}") };
        serde_json::from_str(&text).expect("JSON")
    }

    /// Receives a pong; returns its payload.
    pub(crate) fn receive_pong(&mut self) -> Vec<u8> {
        match self.socket.read().expect("a pong") {
            Message::Pong(payload) => payload.to_vec(),
            other => panic!("{other:?}"),
        }
    }

    /// Receives a ping, which the next read answers.
    pub(crate) fn receive_ping(&mut self) {
        let message = self.socket.read().expect("a ping");
        assert!(matches!(message, Message::Ping(_)), "{message:?}");
    }

    /// Sends a message.
    pub(crate) fn send(&mut self, message: &Value) {
        self.socket.send(Message::text(message.to_string())).expect("the client reads");
    }

    /// Sends bytes as they are.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.socket.get_mut().write_all(bytes).expect("the client reads");
    }

    /// Sends a close frame, and waits for that of the client and the end of the connection.
    pub(crate) fn close(mut self, code: u16, reason: &str) {
        let frame = CloseFrame { code: code.into(), reason: reason.into() };
        self.socket.close(Some(frame)).expect("the client reads");
        assert_eq!(self.expect_close(), Some(code));
    }

    /// Reads up to the close frame of the client, and to the end of the connection. Returns the
    /// code.
    pub(crate) fn expect_close(mut self) -> Option<u16> {
        let mut code = None;
        loop {
            match self.socket.read() {
                Ok(Message::Close(frame)) => code = frame.map(|frame| frame.code.into()),
                Ok(_) => {}
                Err(tungstenite::Error::ConnectionClosed) => return code,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// Accepts a connection.
pub(crate) fn accept(listener: &TcpListener) -> TcpStream {
    let (socket, _) = listener.accept().expect("a client connects");
    socket.set_read_timeout(Some(TIMEOUT)).expect("a socket option");
    socket.set_write_timeout(Some(TIMEOUT)).expect("a socket option");
    socket
}

/// Reads a request up to the end of its head.
pub(crate) fn read_head(socket: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        socket.read_exact(&mut byte).expect("a request");
        head.push(byte[0]);
    }
    String::from_utf8(head).expect("ASCII")
}

/// Lets `serve` accept connections of a client.
pub(crate) fn serve(
    serve: impl FnOnce(&TcpListener) + Send + 'static,
) -> (ClientBuilder, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let target = format!("ws://{}", listener.local_addr().expect("an address"));
    let peer = thread::spawn(move || serve(&listener));
    (Client::builder(target.as_str()), peer)
}
