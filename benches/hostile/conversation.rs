//! A connection of an honest client: one request at a time.

use std::fmt::Debug;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use corelane_bench_support::frames::{self, Frame};
use corelane_bench_support::requests::{self, INITIALIZE, INITIALIZED, SESSION_BYTES};
use corelane_bench_support::responses::Response;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::sockets;

/// Time after which a request has failed.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Start of a notification.
const NOTIFICATION: &[u8] = br#"{"jsonrpc":"2.0","method":"#;

/// How messages are delimited.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Framing {
    /// Lines over TCP.
    Lines,
    /// POST requests over a persistent connection.
    Http,
    /// WebSocket frames.
    Frames,
}

/// Listeners of the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addresses {
    pub(crate) tcp: SocketAddr,
    pub(crate) http: SocketAddr,
}

impl Addresses {
    /// Returns the listener for a framing.
    pub(crate) const fn of(&self, framing: Framing) -> SocketAddr {
        match framing {
            Framing::Lines => self.tcp,
            Framing::Http | Framing::Frames => self.http,
        }
    }
}

/// The server as honest clients reach it.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    pub(crate) addresses: Addresses,
    /// Address of the honest clients.
    pub(crate) from: IpAddr,
    /// How the HTTP listener is reached if it is encrypted.
    pub(crate) tls: Option<Arc<ClientConfig>>,
}

/// A byte stream, with or without TLS.
trait Stream: Read + Write + Send + Debug {}

impl<S: Read + Write + Send + Debug> Stream for S {}

/// An open connection, ready for calls.
#[derive(Debug)]
pub(crate) struct Conversation {
    stream: Box<dyn Stream>,
    framing: Framing,
    host: SocketAddr,
    /// Header field with the token, which each request over HTTP has.
    field: String,
    received: Vec<u8>,
    /// Session id, in the legacy era over HTTP.
    session: Option<[u8; SESSION_BYTES]>,
}

impl Conversation {
    /// Connects, upgrades to WebSocket, and completes the handshake of the legacy era if
    /// `has_session`.
    pub(crate) fn open(
        service: &Service,
        framing: Framing,
        has_session: bool,
        token: Option<&str>,
    ) -> io::Result<Self> {
        let host = service.addresses.of(framing);
        let from = SocketAddr::new(service.from, 0);
        let socket = sockets::connect(from, host, RESPONSE_TIMEOUT)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(RESPONSE_TIMEOUT))?;
        socket.set_write_timeout(Some(RESPONSE_TIMEOUT))?;
        let stream: Box<dyn Stream> = match &service.tls {
            Some(config) if framing != Framing::Lines => {
                let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
                let connection = ClientConnection::new(Arc::clone(config), name);
                Box::new(StreamOwned::new(connection.map_err(io::Error::other)?, socket))
            }
            _ => Box::new(socket),
        };
        let field = token.map_or_else(String::new, authorization_field);
        let mut opened = Self { stream, framing, host, field, received: Vec::new(), session: None };
        if framing == Framing::Frames {
            opened.upgrade()?;
        }
        if has_session {
            opened.initialize(token)?;
        }
        Ok(opened)
    }

    /// Returns the session id.
    pub(crate) const fn session(&self) -> Option<&[u8; SESSION_BYTES]> {
        self.session.as_ref()
    }

    /// Sends a request and returns the text of its response.
    pub(crate) fn exchange(&mut self, request: &[u8]) -> io::Result<Vec<u8>> {
        self.send(request)?;
        loop {
            let text = self.receive_text()?;
            if !text.starts_with(NOTIFICATION) {
                return Ok(text);
            }
        }
    }

    /// Sends a request and returns the next message.
    pub(crate) fn exchange_any(&mut self, request: &[u8]) -> io::Result<Vec<u8>> {
        self.send(request)?;
        self.receive_text()
    }

    fn receive_text(&mut self) -> io::Result<Vec<u8>> {
        let framing = self.framing;
        self.receive(|received| match framing {
            Framing::Lines => {
                let end = received.iter().position(|byte| *byte == b'\n');
                Ok(end.map(|end| (received[..end].to_vec(), end + 1)))
            }
            Framing::Http => {
                let Some(response) = Response::read(received)? else { return Ok(None) };
                response.expect(200)?;
                Ok(Some((response.body.to_vec(), response.bytes())))
            }
            Framing::Frames => {
                let frame = Frame::read(received)?;
                Ok(frame.map(|frame| (frame.text.to_vec(), frame.bytes.len())))
            }
        })
    }

    fn upgrade(&mut self) -> io::Result<()> {
        let upgrade = String::from_utf8(frames::upgrade(self.host)).map_err(io::Error::other)?;
        self.send(upgrade.replacen("\r\n", &format!("\r\n{}", self.field), 1).as_bytes())?;
        self.receive(|received| {
            let is_upgraded = frames::is_upgraded(received)?;
            Ok(is_upgraded.then_some(((), received.len())))
        })
    }

    fn initialize(&mut self, token: Option<&str>) -> io::Result<()> {
        match self.framing {
            Framing::Lines => {
                let initialize = token.map_or_else(
                    || INITIALIZE.to_owned(),
                    |token| {
                        let params = format!(r#""params":{{"auth_token":"{token}","#);
                        INITIALIZE.replacen(r#""params":{"#, &params, 1)
                    },
                );
                self.exchange(initialize.as_bytes())?;
                self.send(INITIALIZED.as_bytes())
            }
            Framing::Frames => {
                self.exchange(&frames::masked(INITIALIZE))?;
                self.send(&frames::masked(INITIALIZED))
            }
            Framing::Http => {
                self.send(requests::post(self.host, &self.field, INITIALIZE).as_bytes())?;
                let session = self.receive(|received| {
                    let Some(response) = Response::read(received)? else { return Ok(None) };
                    response.expect(200)?;
                    let id = response.field("mcp-session-id").and_then(|id| id.try_into().ok());
                    let id = id.ok_or_else(|| io::Error::other("no Mcp-Session-Id"))?;
                    Ok(Some((id, response.bytes())))
                })?;
                self.session = Some(session);
                let fields = requests::legacy_fields(&String::from_utf8_lossy(&session));
                let fields = fields + &self.field;
                self.send(requests::post(self.host, &fields, INITIALIZED).as_bytes())?;
                self.receive(|received| {
                    let Some(response) = Response::read(received)? else { return Ok(None) };
                    response.expect(202)?;
                    Ok(Some(((), response.bytes())))
                })
            }
        }
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).map_err(|error| failed(&error, "not read"))
    }

    /// Reads until `parse` returns a value and the number of its bytes.
    fn receive<T>(
        &mut self,
        mut parse: impl FnMut(&[u8]) -> io::Result<Option<(T, usize)>>,
    ) -> io::Result<T> {
        loop {
            if let Some((value, bytes)) = parse(&self.received)? {
                self.received.drain(..bytes);
                return Ok(value);
            }
            let mut chunk = [0; 16 << 10];
            let read = self.stream.read(&mut chunk);
            let length = read.map_err(|error| failed(&error, "no response"))?;
            if length == 0 {
                let rest = String::from_utf8_lossy(&self.received);
                return Err(io::Error::other(format!("the server closed the connection; {rest}")));
            }
            self.received.extend_from_slice(&chunk[..length]);
        }
    }
}

/// Returns the header field with a token.
pub(crate) fn authorization_field(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

/// Names a timeout; other errors keep their text.
fn failed(error: &io::Error, what: &str) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            io::Error::other(format!("{what} within {} s", RESPONSE_TIMEOUT.as_secs()))
        }
        _ => io::Error::other(error.to_string()),
    }
}
