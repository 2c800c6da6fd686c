//! `WebSocketClient`: a client over a blocking socket that can send invalid frames and checks every
//! message of the server.

use std::io::{self, BufReader, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;
use tungstenite::protocol::frame::coding::{Control, Data, OpCode};
use tungstenite::protocol::frame::{Frame, FrameSocket};

use crate::http::{BodyFraming, Request, ResponseHead};
use crate::messages::{LEGACY, MODERN, initialize_with_elicitation, notification};
use crate::schema_checker::SchemaChecker;
use crate::sockets;

/// The FIN bit and the opcodes of the first byte of a frame (RFC 6455, section 5.2).
pub const FIN: u8 = 0x80;
pub const CONTINUATION: u8 = 0x0;
pub const TEXT: u8 = 0x1;
pub const BINARY: u8 = 0x2;
pub const CLOSE: u8 = 0x8;
pub const PING: u8 = 0x9;
pub const PONG: u8 = 0xa;

/// The masking key of every frame. Its bytes differ and none is zero.
const MASKING_KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// One connection.
pub struct WebSocketClient {
    socket: FrameSocket<TcpStream>,
    checker: SchemaChecker,
}

/// Builds a valid upgrade request.
pub fn upgrade_request() -> Request {
    Request::new("GET", "/mcp/ws")
        .field("Upgrade", "websocket")
        .field("Connection", "Upgrade")
        .field("Sec-WebSocket-Version", "13")
        .field("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
}

/// Encodes a masked frame with this first byte.
pub fn encode_frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first];
    match payload.len() {
        length @ 0..126 => bytes.push(0x80 | u8::try_from(length).expect("below 126")),
        length @ 126..65_536 => {
            bytes.push(0xfe);
            bytes.extend(u16::try_from(length).expect("below 65,536").to_be_bytes());
        }
        length => {
            bytes.push(0xff);
            bytes.extend((length as u64).to_be_bytes());
        }
    }
    bytes.extend(MASKING_KEY);
    bytes.extend(payload.iter().zip(MASKING_KEY.iter().cycle()).map(|(byte, key)| byte ^ key));
    bytes
}

/// Encodes a text message in one frame.
#[expect(clippy::needless_pass_by_value, reason = "most callers pass a temporary")]
pub fn text_frame(text: impl ToString) -> Vec<u8> {
    encode_frame(FIN | TEXT, text.to_string().as_bytes())
}

impl WebSocketClient {
    /// Connects and upgrades.
    pub fn connect(address: SocketAddr) -> Self {
        Self::from_stream(sockets::connect(address))
    }

    /// Connects, upgrades and makes the MCP handshake in `revision`.
    pub fn initialize(address: SocketAddr, revision: &'static str) -> Self {
        Self::connect(address).handshake(revision)
    }

    /// Like [`Self::initialize`] in [`LEGACY`], with socket buffers of about `bytes` in each
    /// direction.
    pub fn initialize_with_buffers(address: SocketAddr, bytes: usize) -> Self {
        Self::from_stream(sockets::connect_with_buffers(address, bytes)).handshake(LEGACY)
    }

    /// Makes the MCP handshake in `revision`.
    pub fn handshake(self, revision: &'static str) -> Self {
        let mut peer = self.with_revision(revision);
        let response = peer.exchange(&initialize_with_elicitation(0, revision));
        assert_eq!(response["result"]["protocolVersion"], revision, "{response}");
        peer.send_message(&notification("notifications/initialized"));
        peer
    }

    fn from_stream(stream: TcpStream) -> Self {
        let (head, peer) = Self::upgrade(stream, &upgrade_request().bytes());
        // RFC 6455, section 1.3.
        assert_eq!(head.field("Sec-WebSocket-Accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        peer
    }

    /// Sends an upgrade request, with any bytes after it, and reads the response, which must have
    /// status 101.
    pub fn upgrade(mut stream: TcpStream, request: &[u8]) -> (ResponseHead, Self) {
        stream.write_all(request).expect("write to server");
        // Reads single bytes: frames follow the head.
        let mut reader = BufReader::with_capacity(1, stream);
        let head = ResponseHead::read(&mut reader).expect("read head").expect("no response");
        assert_eq!(head.status, 101, "{head:?}");
        assert_eq!(head.body_framing(), BodyFraming::None, "{head:?}");
        assert!(reader.buffer().is_empty());
        let socket = FrameSocket::new(reader.into_inner());
        (head, Self { socket, checker: SchemaChecker::new(MODERN, true) })
    }

    /// Checks messages against the schema of `revision` from now on.
    pub const fn with_revision(mut self, revision: &'static str) -> Self {
        self.checker.revision = revision;
        self
    }

    /// Returns a clone of the socket, for writing in another thread.
    pub fn clone_socket(&self) -> TcpStream {
        self.socket.get_ref().try_clone().expect("clone socket")
    }
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.socket.get_mut().write_all(bytes).expect("write to server");
    }

    /// Like [`Self::send_bytes`]; returns errors of the connection.
    pub fn try_send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.socket.get_mut().write_all(bytes)
    }

