//! One connection with what it shares with the others, borrowed for one operation.

use corelane_base::slab::Key;
use corelane_base::time::Instant;

use super::state::{Connection, DiscardedInput};
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
