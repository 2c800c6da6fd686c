//! The memory limit of a shard: connections of the address that holds most are closed.
//!
//! Invariants: of one address, a connection that holds less than another one is closed after it;
//! what a closed one holds is freed at once, except a send that the ring still owns. One that does
//! not take its error in time is reset, so that the kernel frees its part as well.

use corelane_base::slab::Key;
use corelane_engine::ring::Ring;

use crate::connection::{CloseReason, Codec};
use crate::server::memory::{Holder, short_of_memory};
use crate::server::shard::{Shard, freeable_bytes, held_memory};
use crate::telemetry::event::Event;
use crate::telemetry::label::Transport;

impl Shard {
    /// Accounts the memory of a connection after input or output. A connection with a
    /// violation closes once the error is sent.
    #[inline]
    pub(in crate::server) fn check_memory<R: Ring>(&mut self, ring: &mut R, key: Key) {
        let mut violation = None;
        if let Some(mut entry) = self.transports.connections.entry(key) {
            entry.account_memory();
            violation = entry.connection.state.violation;
        }
        self.relieve_memory(ring);
        if let Some(reason) = violation {
            self.close_violating(ring, key, reason);
        }
    }

    /// Closes the connections that hold most, if the memory limit of the shard is exceeded.
    #[inline]
    pub(in crate::server) fn relieve_memory<R: Ring>(&mut self, ring: &mut R) {
        let held_bytes = held_memory(&self.transports, &self.dispatcher).total();
        let limit = self.dispatcher.handlers.memory.limit();
        if self.transports.holder_search.is_due(held_bytes, limit) {
            self.free_memory(ring);
        }
    }

    /// Closes the connections that hold most.
    #[cold]
    pub(in crate::server) fn free_memory<R: Ring>(&mut self, ring: &mut R) {
        self.close_largest(ring);
        let held_bytes = held_memory(&self.transports, &self.dispatcher).total();
        self.transports.holder_search.record(held_bytes);
    }

    /// Closes the connections that have to go. Cost: one pass over all connections, and a sort of
    /// those that hold something.
    ///
    /// The connections are counted anew: the account of one may be that of the turn before, and
    /// contains what the ring holds of closed ones.
    #[cold]
    pub(super) fn close_largest<R: Ring>(&mut self, ring: &mut R) {
        let Self { transports, dispatcher, .. } = &*self;
        let accounted = held_memory(transports, dispatcher);
        let mut held_bytes = accounted.total() - accounted.connections;
        let mut holders = Vec::new();
        for (key, connection) in transports.connections.table.iter() {
            let bytes = freeable_bytes(connection, &dispatcher.deferred);
            if connection.is_closed() {
                held_bytes = held_bytes.saturating_sub(bytes - connection.held_bytes());
            } else {
                held_bytes += connection.held_bytes();
                holders.push(Holder { key, client: connection.state.client, bytes });
            }
        }
        let limit = dispatcher.handlers.memory.limit();
        if !limit.is_exceeded_by(held_bytes) {
            return;
        }
        let results_bytes = accounted.blocking_results;
        for key in limit.largest_holders(held_bytes, results_bytes, holders.into_iter()) {
            self.close_holder(ring, key);
        }
    }

    /// Closes a connection. It receives an error first if that does not keep what it holds.
    fn close_holder<R: Ring>(&mut self, ring: &mut R, key: Key) {
        let transports = &mut self.transports;
        let connections = &mut transports.connections;
        let Some(connection) = connections.table.get_mut(key) else { return };
        let codec = connection.codec();
        let transport = connection.state.transport;
        let held_bytes = connection.held_bytes();
        // The only connection of a server is not closed: it loses the current message.
        if transport.is_only_connection() {
            if connections.skip_line(key) {
                self.record_relief(transport, held_bytes);
                self.send_memory_error(key, codec);
            }
            return;
        }
        let holds_output = connection.queued_bytes() > held_bytes / 2;
        // The rest of an HTTP response cannot be replaced by an error.
        let is_begun = connection.sending_bytes() > 0 || codec == Codec::Http;
        let is_cut = connection.is_discarding() || holds_output && is_begun;
        connection.state.violation = Some(CloseReason::MemoryLimit);
        self.record_relief(transport, held_bytes);
        self.cancel_calls(key);
        let connections = &mut self.transports.connections;
        if is_cut {
            connections.close(ring, key, CloseReason::MemoryLimit);
            return;
        }
        if holds_output {
            connections.discard_output(key);
        }
        self.send_memory_error(key, codec);
        self.close_gracefully(ring, key, CloseReason::MemoryLimit);
    }

    fn send_memory_error(&mut self, key: Key, codec: Codec) {
        let error = short_of_memory();
        if codec == Codec::Http {
            self.outbox.count_error(&error);
            self.send_closing_error(key, &error);
        } else {
            self.send_error(key, &error);
        }
        self.transports.connections.account_memory(key);
    }

    fn record_relief(&mut self, transport: Transport, held_bytes: usize) {
        self.outbox.counters.input_errors.memory += 1;
        let acceptor = &mut self.transports.acceptor;
        let shard = acceptor.shard().0;
        acceptor.log(&Event::MemoryFreed { shard, transport, held_bytes }, self.now);
    }
}
