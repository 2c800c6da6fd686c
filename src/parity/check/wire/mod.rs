//! Messages over each transport, with blocking sockets and timeouts.

pub mod byte_stream;

pub mod exchange;
mod lines;
mod proxy;
mod websocket;

pub mod http;

use std::io;
use std::time::Duration;

use self::byte_stream::ByteStream;
use self::exchange::SseEvent;
use self::http::HttpChannel;
use self::lines::Lines;
use self::websocket::WebSocketChannel;
use super::deadline::Deadline;
use super::endpoint::{Endpoint, Transport};

/// Longest message or body that is accepted.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// What a server has sent.
#[derive(Clone, Debug)]
pub enum Received {
    /// A message: with HTTP also the status of its response, and the event that it came in.
    Message { text: String, status: Option<u16>, event: Option<SseEvent> },
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
        Self::Message { text, status: None, event: None }
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

    pub fn send(&mut self, text: &str) -> io::Result<()> {
        match self {
            Self::Lines(lines) => lines.send(text),
            Self::WebSocket(socket) => socket.send(text),
            Self::Http(channel) => channel.send(text),
        }
    }

    /// Sends a part of a message, where the transport has such: lines.
    pub fn send_part(&mut self, text: &str) -> io::Result<()> {
        match self {
            Self::Lines(lines) => lines.send_part(text),
            Self::WebSocket(_) | Self::Http(_) => Ok(()),
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
