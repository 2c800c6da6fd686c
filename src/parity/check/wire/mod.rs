//! Messages over each transport, with blocking sockets and timeouts: on lines, in text messages of
//! a WebSocket, or in requests of HTTP.

pub mod byte_stream;
pub mod exchange;
pub mod http;

use std::io::{self, Write};
use std::time::Duration;

use memchr::memchr;
use tungstenite::client::IntoClientRequest;
use tungstenite::http::HeaderValue;
use tungstenite::protocol::frame::Frame;
use tungstenite::protocol::frame::coding::{Data, OpCode};
use tungstenite::{Error, HandshakeError, Message, WebSocket};

use self::byte_stream::{ByteStream, is_timeout};
use self::exchange::{Head, SseEvent};
use self::http::HttpChannel;
use super::deadline::Deadline;
use super::endpoint::{Address, Endpoint, Transport};

/// Longest message or body that is accepted.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// What a server has sent.
#[derive(Clone, Debug)]
pub enum Received {
    /// A message: with HTTP also the head of its response, and the event that it came in.
    Message { text: String, head: Option<Head>, event: Option<SseEvent> },
    /// A response of HTTP without a body.
    Empty { status: u16 },
    /// The end of the connection, with the close code of a WebSocket.
    Closed { code: Option<u16>, reason: String },
    /// Nothing before the deadline.
    Nothing,
}

/// Why a connection was not opened.
#[derive(Clone, Debug)]
pub struct OpenError {
    pub message: String,
    /// Status of the response to a WebSocket upgrade.
    pub status: Option<u16>,
}

/// A connection, or a session of HTTP.
pub enum Channel {
    Lines(Lines),
    WebSocket(WebSocketChannel),
    Http(Box<HttpChannel>),
}

impl Received {
    const fn text(text: String) -> Self {
        Self::Message { text, head: None, event: None }
    }

    fn closed(reason: &str) -> Self {
        Self::Closed { code: None, reason: reason.to_owned() }
    }
}

impl OpenError {
    const fn new(message: String) -> Self {
        Self { message, status: None }
    }
}

impl Channel {
    /// Opens a connection. `token` is the bearer token of HTTP and of the WebSocket upgrade.
    pub fn open(
        endpoint: &Endpoint,
        token: Option<&str>,
        timeout: Duration,
    ) -> Result<Self, OpenError> {
        let failed = |error: io::Error| OpenError::new(format!("connect: {error}"));
        match &endpoint.transport {
            Transport::Tcp(address) => {
                let stream = ByteStream::connect(address, timeout).map_err(failed)?;
                Ok(Self::Lines(Lines::new(stream)))
            }
            Transport::Stdio { program, arguments } => {
                let stream = ByteStream::start(program, arguments).map_err(failed)?;
                Ok(Self::Lines(Lines::new(stream)))
            }
            Transport::WebSocket { address, path } => {
                let stream = ByteStream::connect(address, timeout).map_err(failed)?;
                WebSocketChannel::open(stream, address, path, token).map(Self::WebSocket)
            }
            Transport::Http { address, path } => {
                let channel = HttpChannel::new(address, path, token, timeout);
                Ok(Self::Http(Box::new(channel)))
            }
        }
    }

    /// Returns why no connection can be opened, if so.
    pub fn check_reachable(
        endpoint: &Endpoint,
        token: Option<&str>,
        timeout: Duration,
    ) -> Result<(), OpenError> {
        match &endpoint.transport {
            Transport::Http { address, .. } => ByteStream::connect(address, timeout)
                .map(drop)
                .map_err(|error| OpenError::new(format!("connect: {error}"))),
            _ => Self::open(endpoint, token, timeout).map(drop),
        }
    }

    /// Sends a text, which need not be UTF-8.
    pub fn send(&mut self, text: &[u8]) -> io::Result<()> {
        match self {
            Self::Lines(lines) => lines.send(text),
            Self::WebSocket(socket) => socket.send(text, true),
            Self::Http(channel) => channel.send(text),
        }
    }

    /// Sends the first part of a message, where the transport has such: lines and WebSocket.
    pub fn send_part(&mut self, text: &str) -> io::Result<()> {
        match self {
            Self::Lines(lines) => lines.send_part(text.as_bytes()),
            Self::WebSocket(socket) => socket.send(text.as_bytes(), false),
            Self::Http(_) => Ok(()),
        }
    }

