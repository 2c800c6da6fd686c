//! The table of connections, by key and by socket; one connection with what it shares with the
//! others, borrowed for one operation; and the messages of lines and of WebSocket that are written
//! to it.
//!
//! Invariant: a message is framed in the buffer in which it is written.

use corelane_base::slab::{Key, Slab};
use corelane_base::time::Instant;
use corelane_engine::ring::{Operation, Ring, Socket};
use corelane_protocol::json::PaddedBuffer;
use corelane_protocol::message_head::MessageHead;
use corelane_transport::http::head::Head;
use corelane_transport::http::reader::Assembled;
use corelane_transport::ndjson;

use super::state::{Codec, Connection, DiscardedInput, MessageMark};
use super::{Connections, SharedResources};

/// The connections of a shard, each with a state of type `S` that belongs to their owner.
///
/// Has the operations that concern one connection alone; those that need buffers, limits or timers
/// are methods of [`super::Connections`].
///
/// Invariant: a connection stays in the table until the ring has closed its sockets.
#[derive(Debug)]
pub struct ConnectionTable<S> {
    connections: Slab<Connection<S>>,
    keys_by_socket: Vec<Option<Key>>,
}

impl<S> ConnectionTable<S> {
    pub(super) fn new(connections_max: usize) -> Self {
        Self { connections: Slab::new(connections_max), keys_by_socket: Vec::new() }
    }

    /// Inserts a connection, or returns its state if the table is full.
    pub(super) fn insert(&mut self, connection: Connection<S>) -> Result<Key, S> {
        let sockets = connection.sockets;
        let key = self.connections.insert(connection).map_err(|rejected| rejected.state)?;
        for socket in [sockets.receive, sockets.send] {
            let index = socket.index();
            if index >= self.keys_by_socket.len() {
                self.keys_by_socket.resize(index + 1, None);
            }
            self.keys_by_socket[index] = Some(key);
        }
        Ok(key)
    }

    /// Removes a closed socket. Once both sockets are removed, removes their connection and returns
    /// it.
    pub(super) fn remove_socket(&mut self, socket: Socket) -> Option<Connection<S>> {
        let key = self.keys_by_socket.get_mut(socket.index())?.take()?;
        let sockets = self.connections.get(key)?.sockets;
        if self.key_of(sockets.receive).is_some() || self.key_of(sockets.send).is_some() {
            return None;
        }
        self.connections.remove(key)
    }

    /// Returns the connection of `key`, or `None` if it has been removed.
    #[inline]
    pub fn get(&self, key: Key) -> Option<&Connection<S>> {
        self.connections.get(key)
    }

    /// Returns the connection of `key` mutably, or `None` if it has been removed.
    #[inline]
    pub fn get_mut(&mut self, key: Key) -> Option<&mut Connection<S>> {
        self.connections.get_mut(key)
    }

    /// Returns the connection that owns `socket`.
    #[inline]
    pub fn key_of(&self, socket: Socket) -> Option<Key> {
        self.keys_by_socket.get(socket.index()).copied().flatten()
    }

