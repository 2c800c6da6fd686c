//! The client's end of WebSocket (RFC 6455): the request to upgrade, masked frames, and the frames
//! that come back.
//!
//! What it keeps true: every frame of a client is masked, and a frame of a server that is masked,
//! split, or longer than it had to be announced is refused. What it does not do: it has one key for
//! all connections and one mask for all frames. A server does the same work for them as for any
//! other, and the client, which must cost less than the server, masks a call once.

use std::io;
use std::net::SocketAddr;

use crate::requests::{Era, Template};
use crate::responses;

/// The key that every connection is opened with, and the answer to it (RFC 6455, section 1.3).
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
pub(crate) const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
/// No byte of it is zero, so that no byte passes unmasked.
const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// The first byte of a whole message of text.
pub(crate) const TEXT: u8 = 0x81;
/// The first byte of a ping.
const PING: u8 = 0x89;
/// The bit of the second byte that tells of a mask.
pub(crate) const MASKED: u8 = 0x80;
/// The lengths that stand in the second byte itself; the next two tell of two and of eight more
/// bytes.
const SHORT_MAX: u8 = 125;

/// What a connection with `host` begins with.
pub(crate) fn upgrade(host: SocketAddr) -> Vec<u8> {
    let text = format!(
        "GET /mcp/ws HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Protocol: mcp\r\n\r\n"
    );
    text.into_bytes()
}

/// Whether the server has agreed to the upgrade in what it said; an error where it said anything
/// else.
pub(crate) fn is_upgraded(said: &[u8]) -> io::Result<bool> {
    let Some(head) = responses::head(said)? else { return Ok(false) };
    let accept = responses::field(head, "sec-websocket-accept");
    let is_right = responses::status(head)? == 101 && accept == Some(ACCEPT.as_bytes());
    if is_right && head.len() == said.len() {
        return Ok(true);
    }
    Err(strange("not an upgrade", said))
}

/// A client's frame of text. A newline behind the text is none of it.
pub(crate) fn masked(text: impl AsRef<[u8]>) -> Vec<u8> {
    let text = text.as_ref().trim_ascii_end();
    let mut frame = client_head(text.len());
    frame.extend(text.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

/// The call of the echo tool as a frame.
pub(crate) fn echo_frame(era: Era, message_bytes: usize) -> Template {
    let call = Template::echo_text(era, message_bytes);
    let head = client_head(call.bytes());
    call.behind(&head, MASK)
}

/// What stands before the masked text of a client's frame.
fn client_head(text_bytes: usize) -> Vec<u8> {
    let mut head = Vec::new();
    write_head(&mut head, text_bytes, MASKED);
    head.extend_from_slice(&MASK);
    head
}

/// Puts the head of a frame of text on `out`, as short as it can be; `mask` is the bit of a mask,
/// or nothing.
pub(crate) fn write_head(out: &mut Vec<u8>, text_bytes: usize, mask: u8) {
    match (u8::try_from(text_bytes), u16::try_from(text_bytes)) {
        (Ok(length), _) if length <= SHORT_MAX => out.extend_from_slice(&[TEXT, mask | length]),
        (_, Ok(length)) => {
            let [high, low] = length.to_be_bytes();
            out.extend_from_slice(&[TEXT, mask | (SHORT_MAX + 1), high, low]);
        }
        _ => {
            out.extend_from_slice(&[TEXT, mask | (SHORT_MAX + 2)]);
            out.extend_from_slice(&(text_bytes as u64).to_be_bytes());
        }
    }
}

/// Where the text of a frame lies and how long it is, told by the frame's second byte and those
/// that follow; `None` until they are all there. A mask is no part of it.
#[inline]
pub(crate) fn measure(frame: &[u8]) -> Option<(usize, usize)> {
    match frame.get(1)? & !MASKED {
        126 => {
            let length = frame.get(2..4)?.try_into().ok()?;
            Some((4, usize::from(u16::from_be_bytes(length))))
        }
        127 => {
            let length = frame.get(2..10)?.try_into().ok()?;
            Some((10, usize::try_from(u64::from_be_bytes(length)).ok()?))
        }
        length => Some((2, usize::from(length))),
    }
}

/// What arrived behind the pings at its beginning. They only ask whether somebody is there, and a
/// bench does not answer: it is over long before a server would mind.
pub(crate) fn after_pings(mut arrived: &[u8]) -> &[u8] {
    while arrived.first() == Some(&PING)
        && let Some((start, length)) = measure(arrived)
        && let Some(rest) = arrived.get(start + length..)
    {
        arrived = rest;
    }
    arrived
}

/// A server's frame of text, still in what arrived.
#[derive(Debug)]
pub(crate) struct Frame<'a> {
    /// All of it.
    pub(crate) bytes: &'a [u8],
    pub(crate) text: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The frame at the beginning of `arrived`; `None` until it is all there.
    pub(crate) fn read(arrived: &'a [u8]) -> io::Result<Option<Self>> {
        let Some((start, length)) = measure(arrived) else { return Ok(None) };
        let is_text = arrived[0] == TEXT && arrived[1] & MASKED == 0;
        let is_short = match start {
            2 => true,
            4 => length > usize::from(SHORT_MAX),
            _ => length > usize::from(u16::MAX),
        };
        if !is_text || !is_short {
            return Err(strange("not a frame of text", arrived));
        }
        let Some(bytes) = arrived.get(..start + length) else { return Ok(None) };
        Ok(Some(Self { bytes, text: &bytes[start..] }))
    }
}

fn strange(what: &str, said: &[u8]) -> io::Error {
    io::Error::other(format!("{what}: {}", said[..said.len().min(1024)].escape_ascii()))
}
