//! Input of a connection: pending bytes, and the parser with its incomplete message.

use std::mem::take;

use corelane_base::pool::{BufferPool, GROWS_BY_QUARTER_MIN, reserve_part};
use corelane_base::time::Instant;
use corelane_protocol::json::PaddedBuffer;
use corelane_protocol::message_head::MessageHead;
use corelane_transport::http::head::Head;
use corelane_transport::http::reader::{Assembled, RequestReader};
use corelane_transport::ndjson::LineEvent;
use corelane_transport::websocket::reader::FrameReader;

use super::codec::{Codec, CodecState};
use super::websocket_state::WebSocketState;
use crate::telemetry::open_work::PingCounts;

/// Received bytes that are not parsed yet, and the parser with its incomplete message.
///
/// The pending bytes come first: each receive reads them. They are boxed, because few connections
/// have any.
#[derive(Debug)]
#[repr(C)]
pub struct Input {
    pending: Option<Box<PendingInput>>,
    reader: CodecState,
}

/// Received bytes, not yet parsed from `start` on.
#[derive(Debug)]
struct PendingInput {
    bytes: Vec<u8>,
    start: usize,
}

/// Unread input that was discarded.
pub struct DiscardedInput {
    /// The input contained a close frame.
    pub has_close: bool,
    /// The buffers of the input, for the pool.
    pub buffers: [Vec<u8>; 2],
}

impl Input {
    pub(super) fn new(codec: Codec, now: Instant) -> Self {
        Self { pending: None, reader: CodecState::new(codec, now) }
    }

    /// Returns the length of the incomplete message and of the pending bytes.
    pub(super) const fn input_bytes(&self) -> usize {
        self.reader.held_bytes() + self.pending_bytes()
    }

    /// Returns whether an HTTP request is complete that was given back.
    pub(super) fn holds_complete_request(&self) -> bool {
        self.reader.holds_complete_request()
    }

    /// Returns the bytes held: those of a large message with the spare room of its buffer.
    pub(super) const fn held_bytes(&self) -> usize {
        let bytes = self.input_bytes();
        if bytes > GROWS_BY_QUARTER_MIN { self.capacity() } else { bytes }
    }

    /// Returns the capacity of all buffers.
    const fn capacity(&self) -> usize {
        let pending = match &self.pending {
            Some(pending) => pending.bytes.capacity(),
            None => 0,
        };
        pending + self.reader.held_capacity()
    }

    /// Moves an incomplete message whose buffer is nearly full to a larger one of `pool`. Returns
    /// whether there is one.
    #[cold]
    pub fn enlarge_buffer(&mut self, pool: &mut BufferPool, has_room: bool) -> bool {
        self.reader.enlarge_buffer(pool, has_room)
    }

    /// Returns whether new input must be queued behind pending input.
    #[inline]
    pub const fn has_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Returns the length of the pending input, with parsed bytes at its start.
    pub const fn pending_bytes(&self) -> usize {
        match &self.pending {
            Some(pending) => pending.bytes.len(),
            None => 0,
        }
    }

    /// Appends to the pending input.
    pub fn append_pending(&mut self, rest: &[u8], pool: &mut BufferPool) {
        let PendingInput { bytes, start } = &mut **self
            .pending
            .get_or_insert_with(|| Box::new(PendingInput { bytes: pool.take_small(), start: 0 }));
        if *start > bytes.len() / 2 {
            bytes.drain(..take(start));
        }
        reserve_part(bytes, rest.len(), usize::MAX);
        bytes.extend_from_slice(rest);
    }

    /// Takes the pending input and the offset of its first unparsed byte.
    pub fn take_pending(&mut self) -> (Vec<u8>, usize) {
        self.pending.take().map(|pending| (pending.bytes, pending.start)).unwrap_or_default()
    }

    /// Restores pending input of which the bytes before `from` are parsed.
    pub fn restore_pending(&mut self, bytes: Vec<u8>, from: usize) {
        self.pending = Some(Box::new(PendingInput { bytes, start: from }));
    }

    /// Discards the pending input and the incomplete message.
    pub fn discard(&mut self) -> DiscardedInput {
        let partial = self.reader.discard_partial();
        let (mut pending, from) = self.take_pending();
        // Discarded input still advances the frame parser, which must find the close frame.
        let has_close =
            self.websocket().is_some_and(|frames| frames.discard_pending(&mut pending[from..]));
        DiscardedInput { has_close, buffers: [pending, partial] }
    }

