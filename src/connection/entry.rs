//! One connection with what it shares with the others, borrowed for one operation, and the messages
//! of lines and of WebSocket that are written to it.
//!
//! Invariant: a message is framed in the buffer in which it is written.

use corelane_base::slab::Key;
use corelane_base::time::Instant;

use super::state::{Connection, DiscardedInput, MessageMark};
use super::{Connections, SharedResources};

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

    /// Updates the accounted memory of the connection.
    #[inline]
    pub const fn account_memory(&mut self) {
        self.shared.memory.update(self.connection);
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
