//! WebSocket: the rules of RFC 6455, section 5, at every split; against a model that sees the whole
//! stream, and against tungstenite.

mod deflate;
mod handshake;
mod memory;
mod model;
mod oracle;
mod rules;
mod splits;
mod writer;

use std::io::{self, Read, Write};

use crate::frames_fuzz::{FrameOutcome, check_stream};
use corelane_transport::websocket::limits::{FrameLimits, ProtocolError};

const FINAL: u8 = 0x80;
const COMPRESSED: u8 = 0x40;
const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

const LIMITS: FrameLimits = FrameLimits { message_bytes_max: 100_000, is_binary_allowed: false };
const WITH_BINARY: FrameLimits = FrameLimits { is_binary_allowed: true, ..LIMITS };

/// Encoding of a payload length.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum LengthEncoding {
    Minimal,
    TwoBytes,
    EightBytes,
}

/// A client frame.
#[derive(Clone, Debug)]
struct Frame {
    /// The first byte.
    first: u8,
    length_encoding: LengthEncoding,
    /// The masking key; `None` for an unmasked frame.
    key: Option<[u8; 4]>,
    payload: Vec<u8>,
}

impl Frame {
    fn new(first: u8, payload: impl Into<Vec<u8>>) -> Self {
        let key = Some([0x37, 0xfa, 0x21, 0x3d]);
        Self { first, length_encoding: LengthEncoding::Minimal, key, payload: payload.into() }
    }

    fn write(&self, out: &mut Vec<u8>) {
        let masked = if self.key.is_some() { 0x80 } else { 0 };
        let length = self.payload.len();
        out.push(self.first);
        match (self.length_encoding, length) {
            (LengthEncoding::Minimal, 0..126) => out.push(masked | u8::try_from(length).unwrap()),
            (LengthEncoding::Minimal, 126..=0xffff) | (LengthEncoding::TwoBytes, _) => {
                out.push(masked + 126);
                out.extend_from_slice(&u16::try_from(length).unwrap().to_be_bytes());
            }
            (LengthEncoding::Minimal | LengthEncoding::EightBytes, _) => {
                out.push(masked + 127);
                out.extend_from_slice(&(length as u64).to_be_bytes());
            }
        }
        out.extend_from_slice(&self.key.unwrap_or_default()[..if masked == 0 { 0 } else { 4 }]);
        let key = self.key.unwrap_or_default();
        out.extend(self.payload.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key));
    }
}

/// Encodes a client frame.
fn frame(first: u8, payload: impl Into<Vec<u8>>) -> Vec<u8> {
    let mut out = Vec::new();
    Frame::new(first, payload).write(&mut out);
    out
}

/// Reads a stream, whole and byte by byte.
fn read_outcomes(stream: &[u8]) -> Vec<FrameOutcome> {
    check_stream(stream, &[1], &LIMITS, false)
}

/// Returns the protocol error of a stream, which must be its only result.
fn protocol_error(stream: &[u8]) -> ProtocolError {
    match &read_outcomes(stream)[..] {
        [FrameOutcome::Invalid(error)] => *error,
        outcomes => panic!("{outcomes:?}"),
    }
}

fn text(text: &str) -> FrameOutcome {
    FrameOutcome::Text(text.into())
}

/// An in-memory stream; writes are dropped.
struct Memory<'b>(&'b [u8]);

impl Read for Memory<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Memory<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
