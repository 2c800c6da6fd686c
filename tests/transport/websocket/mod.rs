//! WebSocket from the outside: every rule of RFC 6455, section 5, whatever the cut; against a model
//! that sees the whole stream at once, and against another implementation.

mod cuts;
mod deflate;
mod handshake;
mod memory;
mod model;
mod oracle;
mod rules;
mod writing;

use std::io::{self, Read, Write};

use corelane::transport::websocket::fuzz::{self, Said};
use corelane::transport::websocket::limits::{Fault, FrameLimits};

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

/// How a length is written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Form {
    Shortest,
    TwoBytes,
    EightBytes,
}

/// A frame of a client to be written down.
#[derive(Clone, Debug)]
struct Frame {
    /// The first byte.
    first: u8,
    form: Form,
    /// None: the frame is not masked.
    key: Option<[u8; 4]>,
    payload: Vec<u8>,
}

impl Frame {
    fn new(first: u8, payload: impl Into<Vec<u8>>) -> Self {
        let key = Some([0x37, 0xfa, 0x21, 0x3d]);
        Self { first, form: Form::Shortest, key, payload: payload.into() }
    }

    fn write(&self, out: &mut Vec<u8>) {
        let masked = if self.key.is_some() { 0x80 } else { 0 };
        let length = self.payload.len();
        out.push(self.first);
        match (self.form, length) {
            (Form::Shortest, 0..126) => out.push(masked | u8::try_from(length).unwrap()),
            (Form::Shortest, 126..=0xffff) | (Form::TwoBytes, _) => {
                out.push(masked + 126);
                out.extend_from_slice(&u16::try_from(length).unwrap().to_be_bytes());
            }
            (Form::Shortest | Form::EightBytes, _) => {
                out.push(masked + 127);
                out.extend_from_slice(&(length as u64).to_be_bytes());
            }
        }
        out.extend_from_slice(&self.key.unwrap_or_default()[..if masked == 0 { 0 } else { 4 }]);
        let key = self.key.unwrap_or_default();
        out.extend(self.payload.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key));
    }
}

/// A frame of a client as it goes over the wire.
fn frame(first: u8, payload: impl Into<Vec<u8>>) -> Vec<u8> {
    let mut out = Vec::new();
    Frame::new(first, payload).write(&mut out);
    out
}

/// What a reader says of a stream, whole and in single bytes.
fn said(stream: &[u8]) -> Vec<Said> {
    fuzz::stream(stream, &[1], &LIMITS, false)
}

/// Why a stream breaks, where the first thing said of it is that.
fn fault(stream: &[u8]) -> Fault {
    match &said(stream)[..] {
        [Said::Broken(fault)] => *fault,
        said => panic!("{said:?}"),
    }
}

fn text(text: &str) -> Said {
    Said::Text(text.into())
}

/// A stream in memory; what is written to it is dropped.
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
