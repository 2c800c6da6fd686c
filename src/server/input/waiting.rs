//! Input that waits: for output to be sent, for the response to the request before
//! (`stdio.sequential`), or for the answer about its token.

use corelane_base::slab::Key;
use corelane_engine::ring::Ring;
use corelane_protocol::error::Error;

use crate::server::outbox::OutgoingMessage;
use crate::server::reply_to::{PeerId, ReplyTo};
use crate::server::shard::Shard;

impl Shard {
    /// Stops reading a connection until its output is sent or a request that waits has started.
    pub(in crate::server) fn hold_input<R: Ring>(&mut self, ring: &mut R, key: Key) {
        let table = &mut self.transports.connections.table;
        table.hold_input(key);
        table.pause(ring, key);
    }

    /// Has a connection that waits for a response or for its output read again, once all effects
    /// are applied.
    pub(in crate::server) fn schedule_reading(&mut self, key: Key) {
        if self.transports.connections.table.waits_to_be_read(key) {
            self.outbox.resume_reading(key);
        }
    }

    /// Starts the requests of a connection that wait for the one before (`stdio.sequential`), until
    /// one is in flight or the output exceeds its limit. After the last one the connection may
    /// close.
    #[inline]
    pub(in crate::server) fn start_waiting<R: Ring>(&mut self, ring: &mut R, key: Key) {
        if !self.dispatcher.waiting.is_empty() {
            self.start_requests(ring, key);
        }
    }

    #[cold]
    fn start_requests<R: Ring>(&mut self, ring: &mut R, key: Key) {
        loop {
            let connections = &mut self.transports.connections;
            let Some(connection) = connections.table.get_mut(key) else { return };
            if connection.queued_bytes() > connections.shared.options.outgoing_bytes_max {
                // Goes on when half of it is sent.
                return self.hold_input(ring, key);
            }
            let in_flight = &mut connection.state.in_flight;
            let Some(text) = self.dispatcher.waiting.start_next(in_flight) else { break };
            self.dispatch_kept_line(key, text);
            self.dispatcher.waiting.end_start();
        }
        self.transports.connections.account_memory(key);
        if !self.dispatcher.waiting.is_full() {
            self.schedule_reading(key);
        }
        if self.dispatcher.waiting.is_empty() {
            self.finish_input(key);
        }
    }

    /// Starts requests that wait before further input is read. Returns whether none may be read.
    pub(super) fn holds_back_input<R: Ring>(&mut self, ring: &mut R, key: Key) -> bool {
        if let Some(text) = self.dispatcher.held.take(key) {
            self.dispatch_kept_line(key, text);
            if self.dispatcher.held.contains(key) {
                // Its token is still asked about, and something else has resumed the connection.
                return true;
            }
        }
        self.start_waiting(ring, key);
        let holds = self.dispatcher.waiting.is_full();
        if holds {
            self.transports.connections.table.hold_input(key);
        }
        holds
    }

    /// Responds with `error` to the requests of a connection that wait for the one before. Returns
    /// their number.
    fn respond_waiting(&mut self, key: Key, error: &Error) -> u64 {
        let mut failed = 0;
        while let Some(connection) = self.transports.connections.table.get_mut(key)
            && let Some(id) = self.dispatcher.waiting.discard_next(&mut connection.state.in_flight)
        {
            self.outbox.count_error(error);
            let to = ReplyTo::standalone(PeerId::Connection(key));
            self.send(to, &OutgoingMessage::Error { id: id.as_id(), error });
            failed += 1;
        }
        failed
    }

    /// Responds with `error` to the requests that wait, which do not start any more. Returns their
    /// number.
    pub(in crate::server) fn fail_waiting(&mut self, key: Key, error: &Error) -> u64 {
        let failed = self.respond_waiting(key, error);
        if failed > 0 {
            self.finish_input(key);
        }
        failed
    }
}