    /// Sends one frame.
    pub fn send(&mut self, first: u8, payload: &[u8]) {
        self.send_bytes(&encode_frame(first, payload));
    }

    pub fn send_message(&mut self, message: &Value) {
        self.register_request(message);
        self.send_bytes(&text_frame(message));
    }

    /// Records the ids and methods of a message, so that the response can be checked.
    pub fn register_request(&mut self, message: &Value) {
        self.checker.register(message);
    }

    pub fn register_requests(&mut self, messages: &[Value]) {
        for message in messages {
            self.register_request(message);
        }
    }

    /// Sends a message and reads the next one.
    pub fn exchange(&mut self, message: &Value) -> Value {
        self.send_message(message);
        self.read_message()
    }

    /// Reads the next frame, or returns `None` if the connection was closed in order.
    pub fn read_frame(&mut self) -> Option<Frame> {
        let frame = self.socket.read(None).expect("read frame")?;
        let header = frame.header();
        // The server does not fragment; a server must not mask (RFC 6455, section 5.1).
        assert!(header.is_final && header.mask.is_none(), "{frame}");
        Some(frame)
    }

    /// Reads a frame that must hold a message.
    pub fn read_message(&mut self) -> Value {
        let text = self.read_text();
        let message = serde_json::from_str(&text).unwrap_or_else(|_| panic!("not JSON: {text}"));
        self.checker.check(&message);
        message
    }

    /// Reads a text frame.
    pub fn read_text(&mut self) -> String {
        let frame = self.read_frame().expect("connection closed before a message");
        assert_eq!(frame.header().opcode, OpCode::Data(Data::Text), "{frame}");
        frame.to_text().expect("not UTF-8").to_owned()
    }

    /// Reads messages up to and including the response to `id`.
    pub fn read_until_response(&mut self, id: &Value) -> Vec<Value> {
        let mut messages = Vec::new();
        loop {
            messages.push(self.read_message());
            if messages.last().is_some_and(|it| it.get("method").is_none() && it["id"] == *id) {
                return messages;
            }
        }
    }

    /// Reads a control frame of this kind and returns its payload.
    pub fn read_control(&mut self, kind: Control) -> Vec<u8> {
        let frame = self.read_frame().expect("connection closed before a frame");
        assert_eq!(frame.header().opcode, OpCode::Control(kind), "{frame}");
        frame.payload().to_vec()
    }

    /// Reads a close frame with this code, echoes it and waits until the server closes the
    /// connection.
    pub fn expect_close(mut self, code: u16) {
        let payload = self.read_control(Control::Close);
        assert!(!payload.is_empty(), "close frame without a code");
        assert_eq!(u16::from_be_bytes([payload[0], payload[1]]), code, "{payload:?}");
        assert!(str::from_utf8(&payload[2..]).is_ok(), "{payload:?}");
        // The server may have closed the connection already.
        self.try_send_bytes(&encode_frame(FIN | CLOSE, &payload[..2])).ok();
        self.expect_eof();
    }

    /// Sends a close frame and expects one with the same code, then the end of the connection.
    pub fn close(mut self, code: u16) {
        self.send(FIN | CLOSE, &code.to_be_bytes());
        let payload = self.read_control(Control::Close);
        assert_eq!(payload, code.to_be_bytes());
        self.expect_eof();
    }

    /// Asserts that the server closes the connection in order without another frame.
    pub fn expect_eof(&mut self) {
        let frame = self.read_frame();
        assert!(frame.is_none(), "{frame:?}");
    }

    /// Reads the remaining frames until the connection ends in any way.
    pub fn read_to_end(&mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Ok(Some(frame)) = self.socket.read(None) {
            frames.push(frame);
        }
        frames
    }

    /// Asserts that the server still answers pings on this connection.
    pub fn expect_alive(&mut self) {
        self.send(FIN | PING, b"alive?");
        assert_eq!(self.read_control(Control::Pong), b"alive?");
    }

    /// Shuts down the write side without a close frame.
    pub fn shutdown_write(&self) {
        sockets::shutdown_write(self.socket.get_ref());
    }

    /// Closes the connection with a reset.
    pub fn reset(self) {
        sockets::reset_on_close(self.socket.get_ref());
    }
}

pub fn is_control(frame: &Frame) -> bool {
    matches!(frame.header().opcode, OpCode::Control(_))
}

/// Returns the code of a close frame.
pub fn close_code(frame: &Frame) -> Option<u16> {
    assert_eq!(frame.header().opcode, OpCode::Control(Control::Close), "{frame}");
    frame.payload().first_chunk().map(|code| u16::from_be_bytes(*code))
}