    /// Iterates over all connections.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &Connection<S>)> {
        self.connections.iter()
    }

    /// Iterates over at most `count` connections, of slots that are as far apart. Another `start`
    /// selects other slots, if there are more.
    pub fn sample(&self, count: u32, start: u32) -> impl Iterator<Item = (Key, &Connection<S>)> {
        self.connections.sample(count, start)
    }

    /// Returns the number of connections.
    pub const fn len(&self) -> usize {
        self.connections.len()
    }

    /// Returns the bytes of the table, without what its connections hold.
    pub fn allocated_bytes(&self) -> usize {
        let sockets = self.keys_by_socket.capacity() * size_of::<Option<Key>>();
        self.connections.allocated_bytes() + sockets
    }

    /// Returns whether the table has no connection.
    pub const fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// Returns the codec of a connection, or `None` if it has been removed.
    #[inline]
    pub fn codec(&self, key: Key) -> Option<Codec> {
        self.get(key).map(Connection::codec)
    }

    /// Iterates over the connections in at most `slots_max` slots from `slot` on. Returns the next
    /// slot, too, or `None` behind the last one.
    pub fn part(
        &self,
        slot: u32,
        slots_max: u32,
    ) -> (impl Iterator<Item = &Connection<S>>, Option<u32>) {
        let end = slot.saturating_add(slots_max);
        let values = (slot..end).filter_map(|slot| self.connections.in_slot(slot));
        (values, ((end as usize) < self.connections.slots()).then_some(end))
    }

    /// Takes the pending input and the offset of its first unparsed byte. Return the buffer with
    /// [`super::Connections::restore_pending_input`].
    pub fn take_pending_input(&mut self, key: Key) -> (Vec<u8>, usize) {
        self.get_mut(key).map(|connection| connection.input.take_pending()).unwrap_or_default()
    }

    /// Returns the line announced by `Assembled`. Return its buffer to the pool.
    pub fn take_line(&mut self, key: Key) -> PaddedBuffer {
        self.get_mut(key).map(|connection| connection.input.take_text()).unwrap_or_default()
    }

    /// Returns what can be read of the line announced by `TooLarge`.
    #[cold]
    pub fn take_head(&mut self, key: Key) -> MessageHead {
        self.get_mut(key).map(|connection| connection.input.take_head()).unwrap_or_default()
    }

    /// Lets a bare `\r` end a line, too, if the bytes before it are a complete text: stdio.
    pub fn end_lines_at_carriage_returns(&mut self, key: Key) {
        if let Some(connection) = self.get_mut(key) {
            connection.input.end_lines_at_carriage_returns();
        }
    }

    /// Returns the last line of a stream that ended without a terminator.
    pub fn last_line(&mut self, key: Key) -> Option<PaddedBuffer> {
        let connection = self.get_mut(key).filter(|connection| !connection.is_discarding())?;
        connection.input.take_last_text()
    }

    /// Returns the head announced by `HeadComplete`, and the bytes it refers to.
    pub fn pending_head(&self, key: Key) -> Option<(&Head, &[u8])> {
        self.get(key)?.input.pending_head()
    }

    /// Returns the head of the request announced by `Rejected`; empty if it has none.
    pub fn take_rejected_head(&mut self, key: Key) -> Vec<u8> {
        self.get_mut(key).map(|it| it.input.take_rejected_head()).unwrap_or_default()
    }

    /// Returns the request announced by `Assembled`. Return its buffer to the pool.
    pub fn take_request(&mut self, key: Key) -> Option<Assembled> {
        self.get_mut(key)?.input.take_request()
    }

    /// Returns the message announced by [`super::MessageEvent::Assembled`], padded, and its length.
    /// Return the buffer to the pool.
    pub fn take_message(&mut self, key: Key) -> PaddedBuffer {
        self.get_mut(key).map(|connection| connection.input.take_message()).unwrap_or_default()
    }

    /// Returns whether the last WebSocket message is binary.
    pub fn is_binary(&mut self, key: Key) -> bool {
        self.get_mut(key).is_some_and(|connection| connection.input.is_binary())
    }

    /// Suspends reading, or ends a suspension. Call [`super::Connections::try_resume`] after its
    /// end.
    pub fn set_suspended(&mut self, key: Key, is_suspended: bool) {
        if let Some(connection) = self.get_mut(key) {
            connection.reading.set_suspended(is_suspended);
        }
    }

    /// Returns whether input waits until the output allows to read it.
    #[inline]
    pub fn waits_to_be_read(&self, key: Key) -> bool {
        self.get(key).is_some_and(Connection::waits_to_be_read)
    }

    /// Has the input of a connection wait as if its output exceeded the limit, until
    /// [`super::Connections::try_resume`]. [`ConnectionTable::pause`] submits the stop to the ring.
    pub fn hold_input(&mut self, key: Key) {
        if let Some(connection) = self.get_mut(key) {
            connection.reading.set_paused(true);
        }
    }

    /// Submits a stop of the multishot receive for a paused connection.
    pub fn pause<R: Ring>(&self, ring: &mut R, key: Key) {
        if let Some(connection) = self.get(key) {
            connection.stop_paused_receive(ring);
        }
    }

    /// Submits a receive after a pause, unless the pending input filled the output again. Receives
    /// on suspended connections too, so that their end of stream is noticed.
    pub fn resume_receive<R: Ring>(&self, ring: &mut R, key: Key) {
        let Some(Connection { close_state, reading, sockets, .. }) = self.get(key) else { return };
        if close_state.is_open() && !reading.has_ended() && !reading.is_paused() {
            ring.submit(Operation::Receive(sockets.receive));
        }
    }

    /// Returns whether the peer has closed its sending side and all input is parsed, or reading is
    /// suspended for a request whose response the peer no longer waits for.
    pub fn is_input_over(&self, key: Key) -> bool {
        self.get(key).is_some_and(Connection::is_input_over)
    }
}