    #[inline]
    pub const fn codec(&self) -> Codec {
        self.reader.codec()
    }

    /// Parses the next text of a stream of texts in `arrival[*from..]` and advances `from`.
    #[inline]
    pub fn next_text(
        &mut self,
        arrival: &[u8],
        from: &mut usize,
        bytes_max: usize,
        spare: impl FnOnce() -> Vec<u8>,
    ) -> LineEvent {
        self.reader.next_text(arrival, from, bytes_max, spare)
    }

    /// Discards the incomplete text with its remaining bytes, and returns its buffer if there is
    /// one.
    pub fn skip_text(&mut self) -> Option<Vec<u8>> {
        self.reader.skip_text()
    }

    /// Returns what was read of the first text, if that is incomplete.
    pub fn first_text(&self, messages_in: u64) -> &[u8] {
        self.reader.first_text(messages_in)
    }

    /// Takes what can be read of a text that is too large.
    #[cold]
    pub fn take_head(&mut self) -> MessageHead {
        self.reader.take_head()
    }

    /// Lets a bare `\r` end a line, too, if the bytes before it are a complete text.
    pub fn end_lines_at_carriage_returns(&mut self) {
        if let CodecState::Ndjson(lines) = &mut self.reader {
            lines.end_at_carriage_returns();
        }
    }

    /// Returns the parser of HTTP requests, if that is the codec.
    #[inline]
    pub const fn requests(&mut self) -> Option<&mut RequestReader> {
        if let CodecState::Http(reader) = &mut self.reader { Some(reader) } else { None }
    }

    /// Returns the state of a WebSocket, if that is the codec.
    #[inline]
    pub fn websocket(&mut self) -> Option<&mut WebSocketState> {
        if let CodecState::WebSocket(frames) = &mut self.reader { Some(frames) } else { None }
    }

    /// Returns whether the codec is WebSocket and its backpressure has started.
    pub(super) const fn has_backpressure(&self) -> bool {
        matches!(&self.reader, CodecState::WebSocket(frames) if frames.has_backpressure())
    }

    /// Replaces the parser of HTTP requests by one of frames. Returns the buffer of the incomplete
    /// request, or `None` if the codec is not HTTP.
    pub fn upgrade(&mut self, reader: FrameReader, now: Instant) -> Option<Vec<u8>> {
        let partial = self.requests()?.discard_request();
        self.reader = CodecState::upgraded(reader, now);
        Some(partial)
    }

    /// Returns the head of the incomplete request, and the bytes it refers to.
    pub fn pending_head(&self) -> Option<(&Head, &[u8])> {
        if let CodecState::Http(reader) = &self.reader { Some(reader.pending_head()) } else { None }
    }

    /// Takes the head of the rejected request.
    pub fn take_rejected_head(&mut self) -> Vec<u8> {
        self.requests().map(RequestReader::take_rejected_head).unwrap_or_default()
    }

    /// Takes the complete request.
    pub fn take_request(&mut self) -> Option<Assembled> {
        self.requests().map(RequestReader::take)
    }

    /// Takes the complete text.
    pub fn take_text(&mut self) -> PaddedBuffer {
        self.reader.take_text()
    }

    /// Takes the complete WebSocket message.
    pub fn take_message(&mut self) -> PaddedBuffer {
        self.websocket().map(WebSocketState::take_message).unwrap_or_default()
    }

    /// Takes the last text of a stream that has ended without its terminator.
    pub fn take_last_text(&mut self) -> Option<PaddedBuffer> {
        self.reader.take_last_text()
    }

    /// Returns whether an HTTP request is incomplete, so that its timeout applies.
    pub const fn is_inside_request(&self) -> bool {
        matches!(&self.reader, CodecState::Http(reader) if reader.is_inside_request())
    }

    /// Returns whether the peer has answered the close frame of a WebSocket with its own.
    pub const fn is_close_answered(&self) -> bool {
        matches!(&self.reader, CodecState::WebSocket(frames) if frames.is_close_answered())
    }

    /// Returns the control frames of a WebSocket.
    pub(super) const fn pings(&self) -> PingCounts {
        if let CodecState::WebSocket(frames) = &self.reader {
            frames.pings
        } else {
            PingCounts { pings_in: 0, pings_out: 0, pongs_in: 0 }
        }
    }

    /// Returns whether the last WebSocket message is binary.
    pub fn is_binary(&mut self) -> bool {
        self.websocket().is_some_and(|frames| frames.is_binary())
    }
}
