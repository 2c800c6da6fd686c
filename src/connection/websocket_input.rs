//! WebSocket input: from bytes to messages, and the control frames answered here.
//!
//! A connection begins as HTTP and is upgraded once the handshake response is written. A ping is
//! answered before the frames after it are read. While a peer does not read, nothing is read from
//! it, pings included. An idle connection holds no buffer, only its [`WebSocketState`].
//!
//! Messages are neither inflated nor split here.

use super::Connections;
use super::closing::CloseFrame;
use super::state::{CloseReason, CodecState, Connection, Phase};
use super::websocket_state::{PeerClose, WebSocketState};
use crate::base::slab::Key;
use crate::base::time::Instant;
use crate::transport::websocket::code::CloseCode;
use crate::transport::websocket::limits::{FrameLimits, ProtocolError};
use crate::transport::websocket::reader::{FrameEvent, FrameReader};
use crate::transport::websocket::writer;

/// An event of the WebSocket input of a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MessageEvent {
    /// A message that came in several frames or reads: call
    /// [`Connections::take_message`].
    Assembled {
        /// Whether the message has to be inflated.
        is_compressed: bool,
    },
    /// The peer violated the protocol: call
    /// [`Connections::fail_websocket`]. Reported once.
    Invalid(ProtocolError),
    /// The peer sent a close frame, with this code if any. It is answered and the connection closes
    /// by itself. Reported once.
    Closed(Option<CloseCode>),
    /// A complete message, unmasked in place. UTF-8 is not validated.
    InPlace {
        /// Start of the message in the input.
        start: usize,
        /// End of the message in the input.
        end: usize,
        /// Whether the message has to be inflated.
        is_compressed: bool,
    },
    /// All input is consumed, or reading is stopped and `from` marks the rest.
    NeedMore,
}

impl<S> Connections<S> {
    /// Upgrades an HTTP connection to WebSocket, starting with the first unparsed byte. The
    /// handshake response must be written already. Returns `false` if the connection is not HTTP or
    /// is closing.
    ///
    /// Ends the loop over [`Connections::next_request`]; the remaining input is for
    /// [`Connections::next_message`].
    pub fn upgrade_to_websocket(&mut self, key: Key, reader: FrameReader, now: Instant) -> bool {
        let Some(connection) = self.table.get_mut(key) else { return false };
        let CodecState::Http(requests) = &mut connection.reader else { return false };
        if connection.phase != Phase::Open {
            return false;
        }
        self.pool.put(requests.discard_request());
        connection.reader = CodecState::WebSocket(Box::new(WebSocketState::new(reader, now)));
        connection.is_suspended = false;
        connection.last_activity = now;
        let is_paused = connection.paused;
        self.statistics.websocket.upgraded += 1;
        let options = &self.options.websocket;
        self.arm_timer(key, now.after(options.ping_interval.min(options.idle_timeout)));
        if is_paused {
            self.start_backpressure(key, now);
        }
        true
    }

    /// Parses the next message in `arrival[*from..]`, unmasks it in place and advances `from`; see
    /// [`FrameReader::next`]. Pings are answered.
    ///
    /// Call until it returns [`MessageEvent::NeedMore`], then pass the unconsumed rest to
    /// [`Connections::append_pending_input`].
    #[inline]
    pub fn next_message(
        &mut self,
        key: Key,
        arrival: &mut [u8],
        from: &mut usize,
        limits: &FrameLimits,
        now: Instant,
    ) -> MessageEvent {
        loop {
            let Some(connection) = self.table.get_mut(key) else {
                *from = arrival.len();
                return MessageEvent::NeedMore;
            };
            if connection.phase != Phase::Open {
                return self.discard_until_close(key, arrival, from, now);
            }
            if connection.paused {
                return MessageEvent::NeedMore;
            }
            if connection.queued_bytes() > self.options.websocket.outgoing_bytes_max {
                self.start_backpressure(key, now);
                return MessageEvent::NeedMore;
            }
            let CodecState::WebSocket(frames) = &mut connection.reader else {
                return MessageEvent::NeedMore;
            };
            if let Some(strain) = frames.backpressure {
                frames.end_backpressure(strain, now);
            }
            let pool = &mut self.pool;
            let next = frames.reader.next(arrival, from, limits, || pool.take());
            frames.last_received = now;
            match next {
                FrameEvent::InPlace { start, end, is_compressed } => {
                    self.record_websocket_message(key, now);
                    return MessageEvent::InPlace { start, end, is_compressed };
                }
                FrameEvent::Assembled { is_compressed } => {
                    frames.message_start = None;
                    self.record_websocket_message(key, now);
                    return MessageEvent::Assembled { is_compressed };
                }
                FrameEvent::Ping => self.send_pong(key),
                FrameEvent::Pong => self.statistics.websocket.pongs_in += 1,
                FrameEvent::Close(code) => return self.handle_close_frame(key, code, now),
                FrameEvent::Invalid(fault) => return MessageEvent::Invalid(fault),
                FrameEvent::NeedMore => {
                    self.start_message_timer(key, now);
                    return MessageEvent::NeedMore;
                }
            }
        }
    }

