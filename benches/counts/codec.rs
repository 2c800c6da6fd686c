//! The codec of a connection: encoding by the client, decoding by the server, and responses.

use corelane_bench_support::frames;
use corelane_engine::buffer::PADDING;
use corelane_transport::ndjson::{self, LineEvent, LineReader};
use corelane_transport::websocket::limits::FrameLimits;
use corelane_transport::websocket::reader::{FrameEvent, FrameReader};
use corelane_transport::websocket::writer;

/// A codec.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Codec {
    /// Newline-delimited JSON over TCP.
    Ndjson,
    /// WebSocket frames.
    WebSocket,
}

impl Codec {
    pub(crate) const ALL: [Self; 2] = [Self::Ndjson, Self::WebSocket];

    /// Name in the table and on the command line of the child.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ndjson => "TCP",
            Self::WebSocket => "WebSocket",
        }
    }

    /// Encodes a line as the client sends it.
    pub(crate) fn encode(self, line: &[u8]) -> Vec<u8> {
        match self {
            Self::Ndjson => line.to_vec(),
            Self::WebSocket => frames::masked(line),
        }
    }
}

/// Codec state of one connection.
#[derive(Debug)]
pub(crate) enum CodecState {
    Ndjson(LineReader),
    WebSocket(Box<FrameReader>, FrameLimits),
}

impl CodecState {
    pub(crate) fn new(codec: Codec) -> Self {
        match codec {
            Codec::Ndjson => Self::Ndjson(LineReader::new()),
            Codec::WebSocket => Self::WebSocket(Box::default(), FrameLimits::default()),
        }
    }

    /// Returns the range of the message in `arrival`, a complete message with padding; a frame is
    /// unmasked in place.
    #[inline]
    pub(crate) fn find(&mut self, arrival: &mut [u8]) -> Option<(usize, usize)> {
        let length = arrival.len() - PADDING;
        let mut from = 0;
        match self {
            Self::Ndjson(reader) => {
                match reader.next(&arrival[..length], &mut from, 1 << 20, Vec::new) {
                    LineEvent::InPlace { start, end } => Some((start, end)),
                    _ => None,
                }
            }
            Self::WebSocket(reader, limits) => {
                match reader.next(&mut arrival[..length], &mut from, limits, Vec::new) {
                    FrameEvent::InPlace { start, end, is_compressed: false } => Some((start, end)),
                    _ => None,
                }
            }
        }
    }

    /// Appends the response that `write` writes, framed.
    #[inline]
    pub(crate) fn write_response<E>(
        &self,
        out: &mut Vec<u8>,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            Self::Ndjson(_) => {
                write(out)?;
                ndjson::end_line(out);
            }
            Self::WebSocket(..) => {
                let mark = writer::begin_message(out);
                write(out)?;
                writer::end_message(out, mark);
            }
        }
        Ok(())
    }
}
