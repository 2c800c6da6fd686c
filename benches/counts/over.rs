//! What messages travel over: how a client sends them, where the road finds them, and how answers
//! go out.

use corelane::engine::buffer::PADDING;
use corelane::transport::ndjson::{self, Line, LineReader};
use corelane::transport::websocket::limits::FrameLimits;
use corelane::transport::websocket::reader::{FrameReader, Next};
use corelane::transport::websocket::writer;

use crate::frames;

/// What messages travel over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Over {
    /// Lines of TCP.
    Lines,
    /// Frames of WebSocket.
    Frames,
}

impl Over {
    /// Both.
    pub(crate) const ALL: [Self; 2] = [Self::Lines, Self::Frames];

    /// Its name in the table and on the command line of the child.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Lines => "TCP",
            Self::Frames => "WebSocket",
        }
    }

    /// What a client sends for a line.
    pub(crate) fn send(self, line: &[u8]) -> Vec<u8> {
        match self {
            Self::Lines => line.to_vec(),
            Self::Frames => frames::masked(line),
        }
    }
}

/// The reader of one connection, and the writer of its answers.
#[derive(Debug)]
pub(crate) enum Binding {
    Lines(LineReader),
    Frames(Box<FrameReader>, FrameLimits),
}

impl Binding {
    /// That of a connection on which nothing has come.
    pub(crate) fn new(over: Over) -> Self {
        match over {
            Over::Lines => Self::Lines(LineReader::new()),
            Over::Frames => Self::Frames(Box::default(), FrameLimits::default()),
        }
    }

    /// The place of the message in an arrival that is all of it, with its padding; a frame is
    /// unmasked there.
    #[inline]
    pub(crate) fn find(&mut self, arrival: &mut [u8]) -> Option<(usize, usize)> {
        let length = arrival.len() - PADDING;
        let mut from = 0;
        match self {
            Self::Lines(reader) => {
                match reader.next(&arrival[..length], &mut from, 1 << 20, Vec::new) {
                    Line::Inside { start, end } => Some((start, end)),
                    _ => None,
                }
            }
            Self::Frames(reader, limits) => {
                match reader.next(&mut arrival[..length], &mut from, limits, Vec::new) {
                    Next::Inside { start, end, is_compressed: false } => Some((start, end)),
                    _ => None,
                }
            }
        }
    }

    /// Puts the answer that `write` writes on `out`, framed.
    #[inline]
    pub(crate) fn answer<E>(
        &self,
        out: &mut Vec<u8>,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            Self::Lines(_) => {
                write(out)?;
                ndjson::end_line(out);
            }
            Self::Frames(..) => {
                let mark = writer::begin(out);
                write(out)?;
                writer::end(out, mark);
            }
        }
        Ok(())
    }
}
