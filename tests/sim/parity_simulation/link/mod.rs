//! Transports of a client: lines over TCP or pipes, WebSocket, HTTP with Server-Sent Events.

mod http;
mod http_reader;
mod websocket;

use std::time::Duration;

use corelane_base::random::Random;
use corelane_engine::ring::sim::World;

use self::http::HttpLink;
use self::websocket::WebSocketLink;
use crate::harness::socket::ClientSocket;
use crate::parity_simulation::server::{HTTP_ADDRESS, TCP_ADDRESS};

/// The kind of a transport.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Carrier {
    /// Newline-delimited messages over TCP.
    Tcp,
    /// Newline-delimited messages over two pipes.
    Pipes,
    /// One text message each.
    WebSocket,
    /// Posted messages, and an event stream.
    Http,
}

/// How a client reads.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Reading {
    /// At once.
    Eager,
    /// So many bytes in each interval.
    Slow(usize, Duration),
    /// Not at all.
    Stopped,
}

impl Reading {
    fn apply(self, socket: &ClientSocket) {
        match self {
            Self::Eager => socket.read_eagerly(),
            Self::Slow(bytes, every) => socket.read_slowly(bytes, every),
            Self::Stopped => socket.stop_reading(),
        }
    }
}

/// A message to the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing<'a> {
    /// Its text.
    pub(crate) text: &'a str,
    /// Over HTTP: the response may be an event stream.
    pub(crate) accepts_events: bool,
    /// Over HTTP: it belongs to no session, as the first handshake.
    pub(crate) is_first: bool,
}

/// One transport.
#[derive(Debug)]
pub(crate) enum Link {
    Lines(LineLink),
    WebSocket(Box<WebSocketLink>),
    Http(HttpLink),
}

/// Lines over a socket.
#[derive(Debug)]
pub(crate) struct LineLink {
    socket: ClientSocket,
    partial: Vec<u8>,
}

impl Link {
    /// Connects; over HTTP the first message does.
    pub(crate) fn open(carrier: Carrier, world: &World, random: &mut Random) -> Self {
        match carrier {
            Carrier::Tcp | Carrier::Pipes => {
                Self::of_lines(ClientSocket::stream(world.connect(TCP_ADDRESS)))
            }
            Carrier::WebSocket => {
                let socket = ClientSocket::stream(world.connect(HTTP_ADDRESS));
                Self::WebSocket(Box::new(WebSocketLink::open(socket, random)))
            }
            Carrier::Http => Self::Http(HttpLink::default()),
        }
    }

    /// Lines over a connected socket.
    pub(crate) fn of_lines(socket: ClientSocket) -> Self {
        socket.read_eagerly();
        Self::Lines(LineLink { socket, partial: Vec::new() })
    }

    /// Sends a message.
    pub(crate) fn send(&mut self, message: Outgoing<'_>, world: &World, random: &mut Random) {
        match self {
            Self::Lines(lines) => lines.socket.write(format!("{}\n", message.text).as_bytes()),
            Self::WebSocket(socket) => socket.send_text(message.text, random),
            Self::Http(http) => http.post(message, world, random),
        }
    }

    /// Sends the beginning of a message, and no more.
    pub(crate) fn send_half(&mut self, text: &str, world: &World) {
        let half = &text[..text.len() / 2];
        match self {
            Self::Lines(lines) => lines.socket.write(half.as_bytes()),
            Self::WebSocket(socket) => socket.send_half(half),
            Self::Http(http) => http.post_half(text, world),
        }
    }

    /// Over HTTP: opens the event stream of the session, or makes a handshake by this query.
    pub(crate) fn open_events(&mut self, query: Option<&str>, world: &World) {
        if let Self::Http(http) = self {
            http.open_events(query, world);
        }
    }

    /// Over HTTP: ends the session.
    pub(crate) fn end_session(&mut self, world: &World) {
        if let Self::Http(http) = self {
            http.end_session(world);
        }
    }

    /// Takes the messages that have arrived.
    ///
    /// # Errors
    ///
    /// The server has sent something else.
    pub(crate) fn receive(&mut self, random: &mut Random) -> Result<Vec<Vec<u8>>, String> {
        match self {
            Self::Lines(lines) => {
                lines.partial.extend(lines.socket.take_received());
                let mut messages = Vec::new();
                while let Some(end) = memchr::memchr(b'\n', &lines.partial) {
                    let mut line: Vec<u8> = lines.partial.drain(..=end).collect();
                    line.pop();
                    messages.push(line);
                }
                Ok(messages)
            }
            Self::WebSocket(socket) => socket.receive(random),
            Self::Http(http) => http.receive(),
        }
    }

    /// Returns whether it has ended, or lost a response.
    pub(crate) fn has_ended(&self) -> bool {
        match self {
            Self::Lines(LineLink { socket, .. }) => socket.is_reset() || socket.has_ended(),
            Self::WebSocket(socket) => socket.has_ended(),
            Self::Http(http) => http.is_broken,
        }
    }

    /// Returns whether nothing more comes: over HTTP every request has its response, and the event
    /// stream has ended.
    pub(crate) fn is_over(&self) -> bool {
        match self {
            Self::Lines(_) | Self::WebSocket(_) => self.has_ended(),
            Self::Http(http) => !http.owes_responses() && !http.has_events(),
        }
    }

    /// Returns whether everything that was sent over HTTP has its response.
    pub(crate) fn is_answered(&self) -> bool {
        !matches!(self, Self::Http(http) if http.owes_responses())
    }

    /// Returns whether chunks can arrive: over HTTP there is an event stream.
    pub(crate) fn has_events(&self) -> bool {
        !matches!(self, Self::Http(http) if !http.has_events())
    }

    /// Returns the number of requests for an event stream that the server may read from now on.
    pub(crate) fn unread_events(&self) -> usize {
        match self {
            Self::Lines(_) | Self::WebSocket(_) => 0,
            Self::Http(http) => http.unread_events(),
        }
    }

    /// Returns the WebSocket close code of the server.
    pub(crate) fn close_code(&self) -> Option<u16> {
        match self {
            Self::WebSocket(socket) => socket.close_code,
            Self::Lines(_) | Self::Http(_) => None,
        }
    }

    pub(crate) fn read(&mut self, reading: Reading) {
        match self {
            Self::Lines(lines) => reading.apply(&lines.socket),
            Self::WebSocket(socket) => reading.apply(&socket.socket),
            Self::Http(http) => http.read(reading),
        }
    }

    /// Closes it; `resets`: without regard for what is in flight.
    pub(crate) fn close(&mut self, resets: bool, random: &mut Random) {
        match self {
            Self::Lines(LineLink { socket, .. }) if resets => socket.reset(),
            Self::Lines(LineLink { socket, .. }) => socket.close(),
            Self::WebSocket(socket) => socket.close(resets, random),
            Self::Http(http) => http.close(resets),
        }
    }

    /// Describes its state for a failure report.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Lines(LineLink { socket, partial }) => {
                let (address, partial) = (socket.address(), partial.escape_ascii());
                format!("lines {address}, incomplete {partial}")
            }
            Self::WebSocket(socket) => socket.describe(),
            Self::Http(http) => http.describe(),
        }
    }
}
