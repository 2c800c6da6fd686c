//! State of one connection.

use std::mem::replace;
use std::net::SocketAddr;

use super::websocket_state::WebSocketState;
use super::{ConnectionOptions, SocketPair};
use crate::base::pool::BufferPool;
use crate::base::time::Instant;
use crate::engine::ring::Socket;
use crate::transport::http::reader::RequestReader;
use crate::transport::ndjson::LineReader;
use crate::transport::websocket::reader::FrameReader;

/// One connection: two sockets, the input being parsed, the output being sent, and the state `S`
/// of its owner.
///
/// ```text
///    close_gracefully, end of stream    all responses sent        peer closed, timeout
///  Open ─────────────────────▶ Draining ─────────────▶ Lingering ─────────────────▶ Closing
///    └────────────────────── error, timeout, close ──────────────────────────────────▲
/// ```
///
/// A WebSocket passes through `CloseFrameQueued` between Draining and Lingering. A close frame of
/// the peer, a protocol violation or a timeout leads there directly.
///
/// The fields used by each receive, flush and send completion come first, so that they share cache
/// lines.
#[derive(Debug)]
#[repr(C)]
pub struct Connection<S> {
    pub(super) phase: Phase,
    pub(super) is_flush_scheduled: bool,
    pub(super) paused: bool,
    /// Reading is suspended until the request in progress is answered.
    pub(super) is_suspended: bool,
    /// The peer has closed its sending side.
    pub(super) input_ended: bool,
    /// At least one complete message has arrived.
    pub(super) has_received_message: bool,
    /// Why the connection is closing, once known.
    pub(super) close_reason: Option<CloseReason>,
    pub(super) receive: Socket,
    pub(super) send: Socket,
    /// Bytes submitted to the ring and not yet sent.
    pub(super) sending_bytes: usize,
    /// Output buffered in this turn: complete texts with their terminators.
    pub outgoing: Vec<u8>,
    /// Bytes last accounted for this connection, see [`super::Connections::account_memory`].
    pub(super) accounted_bytes: usize,
    /// Time of the last complete message, response or send progress; initially the time of opening.
    pub(super) last_activity: Instant,
    /// Received bytes not yet parsed, from `pending_input_start` on.
    pub(super) pending_input: Vec<u8>,
    pub(super) reader: CodecState,
    pub(super) pending_input_start: usize,
    /// Responses the peer is waiting for.
    pub pending_work: PendingWork,
    /// State of the connection's owner.
    pub state: S,
    /// Address of the peer, if known.
    pub peer: Option<SocketAddr>,
}

/// The codec of a connection.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Codec {
    /// Newline-delimited JSON.
    #[default]
    Ndjson,
    /// HTTP/1.1 requests.
    Http,
    /// WebSocket frames, after [`super::Connections::upgrade_to_websocket`].
    WebSocket,
}

/// The parser state of a connection.
#[derive(Debug)]
pub(super) enum CodecState {
    Ndjson(LineReader),
    Http(RequestReader),
    WebSocket(Box<WebSocketState>),
}

impl CodecState {
    fn new(framing: Codec, now: Instant) -> Self {
        match framing {
            Codec::Ndjson => Self::Ndjson(LineReader::new()),
            Codec::Http => Self::Http(RequestReader::new()),
            Codec::WebSocket => {
                Self::WebSocket(Box::new(WebSocketState::new(FrameReader::new(), now)))
            }
        }
    }

    const fn held_bytes(&self) -> usize {
        match self {
            Self::Ndjson(reader) => reader.held_bytes(),
            Self::Http(reader) => reader.held_bytes(),
            Self::WebSocket(frames) => frames.reader.held_bytes(),
        }
    }

    /// Discards the incomplete message and returns its buffer.
    fn discard_partial(&mut self) -> Vec<u8> {
        match self {
            Self::Ndjson(reader) => reader.skip_line().unwrap_or_default(),
            Self::Http(reader) => reader.discard_request(),
            Self::WebSocket(frames) => frames.reader.discard_messages(),
        }
    }
}

/// Responses a peer is waiting for.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PendingWork {
    /// Requests not yet answered in the output buffer.
    pub pending_responses: u32,
    /// The peer has an open notification stream. The idle timeout does not apply, and closing does
    /// not wait for it.
    pub has_open_stream: bool,
}

impl PendingWork {
    /// Counts one request as answered.
    pub const fn complete_request(&mut self) {
        self.pending_responses = self.pending_responses.saturating_sub(1);
    }
}

/// Why a connection is closed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CloseReason {
    /// The server is draining.
    Drain,
    /// The socket failed: reset or unreachable.
    SocketError,
    /// The peer violated the protocol, exceeded a limit or did not read.
    ProtocolViolation,
    /// The idle timeout expired.
    IdleTimeout,
    /// No complete message arrived in time.
    MessageTimeout,
    /// The peer closed the connection.
    PeerClosed,
    /// The connection limit was reached; the connection was never served.
    Refused,
}

