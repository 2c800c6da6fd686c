//! The client side of WebSocket: the upgrade request and its checks (RFC 6455, section 4.1), and
//! frames (sections 5 to 7): those of a server are parsed into messages and control frames, its own
//! are written masked, one per message.
//!
//! [`UpgradeRequest`] writes the upgrade request and checks its response; then
//! [`ServerFrameReader`] parses the frames of the server, and [`write_text`] and its siblings write
//! messages. Random bytes are arguments: the key of the handshake and a masking key for each frame.

use std::mem::take;
use std::ops::Range;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use tungstenite::handshake::derive_accept_key;

use crate::http::client::request_writer::{RequestFields, RequestWriter};
use crate::http::client::response_head::{NOT_HTTP, ResponseHead, ResponseLimits, may_be_response};
use crate::http::client::response_reader::{ResponseEvent, ResponseReader};
use crate::http::head::{FIELDS_MAX, HeadEnd};
use crate::websocket::frame::{
    CLOSE, CONTROL_BYTES_MAX, FINAL, Header, HeaderContext, PING, PONG, TEXT, apply_mask,
    parse_close_code,
};
use crate::websocket::handshake::SUBPROTOCOLS;
use crate::websocket::limits::{CloseCode, FrameLimits, ProtocolError};
use crate::websocket::writer::client_header;

/// Bytes of the response to an upgrade request, at most: its head, or the head and the beginning
/// of the body of a refusal.
const RESPONSE_BYTES_MAX: usize = 64 << 10;

/// What the response to the upgrade request says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum UpgradeEvent {
    /// All input is consumed; the head is incomplete.
    NeedMore,
    /// The server speaks WebSocket from the next byte on.
    Accepted {
        /// The subprotocol that the server selected, if any.
        subprotocol: Option<&'static str>,
    },
    /// The server answered with another status. The connection is of no use.
    Refused(Box<UpgradeRefusal>),
    /// The response violates HTTP or RFC 6455. The connection is of no use.
    Invalid(&'static str),
}

/// The response of a server that does not accept an upgrade.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct UpgradeRefusal {
    /// The status, such as 401.
    pub status: u16,
    /// The values of `WWW-Authenticate`.
    pub challenges: Vec<Box<str>>,
    /// `DPoP-Nonce`.
    pub dpop_nonce: Option<Box<str>>,
    /// The beginning of the body, as far as it has arrived.
    pub body: Vec<u8>,
}

/// An upgrade request that was sent, and its response.
#[derive(Debug)]
pub struct UpgradeRequest {
    /// `Sec-WebSocket-Key`.
    key: String,
    /// The bytes of an incomplete head.
    partial: Vec<u8>,
    end: HeadEnd,
}

impl UpgradeRequest {
    /// Creates a request with a key of 16 random bytes.
    pub fn new(key: [u8; 16]) -> Self {
        let key = BASE64_STANDARD.encode(key);
        Self { key, partial: Vec::new(), end: HeadEnd::default() }
    }

    /// Appends the request. `fields` are those of its authorization.
    pub fn write(&self, out: &mut Vec<u8>, writer: &RequestWriter, fields: &RequestFields<'_>) {
        let lines = format!(
            "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: {}\r\nSec-WebSocket-Protocol: {}\r\n",
            self.key,
            SUBPROTOCOLS.join(", ")
        );
        writer.write_upgrade(out, lines.as_bytes(), fields);
    }

    /// Reads the response in `arrival[*from..]` and advances `from`. Interim responses other than
    /// 101 are skipped (RFC 9110, section 15.2).
    ///
    /// Call until it returns anything but [`UpgradeEvent::NeedMore`], and not again then.
    pub fn next(&mut self, arrival: &[u8], from: &mut usize) -> UpgradeEvent {
        loop {
            let rest = &arrival[*from..];
            if rest.is_empty() {
                return UpgradeEvent::NeedMore;
            }
            let found = self.end.find(rest);
            let length = found.unwrap_or(rest.len());
            self.partial.extend_from_slice(&rest[..length]);
            *from += length;
            if !may_be_response(&self.partial) {
                return UpgradeEvent::Invalid(NOT_HTTP);
            }
            if self.partial.len() > RESPONSE_BYTES_MAX {
                return UpgradeEvent::Invalid("the head of the response is too large");
            }
            if found.is_none() {
                continue;
            }
            let event = self.check_head(&arrival[*from..]);
            if event != UpgradeEvent::NeedMore {
                return event;
            }
            self.partial.clear();
            self.end = HeadEnd::default();
        }
    }