/// Length of a message from which on its response is written to a buffer that is kept.
pub const LARGE_OUTPUT_BYTES: usize = 512 << 10;

/// A connection of the table with what all connections share. An operation looks its connection up
/// once and passes this on.
#[derive(Debug)]
pub struct Entry<'a, S> {
    /// The connection.
    pub connection: &'a mut Connection<S>,
    pub(super) key: Key,
    pub(super) shared: &'a mut SharedResources,
}

impl<'a, S> Entry<'a, S> {
    /// Returns the connection of `key`, or `None` if it has been removed.
    #[inline]
    pub(super) fn find(connections: &'a mut Connections<S>, key: Key) -> Option<Self> {
        let connection = connections.table.get_mut(key)?;
        Some(Self { connection, key, shared: &mut connections.shared })
    }

    /// Counts received bytes. Returns whether they must be queued behind pending input.
    #[inline]
    pub const fn record_received(&mut self, bytes: usize) -> bool {
        if self.connection.is_silent() && bytes > 0 {
            self.shared.silent -= 1;
        }
        self.connection.record.traffic.bytes_in += bytes as u64;
        self.connection.input.has_pending()
    }

    /// Stores bytes that are not parsed yet; those of a closing connection are discarded.
    #[inline]
    pub fn append_pending_input(&mut self, rest: &[u8]) {
        if !rest.is_empty() && !self.connection.is_discarding() {
            self.connection.input.append_pending(rest, &mut self.shared.pool);
        }
    }

    /// Returns whether [`Entry::limit_unread_input`] has to be called: input is pending or
    /// discarded.
    #[inline]
    pub const fn has_unread_input(&self) -> bool {
        self.connection.input.has_pending() || self.connection.is_discarding()
    }

    /// Records a complete message, takes an output buffer for its response and schedules the
    /// flush.
    #[inline]
    pub(super) fn record_message(&mut self, now: Instant) {
        self.connection.record_message(now, &mut self.shared.pool);
        self.schedule_flush();
    }

    /// Schedules the connection for the flush at the end of the turn.
    #[inline]
    pub(super) fn schedule_flush(&mut self) {
        if self.connection.schedule_flush() {
            self.shared.flush_queue.push(self.key);
        }
    }

    /// Sets a timer for `due`, unless an earlier one is set.
    pub(super) fn arm_timer(&mut self, due: Instant) {
        let is_armed =
            self.connection.input.websocket().is_some_and(|frames| !frames.schedule_timer(due));
        if !is_armed {
            self.shared.timers.insert(due, self.key);
        }
    }

    /// Restarts the timeouts of the incomplete message, which is not read at present.
    pub fn extend_timeouts(&mut self, now: Instant) {
        self.connection.extend_timeouts(now);
        if self.connection.codec() == Codec::WebSocket {
            let due = now.after(self.shared.options.websocket.fragment_timeout);
            self.arm_timer(due);
        }
    }

    /// Updates the accounted memory of the connection.
    #[inline]
    pub fn account_memory(&mut self) {
        self.shared.memory.update(self.connection);
    }

    /// Moves an incomplete large message whose buffer is nearly full to a larger one that is kept:
    /// of up to four times its length if the message `has_room`, otherwise a quarter larger.
    /// Returns whether it was moved.
    #[cold]
    pub fn enlarge_input(&mut self, has_room: bool) -> bool {
        let is_moved = self.connection.input.enlarge_buffer(&mut self.shared.pool, has_room);
        self.account_memory();
        is_moved
    }

    /// Moves the output to a buffer that is kept, before the response to a large message, or
    /// another one of about `bytes` bytes, is written, if the connection accepts that. Schedules
    /// the flush, which frees a buffer that stays empty.
    #[cold]
    pub fn enlarge_output(&mut self, bytes: usize) {
        if !self.connection.close_state.accepts_output() {
            return;
        }
        self.schedule_flush();
        let capacities = bytes..=bytes.saturating_mul(2);
        self.shared.pool.enlarge(&mut self.connection.outgoing, capacities);
    }

