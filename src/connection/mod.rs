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

pub mod listener;
pub mod options;
pub mod proxy_protocol;
pub mod tls;

mod state;

mod table;

mod output;

mod closing;

mod input;

use std::io;

use corelane_base::pool::BufferPool;
use corelane_base::slab::Key;
use corelane_base::time::Instant;
use corelane_engine::ring::{Operation, Ring, Socket};
use corelane_engine::stream::Sent;
use corelane_engine::timer::TimerWheel;
use corelane_transport::http::head::RequestLimits;
use corelane_transport::http::reader::RequestEvent;
use corelane_transport::ndjson::LineEvent;
use corelane_transport::websocket::deflate::Deflater;
use corelane_transport::websocket::limits::{FrameLimits, ProtocolError};
use corelane_transport::websocket::reader::FrameReader;

pub use self::input::{MessageEvent, restore_request};
pub use self::options::{ConnectionOptions, WebSocketFrameOptions};
use self::state::Phase;
pub use self::state::{
    CloseReason, Codec, Connection, ConnectionRecord, MemoryAccount, PeerAddress, PendingWork,
    SocketPair,
};
pub use self::table::{BegunMessage, ConnectionTable, Entry, LARGE_OUTPUT_BYTES};

/// Timers handled per turn, so that many expiring at once do not stall the shard: each may close a
/// connection.
const TIMERS_PER_TURN_MAX: usize = 64;

/// The connections of one shard, each with a state of type `S` that belongs to their owner.
#[derive(Debug)]
pub struct Connections<S> {
    /// The table of connections.
    pub table: ConnectionTable<S>,
    /// What all connections share.
    pub shared: SharedResources,
}

/// The buffers, limits, counters and queues of all connections of a shard.
#[derive(Debug)]
pub struct SharedResources {
    /// Pool of input and output buffers.
    pub pool: BufferPool,
    /// Limits and timeouts.
    pub options: ConnectionOptions,
    /// Counters since the start.
    pub statistics: ConnectionStatistics,
    /// Bytes held by all connections.
    pub memory: MemoryAccount,
    /// Connections from which no byte has arrived.
    silent: usize,
    deflater: Deflater,
    flush_queue: Vec<Key>,
    timers: TimerWheel<Key>,
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
    /// Messages sent.
    pub messages_out: u64,
    /// Bytes of the messages sent, before compression.
    pub bytes_out: u64,
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

/// What the owner of a connection has to do after a completion or a resumed read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ConnectionEvent {
    /// Nothing.
    None,
    /// Reading may resume: parse the pending input, see [`ConnectionTable::take_pending_input`].
    Resume(Key),
    /// The peer closed its sending side: the last line may lack its terminator, and requests in
    /// flight may have lost their reader.
    EndOfStream(Key),
    /// The connection failed: cancel its requests in flight.
    Failed(Key),
}

/// The table, its timers and memory.
impl<S> Connections<S> {
    /// Creates an empty table. Memory is allocated as connections open.
    pub fn new(options: ConnectionOptions) -> Self {
        Self {
            table: ConnectionTable::new(options.connections_max),
            shared: SharedResources {
                pool: BufferPool::new(options.pool_bytes_max, options.pool_buffer_bytes_max),
                options,
                statistics: ConnectionStatistics::default(),
                silent: 0,
                deflater: Deflater::new(),
                flush_queue: Vec::new(),
                timers: TimerWheel::new(),
                memory: MemoryAccount::default(),
            },
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
        let key = self.table.insert(Connection::new(stream, session, now))?;
        self.shared.silent += 1;
        if stream.receive == stream.send {
            let first = self.shared.options.first_message_timeout.min(closing::SHORT_SILENCE);
            let first = first.min(self.shared.options.idle_timeout);
            self.shared.timers.purge_stale(self.table.len(), |key| self.table.get(*key).is_some());
            if let Some(mut entry) = Entry::find(self, key) {
                entry.arm_timer(now.after(first));
            }
        }
        ring.submit(Operation::Receive(stream.receive));
        Ok(key)
    }

    /// Returns a connection with what it shares with the others, or `None` if it has been removed.
    #[inline]
    pub fn entry(&mut self, key: Key) -> Option<Entry<'_, S>> {
        Entry::find(self, key)
    }

