//! A scripted server: parses requests over each transport and responds with the bytes of a test.
//!
//! It has a thread for each connection and runs until the end of the test process. It performs
//! handshakes itself, unless created by [`ScriptedServer::without_handshake`].

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use corelane_load::target::Transport;
use serde_json::{Value, json};
use tungstenite::handshake::derive_accept_key;

/// A request received by the server.
pub(crate) struct ReceivedRequest<'a> {
    /// Index of the connection, in the order of acceptance.
    pub(crate) connection: usize,
    /// Index of the request on this connection, without handshakes.
    pub(crate) number: usize,
    /// The request.
    pub(crate) call: &'a Value,
    /// Value of `Authorization` of the request, or of the upgrade.
    pub(crate) authorization: Option<&'a str>,
}

/// The reaction to a request.
pub(crate) enum Reaction {
    /// Sends these bytes.
    Send(Vec<u8>),
    /// Sends these bytes and closes the connection.
    SendAndClose(Vec<u8>),
    /// Accepts the upgrade to WebSocket.
    Upgrade,
}

type Answer = dyn Fn(&ReceivedRequest<'_>) -> Reaction + Send + Sync;

/// The server.
pub(crate) struct ScriptedServer {
    transport: Transport,
    address: SocketAddr,
    counts: Arc<Counts>,
}

/// Counts of all connections.
#[derive(Debug, Default)]
struct Counts {
    connections: AtomicU64,
    cancelled: AtomicU64,
}

impl ScriptedServer {
    /// Starts a server that performs handshakes, and responds to requests with `answer`.
    pub(crate) fn new(
        transport: Transport,
        answer: impl Fn(&ReceivedRequest<'_>) -> Reaction + Send + Sync + 'static,
    ) -> Self {
        Self::start(transport, true, Arc::new(answer))
    }

    /// Starts a server that responds to handshakes, too, with `answer`; `call` is null for an
    /// upgrade.
    pub(crate) fn without_handshake(
        transport: Transport,
        answer: impl Fn(&ReceivedRequest<'_>) -> Reaction + Send + Sync + 'static,
    ) -> Self {
        Self::start(transport, false, Arc::new(answer))
    }

    fn start(transport: Transport, is_polite: bool, answer: Arc<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let counts = Arc::new(Counts::default());
        let shared = Arc::clone(&counts);
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                let Ok(stream) = stream else { return };
                let (answer, counts) = (Arc::clone(&answer), Arc::clone(&shared));
                counts.connections.fetch_add(1, Ordering::Relaxed);
                std::thread::spawn(move || {
                    let connection = ScriptedConnection::new(stream, transport, number, counts);
                    // An I/O error ends only this connection.
                    connection
                        .and_then(|mut connection| connection.serve(is_polite, &*answer))
                        .unwrap_or(());
                });
            }
        });
        Self { transport, address, counts }
    }

    /// Returns the number of connections so far.
    pub(crate) fn connections(&self) -> u64 {
        self.counts.connections.load(Ordering::Relaxed)
    }

    /// Returns the number of cancellations so far.
    pub(crate) fn cancelled(&self) -> u64 {
        self.counts.cancelled.load(Ordering::Relaxed)
    }

    /// Returns the target of a plan.
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
struct ScriptedConnection {
    transport: Transport,
    connection: usize,
    reader: BufReader<TcpStream>,
    writer: TcpStream,
    /// `Sec-WebSocket-Key` of the last request.
    key: String,
    /// `Authorization` of the last request.
    authorization: Option<String>,
    counts: Arc<Counts>,
}

impl ScriptedConnection {
    fn new(
        stream: TcpStream,
        transport: Transport,
        connection: usize,
        counts: Arc<Counts>,
    ) -> std::io::Result<Self> {
        stream.set_nodelay(true)?;
        let writer = stream.try_clone()?;
        let (reader, key) = (BufReader::new(stream), String::new());
        let authorization = None;
        Ok(Self { transport, connection, reader, writer, key, authorization, counts })
    }

    fn serve(&mut self, is_polite: bool, answer: &Answer) -> std::io::Result<()> {
        let connection = self.connection;
        if self.transport == Transport::WebSocket {
            self.read_head()?;
            let authorization = self.authorization.as_deref();
            let request =
                ReceivedRequest { connection, number: 0, call: &Value::Null, authorization };
            let reaction = if is_polite { Reaction::Upgrade } else { answer(&request) };
            if !self.perform(reaction)? {
                return Ok(());
            }
        }
        let mut number = 0;
        while let Some(text) = self.read_text()? {
            let Ok(call) = serde_json::from_slice::<Value>(&text) else { return Ok(()) };
            let is_cancellation = call["method"] == "notifications/cancelled";
            self.counts.cancelled.fetch_add(u64::from(is_cancellation), Ordering::Relaxed);
            let is_greeting = call["method"] == "initialize" || call.get("id").is_none();
            let reaction = if is_greeting && is_polite {
                Reaction::Send(handshake_response(self.transport, &call))
            } else {
                let authorization = self.authorization.as_deref();
                answer(&ReceivedRequest { connection, number, call: &call, authorization })
            };
            number += usize::from(!is_greeting);
            if !self.perform(reaction)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Performs the reaction, and returns whether the connection stays open.
    fn perform(&mut self, reaction: Reaction) -> std::io::Result<bool> {
        let (bytes, goes_on) = match reaction {
            Reaction::Send(bytes) => (bytes, true),
            Reaction::SendAndClose(bytes) => (bytes, false),
            Reaction::Upgrade => (upgraded(&self.key), true),
        };
        self.writer.write_all(&bytes)?;
        if !goes_on {
            self.writer.shutdown(std::net::Shutdown::Write)?;
        }
        Ok(goes_on)
    }

    /// Reads the next message, or `None` at the end.
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

    /// Reads the head of a request, and returns its content length.
    fn read_head(&mut self) -> std::io::Result<usize> {
        let mut length = 0;
        loop {
            let mut line = String::new();
            self.reader.read_line(&mut line)?;
            let line = line.trim_end();
            if line.is_empty() {
                return Ok(length);
            }
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            match &*name.to_ascii_lowercase() {
                "content-length" => length = value.trim().parse().unwrap(),
                "authorization" => self.authorization = Some(value.trim().to_owned()),
                "sec-websocket-key" => value.trim().clone_into(&mut self.key),
                _ => {}
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

/// Returns the response to an upgrade (RFC 6455 section 4.2.2).
pub(crate) fn upgraded(key: &str) -> Vec<u8> {
    let accept = derive_accept_key(key.as_bytes());
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: mcp\r\n\r\n"
    )
    .into_bytes()
}

/// Returns the response to a message of a handshake.
pub(crate) fn handshake_response(transport: Transport, call: &Value) -> Vec<u8> {
    if call["type"] == "handshake" {
        let ack = json!({ "type": "handshakeAck", "protocolVersion": "1.0", "sessionId": "s",
            "capabilities": call["capabilities"] });
        return framed(transport, &ack.to_string());
    }
    match call.get("id") {
        Some(id) => {
            let result = json!({ "protocolVersion": "2025-11-25", "capabilities": {},
                "serverInfo": { "name": "stranger", "version": "1" } });
            framed(transport, &json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string())
        }
        None if transport == Transport::Http => {
            b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n".to_vec()
        }
        None => Vec::new(),
    }
}

/// Frames a message for the transport.
pub(crate) fn framed(transport: Transport, text: &str) -> Vec<u8> {
    match transport {
        Transport::Http => response("200 OK", text),
        Transport::WebSocket => frame(0x81, text.as_bytes()),
        _ => format!("{text}\n").into_bytes(),
    }
}

/// Returns an HTTP response with a body.
pub(crate) fn response(status: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n\
         {body}"
    )
    .into_bytes()
}

/// Returns a server frame with this first byte.
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

/// Returns the correct response to a call of `echo`.
pub(crate) fn echo_response(call: &Value) -> String {
    let content = json!([{ "type": "text", "text": call["params"]["arguments"]["message"] }]);
    let result = json!({ "content": content });
    json!({ "jsonrpc": "2.0", "id": call["id"], "result": result }).to_string()
}
