//! Messages over each transport, as a server reads and writes them.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;

use corelane_load::target::Transport;
use tungstenite::handshake::derive_accept_key;

/// Session id of all HTTP sessions.
const SESSION: &str = "truth";

/// What a client sent.
#[derive(Debug)]
pub(super) enum Input {
    /// A message.
    Message(Vec<u8>),
    /// The upgrade to WebSocket, with its response.
    Upgrade(String),
    /// An HTTP request other than POST.
    OtherRequest,
}

/// An HTTP request.
struct HttpRequest {
    verb: String,
    /// `Sec-WebSocket-Key`.
    key: Option<String>,
    body: Vec<u8>,
}

/// Reads what a client sends over one connection.
#[derive(Debug)]
pub(super) struct InputReader {
    transport: Transport,
    is_upgraded: bool,
    /// Whether the last HTTP request was in the session.
    pub(super) is_in_session: bool,
    stream: BufReader<TcpStream>,
}

impl InputReader {
    pub(super) fn new(transport: Transport, stream: TcpStream) -> Self {
        let stream = BufReader::new(stream);
        Self { transport, is_upgraded: false, is_in_session: false, stream }
    }

    /// Returns the next input, or `None` at the end.
    pub(super) fn next(&mut self) -> Option<Input> {
        match self.transport {
            Transport::WebSocket if self.is_upgraded => self.read_frame().map(Input::Message),
            Transport::WebSocket => {
                self.is_upgraded = true;
                Some(Input::Upgrade(upgraded(&self.read_http()?.key?)))
            }
            Transport::Http => {
                let HttpRequest { verb, body, .. } = self.read_http()?;
                Some(if verb == "POST" { Input::Message(body) } else { Input::OtherRequest })
            }
            Transport::Tcp | Transport::Stdio => self.read_line().map(Input::Message),
        }
    }

    fn read_line(&mut self) -> Option<Vec<u8>> {
        let mut line = Vec::new();
        (self.stream.read_until(b'\n', &mut line).ok()? > 0).then_some(line)
    }

    fn read_exact(&mut self, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes).ok()?;
        Some(bytes)
    }

    fn read_http(&mut self) -> Option<HttpRequest> {
        let (mut verb, mut key, mut length) = (String::new(), None, 0);
        self.is_in_session = false;
        loop {
            let line = String::from_utf8(self.read_line()?).ok()?;
            if verb.is_empty() {
                line.split(' ').next()?.clone_into(&mut verb);
            }
            let (name, value) = line.split_once(':').unwrap_or_default();
            match &*name.to_ascii_lowercase() {
                "content-length" => length = value.trim().parse().ok()?,
                "mcp-session-id" => self.is_in_session = value.trim() == SESSION,
                "sec-websocket-key" => key = Some(value.trim().to_owned()),
                _ => {}
            }
            if line == "\r\n" {
                break;
            }
        }
        Some(HttpRequest { verb, key, body: self.read_exact(length)? })
    }

    /// Returns the payload of a masked frame of less than 64 KiB.
    fn read_frame(&mut self) -> Option<Vec<u8>> {
        let mut length = usize::from(self.read_exact(2)?[1] & 0x7F);
        if length == 126 {
            let longer = self.read_exact(2)?;
            length = usize::from(u16::from_be_bytes([longer[0], longer[1]]));
        }
        let mask = self.read_exact(4)?;
        let mut payload = self.read_exact(length)?;
        payload.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, key)| *byte ^= key);
        Some(payload)
    }
}

/// Returns the response to an upgrade (RFC 6455, section 4.2.2).
fn upgraded(key: &str) -> String {
    let accept = derive_accept_key(key.as_bytes());
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: mcp\r\n\r\n"
    )
}

/// Adds the session id to an HTTP response.
pub(super) fn add_session(response: Vec<u8>) -> Vec<u8> {
    let response = String::from_utf8(response).unwrap();
    let end = format!("\r\nMcp-Session-Id: {SESSION}\r\n\r\n");
    response.replacen("\r\n\r\n", &end, 1).into_bytes()
}

/// Frames a message of less than 64 KiB.
pub(super) fn frame(transport: Transport, text: &str) -> Vec<u8> {
    match transport {
        Transport::Http => format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{text}",
            text.len()
        )
        .into_bytes(),
        Transport::WebSocket => {
            let length = u16::try_from(text.len()).unwrap();
            let header = match u8::try_from(length) {
                Ok(length @ 0..126) => vec![0x81, length],
                _ => [&[0x81, 126][..], &length.to_be_bytes()].concat(),
            };
            [&header, text.as_bytes()].concat()
        }
        Transport::Tcp | Transport::Stdio => format!("{text}\n").into_bytes(),
    }
}