    /// Updates the accounted memory of one connection.
    #[inline]
    pub fn account_memory(&mut self, key: Key) {
        if let Some(connection) = self.table.get_mut(key) {
            self.shared.memory.update(connection);
        }
    }

    /// Returns the bytes of the tables, without what the connections hold, and those of the buffers
    /// for reuse.
    pub fn place_bytes(&self) -> usize {
        let SharedResources { pool, timers, flush_queue, .. } = &self.shared;
        let queue = flush_queue.capacity() * size_of::<Key>();
        self.table.allocated_bytes() + timers.allocated_bytes() + queue + pool.retained_bytes()
    }

    /// Returns the next timer deadline.
    pub fn deadline(&self) -> Option<Instant> {
        self.shared.timers.next_deadline()
    }

    /// Handles the timers that have expired at `now`.
    pub fn expire_timers<R: Ring>(&mut self, ring: &mut R, now: Instant) {
        for _ in 0..TIMERS_PER_TURN_MAX {
            let Some(key) = self.shared.timers.pop_expired(now) else { return };
            if let Some(mut entry) = Entry::find(self, key) {
                closing::expire(&mut entry, ring, now);
            }
        }
    }
}

/// Input.
impl<S> Connections<S> {
    /// Parses the next line in `arrival[*from..]` and advances `from`; see
    /// [`corelane_transport::ndjson::LineReader::next`]. Also returns [`LineEvent::NeedMore`] while
    /// reading is stopped, as behind a line whose response exceeds the limit of the output; `from`
    /// marks the unconsumed rest.
    #[inline]
    pub fn next_line(
        &mut self,
        key: Key,
        arrival: &[u8],
        from: &mut usize,
        now: Instant,
    ) -> LineEvent {
        let Some(mut entry) = Entry::find(self, key) else {
            *from = arrival.len();
            return LineEvent::NeedMore;
        };
        input::next_line(&mut entry, arrival, from, now)
    }

    /// Parses the next request in `arrival[*from..]` and advances `from`; see
    /// [`corelane_transport::http::reader::RequestReader::next`]. Also returns `NeedMore` while
    /// reading is stopped; `from` marks the unconsumed rest.
    #[inline]
    pub fn next_request(
        &mut self,
        key: Key,
        arrival: &[u8],
        from: &mut usize,
        limits: &RequestLimits,
        now: Instant,
    ) -> RequestEvent {
        let Some(mut entry) = Entry::find(self, key) else {
            *from = arrival.len();
            return RequestEvent::NeedMore;
        };
        input::next_request(&mut entry, arrival, from, limits, now)
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
        let Some(mut entry) = Entry::find(self, key) else {
            *from = arrival.len();
            return MessageEvent::NeedMore;
        };
        input::next_message(&mut entry, arrival, from, limits, now)
    }

    /// Upgrades an HTTP connection to WebSocket, starting with the first unparsed byte. The
    /// handshake response must be written already. Returns `false` if the connection is not HTTP or
    /// is closing.
    ///
    /// Ends the loop over [`Connections::next_request`]; the remaining input is for
    /// [`Connections::next_message`].
    pub fn upgrade_to_websocket(&mut self, key: Key, reader: FrameReader, now: Instant) -> bool {
        let entry = Entry::find(self, key);
        entry.is_some_and(|mut entry| input::upgrade(&mut entry, reader, now))
    }

    /// Discards the incomplete line including its remaining bytes. Returns `false` if there is
    /// none.
    pub fn skip_line(&mut self, key: Key) -> bool {
        Entry::find(self, key).is_some_and(|mut entry| input::skip_line(&mut entry))
    }

    /// Stores bytes that arrived while reading is stopped; those of a closing connection are
    /// discarded. Returns whether [`Entry::limit_unread_input`] has to be called.
    pub fn append_pending_input(&mut self, key: Key, rest: &[u8]) -> bool {
        let Some(mut entry) = Entry::find(self, key) else { return false };
        entry.append_pending_input(rest);
        entry.has_unread_input()
    }

    /// Restores pending input of which the bytes before `from` are parsed. The rest stays in place
    /// and is not copied for each line.
    pub fn restore_pending_input(&mut self, key: Key, bytes: Vec<u8>, from: usize) {
        input::restore_pending(self.table.get_mut(key), bytes, from, &mut self.shared.pool);
    }

