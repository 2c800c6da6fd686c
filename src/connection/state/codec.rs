//! The codec of a connection: the state of its parser, and how its messages stand in the output.
//!
//! A connection of lines or of frames carries messages only. One of HTTP carries requests, and its
//! messages belong to their exchanges.

use corelane_base::pool::BufferPool;
use corelane_base::time::Instant;
use corelane_protocol::json::PaddedBuffer;
use corelane_protocol::message_head::MessageHead;
use corelane_transport::http::reader::RequestReader;
use corelane_transport::ndjson::{self, LineEvent, LineReader};
use corelane_transport::websocket::deflate::Deflater;
use corelane_transport::websocket::reader::FrameReader;
use corelane_transport::websocket::writer::{self, FrameMark};

use super::websocket_state::WebSocketState;
use crate::connection::WebSocketStatistics;

/// The codec of a connection.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Codec {
    /// Newline-delimited JSON.
    #[default]
    Ndjson,
    /// HTTP/1.1 requests.
    Http,
    /// WebSocket frames, after [`crate::connection::Connections::upgrade_to_websocket`].
    WebSocket,
}

/// Where a message that is being written stands in the output.
#[derive(Debug)]
pub enum MessageMark {
    Line,
    Frame(FrameMark),
}

impl Codec {
    /// Begins a message in `out`; its text is to be appended. Returns `None` for HTTP.
    #[inline]
    pub(in crate::connection) fn begin_message(self, out: &mut Vec<u8>) -> Option<MessageMark> {
        match self {
            Self::Ndjson => Some(MessageMark::Line),
            Self::WebSocket => Some(MessageMark::Frame(writer::begin_message(out))),
            Self::Http => None,
        }
    }
}

impl MessageMark {
    /// Ends the message. That of a WebSocket is compressed if there are `window_bits`.
    #[inline]
    pub fn end(
        self,
        out: &mut Vec<u8>,
        window_bits: u8,
        deflater: &mut Deflater,
        counters: &mut WebSocketStatistics,
    ) {
        match self {
            Self::Line => ndjson::end_line(out),
            Self::Frame(mark) => {
                counters.messages_out += 1;
                counters.bytes_out += (out.len() - mark.body()) as u64;
                if window_bits == 0 {
                    writer::end_message(out, mark);
                } else {
                    let deflater = deflater.with_window_bits(window_bits);
                    writer::end_compressed_message(out, mark, deflater);
                }
            }
        }
    }

    /// Removes the message, whose text is empty.
    #[inline]
    pub fn cancel(self, out: &mut Vec<u8>) {
        match self {
            Self::Line => {}
            Self::Frame(mark) => writer::cancel_message(out, mark),
        }
    }
}

/// Free bytes at the end of a buffer below which it is nearly full: more than what is reserved for
/// the next part of a message, and its padding.
const NEARLY_FULL_BYTES: usize = 128 << 10;

/// The parser state of a connection.
#[derive(Debug)]
pub(super) enum CodecState {
    Ndjson(LineReader),
    Http(RequestReader),
    WebSocket(Box<WebSocketState>),
}

impl CodecState {
    pub(super) fn new(codec: Codec, now: Instant) -> Self {
        match codec {
            Codec::Ndjson => Self::Ndjson(LineReader::new()),
            Codec::Http => Self::Http(RequestReader::new()),
            Codec::WebSocket => Self::upgraded(FrameReader::new(), now),
        }
    }

    /// Creates the state of a connection that is upgraded to WebSocket.
    pub(super) fn upgraded(reader: FrameReader, now: Instant) -> Self {
        Self::WebSocket(Box::new(WebSocketState::new(reader, now)))
    }

    pub(super) const fn codec(&self) -> Codec {
        match self {
            Self::Ndjson(_) => Codec::Ndjson,
            Self::Http(_) => Codec::Http,
            Self::WebSocket(_) => Codec::WebSocket,
        }
    }

    /// Returns the bytes of the incomplete message.
    pub(super) const fn held_bytes(&self) -> usize {
        match self {
            Self::Ndjson(reader) => reader.held_bytes(),
            Self::Http(reader) => reader.held_bytes(),
            Self::WebSocket(frames) => frames.held_bytes(),
        }
    }

    /// Returns the capacity of the buffer of the incomplete message.
    pub(super) const fn held_capacity(&self) -> usize {
        match self {
            Self::Ndjson(reader) => reader.held_capacity(),
            Self::Http(reader) => reader.held_capacity(),
            Self::WebSocket(frames) => frames.held_capacity(),
        }
    }

    /// Moves the incomplete message to a larger buffer that `pool` keeps, if its own is nearly full
    /// and that of the pool is not much too large.
    #[cold]
    pub(super) fn enlarge_buffer(&mut self, pool: &mut BufferPool, has_room: bool) -> bool {
        let buffer = match self {
            Self::Ndjson(reader) => reader.buffer_mut(),
            Self::Http(reader) => reader.buffer_mut(),
            Self::WebSocket(frames) => Some(frames.buffer_mut()),
        };
        let Some(buffer) = buffer else { return false };
        let spare = if has_room { buffer.len() * 3 } else { buffer.len() / 4 };
        buffer.capacity() - buffer.len() < (buffer.len() / 16).max(NEARLY_FULL_BYTES)
            && pool.enlarge(buffer, 0..=buffer.len().saturating_add(spare))
    }