    /// Returns the message announced by [`MessageEvent::Assembled`], padded, and its length. Return
    /// the buffer to the pool.
    pub fn take_message(&mut self, key: Key) -> (Vec<u8>, usize) {
        let frames = self.table.get_mut(key).and_then(Connection::websocket);
        frames.map(|frames| frames.reader.take()).unwrap_or_default()
    }

    /// Returns whether the last message is binary.
    #[cfg(feature = "internals")]
    pub fn is_binary(&mut self, key: Key) -> bool {
        let frames = self.table.get_mut(key).and_then(Connection::websocket);
        frames.is_some_and(|frames| frames.reader.is_binary())
    }

    #[inline]
    fn record_websocket_message(&mut self, key: Key, now: Instant) {
        self.statistics.websocket.messages_in += 1;
        let Some(connection) = self.table.get_mut(key) else { return };
        connection.record_message(now, &mut self.pool);
        if connection.schedule_flush() {
            self.flush_queue.push(key);
        }
    }

    /// Starts the message timer if a message is incomplete at the end of the input.
    #[inline]
    fn start_message_timer(&mut self, key: Key, now: Instant) {
        let Some(connection) = self.table.get_mut(key) else { return };
        let Some(frames) = connection.websocket() else { return };
        if !frames.reader.is_inside_message() {
            frames.message_start = None;
        } else if frames.message_start.is_none() {
            frames.message_start = Some(now);
            self.arm_timer(key, now.after(self.options.websocket.fragment_timeout));
        }
    }

    fn send_pong(&mut self, key: Key) {
        self.statistics.websocket.pings_in += 1;
        if self.outgoing(key).is_none() {
            return;
        }
        let Some(connection) = self.table.get_mut(key) else { return };
        if let CodecState::WebSocket(frames) = &connection.reader {
            writer::write_pong(&mut connection.outgoing, frames.reader.control_payload());
        }
    }

    /// Discards input of a closing connection up to the peer's close frame.
    #[cold]
    fn discard_until_close(
        &mut self,
        key: Key,
        arrival: &mut [u8],
        from: &mut usize,
        now: Instant,
    ) -> MessageEvent {
        let bytes = &mut arrival[*from..];
        *from += bytes.len();
        let Some(connection) = self.table.get_mut(key) else { return MessageEvent::NeedMore };
        let close = connection.websocket().and_then(|frames| frames.discard_until_close(bytes));
        close.map_or(MessageEvent::NeedMore, |PeerClose(code)| {
            self.handle_close_frame(key, code, now)
        })
    }

    /// Handles the peer's close frame: echoes its code unless a close frame was sent already.
    #[cold]
    fn handle_close_frame(
        &mut self,
        key: Key,
        code: Option<CloseCode>,
        now: Instant,
    ) -> MessageEvent {
        self.statistics.websocket.closes_in += 1;
        let Some(connection) = self.table.get_mut(key) else { return MessageEvent::NeedMore };
        match connection.phase {
            Phase::Open | Phase::Draining => {
                self.start_closing(
                    key,
                    CloseFrame { code, reason: "" },
                    CloseReason::PeerClosed,
                    now,
                );
            }
            Phase::CloseFrameQueued | Phase::Lingering => {
                if let Some(frames) = connection.websocket() {
                    frames.is_close_answered = true;
                }
                self.schedule_flush(key);
            }
            Phase::Closing => {}
        }
        MessageEvent::Closed(code)
    }
}