    /// Stops reading a connection whose output exceeds its limit. Call after each HTTP request:
    /// `next_request` then returns `NeedMore`, the rest of the input goes to
    /// `append_pending_input`, and [`ConnectionTable::pause`] submits the stop to the ring.
    /// `next_line` and `next_message` apply the limit themselves.
    #[inline]
    pub fn apply_backpressure(&mut self, key: Key) {
        if let Some(mut entry) = Entry::find(self, key) {
            output::apply_backpressure(&mut entry);
        }
    }

    /// Resumes reading a paused or suspended connection if its output allows. On `Resume` the
    /// caller parses the pending input and then calls [`ConnectionTable::resume_receive`].
    pub fn try_resume(&mut self, key: Key, now: Instant) -> ConnectionEvent {
        let entry = Entry::find(self, key);
        entry.map_or(ConnectionEvent::None, |mut entry| output::try_resume(&mut entry, now))
    }

    /// Resumes reading a connection whose input was [held](ConnectionTable::hold_input), unless its
    /// output exceeds the limit; then it is resumed as soon as that is sent. On `Resume` the caller
    /// does what it does after [`Connections::try_resume`].
    pub fn end_hold(&mut self, key: Key, now: Instant) -> ConnectionEvent {
        let entry = Entry::find(self, key);
        entry.map_or(ConnectionEvent::None, |mut entry| output::end_hold(&mut entry, now))
    }

    /// Handles the end of stream or the failure of a receive.
    pub fn handle_end_of_stream<R: Ring>(
        &mut self,
        ring: &mut R,
        socket: Socket,
        result: &io::Result<()>,
    ) -> ConnectionEvent {
        let key = self.table.key_of(socket);
        let entry = key.and_then(|key| Entry::find(self, key));
        entry.map_or(ConnectionEvent::None, |mut entry| {
            input::handle_end_of_stream(&mut entry, ring, result)
        })
    }
}

/// Output and closing.
impl<S> Connections<S> {
    /// Returns the output buffer, for complete texts with their terminators. It is sent at the end
    /// of the turn. Returns `None` if the connection no longer accepts output.
    pub fn outgoing(&mut self, key: Key) -> Option<&mut Vec<u8>> {
        Entry::find(self, key)?.into_outgoing()
    }

    /// Begins a message, which is sent at the end of the turn. Returns `None` if the connection
    /// does not accept output any more, or is HTTP.
    #[inline]
    pub fn begin_message(&mut self, key: Key) -> Option<BegunMessage<'_, S>> {
        Entry::find(self, key)?.begin_message()
    }

    /// Sends the output buffered in this turn, one send per connection.
    pub fn flush<R: Ring>(&mut self, ring: &mut R, now: Instant) {
        let mut scheduled = std::mem::take(&mut self.shared.flush_queue);
        for key in scheduled.drain(..) {
            if let Some(mut entry) = Entry::find(self, key) {
                send_output(&mut entry, ring, now);
            }
        }
        self.shared.flush_queue = scheduled;
    }

    /// Handles a completed send: returns its buffer to the pool and schedules the next send.
    /// Returns the connection, unless it has been removed.
    pub fn handle_sent<R: Ring>(
        &mut self,
        ring: &mut R,
        socket: Socket,
        buffer: Vec<u8>,
        result: &io::Result<usize>,
        now: Instant,
    ) -> Option<(Key, ConnectionEvent)> {
        let key = self.table.key_of(socket);
        let Some(mut entry) = key.and_then(|key| Entry::find(self, key)) else {
            self.shared.pool.put(buffer);
            return None;
        };
        Some((entry.key, finish_send(&mut entry, ring, socket, buffer, result, now)))
    }

    /// Stops reading and closes the connection once all pending responses are sent.
    pub fn close_gracefully<R: Ring>(
        &mut self,
        ring: &mut R,
        key: Key,
        reason: CloseReason,
        now: Instant,
    ) {
        if let Some(mut entry) = Entry::find(self, key) {
            closing::close_gracefully(&mut entry, ring, reason, now);
        }
    }

    /// Advances a closing connection to its next phase if nothing is pending.
    pub(crate) fn advance_closing<R: Ring>(&mut self, ring: &mut R, key: Key, now: Instant) {
        if let Some(mut entry) = Entry::find(self, key) {
            closing::advance(&mut entry, ring, now);
        }
    }

    /// Fails a WebSocket connection (RFC 6455, section 7.1.7) because of a protocol violation or a
    /// server error: sends the output written so far, drops pending responses and closes.
    pub fn fail_websocket(&mut self, key: Key, error: ProtocolError, now: Instant) {
        if let Some(mut entry) = Entry::find(self, key) {
            let reason = CloseReason::ProtocolViolation;
            closing::start_handshake(&mut entry, error.into(), reason, now);
        }
    }

    /// Closes a connection immediately and discards what it holds, except a send in flight, which
    /// the ring returns. For [`CloseReason::MemoryLimit`] the kernel discards its part, too: the
    /// peer sees a reset.
    pub fn close<R: Ring>(&mut self, ring: &mut R, key: Key, reason: CloseReason) {
        if let Some(mut entry) = Entry::find(self, key) {
            if reason == CloseReason::MemoryLimit {
                entry.connection.reset(ring, reason);
            } else {
                entry.connection.close(ring, reason);
            }
            entry.discard_output();
            entry.discard_input();
        }
    }

    /// Discards the output that is not submitted to the ring.
    pub fn discard_output(&mut self, key: Key) {
        if let Some(mut entry) = Entry::find(self, key) {
            entry.discard_output();
        }
    }

    /// Handles the completed close of a socket. Once both sockets are closed, removes the
    /// connection and returns its state and close reason.
    pub fn handle_closed(&mut self, socket: Socket) -> Option<(S, CloseReason)> {
        let mut connection = self.table.remove_socket(socket)?;
        self.shared.memory.remove(&connection);
        self.shared.silent -= usize::from(connection.is_silent());
        let reason = connection.close_state.close_reason();
        let [pending, partial] = connection.input.discard().buffers;
        for buffer in [connection.outgoing, pending, partial] {
            self.shared.pool.put(buffer);
        }
        Some((connection.state, reason.unwrap_or(CloseReason::SocketError)))
    }
}

