//! Live connections: sockets, codecs, output buffers, backpressure and closing.
//!
//! [`Connections`] holds the connections of one shard. It turns ring completions into texts (lines,
//! HTTP requests, WebSocket messages), buffers the responses and sends them once a turn, applies
//! backpressure and timeouts, and closes so that the last response still arrives.
//!
//! Invariants:
//!
//! - At most one send per connection is submitted to the ring; later output is buffered behind it,
//!   so responses leave in the order in which they were written.
//! - A connection whose peer does not read holds at most `outgoing_bytes_max` bytes plus one
//!   response, and is not read until half of that is sent.
//! - An idle connection holds no buffer.
//! - A connection leaves the table only after the ring has closed its sockets.
//!
//! The texts themselves are not inspected here.

#![forbid(unsafe_code)]

pub mod options;

mod websocket_state;

pub mod listener;
pub mod state;

mod closing;
mod http_input;
mod input;
mod output;
mod timers;

mod websocket_input;

use std::net::SocketAddr;

pub use self::options::{ConnectionOptions, WebSocketFrameOptions};
pub use self::state::{CloseReason, Codec, Connection, PendingWork};
pub use self::websocket_input::MessageEvent;
use crate::base::pool::BufferPool;
use crate::base::slab::{Key, Slab};
use crate::base::time::Instant;
use crate::engine::ring::{Operation, Ring, Socket};
use crate::engine::timer::TimerWheel;

use self::closing::CloseFrame;
use self::state::Phase;

/// The connections of one shard, each with a state of type `S` that belongs to their owner.
#[derive(Debug)]
pub struct Connections<S> {
    /// The table of connections.
    pub table: Slab<Connection<S>>,
    /// Pool of input and output buffers.
    pub pool: BufferPool,
    /// Limits and timeouts.
    pub options: ConnectionOptions,
    /// Counters since the start.
    pub statistics: ConnectionStatistics,
    keys_by_socket: Vec<Option<Key>>,
    flush_queue: Vec<Key>,
    timers: TimerWheel<Key>,
    held_bytes: usize,
}

/// Counters of all connections of a shard.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ConnectionStatistics {
    /// Times reading stopped because a peer did not read.
    pub read_pauses: u64,
    /// Sends submitted to the ring.
    pub sends: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Counters of WebSocket connections.
    pub websocket: WebSocketStatistics,
}

/// Counters of WebSocket connections.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct WebSocketStatistics {
    /// Connections upgraded to WebSocket.
    pub upgraded: u64,
    /// Messages received.
    pub messages_in: u64,
    /// Pings sent.
    pub pings_out: u64,
    /// Pings received, each answered by a pong.
    pub pings_in: u64,
    /// Pongs received, solicited or not.
    pub pongs_in: u64,
    /// Close frames received.
    pub closes_in: u64,
    /// Close frames queued.
    pub closes_out: u64,
    /// Connections closed because their peer did not read in time.
    pub send_timeouts: u64,
    /// Connections closed because a message was not completed in time.
    pub message_timeouts: u64,
}

/// The sockets of a new connection.
#[derive(Clone, Copy, Debug)]
pub struct SocketPair {
    /// Socket to receive from.
    pub receive: Socket,
    /// Socket to send to: the same socket, or the other pipe.
    pub send: Socket,
    /// Address of the peer, if known.
    pub peer: Option<SocketAddr>,
    /// The codec of the connection.
    pub codec: Codec,
}

/// What the owner of a connection has to do after a completion or a resumed read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ConnectionEvent {
    /// Nothing.
    None,
    /// Reading may resume: parse the pending input, see [`Connections::take_pending_input`].
    Resume(Key),
    /// The peer closed its sending side: the last line may lack its terminator, and requests in
    /// flight may have lost their reader.
    EndOfStream(Key),
    /// The connection failed: cancel its requests in flight.
    Failed(Key),
}

impl<S> Connections<S> {
    /// Creates an empty table. Memory is allocated as connections open.
    pub fn new(options: ConnectionOptions) -> Self {
        Self {
            table: Slab::new(options.connections_max),
            pool: BufferPool::new(options.pool_bytes_max, options.pool_buffer_bytes_max),
            options,
            statistics: ConnectionStatistics::default(),
            keys_by_socket: Vec::new(),
            flush_queue: Vec::new(),
            timers: TimerWheel::new(),
            held_bytes: 0,
        }
    }

    /// Adds a connection and starts to receive. Returns the state if the table is full; the caller
    /// then closes the socket.
    pub fn open_connection<R: Ring>(
        &mut self,
        ring: &mut R,
        stream: SocketPair,
        session: S,
        now: Instant,
    ) -> Result<Key, S> {
        let connection = Connection::new(stream, session, now);
        let key = match self.table.insert(connection) {
            Ok(key) => key,
            Err(rejected) => return Err(rejected.state),
        };
        for socket in [stream.receive, stream.send] {
            let index = socket.index();
            if index >= self.keys_by_socket.len() {
                self.keys_by_socket.resize(index + 1, None);
            }
            self.keys_by_socket[index] = Some(key);
        }
        if stream.receive == stream.send {
            let first = self.options.first_message_timeout.min(self.options.idle_timeout);
            self.timers.purge_stale(self.table.len(), |key| self.table.get(*key).is_some());
            self.arm_timer(key, now.after(first));
        }
        ring.submit(Operation::Receive(stream.receive));
        Ok(key)
    }

