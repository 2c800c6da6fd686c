//! Input of connections: lines, HTTP requests, WebSocket messages and the end of the stream.
//!
//! While reading is stopped, input is stored; each codec returns `NeedMore` and leaves it unparsed.

pub(super) mod lines;
pub(super) mod messages;
pub(super) mod requests;

use std::io;

use corelane_base::pool::BufferPool;
use corelane_base::slab::Key;
use corelane_engine::ring::Ring;

use super::ConnectionEvent;
use super::state::{CloseReason, Connection, Phase};

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
    (key, connection): (Key, &mut Connection<S>),
    ring: &mut R,
    result: &io::Result<()>,
) -> ConnectionEvent {
    connection.reading.end();
    if result.is_err() {
        connection.close(ring, CloseReason::SocketError);
        return ConnectionEvent::Failed(key);
    }
    match connection.close_state.phase() {
        // The peer may have shut down only its sending side and still wait for responses.
        Phase::Open | Phase::Draining => ConnectionEvent::EndOfStream(key),
        Phase::Lingering => {
            connection.close(ring, CloseReason::PeerClosed);
            ConnectionEvent::None
        }
        Phase::CloseFrameQueued | Phase::Closing => ConnectionEvent::None,
    }
}