    /// Checks a complete head; `rest` follows it.
    fn check_head(&self, rest: &[u8]) -> UpgradeEvent {
        let mut lines = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut response = httparse::Response::new(&mut lines);
        let is_complete = response.parse(&self.partial).is_ok_and(|status| status.is_complete());
        match response.code {
            Some(101) if is_complete => match self.check_fields(response.headers) {
                Ok(subprotocol) => UpgradeEvent::Accepted { subprotocol },
                Err(reason) => UpgradeEvent::Invalid(reason),
            },
            Some(100..200) if is_complete => UpgradeEvent::NeedMore,
            Some(status) if is_complete => {
                let head = ResponseHead::parse(&self.partial).ok();
                let (challenges, dpop_nonce) =
                    head.map(|head| (head.challenges, head.dpop_nonce)).unwrap_or_default();
                let body = read_body(&[&self.partial, rest].concat());
                let refusal = UpgradeRefusal { status, challenges, dpop_nonce, body };
                UpgradeEvent::Refused(Box::new(refusal))
            }
            _ => UpgradeEvent::Invalid(NOT_HTTP),
        }
    }

    /// Checks the fields of a response with status 101. Returns the subprotocol.
    fn check_fields(
        &self,
        fields: &[httparse::Header<'_>],
    ) -> Result<Option<&'static str>, &'static str> {
        let values = |name: &'static str| {
            let fields = fields.iter().filter(move |field| field.name.eq_ignore_ascii_case(name));
            fields.map(|field| field.value.trim_ascii())
        };
        if !values("upgrade").any(|value| value.eq_ignore_ascii_case(b"websocket")) {
            return Err("the response to the upgrade has no `Upgrade: websocket`");
        }
        let mut options = values("connection").flat_map(|value| value.split(|byte| *byte == b','));
        if !options.any(|option| option.trim_ascii().eq_ignore_ascii_case(b"upgrade")) {
            return Err("the response to the upgrade has no `Connection: Upgrade`");
        }
        let accept = derive_accept_key(self.key.as_bytes());
        if !values("sec-websocket-accept").eq([accept.as_bytes()]) {
            return Err("the Sec-WebSocket-Accept of the server is missing or wrong");
        }
        if values("sec-websocket-extensions").any(|value| !value.is_empty()) {
            return Err("the server selected an extension that was not offered");
        }
        let mut selected = values("sec-websocket-protocol");
        let Some(first) = selected.next() else { return Ok(None) };
        let known = SUBPROTOCOLS.into_iter().find(|known| known.as_bytes() == first);
        if known.is_none() || selected.next().is_some() {
            return Err("the server selected a subprotocol that was not offered");
        }
        Ok(known)
    }
}

/// Returns the body of a response as far as it has arrived.
fn read_body(response: &[u8]) -> Vec<u8> {
    let limits = ResponseLimits { body_bytes_max: RESPONSE_BYTES_MAX, ..Default::default() };
    let (mut reader, mut from, mut body) = (ResponseReader::new(), 0, Vec::new());
    while let Ok(ResponseEvent::HeadComplete) = reader.next(response, &mut from, &limits, &mut body)
    {
    }
    body
}

/// What a frame of the server completes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ServerFrameEvent {
    /// A message of one frame: these bytes of the input.
    Message(Range<usize>),
    /// A message of several frames: call [`ServerFrameReader::take`].
    Assembled,
    /// A part of a message.
    Fragment,
    /// A ping, with its payload in the input.
    Ping(Range<usize>),
    /// A pong.
    Pong,
    /// A close frame, with its code if any, and its reason in the input. No frame follows.
    Close(Option<CloseCode>, Range<usize>),
}

/// Reads frames, one at a time.
#[derive(Debug, Default)]
pub struct ServerFrameReader {
    /// The fragments of an incomplete message; then the message until it is taken.
    message: Vec<u8>,
    /// A fragmented message is incomplete.
    is_inside_message: bool,
}

