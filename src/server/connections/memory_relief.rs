//! The memory limit of a shard: connections of the address that holds most are closed.
//!
//! Invariants: of one address, a connection that holds less than another one is closed after it;
//! what a closed one holds is freed at once, except a send that the ring still owns. One that does
//! not take its error in time is reset, so that the kernel frees its part as well.

use super::held_memory::{freeable_bytes, held_memory};
use super::peers::Peers;
use super::request_path::{RequestPath, write_error};
use crate::base::slab::Key;
use crate::connection::{CloseReason, Codec};
use crate::engine::ring::Ring;
use crate::server::memory::{Holder, short_of_memory};
use crate::telemetry::event::Event;
use crate::telemetry::label::Transport;

/// Closes connections until the memory limit is kept.
pub(super) struct MemoryRelief<'a, R> {
    pub(super) ring: &'a mut R,
    pub(super) requests: RequestPath<'a>,
}

impl<R: Ring> MemoryRelief<'_, R> {
    /// Closes the connections that have to go. Cost: one pass over all connections, and a sort of
    /// those that hold something.
    ///
    /// The connections are counted anew: the account of one may be that of the turn before, and
    /// contains what the ring holds of closed ones.
    #[cold]
    pub(super) fn free(&mut self) {
        let RequestPath { transports, dispatcher, .. } = &self.requests;
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
        let held_bytes = (held_bytes, accounted.blocking_results);
        for key in limit.largest_holders(held_bytes, holders.into_iter()) {
            self.close(key);
        }
    }

    /// Closes a connection. It receives an error first if that does not keep what it holds.
    fn close(&mut self, key: Key) {
        let transports = &mut *self.requests.transports;
        let connections = &mut transports.connections;
        let codec = connections.table.codec(key);
        let Some(connection) = connections.table.get_mut(key) else { return };
        let transport = connection.state.transport;
        let held_bytes = connection.held_bytes();
        // The only connection of a server is not closed: it loses the current message.
        if transport.is_only_connection() {
            if connections.skip_line(key) {
                self.record(transport, held_bytes);
                self.send_error(key, codec);
            }
            return;
        }
        let holds_output = connection.queued_bytes() > held_bytes / 2;
        // The rest of an HTTP response cannot be replaced by an error.
        let is_begun = connection.sending_bytes() > 0 || codec == Codec::Http;
        let is_cut = connection.is_discarding() || holds_output && is_begun;
        connection.state.violation = Some(CloseReason::MemoryLimit);
        self.record(transport, held_bytes);
        let RequestPath { transports, dispatcher, outbox, now, .. } = &mut self.requests;
        Peers { transports, dispatcher, outbox, now: *now }.cancel_calls(key);
        let connections = &mut self.requests.transports.connections;
        if is_cut {
            connections.close(self.ring, key, CloseReason::MemoryLimit);
            return;
        }
        if holds_output {
            connections.discard_output(key);
        }
        self.send_error(key, codec);
        let RequestPath { transports, now, .. } = &mut self.requests;
        let reason = CloseReason::MemoryLimit;
        transports.connections.close_gracefully(self.ring, key, reason, *now);
    }

    fn send_error(&mut self, key: Key, codec: Codec) {
        let error = short_of_memory();
        match codec {
            Codec::WebSocket => self.requests.send_error_message(key, &error),
            Codec::Http => {
                self.requests.outbox.count_error(&error);
                self.requests.http().send_closing_error(key, &error);
            }
            // Reserves the output buffer, which a partial message has not done yet.
            Codec::Ndjson => {
                let connections = &mut self.requests.transports.connections;
                if connections.outgoing(key).is_some()
                    && let Some(connection) = connections.table.get_mut(key)
                {
                    write_error(self.requests.outbox, connection, &error);
                }
            }
        }
        self.requests.transports.connections.account_memory(key);
    }

    fn record(&mut self, transport: Transport, held_bytes: usize) {
        self.requests.outbox.counters.input_errors.memory += 1;
        let acceptor = &mut self.requests.transports.acceptor;
        let shard = acceptor.shard().0;
        acceptor.log(&Event::MemoryFreed { shard, transport, held_bytes }, self.requests.now);
    }
}
