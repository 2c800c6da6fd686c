//! A server that is not ours: it understands what it is asked, over each transport, and answers
//! with whatever bytes a test makes of it.
//!
//! It has a thread for each connection and ends with the process of the test. Handshakes it gets
//! right by itself, so that a test speaks of what follows; one that is about handshakes takes them
//! in its own hands with [`Stranger::rude`].

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use corelane_load::target::Transport;
use serde_json::{Value, json};

/// What a server says to the generator's key (RFC 6455 section 4.2.2).
const ACCEPT: &str = "mY3BX7hrNcyiYHhxDOajVqtUBxM=";

/// What it was asked.
pub(crate) struct Asked<'a> {
    /// The connection, in the order in which they came, from zero.
    pub(crate) connection: usize,
    /// The request on this connection, from zero; handshakes do not count.
    pub(crate) number: usize,
    /// The request.
    pub(crate) call: &'a Value,
}

/// What it does about it.
pub(crate) enum Deed {
    /// It sends these bytes, or nothing.
    Say(Vec<u8>),
    /// It sends these bytes and closes the connection.
    Leave(Vec<u8>),
}

type Answer = dyn Fn(&Asked<'_>) -> Deed + Send + Sync;

/// The server.
pub(crate) struct Stranger {
    transport: Transport,
    address: SocketAddr,
}

impl Stranger {
    /// One that shakes hands and answers requests like this.
    pub(crate) fn new(
        transport: Transport,
        answer: impl Fn(&Asked<'_>) -> Deed + Send + Sync + 'static,
    ) -> Self {
        Self::start(transport, true, Arc::new(answer))
    }

    /// One that answers handshakes like this, upgrades among them: `call` is null for those.
    pub(crate) fn rude(
        transport: Transport,
        answer: impl Fn(&Asked<'_>) -> Deed + Send + Sync + 'static,
    ) -> Self {
        Self::start(transport, false, Arc::new(answer))
    }

    fn start(transport: Transport, is_polite: bool, answer: Arc<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                let Ok(stream) = stream else { return };
                let answer = Arc::clone(&answer);
                std::thread::spawn(move || {
                    let guest = Guest::new(stream, transport, number);
                    // A peer that goes away ends its guest and nothing else.
                    guest.and_then(|mut guest| guest.serve(is_polite, &*answer)).unwrap_or(());
                });
            }
        });
        Self { transport, address }
    }

    /// What names it.
    pub(crate) fn target(&self) -> String {
        let scheme = match self.transport {
            Transport::Http => "http",
            Transport::WebSocket => "ws",
            _ => "tcp",
        };
        format!("{scheme}://{}", self.address)
    }
}

/// One connection.
struct Guest {
    transport: Transport,
    connection: usize,
    reader: BufReader<TcpStream>,
    writer: TcpStream,
}

impl Guest {
    fn new(stream: TcpStream, transport: Transport, connection: usize) -> std::io::Result<Self> {
        stream.set_nodelay(true)?;
        let writer = stream.try_clone()?;
        Ok(Self { transport, connection, reader: BufReader::new(stream), writer })
    }

    fn serve(&mut self, is_polite: bool, answer: &Answer) -> std::io::Result<()> {
        let connection = self.connection;
        if self.transport == Transport::WebSocket {
            self.read_head()?;
            let asked = Asked { connection, number: 0, call: &Value::Null };
            let deed = if is_polite { Deed::Say(upgraded()) } else { answer(&asked) };
            if !self.carry_out(deed)? {
                return Ok(());
            }
        }
        let mut number = 0;
        while let Some(text) = self.read_text()? {
            let Ok(call) = serde_json::from_slice::<Value>(&text) else { return Ok(()) };
            let is_greeting = call["method"] == "initialize" || call.get("id").is_none();
            let deed = if is_greeting && is_polite {
                Deed::Say(greet(self.transport, &call))
            } else {
                answer(&Asked { connection, number, call: &call })
            };
            number += usize::from(!is_greeting);
            if !self.carry_out(deed)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Does it; whether the connection goes on.
    fn carry_out(&mut self, deed: Deed) -> std::io::Result<bool> {
        let (bytes, goes_on) = match deed {
            Deed::Say(bytes) => (bytes, true),
            Deed::Leave(bytes) => (bytes, false),
        };
        self.writer.write_all(&bytes)?;
        if !goes_on {
            self.writer.shutdown(std::net::Shutdown::Write)?;
        }
        Ok(goes_on)
    }

    /// The next message; none at the end.
    fn read_text(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        let mut text = Vec::new();
        match self.transport {
            Transport::Http => {
                let length = self.read_head()?;
                text.resize(length, 0);
                self.reader.read_exact(&mut text)?;
            }
            Transport::WebSocket => text = self.read_frame()?,
            _ => drop(self.reader.read_until(b'\n', &mut text)?),
        }
        Ok((!text.is_empty()).then_some(text))
    }

    /// The head of a request; how long its body is.
    fn read_head(&mut self) -> std::io::Result<usize> {
        let mut length = 0;
        loop {
            let mut line = String::new();
            self.reader.read_line(&mut line)?;
            let line = line.trim_end().to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line.is_empty() {
                return Ok(length);
            }
        }
    }

    fn read_frame(&mut self) -> std::io::Result<Vec<u8>> {
        let mut header = [0; 2];
        self.reader.read_exact(&mut header)?;
        let mut length = usize::from(header[1] & 0x7F);
        if length == 126 {
            let mut longer = [0; 2];
            self.reader.read_exact(&mut longer)?;
            length = usize::from(u16::from_be_bytes(longer));
        }
        let mut mask = [0; 4];
        self.reader.read_exact(&mut mask)?;
        let mut text = vec![0; length];
        self.reader.read_exact(&mut text)?;
        text.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, key)| *byte ^= key);
        Ok(text)
    }
}

/// The answer to an upgrade.
pub(crate) fn upgraded() -> Vec<u8> {
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {ACCEPT}\r\nSec-WebSocket-Protocol: mcp\r\n\r\n"
    )
    .into_bytes()
}

fn greet(transport: Transport, call: &Value) -> Vec<u8> {
    match call.get("id") {
        Some(id) => {
            let result = json!({ "protocolVersion": "2025-11-25", "capabilities": {},
                "serverInfo": { "name": "stranger", "version": "1" } });
            said(transport, &json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string())
        }
        None if transport == Transport::Http => {
            b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n".to_vec()
        }
        None => Vec::new(),
    }
}

/// A message as this transport carries it.
pub(crate) fn said(transport: Transport, text: &str) -> Vec<u8> {
    match transport {
        Transport::Http => response("200 OK", text),
        Transport::WebSocket => frame(0x81, text.as_bytes()),
        _ => format!("{text}\n").into_bytes(),
    }
}

/// A response of HTTP with a body.
pub(crate) fn response(status: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n\
         {body}"
    )
    .into_bytes()
}

/// A frame of a server, with these first eight bits.
pub(crate) fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    if let Ok(length @ 0..126) = u8::try_from(payload.len()) {
        frame.push(length);
    } else {
        frame.push(126);
        frame.extend_from_slice(&u16::try_from(payload.len()).unwrap().to_be_bytes());
    }
    frame.extend_from_slice(payload);
    frame
}

/// The right answer to a call of `echo`.
pub(crate) fn right(call: &Value) -> String {
    let content = json!([{ "type": "text", "text": call["params"]["arguments"]["message"] }]);
    let result = json!({ "content": content });
    json!({ "jsonrpc": "2.0", "id": call["id"], "result": result }).to_string()
}