    pub fn receive(&mut self, deadline: Deadline) -> Received {
        match self {
            Self::Lines(lines) => lines.receive(deadline),
            Self::WebSocket(socket) => socket.receive(deadline),
            Self::Http(channel) => channel.receive(deadline),
        }
    }

    /// Returns the session of HTTP.
    pub fn http(&mut self) -> Option<&mut HttpChannel> {
        match self {
            Self::Http(channel) => Some(channel),
            Self::Lines(_) | Self::WebSocket(_) => None,
        }
    }
}

/// Lines over TCP, TLS or pipes.
pub struct Lines {
    stream: ByteStream,
    input: Vec<u8>,
}

impl Lines {
    pub const fn new(stream: ByteStream) -> Self {
        Self { stream, input: Vec::new() }
    }

    pub fn send(&mut self, text: &[u8]) -> io::Result<()> {
        self.send_part(&[text, b"\n"].concat())
    }

    /// Sends a part of a line.
    pub fn send_part(&mut self, text: &[u8]) -> io::Result<()> {
        self.stream.write_all(text)?;
        self.stream.flush()
    }

    pub fn receive(&mut self, deadline: Deadline) -> Received {
        loop {
            if let Some(end) = memchr(b'\n', &self.input) {
                let line: Vec<u8> = self.input.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line[..end]).trim_end().to_owned();
                if line.is_empty() {
                    continue;
                }
                return Received::text(line);
            }
            if self.input.len() > MESSAGE_BYTES_MAX {
                return Received::closed("the server sent a line that is too long");
            }
            match self.stream.read_within(deadline.left()) {
                Ok(None) if deadline.is_over() => return Received::Nothing,
                Ok(None) => {}
                Ok(Some(bytes)) if bytes.is_empty() => return Received::closed("end of stream"),
                Ok(Some(bytes)) => self.input.extend_from_slice(&bytes),
                Err(error) => return Received::closed(&error.to_string()),
            }
        }
    }
}

/// A WebSocket after its upgrade.
pub struct WebSocketChannel {
    socket: Box<WebSocket<ByteStream>>,
}

impl WebSocketChannel {
    /// Makes the upgrade request.
    pub fn open(
        stream: ByteStream,
        address: &Address,
        path: &str,
        token: Option<&str>,
    ) -> Result<Self, OpenError> {
        let invalid = |error: &dyn std::fmt::Display| OpenError::new(format!("upgrade: {error}"));
        let url = format!("ws://{}{path}", address.authority());
        let mut request = url.into_client_request().map_err(|error| invalid(&error))?;
        if let Some(token) = token {
            let value = HeaderValue::from_str(&format!("Bearer {token}"));
            let value = value.map_err(|error| invalid(&error))?;
            request.headers_mut().insert("authorization", value);
        }
        match tungstenite::client(request, stream) {
            Ok((socket, _)) => Ok(Self { socket: Box::new(socket) }),
            Err(HandshakeError::Failure(Error::Http(response))) => {
                let status = response.status().as_u16();
                Err(OpenError { status: Some(status), ..invalid(&format!("status {status}")) })
            }
            Err(HandshakeError::Failure(error)) => Err(invalid(&error)),
            Err(HandshakeError::Interrupted(_)) => Err(invalid(&"no response in time")),
        }
    }

    /// Sends a text message, or its first frame.
    pub fn send(&mut self, text: &[u8], is_final: bool) -> io::Result<()> {
        let frame = Frame::message(text.to_vec(), OpCode::Data(Data::Text), is_final);
        self.socket.send(Message::Frame(frame)).map_err(io::Error::other)
    }

    pub fn receive(&mut self, deadline: Deadline) -> Received {
        loop {
            let limited = self.socket.get_mut().set_read_timeout(deadline.left());
            if let Err(error) = limited {
                return Received::closed(&error.to_string());
            }
            match self.socket.read() {
                Ok(Message::Text(text)) => return Received::text(text.to_string()),
                Ok(Message::Close(frame)) => {
                    let code = frame.as_ref().map(|frame| frame.code.into());
                    let reason = frame.map(|frame| frame.reason.to_string()).unwrap_or_default();
                    return Received::Closed { code, reason };
                }
                Ok(Message::Binary(_)) => return Received::text("(a binary message)".to_owned()),
                Ok(_) => {}
                Err(Error::Io(error)) if is_timeout(&error) => {
                    if deadline.is_over() {
                        return Received::Nothing;
                    }
                }
                Err(error) => return Received::closed(&error.to_string()),
            }
        }
    }
}