/// Phase of a connection's life.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Phase {
    /// Reading and writing.
    Open,
    /// Not reading; closes when all pending responses are sent.
    Draining,
    /// A close frame is queued: not reading, no further output.
    CloseFrameQueued,
    /// The sending side is shut down; further input is discarded.
    Lingering,
    /// Close was submitted to the ring.
    Closing,
}

impl<S> Connection<S> {
    pub(super) fn new(stream: SocketPair, state: S, now: Instant) -> Self {
        Self {
            state,
            outgoing: Vec::new(),
            pending_work: PendingWork { pending_responses: 0, has_open_stream: false },
            peer: stream.peer,
            receive: stream.receive,
            send: stream.send,
            reader: CodecState::new(stream.codec, now),
            pending_input: Vec::new(),
            pending_input_start: 0,
            sending_bytes: 0,
            last_activity: now,
            accounted_bytes: 0,
            phase: Phase::Open,
            is_flush_scheduled: false,
            paused: false,
            is_suspended: false,
            input_ended: false,
            close_reason: None,
            has_received_message: false,
        }
    }

    /// Counts one request as answered and restarts the idle timeout.
    pub const fn complete_request(&mut self, now: Instant) {
        self.pending_work.complete_request();
        self.last_activity = now;
    }

    /// Returns the bytes waiting to be sent: buffered plus submitted.
    pub const fn queued_bytes(&self) -> usize {
        self.outgoing.len() + self.sending_bytes
    }

    /// Returns the output limit in bytes; above it reading stops and optional messages are dropped.
    #[inline]
    pub const fn queue_bytes_max(&self, options: &ConnectionOptions) -> usize {
        match self.reader {
            CodecState::Ndjson(_) | CodecState::Http(_) => options.outgoing_bytes_max,
            CodecState::WebSocket(_) => options.websocket.outgoing_bytes_max,
        }
    }

    /// Returns whether the output is low enough to resume reading.
    pub(super) const fn is_drained(&self, options: &ConnectionOptions) -> bool {
        self.queued_bytes() <= self.queue_bytes_max(options) / 2
    }

    /// Returns the bytes held for this connection: incomplete message, pending input and output.
    pub(super) const fn held_bytes(&self) -> usize {
        self.reader.held_bytes() + self.pending_input.len() + self.queued_bytes()
    }

    /// Records a complete message and takes an output buffer for its response.
    #[inline]
    pub(super) fn record_message(&mut self, now: Instant, pool: &mut BufferPool) {
        self.last_activity = now;
        self.has_received_message = true;
        if self.outgoing.capacity() == 0 {
            self.outgoing = pool.take();
        }
    }

    /// Marks the connection for the flush at the end of the turn. Returns `false` if it is marked
    /// already.
    #[inline]
    pub(super) const fn schedule_flush(&mut self) -> bool {
        !replace(&mut self.is_flush_scheduled, true)
    }

    /// Returns whether input is parsed at present.
    #[inline]
    pub fn is_read(&self) -> bool {
        self.phase == Phase::Open && !self.paused && !self.is_suspended
    }

    /// Returns whether input is discarded.
    pub fn is_discarding(&self) -> bool {
        self.phase != Phase::Open
    }

    /// Returns whether responses are pending or output is unsent.
    pub(super) const fn has_pending_work(&self) -> bool {
        self.pending_work.pending_responses > 0 || self.queued_bytes() > 0
    }

    /// Discards unread input. Returns whether it contained a close frame, and the buffers.
    pub(super) fn discard_input(&mut self) -> (bool, [Vec<u8>; 2]) {
        let partial = self.reader.discard_partial();
        let mut pending_input = std::mem::take(&mut self.pending_input);
        let from = std::mem::take(&mut self.pending_input_start);
        // Discarded input still advances the frame parser, which must find the close frame.
        let has_close = self
            .websocket()
            .is_some_and(|frames| frames.discard_pending(&mut pending_input[from..]));
        (has_close, [pending_input, partial])
    }

    pub(super) const fn is_ndjson(&self) -> bool {
        matches!(self.reader, CodecState::Ndjson(_))
    }

    pub(super) const fn is_websocket(&self) -> bool {
        matches!(self.reader, CodecState::WebSocket(_))
    }

    /// Returns whether the peer has answered the close frame with its own.
    pub(super) const fn is_close_answered(&self) -> bool {
        matches!(&self.reader, CodecState::WebSocket(frames) if frames.is_close_answered)
    }

    pub(super) fn websocket(&mut self) -> Option<&mut WebSocketState> {
        match &mut self.reader {
            CodecState::WebSocket(frames) => Some(frames),
            CodecState::Ndjson(_) | CodecState::Http(_) => None,
        }
    }

    /// Returns whether an HTTP request is incomplete, so that its timeout applies.
    pub(super) const fn is_inside_request(&self) -> bool {
        match &self.reader {
            CodecState::Ndjson(_) | CodecState::WebSocket(_) => false,
            CodecState::Http(reader) => reader.is_inside_request(),
        }
    }

    /// Sets the close reason unless one is set already.
    pub(super) fn set_close_reason(&mut self, reason: CloseReason) {
        self.close_reason.get_or_insert(reason);
    }
}
