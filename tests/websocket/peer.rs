//! A client over a plain socket: it writes frames as it is told, right or wrong, and reads those of
//! the server with the eyes of another library.

use std::io::{self, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use serde_json::{Value, json};
use socket2::{Domain, SockRef, Socket, Type};
use tungstenite::protocol::frame::coding::{Control, Data, OpCode};
use tungstenite::protocol::frame::{Frame, FrameSocket};

use crate::client::PATIENCE;
use crate::judge::judge;
use crate::messages::{LEGACY, MODERN, initialize, notification};
use crate::request::Request;
use crate::wire::{Ending, Head};

/// What the first byte of a frame says.
pub(crate) const FINAL: u8 = 0x80;
pub(crate) const CONTINUATION: u8 = 0x0;
pub(crate) const TEXT: u8 = 0x1;
pub(crate) const BINARY: u8 = 0x2;
pub(crate) const CLOSE: u8 = 0x8;
pub(crate) const PING: u8 = 0x9;
pub(crate) const PONG: u8 = 0xa;

/// The key of every frame: no byte of it is zero, and no two are the same.
const KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// One connection.
pub(crate) struct Peer {
    socket: FrameSocket<TcpStream>,
    /// By whose schema messages are judged.
    revision: &'static str,
    /// Requests whose answers are to come: their ids and methods.
    asked: Vec<(Value, String)>,
}

/// The request of a handshake as every client sends it.
pub(crate) fn handshake() -> Request {
    Request::new("GET", "/mcp/ws")
        .field("Upgrade", "websocket")
        .field("Connection", "Upgrade")
        .field("Sec-WebSocket-Version", "13")
        .field("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
}

/// A frame of a client: its first byte, and a payload of any length.
pub(crate) fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first];
    match payload.len() {
        length @ 0..126 => bytes.push(0x80 | u8::try_from(length).expect("a short length")),
        length @ 126..65_536 => {
            bytes.push(0xfe);
            bytes.extend(u16::try_from(length).expect("a medium length").to_be_bytes());
        }
        length => {
            bytes.push(0xff);
            bytes.extend((length as u64).to_be_bytes());
        }
    }
    bytes.extend(KEY);
    bytes.extend(payload.iter().zip(KEY.iter().cycle()).map(|(byte, key)| byte ^ key));
    bytes
}

/// A message in one frame.
#[expect(clippy::needless_pass_by_value, reason = "a text is made for it in most calls")]
pub(crate) fn text_frame(text: impl ToString) -> Vec<u8> {
    frame(FINAL | TEXT, text.to_string().as_bytes())
}