    /// Returns whether an HTTP request is complete that was given back.
    pub(super) fn holds_complete_request(&self) -> bool {
        matches!(self, Self::Http(reader) if reader.holds_complete_request())
    }

    /// Returns what was read of the first text of a stream of texts, if that is incomplete. An
    /// incomplete frame that is compressed is read as such.
    pub(super) fn first_text(&self, messages_in: u64) -> &[u8] {
        match self {
            Self::Ndjson(reader) if messages_in == 0 => reader.held(),
            Self::WebSocket(frames) => frames.first_text(messages_in),
            Self::Ndjson(_) | Self::Http(_) => &[],
        }
    }

    /// Discards the incomplete message and returns its buffer.
    pub(super) fn discard_partial(&mut self) -> Vec<u8> {
        match self {
            Self::Ndjson(reader) => reader.skip_line().unwrap_or_default(),
            Self::Http(reader) => reader.discard_request(),
            Self::WebSocket(frames) => frames.discard_messages(),
        }
    }

    /// Parses the next text of a stream of texts in `arrival[*from..]` and advances `from`.
    #[inline]
    pub(super) fn next_text(
        &mut self,
        arrival: &[u8],
        from: &mut usize,
        bytes_max: usize,
        spare: impl FnOnce() -> Vec<u8>,
    ) -> LineEvent {
        match self {
            Self::Ndjson(reader) => reader.next(arrival, from, bytes_max, spare),
            Self::Http(_) | Self::WebSocket(_) => {
                *from = arrival.len();
                LineEvent::NeedMore
            }
        }
    }

    /// Takes the complete text of a stream of texts.
    pub(super) fn take_text(&mut self) -> PaddedBuffer {
        match self {
            Self::Ndjson(reader) => reader.take(),
            Self::Http(_) | Self::WebSocket(_) => PaddedBuffer::default(),
        }
    }

    /// Takes what can be read of a text that is too large.
    #[cold]
    pub(super) fn take_head(&mut self) -> MessageHead {
        match self {
            Self::Ndjson(reader) => reader.take_head(),
            Self::Http(_) | Self::WebSocket(_) => MessageHead::default(),
        }
    }

    /// Discards the incomplete text with its remaining bytes, and returns its buffer if there is
    /// one.
    pub(super) fn skip_text(&mut self) -> Option<Vec<u8>> {
        match self {
            Self::Ndjson(reader) => reader.skip_line(),
            Self::Http(_) | Self::WebSocket(_) => None,
        }
    }

    /// Takes the last text of a stream that has ended without its terminator. An incomplete HTTP
    /// request or frame is dropped.
    pub(super) fn take_last_text(&mut self) -> Option<PaddedBuffer> {
        match self {
            Self::Ndjson(reader) => reader.finish(),
            Self::Http(_) | Self::WebSocket(_) => None,
        }
    }
}

/// Marks of a connection for the flush at the end of the turn, and the window of the compressor of
/// its messages, in one byte.
#[derive(Debug, Default)]
pub(super) struct OutputMarks(u8);

/// The flush is scheduled.
const SCHEDULED: u8 = 1;
/// There is output to account.
const UNACCOUNTED: u8 = 2;
/// The bits of the window, 9 to 15, are those from this one on.
const WINDOW_SHIFT: u32 = 4;

impl OutputMarks {
    /// Marks the flush as scheduled. Returns `false` if it was already.
    #[inline]
    pub(super) const fn schedule(&mut self) -> bool {
        let is_new = self.0 & SCHEDULED == 0;
        self.0 |= SCHEDULED;
        is_new
    }

    /// Marks output that was added outside of the request path, which accounts its own.
    #[inline]
    pub(super) const fn add_unaccounted_output(&mut self) {
        self.0 |= UNACCOUNTED;
    }

    /// Removes the marks of the flush. Returns whether there is output to account.
    #[inline]
    pub(super) const fn start(&mut self) -> bool {
        let is_unaccounted = self.0 & UNACCOUNTED != 0;
        self.0 &= !(SCHEDULED | UNACCOUNTED);
        is_unaccounted
    }

    /// Sets the window of the compressor of messages: 0 for none, or 9 to 15 bits.
    pub(super) const fn set_window_bits(&mut self, bits: u8) {
        self.0 = self.0 & (SCHEDULED | UNACCOUNTED) | bits << WINDOW_SHIFT;
    }

    /// Returns the window of the compressor of messages; 0 if they are not compressed.
    #[inline]
    pub(super) const fn window_bits(&self) -> u8 {
        self.0 >> WINDOW_SHIFT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flush_keeps_window_of_compressor() {
        let mut marks = OutputMarks::default();
        marks.set_window_bits(15);
        assert!(marks.schedule() && !marks.schedule());
        marks.add_unaccounted_output();
        assert!(marks.start() && !marks.start());
        assert_eq!(marks.window_bits(), 15);
        marks.schedule();
        marks.set_window_bits(9);
        assert!(!marks.schedule());
        assert_eq!(marks.window_bits(), 9);
    }
}
