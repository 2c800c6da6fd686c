//! WebSocket input: from bytes to messages, and the control frames answered here.
//!
//! A connection begins as HTTP and is upgraded once the handshake response is written. A ping is
//! answered before the frames after it are read. While a peer does not read, nothing is read from
//! it, pings included. An idle connection holds no buffer.
//!
//! Messages are neither inflated nor split here.

use corelane_base::time::Instant;
use corelane_transport::websocket::limits::{CloseCode, FrameLimits, ProtocolError};
use corelane_transport::websocket::reader::{FrameEvent, FrameReader};
use corelane_transport::websocket::writer;

use crate::connection::backpressure;
use crate::connection::closing::{self, CloseFrame};
use crate::connection::entry::Entry;
use crate::connection::state::{CloseReason, PeerClose, Phase};

/// An event of the WebSocket input of a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MessageEvent {
    /// A message that came in several frames or reads: call
    /// [`crate::connection::ConnectionTable::take_message`].
    Assembled {
        /// Whether the message has to be inflated.
        is_compressed: bool,
    },
    /// The peer violated the protocol: call
    /// [`crate::connection::Connections::fail_websocket`]. Reported once.
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

/// Upgrades an HTTP connection to WebSocket. Returns `false` if the connection is not HTTP or is
/// closing.
pub fn upgrade<S>(entry: &mut Entry<'_, S>, reader: FrameReader, now: Instant) -> bool {
    let connection = &mut *entry.connection;
    if connection.is_discarding() {
        return false;
    }
    let Some(partial) = connection.input.upgrade(reader, now) else { return false };
    connection.reading.set_suspended(false);
    connection.last_activity = now;
    let messages_in = connection.record.traffic.messages_in;
    if let Some(frames) = connection.input.websocket() {
        frames.discount_messages(messages_in);
    }
    entry.shared.pool.put(partial);
    entry.shared.statistics.websocket.upgraded += 1;
    let options = &entry.shared.options.websocket;
    let timeouts = [options.ping_interval, options.idle_timeout, options.first_message_timeout];
    if let Some(first) = timeouts.into_iter().min() {
        entry.arm_timer(now.after(first));
    }
    if entry.connection.reading.is_paused() {
        backpressure::start(entry, now);
    }
    true
}

/// Parses the next message in `arrival[*from..]`, unmasks it in place and advances `from`. Pings
/// are answered.
#[inline]
pub fn next<S>(
    entry: &mut Entry<'_, S>,
    arrival: &mut [u8],
    from: &mut usize,
    limits: &FrameLimits,
    now: Instant,
) -> MessageEvent {
    loop {
        let connection = &mut *entry.connection;
        if connection.is_discarding() {
            return discard_until_close(entry, arrival, from, now);
        }
        if !connection.reading.is_running() {
            return MessageEvent::NeedMore;
        }
        if connection.queued_bytes() > entry.shared.options.websocket.outgoing_bytes_max {
            backpressure::start(entry, now);
            return MessageEvent::NeedMore;
        }
        let Some(frames) = connection.input.websocket() else { return MessageEvent::NeedMore };
        match frames.next_frame(arrival, from, limits, || entry.shared.pool.take(), now) {
            FrameEvent::InPlace { start, end, is_compressed } => {
                record_message(entry, now);
                return MessageEvent::InPlace { start, end, is_compressed };
            }
            FrameEvent::Assembled { is_compressed } => {
                record_message(entry, now);
                return MessageEvent::Assembled { is_compressed };
            }
            FrameEvent::Ping => send_pong(entry),
            FrameEvent::Pong => {
                frames.pings.pongs_in = frames.pings.pongs_in.wrapping_add(1);
                entry.shared.statistics.websocket.pongs_in += 1;
            }
            FrameEvent::Close(code) => return handle_close_frame(entry, code, now),
            FrameEvent::Invalid(error) => return MessageEvent::Invalid(error),
            FrameEvent::NeedMore => {
                if frames.end_input(now) {
                    entry.arm_timer(now.after(entry.shared.options.websocket.fragment_timeout));
                }
                return MessageEvent::NeedMore;
            }
        }
    }
}

#[inline]
fn record_message<S>(entry: &mut Entry<'_, S>, now: Instant) {
    entry.shared.statistics.websocket.messages_in += 1;
    entry.connection.record.traffic.messages_in += 1;
    entry.record_message(now);
}

fn send_pong<S>(entry: &mut Entry<'_, S>) {
    entry.shared.statistics.websocket.pings_in += 1;
    if !entry.reserve_output() {
        return;
    }
    let connection = &mut *entry.connection;
    if let Some(frames) = connection.input.websocket() {
        frames.pings.pings_in = frames.pings.pings_in.wrapping_add(1);
        writer::write_pong(&mut connection.outgoing, frames.control_payload());
    }
}

/// Discards input of a closing connection up to the peer's close frame.
#[cold]
fn discard_until_close<S>(
    entry: &mut Entry<'_, S>,
    arrival: &mut [u8],
    from: &mut usize,
    now: Instant,
) -> MessageEvent {
    let bytes = &mut arrival[*from..];
    *from += bytes.len();
    let frames = entry.connection.input.websocket();
    match frames.and_then(|frames| frames.discard_until_close(bytes)) {
        Some(PeerClose(code)) => handle_close_frame(entry, code, now),
        None => MessageEvent::NeedMore,
    }
}

/// Handles the peer's close frame: echoes its code unless a close frame was sent already.
#[cold]
fn handle_close_frame<S>(
    entry: &mut Entry<'_, S>,
    code: Option<CloseCode>,
    now: Instant,
) -> MessageEvent {
    entry.shared.statistics.websocket.closes_in += 1;
    match entry.connection.close_state.phase() {
        Phase::Open | Phase::Draining => {
            let frame = CloseFrame::answer(code);
            closing::start_handshake(entry, frame, CloseReason::PeerClosed, now);
        }
        Phase::CloseFrameQueued | Phase::Lingering => {
            if let Some(frames) = entry.connection.input.websocket() {
                frames.record_close_answer();
            }
            entry.schedule_flush();
        }
        Phase::Closing => {}
    }
    MessageEvent::Closed(code)
}