/// Sends the output buffered in this turn.
#[inline]
fn send_output<S, R: Ring>(entry: &mut Entry<'_, S>, ring: &mut R, now: Instant) {
    let has_unaccounted = entry.connection.start_flush();
    let is_closing = entry.connection.is_discarding();
    output::submit(entry, ring, now);
    if is_closing {
        closing::advance(entry, ring, now);
    }
    if is_closing || has_unaccounted {
        entry.account_memory();
    }
}

/// Handles a completed send: returns its buffer to the pool and schedules the next send.
#[inline]
fn finish_send<S, R: Ring>(
    entry: &mut Entry<'_, S>,
    ring: &mut R,
    socket: Socket,
    buffer: Vec<u8>,
    result: &io::Result<usize>,
    now: Instant,
) -> ConnectionEvent {
    let connection = &mut *entry.connection;
    let is_closing = connection.close_state.phase() == Phase::Closing;
    let bytes = result.as_ref().copied().unwrap_or_default() as u64;
    entry.shared.statistics.bytes_out += bytes;
    connection.record.traffic.bytes_out += bytes;
    connection.last_activity = now;
    let buffer = match connection.sending.handle_sent(ring, socket, buffer, result, is_closing) {
        Sent::All(buffer) => buffer,
        Sent::Part => {
            entry.shared.statistics.sends += 1;
            entry.account_memory();
            return ConnectionEvent::None;
        }
        Sent::Failed(buffer) if is_closing => buffer,
        Sent::Failed(buffer) => return fail_send(entry, ring, buffer),
    };
    let is_idle = connection.is_read() && !connection.input.has_pending();
    entry.shared.pool.put(buffer);
    if !entry.connection.outgoing.is_empty() {
        entry.schedule_flush();
    }
    entry.account_memory();
    if is_idle {
        // Neither closing nor waiting to resume reading.
        return ConnectionEvent::None;
    }
    closing::advance(entry, ring, now);
    output::try_resume(entry, now)
}

fn fail_send<S, R: Ring>(
    entry: &mut Entry<'_, S>,
    ring: &mut R,
    buffer: Vec<u8>,
) -> ConnectionEvent {
    entry.shared.pool.put(buffer);
    entry.connection.close(ring, CloseReason::SocketError);
    entry.account_memory();
    ConnectionEvent::Failed(entry.key)
}

#[cfg(test)]
mod tests;
