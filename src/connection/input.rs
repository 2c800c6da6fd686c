//! Input of connections: lines, HTTP requests, WebSocket messages and the end of the stream.
//!
//! While reading is stopped, input is stored; each codec returns `NeedMore` and leaves it unparsed.
//!
//! HTTP requests are read one at a time. While reading is suspended, input is stored up to 64 KiB;
//! beyond that the receive stops. The end of the stream is noticed even then,
//! because the client may have stopped waiting for the response.
//!
//! A WebSocket connection begins as HTTP and is upgraded once the handshake response is written. A
//! ping is answered before the frames after it are read. While a peer does not read, nothing is
//! read from it, pings included. An idle connection holds no buffer. Messages are neither inflated
//! nor split here.

use std::io;

use corelane_base::pool::BufferPool;
use corelane_base::time::Instant;
use corelane_engine::ring::Ring;
use corelane_transport::http::head::RequestLimits;
use corelane_transport::http::reader::{Assembled, RequestEvent};
use corelane_transport::ndjson::LineEvent;
use corelane_transport::websocket::limits::{CloseCode, FrameLimits, ProtocolError};
use corelane_transport::websocket::reader::{FrameEvent, FrameReader};
use corelane_transport::websocket::writer;

use super::closing::{self, CloseFrame};
use super::state::{CloseReason, Connection, PeerClose, Phase};
use super::table::Entry;
use super::{ConnectionEvent, output};

/// Restores pending input of which the bytes before `from` are parsed. The rest stays in place and
/// is not copied for each line.
pub(super) fn restore_pending<S>(
    connection: Option<&mut Connection<S>>,
    bytes: Vec<u8>,
    from: usize,
    pool: &mut BufferPool,
) {
    match connection.filter(|connection| !connection.is_discarding() && from < bytes.len()) {
        Some(connection) => connection.input.restore_pending(bytes, from),
        None => pool.put(bytes),
    }
}

/// Handles the end of stream or the failure of a receive.
pub(super) fn handle_end_of_stream<S, R: Ring>(
    entry: &mut Entry<'_, S>,
    ring: &mut R,
    result: &io::Result<()>,
) -> ConnectionEvent {
    let connection = &mut *entry.connection;
    connection.reading.end();
    if result.is_err() {
        connection.close(ring, CloseReason::SocketError);
        return ConnectionEvent::Failed(entry.key);
    }
    match connection.close_state.phase() {
        // The peer may have shut down only its sending side and still wait for responses.
        Phase::Open | Phase::Draining => ConnectionEvent::EndOfStream(entry.key),
        Phase::Lingering => {
            connection.close(ring, CloseReason::PeerClosed);
            ConnectionEvent::None
        }
        Phase::CloseFrameQueued | Phase::Closing => ConnectionEvent::None,
    }
}

/// Parses the next line in `arrival[*from..]` and advances `from`.
#[inline]
pub(super) fn next_line<S>(
    entry: &mut Entry<'_, S>,
    arrival: &[u8],
    from: &mut usize,
    now: Instant,
) -> LineEvent {
    if *from > 0 {
        output::apply_backpressure(entry);
    }
    let connection = &mut *entry.connection;
    if !connection.is_read() {
        if connection.is_discarding() {
            *from = arrival.len();
        }
        return LineEvent::NeedMore;
    }
    let bytes_max = entry.shared.options.message_bytes_max;
    let line =
        connection.input.next_text(arrival, from, bytes_max, || entry.shared.pool.take_small());
    if line != LineEvent::NeedMore {
        entry.connection.record.traffic.messages_in += u64::from(line != LineEvent::TooLarge);
        entry.record_message(now);
    }
    line
}

/// Discards the incomplete line including its remaining bytes. Returns `false` if there is none.
pub(super) fn skip_line<S>(entry: &mut Entry<'_, S>) -> bool {
    let line = entry.connection.input.skip_text();
    line.map(|line| entry.shared.pool.put(line)).is_some()
}

/// Parses the next request in `arrival[*from..]` and advances `from`.
#[inline]
pub(super) fn next_request<S>(
    entry: &mut Entry<'_, S>,
    arrival: &[u8],
    from: &mut usize,
    limits: &RequestLimits,
    now: Instant,
) -> RequestEvent {
    let connection = &mut *entry.connection;
    if !connection.is_read() {
        if connection.is_discarding() {
            *from = arrival.len();
        }
        return RequestEvent::NeedMore;
    }
    let Some(requests) = connection.input.requests() else {
        // Upgraded: the rest of the input is WebSocket frames.
        return RequestEvent::NeedMore;
    };
    let was_inside = requests.is_inside_request();
    let next = requests.next(arrival, from, limits, || entry.shared.pool.take_small());
    if !matches!(next, RequestEvent::NeedMore) {
        let is_complete = matches!(next, RequestEvent::InPlace { .. } | RequestEvent::Assembled);
        entry.connection.record.traffic.messages_in += u64::from(is_complete);
        entry.record_message(now);
    } else if !was_inside && requests.is_inside_request() {
        // The timeout of an incomplete request starts here.
        connection.last_activity = now;
    }
    next
}

/// Has the request that was returned last read again after
/// [`try_resume`](crate::connection::Connections::try_resume): one in place from its start, which
/// is the first byte of the rest of the input, an assembled one as it is.
#[cold]
pub fn restore_request<S>(connection: &mut Connection<S>, assembled: Option<Assembled>) {
    connection.record.traffic.messages_in -= 1;
    connection.reading.pause_restored();
    if let (Some(requests), Some(assembled)) = (connection.input.requests(), assembled) {
        requests.restore(assembled);
    }
}

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
pub(super) fn upgrade<S>(entry: &mut Entry<'_, S>, reader: FrameReader, now: Instant) -> bool {
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
        output::start_backpressure(entry, now);
    }
    true
}

/// Parses the next message in `arrival[*from..]`, unmasks it in place and advances `from`. Pings
/// are answered.
#[inline]
pub(super) fn next_message<S>(
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
            output::start_backpressure(entry, now);
            return MessageEvent::NeedMore;
        }
        let Some(frames) = connection.input.websocket() else { return MessageEvent::NeedMore };
        match frames.next_frame(arrival, from, limits, || entry.shared.pool.take_small(), now) {
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