impl ServerFrameReader {
    /// Creates a reader before the first frame, without a buffer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the frame at the start of `bytes`. Returns its length and what it completes, or
    /// `None` if it is incomplete: call again with the same bytes followed by later ones.
    ///
    /// # Errors
    ///
    /// [`ProtocolError`] with the code of the close frame. Nothing after it may be read.
    #[inline]
    pub fn next(
        &mut self,
        bytes: &[u8],
        limits: &FrameLimits,
    ) -> Result<Option<(usize, ServerFrameEvent)>, ProtocolError> {
        let header = Header::parse(bytes, self.header_context(limits))?;
        let Some(header) = header else { return Ok(None) };
        let payload = header.length..header.length + header.payload_length;
        let Some(data) = bytes.get(payload.clone()) else { return Ok(None) };
        let end = payload.end;
        let event = match header.opcode() {
            CLOSE => {
                let code = parse_close_code(data)?;
                ServerFrameEvent::Close(code, payload.start + data.len().min(2)..end)
            }
            PING => ServerFrameEvent::Ping(payload),
            PONG => ServerFrameEvent::Pong,
            _ if header.is_final() && !self.is_inside_message => ServerFrameEvent::Message(payload),
            _ => {
                self.message.extend_from_slice(data);
                self.is_inside_message = !header.is_final();
                if header.is_final() {
                    ServerFrameEvent::Assembled
                } else {
                    ServerFrameEvent::Fragment
                }
            }
        };
        Ok(Some((end, event)))
    }

    /// Returns whether the frame at the start of `bytes` is complete.
    ///
    /// # Errors
    ///
    /// As [`ServerFrameReader::next`].
    pub fn has_frame(&self, bytes: &[u8], limits: &FrameLimits) -> Result<bool, ProtocolError> {
        let header = Header::parse(bytes, self.header_context(limits))?;
        Ok(header.is_some_and(|header| bytes.len() >= header.length + header.payload_length))
    }

    /// Returns the message announced by [`ServerFrameEvent::Assembled`].
    pub fn take(&mut self) -> Vec<u8> {
        take(&mut self.message)
    }

    /// Returns whether no part of the next message was read.
    pub const fn is_at_message_start(&self) -> bool {
        !self.is_inside_message
    }

    const fn header_context(&self, limits: &FrameLimits) -> HeaderContext {
        HeaderContext {
            is_inside_message: self.is_inside_message,
            is_compression_negotiated: false,
            is_binary_allowed: limits.is_binary_allowed,
            is_masked: false,
            bytes_max: limits.message_bytes_max.saturating_sub(self.message.len()),
        }
    }
}

/// Appends a text message. Returns the start of its masked payload in `out`.
pub fn write_text(out: &mut Vec<u8>, text: &[u8], key: [u8; 4]) -> usize {
    write_frame(out, TEXT, text, key)
}

/// Appends a ping without a payload.
pub fn write_ping(out: &mut Vec<u8>, key: [u8; 4]) {
    write_frame(out, PING, &[], key);
}

/// Appends a pong with the payload of the ping.
pub fn write_pong(out: &mut Vec<u8>, payload: &[u8], key: [u8; 4]) {
    write_frame(out, PONG, &payload[..payload.len().min(CONTROL_BYTES_MAX)], key);
}

/// Appends a close frame with a code and a reason. The reason is truncated to fit a control frame.
pub fn write_close(out: &mut Vec<u8>, code: CloseCode, reason: &str, key: [u8; 4]) {
    let number = code.as_u16().to_be_bytes();
    let reason = &reason[..reason.floor_char_boundary(CONTROL_BYTES_MAX - number.len())];
    write_frame(out, CLOSE, &[&number, reason.as_bytes()].concat(), key);
}

