//! The client side of the opening handshake (RFC 6455, section 4.1).

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use httparse::{Header, Response};
use tungstenite::handshake::derive_accept_key;

use crate::http::client::request_writer::{RequestFields, RequestWriter};
use crate::http::client::response_head::{NOT_HTTP, ResponseHead, ResponseLimits, may_be_response};
use crate::http::client::response_reader::{ResponseEvent, ResponseReader};
use crate::http::head::HeadEnd;
use crate::http::limits::FIELDS_MAX;
use crate::websocket::handshake::SUBPROTOCOLS;

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
        let mut response = Response::new(&mut lines);
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
    fn check_fields(&self, fields: &[Header<'_>]) -> Result<Option<&'static str>, &'static str> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::client::request_writer::ExtraFields;

    /// The key and the accept value of RFC 6455, section 1.3.
    const KEY: &[u8; 16] = b"the sample nonce";
    const ACCEPTED: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\n\
        Connection: keep-alive, upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n";

    /// Reads a response in pieces of `length` bytes. Returns the event and the bytes after it.
    fn read(response: &str, length: usize) -> (UpgradeEvent, usize) {
        let (mut request, mut read) = (UpgradeRequest::new(*KEY), 0);
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
        UpgradeRequest::new(*KEY).write(&mut out, &writer, &fields);
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
                let (event, rest) = read(&response, length);
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
            let (event, _) = read(&response, 7);
            let UpgradeEvent::Invalid(text) = event else { panic!("{from}: {event:?}") };
            assert!(text.contains(reason), "{text}");
        }
    }

    #[test]
    fn response_of_another_protocol_is_invalid_at_once() {
        for response in ["what?\n", "HTTP/2", "\r\n{"] {
            let (event, _) = read(response, 1);
            assert!(matches!(event, UpgradeEvent::Invalid(_)), "{response}: {event:?}");
        }
        assert_eq!(read("\r\nHTTP/1.", 1).0, UpgradeEvent::NeedMore);
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
        let (event, _) = read(&response, response.len());
        assert_eq!(event, refused(b"no, use"));
        let (event, _) = read(&response, 1);
        assert_eq!(event, refused(b""));
    }
}