    /// Returns the connection that owns `socket`.
    #[inline]
    pub fn key_of(&self, socket: Socket) -> Option<Key> {
        self.keys_by_socket.get(socket.index()).copied().flatten()
    }

    /// Updates the accounted memory of one connection. Returns the bytes held by all connections,
    /// each as last accounted.
    #[inline]
    pub fn account_memory(&mut self, key: Key) -> usize {
        if let Some(connection) = self.table.get_mut(key) {
            let weight = connection.held_bytes();
            self.held_bytes = self.held_bytes - connection.accounted_bytes + weight;
            connection.accounted_bytes = weight;
        }
        self.held_bytes
    }

    /// Stops reading and closes the connection once all pending responses are sent.
    pub fn close_gracefully<R: Ring>(
        &mut self,
        ring: &mut R,
        key: Key,
        ending: CloseReason,
        now: Instant,
    ) {
        let Some(connection) = self.table.get_mut(key) else { return };
        connection.set_close_reason(ending);
        let mut has_close = false;
        if connection.phase == Phase::Open {
            connection.phase = Phase::Draining;
            has_close = self.discard_input(key);
        }
        if has_close {
            // The peer has closed already and reads no more responses.
            self.start_closing(key, CloseFrame::from_reason(ending), ending, now);
        } else {
            self.advance_closing(ring, key, now);
        }
    }

    /// Discards pending input and releases its memory. Returns whether it contained a close frame.
    fn discard_input(&mut self, key: Key) -> bool {
        let Some(connection) = self.table.get_mut(key) else { return false };
        let (has_close, buffers) = connection.discard_input();
        for buffer in buffers {
            self.pool.put(buffer);
        }
        self.statistics.websocket.closes_in += u64::from(has_close);
        self.account_memory(key);
        has_close
    }

    /// Closes a connection immediately; unsent output is lost.
    pub fn close<R: Ring>(&mut self, ring: &mut R, key: Key, ending: CloseReason) {
        let Some(connection) = self.table.get_mut(key) else { return };
        connection.set_close_reason(ending);
        if connection.phase == Phase::Closing {
            return;
        }
        connection.phase = Phase::Closing;
        ring.submit(Operation::Close(connection.receive));
        if connection.send != connection.receive {
            ring.submit(Operation::Close(connection.send));
        }
    }

    /// Advances a closing connection to its next phase if nothing is pending.
    pub(crate) fn advance_closing<R: Ring>(&mut self, ring: &mut R, key: Key, now: Instant) {
        let linger_max = self.options.linger_timeout;
        let Some(connection) = self.table.get_mut(key) else { return };
        match connection.phase {
            Phase::Draining if connection.has_pending_work() => return,
            Phase::Draining if connection.is_websocket() => {
                return self.send_close_frame(ring, key, now);
            }
            Phase::CloseFrameQueued if connection.queued_bytes() > 0 => return,
            Phase::Lingering if connection.is_close_answered() => {
                return self.close(ring, key, CloseReason::PeerClosed);
            }
            Phase::Open | Phase::Lingering | Phase::Closing => return,
            Phase::Draining | Phase::CloseFrameQueued => {}
        }
        let is_over = connection.input_ended || connection.is_close_answered();
        if is_over || connection.send != connection.receive {
            self.close(ring, key, CloseReason::PeerClosed);
            return;
        }
        // Closing now, with unread input, would send a reset and could destroy the last response:
        // shut down the sending side and wait for the peer to close.
        connection.phase = Phase::Lingering;
        connection.last_activity = now;
        ring.submit(Operation::ShutdownWrite(connection.send));
        ring.submit(Operation::Receive(connection.receive));
        self.arm_timer(key, now.after(linger_max));
    }

    /// Handles the completed close of a socket. Once both sockets are closed, removes the
    /// connection and returns its state and close reason.
    pub fn handle_closed(&mut self, socket: Socket) -> Option<(S, CloseReason)> {
        let key = self.keys_by_socket.get_mut(socket.index())?.take()?;
        let connection = self.table.get_mut(key)?;
        let (receive, send) = (connection.receive, connection.send);
        if self.key_of(receive).is_some() || self.key_of(send).is_some() {
            return None;
        }
        let mut connection = self.table.remove(key)?;
        self.pool.put(std::mem::take(&mut connection.outgoing));
        for buffer in connection.discard_input().1 {
            self.pool.put(buffer);
        }
        self.held_bytes -= connection.accounted_bytes;
        Some((connection.state, connection.close_reason.unwrap_or(CloseReason::SocketError)))
    }
}