fn write_frame(out: &mut Vec<u8>, opcode: u8, payload: &[u8], key: [u8; 4]) -> usize {
    let (mut header, length) = client_header(payload.len());
    header[0] = FINAL | opcode;
    header[length - key.len()..length].copy_from_slice(&key);
    out.extend_from_slice(&header[..length]);
    let start = out.len();
    out.extend_from_slice(payload);
    apply_mask(&mut out[start..], key);
    start
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::client::request_writer::ExtraFields;
    use crate::websocket::reader::{FrameEvent, FrameReader};

    /// The key and the accept value of RFC 6455, section 1.3.
    const NONCE: &[u8; 16] = b"the sample nonce";
    const ACCEPTED: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\n\
        Connection: keep-alive, upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n";

    /// Reads a response in pieces of `length` bytes. Returns the event and the bytes after it.
    fn read_response(response: &str, length: usize) -> (UpgradeEvent, usize) {
        let (mut request, mut read) = (UpgradeRequest::new(*NONCE), 0);
        for piece in response.as_bytes().chunks(length) {
            let mut from = 0;
            let event = request.next(piece, &mut from);
            read += from;
            if event != UpgradeEvent::NeedMore {
                return (event, response.len() - read);
            }
        }
        (UpgradeEvent::NeedMore, 0)
    }

    #[test]
    fn upgrade_request_has_fields_of_rfc_6455() {
        let mut out = Vec::new();
        let writer = RequestWriter::new("http", "a:1", "/mcp/ws", &ExtraFields::default());
        let fields = RequestFields { authorization: Some("Bearer a"), ..Default::default() };
        UpgradeRequest::new(*NONCE).write(&mut out, &writer, &fields);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "GET /mcp/ws HTTP/1.1\r\nHost: a:1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             Sec-WebSocket-Protocol: mcp.v1, mcp\r\nAuthorization: Bearer a\r\n\r\n"
        );
    }

    #[test]
    fn accepted_upgrade_ends_with_its_head() {
        for (field, expected) in
            [("", None), ("Sec-WebSocket-Protocol: mcp.v1\r\n", Some("mcp.v1"))]
        {
            let response = format!("HTTP/1.1 103 Early Hints\r\n\r\n{ACCEPTED}{field}\r\nframes");
            let expected = UpgradeEvent::Accepted { subprotocol: expected };
            for length in 1..=response.len() {
                let (event, rest) = read_response(&response, length);
                assert_eq!((event, rest), (expected.clone(), "frames".len()));
            }
        }
    }

    #[test]
    fn invalid_upgrade_response_names_its_field() {
        for (from, to, reason) in [
            ("HTTP/1.1 101", "SSH-2.0-x 101", "HTTP/1.1"),
            ("Upgrade: WebSocket", "Upgrade: h2c", "Upgrade: websocket"),
            ("upgrade\r\n", "close\r\n", "Connection"),
            ("s3pP", "s3pQ", "Accept"),
            ("Sec-WebSocket-Accept", "X", "Accept"),
            ("\r\n\r\n", "\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n", "subprotocol"),
            ("\r\n\r\n", "\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n", "extension"),
            ("\r\n\r\n", &format!("\r\nx: {}\r\n\r\n", "x".repeat(RESPONSE_BYTES_MAX)), "large"),
        ] {
            let response = format!("{ACCEPTED}\r\n").replacen(from, to, 1);
            let (event, _) = read_response(&response, 7);
            let UpgradeEvent::Invalid(text) = event else { panic!("{from}: {event:?}") };
            assert!(text.contains(reason), "{text}");
        }
    }

    #[test]
    fn response_of_another_protocol_is_invalid_at_once() {
        for response in ["what?\n", "HTTP/2", "\r\n{"] {
            let (event, _) = read_response(response, 1);
            assert!(matches!(event, UpgradeEvent::Invalid(_)), "{response}: {event:?}");
        }
        assert_eq!(read_response("\r\nHTTP/1.", 1).0, UpgradeEvent::NeedMore);
    }

    #[test]
    fn refusal_has_its_status_and_body() {
        let body = "Transfer-Encoding: chunked\r\n\r\n5\r\nno, u\r\n2\r\nse\r\n0\r\n\r\n";
        let fields = "WWW-Authenticate: Bearer\r\nDPoP-Nonce: n\r\n";
        let response = format!("HTTP/1.1 401 Unauthorized\r\n{fields}{body}");
        let refused = |body: &[u8]| {
            UpgradeEvent::Refused(Box::new(UpgradeRefusal {
                status: 401,
                challenges: vec!["Bearer".into()],
                dpop_nonce: Some("n".into()),
                body: body.to_vec(),
            }))
        };
        let (event, _) = read_response(&response, response.len());
        assert_eq!(event, refused(b"no, use"));
        let (event, _) = read_response(&response, 1);
        assert_eq!(event, refused(b""));
    }

    const LIMITS: FrameLimits = FrameLimits { message_bytes_max: 300, is_binary_allowed: false };

    /// Reads `stream` in pieces. Returns what it holds as text.
    fn read_frames(stream: &[u8], piece: usize) -> Result<Vec<String>, ProtocolError> {
        let mut reader = ServerFrameReader::new();
        let (mut bytes, mut events) = (Vec::new(), Vec::new());
        for piece in stream.chunks(piece) {
            bytes.extend_from_slice(piece);
            while let Some((length, event)) = reader.next(&bytes, &LIMITS)? {
                let text =
                    |range: Range<usize>| String::from_utf8_lossy(&bytes[range]).into_owned();
                events.push(match event {
                    ServerFrameEvent::Message(range) => text(range),
                    ServerFrameEvent::Assembled => {
                        String::from_utf8_lossy(&reader.take()).into_owned()
                    }
                    ServerFrameEvent::Fragment => "…".to_owned(),
                    ServerFrameEvent::Ping(range) => format!("ping {}", text(range)),
                    ServerFrameEvent::Pong => "pong".to_owned(),
                    ServerFrameEvent::Close(code, range) => {
                        format!("close {code:?} {}", text(range))
                    }
                });
                bytes.drain(..length);
            }
        }
        Ok(events)
    }

    #[test]
    fn frames_of_a_server_survive_any_cut() {
        let long = "x".repeat(300);
        let mut stream =
            b"\x81\x02{}\x01\x01[\x89\x01p\x00\x011\x80\x01]\x8A\x00\x81\x7E\x01\x2C".to_vec();
        stream.extend_from_slice(long.as_bytes());
        stream.extend_from_slice(b"\x88\x04\x03\xE9by");
        let close = "close Some(CloseCode(1001)) by";
        for piece in 1..=stream.len() {
            let expected = ["{}", "…", "ping p", "…", "[1]", "pong", &long, close];
            assert_eq!(read_frames(&stream, piece).unwrap(), expected);
        }
        assert_eq!(read_frames(b"\x88\x00", 1).unwrap(), ["close None "]);
    }

    #[test]
    fn invalid_frames_of_a_server_have_their_errors() {
        for (stream, error) in [
            (&b"\x81\x82\0\0\0\0{}"[..], ProtocolError::MASKED),
            (b"\xC1\x00", ProtocolError::RESERVED_BIT),
            (b"\x83\x00", ProtocolError::RESERVED_OPCODE),
            (b"\x82\x01x", ProtocolError::UNSUPPORTED_BINARY),
            (b"\x80\x01x", ProtocolError::UNEXPECTED_CONTINUATION),
            (b"\x01\x01x\x81\x01x", ProtocolError::INTERLEAVED),
            (b"\x09\x00", ProtocolError::FRAGMENTED_CONTROL),
            (b"\x89\x7E\x00\x7E", ProtocolError::OVERSIZED_CONTROL),
            (b"\x81\x7E\x00\x01", ProtocolError::NON_MINIMAL_LENGTH),
            (b"\x81\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", ProtocolError::LENGTH_OVERFLOW),
            (b"\x81\x7E\x01\x2D", ProtocolError::MESSAGE_TOO_BIG),
            (b"\x01\x01x\x80\x7E\x01\x2C", ProtocolError::MESSAGE_TOO_BIG),
            (b"\x88\x01\x03", ProtocolError::TRUNCATED_CLOSE_CODE),
            (b"\x88\x02\x03\xED", ProtocolError::INVALID_CLOSE_CODE),
            (b"\x88\x03\x03\xE8\xFF", ProtocolError::INVALID_CLOSE_REASON),
        ] {
            for piece in 1..=stream.len() {
                assert_eq!(
                    read_frames(stream, piece).unwrap_err(),
                    error,
                    "{}",
                    stream.escape_ascii()
                );
            }
        }
    }

    const KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

    #[test]
    fn text_of_any_length_is_masked() {
        for length in [0, 1, 125, 126, 65_535, 65_536] {
            let text = vec![b'a'; length];
            let mut out = Vec::new();
            let payload = write_text(&mut out, &text, KEY);
            assert_eq!(out.len() - payload, length);
            assert_eq!(out[payload - 4..payload], KEY);
            let event =
                FrameReader::new().next(&mut out, &mut 0, &FrameLimits::default(), Vec::new);
            let (start, end) = (payload, payload + length);
            assert_eq!(event, FrameEvent::InPlace { start, end, is_compressed: false });
            assert_eq!(out[start..], text);
        }
    }

    #[test]
    fn control_frames_are_read_by_a_server() {
        let (mut out, mut from) = (Vec::new(), 0);
        write_ping(&mut out, KEY);
        write_pong(&mut out, &[b'p'; 126], KEY);
        write_close(&mut out, CloseCode::NORMAL, &"é".repeat(80), KEY);
        let mut reader = FrameReader::new();
        let mut next = || {
            let event = reader.next(&mut out, &mut from, &FrameLimits::default(), Vec::new);
            (event, reader.control_payload().to_vec())
        };
        assert_eq!(next(), (FrameEvent::Ping, Vec::new()));
        assert_eq!(next(), (FrameEvent::Pong, vec![b'p'; 125]));
        let (event, payload) = next();
        assert_eq!(event, FrameEvent::Close(Some(CloseCode::NORMAL)));
        assert_eq!(payload.len(), 124);
    }
}