impl Peer {
    /// Connects and upgrades.
    pub(crate) fn open(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).expect("a connection"))
    }

    /// Connects, upgrades and shakes hands in `revision`.
    pub(crate) fn begin(address: SocketAddr, revision: &'static str) -> Self {
        Self::open(address).shake_hands(revision)
    }

    /// The same in the newest revision with a handshake, with socket buffers of about `bytes` in
    /// each direction.
    pub(crate) fn begin_narrow(address: SocketAddr, bytes: usize) -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.set_recv_buffer_size(bytes).expect("a receive buffer");
        socket.set_send_buffer_size(bytes).expect("a send buffer");
        socket.connect(&address.into()).expect("a connection");
        Self::over(socket.into()).shake_hands(LEGACY)
    }

    fn shake_hands(self, revision: &'static str) -> Self {
        let mut peer = self.speaking(revision);
        let answer = peer.ask(&initialize(0, revision));
        assert_eq!(answer["result"]["protocolVersion"], revision, "{answer}");
        peer.say(&notification("notifications/initialized"));
        peer
    }

    fn over(stream: TcpStream) -> Self {
        let (head, peer) = Self::upgrade(stream, &handshake().bytes());
        // RFC 6455, section 1.3.
        assert_eq!(head.field("Sec-WebSocket-Accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        peer
    }

    /// Sends a handshake, with whatever stands behind it, and reads the head of its answer, which
    /// must be that of an upgrade.
    pub(crate) fn upgrade(mut stream: TcpStream, handshake: &[u8]) -> (Head, Self) {
        stream.set_nodelay(true).expect("an option of TCP");
        stream.set_read_timeout(Some(PATIENCE)).expect("an option of sockets");
        stream.set_write_timeout(Some(PATIENCE)).expect("an option of sockets");
        stream.write_all(handshake).expect("a server that reads");
        // One byte at a time: what follows the head is frames.
        let mut reader = BufReader::with_capacity(1, stream);
        let head = Head::read(&mut reader).expect("a head").expect("an answer");
        assert_eq!(head.status, 101, "{head:?}");
        assert_eq!(head.ending(), Ending::Empty, "{head:?}");
        assert!(reader.buffer().is_empty());
        let socket = FrameSocket::new(reader.into_inner());
        (head, Self { socket, revision: MODERN, asked: Vec::new() })
    }

    /// The same client, who speaks another revision.
    pub(crate) const fn speaking(mut self, revision: &'static str) -> Self {
        self.revision = revision;
        self
    }

    /// Another end of the same socket, for another thread to write to.
    pub(crate) fn writer(&self) -> TcpStream {
        self.socket.get_ref().try_clone().expect("a socket")
    }

    /// Sends bytes as they are.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.socket.get_mut().write_all(bytes).expect("a server that reads");
    }

    /// The same where the server may have gone.
    pub(crate) fn try_send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.socket.get_mut().write_all(bytes)
    }

    /// Sends one frame.
    pub(crate) fn send(&mut self, first: u8, payload: &[u8]) {
        self.send_bytes(&frame(first, payload));
    }

    /// Says a message.
    pub(crate) fn say(&mut self, message: &Value) {
        self.expect_answer_to(message);
        self.send_bytes(&text_frame(message));
    }

    /// Notes what a message asks, so that its answer can be judged.
    pub(crate) fn expect_answer_to(&mut self, message: &Value) {
        let messages = match message {
            Value::Array(messages) => &messages[..],
            message => std::slice::from_ref(message),
        };
        for message in messages {
            if let (Some(id), Some(method)) = (message.get("id"), message["method"].as_str()) {
                self.asked.push((id.clone(), method.to_owned()));
            }
        }
    }

    /// The same of several messages.
    pub(crate) fn expect_answers_to(&mut self, messages: &[Value]) {
        for message in messages {
            self.expect_answer_to(message);
        }
    }

    /// Says a message and waits for its answer.
    pub(crate) fn ask(&mut self, message: &Value) -> Value {
        self.say(message);
        self.heard()
    }

    /// The next frame; `None` where the connection ended in order.
    pub(crate) fn frame(&mut self) -> Option<Frame> {
        let frame = self.socket.read(None).expect("a frame, or an end in order")?;
        let header = frame.header();
        // No frame of a server is in parts, or masked (RFC 6455, section 5.1).
        assert!(header.is_final && header.mask.is_none(), "{frame}");
        Some(frame)
    }

    /// The next frame must be a message.
    pub(crate) fn heard(&mut self) -> Value {
        let text = self.heard_text();
        let message = serde_json::from_str(&text).unwrap_or_else(|_| panic!("no JSON: {text}"));
        self.judge(&message);
        message
    }

    /// The same, as it was written.
    pub(crate) fn heard_text(&mut self) -> String {
        let frame = self.frame().expect("a message before the end");
        assert_eq!(frame.header().opcode, OpCode::Data(Data::Text), "{frame}");
        frame.to_text().expect("UTF-8").to_owned()
    }

    /// Messages up to the answer to `id`, which comes last.
    pub(crate) fn heard_until(&mut self, id: &Value) -> Vec<Value> {
        let mut messages = Vec::new();
        loop {
            messages.push(self.heard());
            if messages.last().is_some_and(|it| it.get("method").is_none() && it["id"] == *id) {
                return messages;
            }
        }
    }

    /// The next frame must be a control frame of this kind.
    pub(crate) fn heard_control(&mut self, kind: Control) -> Vec<u8> {
        let frame = self.frame().expect("a frame before the end");
        assert_eq!(frame.header().opcode, OpCode::Control(kind), "{frame}");
        frame.payload().to_vec()
    }

    /// The next frame must close, with this code; then this peer does, too, and the server ends the
    /// connection.
    pub(crate) fn expect_close(mut self, code: u16) {
        let payload = self.heard_control(Control::Close);
        assert!(!payload.is_empty(), "a code");
        assert_eq!(u16::from_be_bytes([payload[0], payload[1]]), code, "{payload:?}");
        assert!(str::from_utf8(&payload[2..]).is_ok(), "{payload:?}");
        // It may have gone already, where it read what closed it before.
        self.try_send_bytes(&frame(FINAL | CLOSE, &payload[..2])).ok();
        self.expect_end();
    }

    /// Closes with a code and waits for the same.
    pub(crate) fn close(mut self, code: u16) {
        self.send(FINAL | CLOSE, &code.to_be_bytes());
        let payload = self.heard_control(Control::Close);
        assert_eq!(payload, code.to_be_bytes());
        self.expect_end();
    }

    /// The connection must end in order; nothing more may come before.
    pub(crate) fn expect_end(&mut self) {
        let frame = self.frame();
        assert!(frame.is_none(), "{frame:?}");
    }

    /// The connection must end, in whichever way: what still comes is given.
    pub(crate) fn rest(&mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Ok(Some(frame)) = self.socket.read(None) {
            frames.push(frame);
        }
        frames
    }

    /// Asks whether the server still reads and answers this connection.
    pub(crate) fn expect_alive(&mut self) {
        self.send(FINAL | PING, b"alive?");
        assert_eq!(self.heard_control(Control::Pong), b"alive?");
    }

    /// Says that nothing more will be sent, without a close frame.
    pub(crate) fn finish(&self) {
        self.socket.get_ref().shutdown(Shutdown::Write).expect("a connection that is open");
    }

    /// Ends the connection by a reset.
    pub(crate) fn reset(self) {
        let socket = SockRef::from(self.socket.get_ref());
        socket.set_linger(Some(std::time::Duration::ZERO)).expect("an option of sockets");
    }

    fn judge(&mut self, message: &Value) {
        if let Value::Array(messages) = message {
            assert!(!messages.is_empty());
            for message in messages {
                self.judge(message);
            }
            return;
        }
        assert_eq!(message["jsonrpc"], json!("2.0"), "{message}");
        let is_answer = message.get("method").is_none();
        let place =
            self.asked.iter().position(|(id, _)| is_answer && Some(id) == message.get("id"));
        let method = place.map(|place| self.asked.swap_remove(place).1);
        // An error about no message is of no revision: as the newest has it.
        let is_anonymous = is_answer && message.get("id").is_none();
        let revision = if is_anonymous { MODERN } else { self.revision };
        let judged = judge(revision, message, method.as_deref());
        judged.unwrap_or_else(|reason| panic!("{reason}"));
    }
}

/// Whether a frame is none of a message.
pub(crate) fn is_control(frame: &Frame) -> bool {
    matches!(frame.header().opcode, OpCode::Control(_))
}

/// The code of a close frame.
pub(crate) fn code(frame: &Frame) -> Option<u16> {
    assert_eq!(frame.header().opcode, OpCode::Control(Control::Close), "{frame}");
    frame.payload().first_chunk().map(|code| u16::from_be_bytes(*code))
}