    /// Moves the output to a smaller buffer, if most of its own is unused.
    #[cold]
    pub fn reduce_output(&mut self) {
        self.shared.pool.reduce(&mut self.connection.outgoing);
    }

    /// Discards unread input and releases its memory. Returns whether it contained a close frame.
    pub(super) fn discard_input(&mut self) -> bool {
        let DiscardedInput { has_close, buffers } = self.connection.input.discard();
        for buffer in buffers {
            self.shared.pool.put(buffer);
        }
        self.shared.statistics.websocket.closes_in += u64::from(has_close);
        self.account_memory();
        has_close
    }

    /// Discards the output that is not submitted to the ring.
    pub(super) fn discard_output(&mut self) {
        self.shared.pool.put(std::mem::take(&mut self.connection.outgoing));
        self.account_memory();
    }

    /// Adds a line without its end to the output, and counts it as a message. A connection without
    /// output takes its buffer.
    #[cold]
    pub fn append_line(mut self, mut line: Vec<u8>) {
        if self.reserve_output() {
            let Connection { outgoing, record, .. } = self.connection;
            if outgoing.is_empty() {
                std::mem::swap(outgoing, &mut line);
            } else {
                outgoing.extend_from_slice(&line);
            }
            ndjson::end_line(outgoing);
            record.traffic.messages_out += 1;
        }
        self.shared.pool.put(line);
    }

    /// Returns the output buffer and schedules the flush, or `None` if the connection no longer
    /// accepts output.
    #[inline]
    pub(super) fn into_outgoing(mut self) -> Option<&'a mut Vec<u8>> {
        self.reserve_output().then_some(&mut self.connection.outgoing)
    }

    /// Takes an output buffer and schedules the flush. Returns `false` if the connection no longer
    /// accepts output.
    #[inline]
    pub fn reserve_output(&mut self) -> bool {
        let is_accepted = self.connection.close_state.accepts_output();
        if is_accepted {
            self.connection.reserve_output(&mut self.shared.pool);
            self.connection.account_output_later();
            self.schedule_flush();
        }
        is_accepted
    }
}

/// A message that is being written to the output of a connection.
#[derive(Debug)]
#[must_use = "end or cancel the message"]
pub struct BegunMessage<'a, S> {
    entry: Entry<'a, S>,
    mark: MessageMark,
}

impl<'a, S> Entry<'a, S> {
    /// Begins a message, which is sent at the end of the turn. Returns `None` if the connection
    /// does not accept output any more, or is HTTP.
    #[inline]
    pub fn begin_message(mut self) -> Option<BegunMessage<'a, S>> {
        if self.reserve_output() { self.begin_reserved_message() } else { None }
    }

    /// Begins the response to a message that was received in this turn, for which the output is
    /// reserved. Returns `None` if the connection is HTTP.
    #[inline]
    pub fn begin_reserved_message(self) -> Option<BegunMessage<'a, S>> {
        let mark = self.connection.codec().begin_message(&mut self.connection.outgoing)?;
        Some(BegunMessage { entry: self, mark })
    }
}

impl<'a, S> BegunMessage<'a, S> {
    /// Returns the connection, whose output the text is to be appended to.
    #[inline]
    pub const fn connection(&mut self) -> &mut Connection<S> {
        self.entry.connection
    }

    /// Appends the text, and ends the message.
    #[inline]
    pub fn write(mut self, text: impl FnOnce(&mut Vec<u8>)) {
        text(&mut self.connection().outgoing);
        self.end();
    }

    /// Ends and counts the message.
    #[inline]
    pub fn end(self) {
        let Self { entry: Entry { connection, shared, .. }, mark } = self;
        let (window_bits, counters) = (connection.window_bits(), &mut shared.statistics.websocket);
        mark.end(&mut connection.outgoing, window_bits, &mut shared.deflater, counters);
        connection.record.traffic.messages_out += 1;
    }

    /// Removes the message, whose text is empty.
    #[inline]
    pub fn cancel(self) -> Entry<'a, S> {
        self.mark.cancel(&mut self.entry.connection.outgoing);
        self.entry
    }
}
