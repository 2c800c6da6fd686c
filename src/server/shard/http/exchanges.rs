//! HTTP exchanges, on the shard of their connection.
//!
//! Invariants: a connection has at most one exchange, and is paused while it has one; output to an
//! exchange that is over is dropped, or kept by its session.

use super::IncomingRequest;
use crate::base::slab::Key;
use crate::base::time::Instant;
use crate::connection::CloseReason;
use crate::engine::ring::Ring;
use crate::server::http::{
    ExchangeAddress, HttpExchange, HttpMessage, ResponseFormat, ResponseOwner,
};
use crate::server::reply_to::Outcome;
use crate::server::shard::Shard;
use crate::server::shard_message::ShardMessage;
use crate::transport::http::sse::EventId;

impl Shard {
    /// Opens an exchange and pauses the connection until it is over.
    pub(super) fn open_exchange(
        &mut self,
        incoming: &IncomingRequest<'_>,
        format: ResponseFormat,
        response_owner: ResponseOwner,
    ) -> ExchangeAddress {
        let IncomingRequest { key, now, .. } = *incoming;
        let shard = self.id;
        self.connections.suspend_reading(key);
        let Some(connection) = self.connections.table.get_mut(key) else {
            return ExchangeAddress { shard, connection: key, serial: 0 };
        };
        let session = &mut connection.state;
        session.exchange_count = session.exchange_count.wrapping_add(1);
        let serial = session.exchange_count;
        let exchange = HttpExchange {
            serial,
            owner: response_owner,
            format,
            allowed_origin: incoming.origin().map(Box::from),
            is_streaming: false,
            is_complete: false,
            last_output: now,
        };
        if response_owner != ResponseOwner::Connection {
            connection.pending_work.pending_responses += 1;
        }
        // It may become a stream at any time, and needs keep-alives from then on.
        let due = self
            .http
            .exchange_deadline(&exchange)
            .min(now.after(self.http.timeouts.sse_keepalive_interval));
        session.exchange = Some(Box::new(exchange));
        self.http.open_exchanges += 1;
        let connections = &self.connections.table;
        self.http.exchange_timers.purge_stale(self.http.open_exchanges, |(key, serial)| {
            let exchange = connections.get(*key).and_then(|it| it.state.exchange.as_ref());
            exchange.is_some_and(|exchange| exchange.serial == *serial)
        });
        self.http.exchange_timers.insert(due, (key, serial));
        ExchangeAddress { shard, connection: key, serial }
    }

    /// Writes a message to the exchange of a connection.
    pub(in crate::server::shard) fn write_to_exchange(
        &mut self,
        key: Key,
        (outcome, event): (Outcome, Option<EventId>),
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let date = *self.http.date();
        let now = self.http.now();
        self.with_exchange(key, |exchange, out| {
            if outcome == Outcome::Notification && !exchange.format.accepts_event_stream {
                return;
            }
            exchange.is_complete = exchange.write_message(out, (outcome, event), &date, write);
            exchange.last_output = now;
        });
        self.outbox.count_outcome(outcome);
    }

    /// Runs `write` on the exchange of a connection, then closes the exchange if it is complete.
    pub(super) fn with_exchange(
        &mut self,
        key: Key,
        write: impl FnOnce(&mut HttpExchange, &mut Vec<u8>),
    ) {
        let Some(connection) = self.connections.table.get_mut(key) else { return };
        let Some(mut exchange) = connection.state.exchange.take() else { return };
        if let Some(out) = self.connections.outgoing(key).filter(|_| !exchange.is_complete) {
            write(&mut exchange, out);
        }
        // A session's stream ends once it is sent: until then its client can resume it.
        let is_sent = self.connections.table.get(key).is_some_and(|it| it.queued_bytes() == 0);
        let is_unresumable = exchange.owner == ResponseOwner::Connection || !exchange.is_streaming;
        let is_done = exchange.is_complete && (is_unresumable || is_sent);
        if let Some(connection) = self.connections.table.get_mut(key) {
            connection.state.exchange = Some(exchange);
        }
        self.http.dirty_connections.push(key);
        if is_done {
            self.close_exchange(key, true);
        }
    }

    /// After a send: closes an exchange whose last bytes have left.
    #[inline]
    pub(in crate::server::shard) fn close_sent_exchange(&mut self, key: Key) {
        let Some(connection) = self.connections.table.get(key) else { return };
        if connection.is_read() {
            // Not paused, so it has no exchange.
            return;
        }
        let exchange = connection.state.exchange.as_ref();
        if exchange.is_some_and(|exchange| exchange.is_complete) && connection.queued_bytes() == 0 {
            self.close_exchange(key, true);
            self.http.dirty_connections.push(key);
        }
    }

    /// Closes the exchange of a connection and informs its session.
    pub(in crate::server::shard) fn close_exchange(&mut self, key: Key, is_sent: bool) {
        let Some(connection) = self.connections.table.get_mut(key) else { return };
        let Some(exchange) = connection.state.exchange.take() else { return };
        connection.state.is_closing |= exchange.format.closes || !exchange.is_reusable();
        if exchange.owner != ResponseOwner::Connection {
            connection.pending_work.complete_request();
        }
        connection.pending_work.has_open_stream = false;
        self.release_exchange(key, &exchange, is_sent);
    }

    /// Informs the session of a closed exchange.
    pub(in crate::server::shard) fn release_exchange(
        &mut self,
        key: Key,
        exchange: &HttpExchange,
        is_sent: bool,
    ) {
        self.http.open_exchanges -= 1;
        let ResponseOwner::Session(session) = exchange.owner else { return };
        let address = ExchangeAddress { shard: self.id, connection: key, serial: exchange.serial };
        let owner = session.owner_shard(self.dispatcher.shard_count);
        if owner == self.id {
            self.detach_exchange(session, address, is_sent);
        } else {
            let message = HttpMessage::ExchangeClosed { session, exchange: address, is_sent };
            self.outbox.forward(owner, ShardMessage::Http(Box::new(message)));
        }
    }

    /// Ends a session's stream without outstanding responses, because the server drains.
    pub(in crate::server::shard) fn end_idle_stream(&mut self, key: Key) {
        let connection = self.connections.table.get(key);
        if connection.is_none_or(|it| {
            !it.pending_work.has_open_stream || it.pending_work.pending_responses > 0
        }) {
            return;
        }
        self.with_exchange(key, |exchange, out| {
            if exchange.owner != ResponseOwner::Connection && exchange.is_streaming {
                exchange.end_event_stream(out, None);
                exchange.is_complete = true;
            }
        });
    }

    /// Closes the exchange of a disconnected client. A modern request is cancelled by that; a
    /// legacy session continues, and its client may resume the stream.
    ///
    /// Source: 2026-07-28 `basic/patterns/cancellation`; 2025-11-25 `basic/transports`.
    pub(in crate::server::shard) fn abort_exchange(&mut self, key: Key) {
        let Some(connection) = self.connections.table.get(key) else { return };
        let Some(exchange) = connection.state.exchange.as_ref() else { return };
        if exchange.owner == ResponseOwner::Connection {
            self.cancel_connection_calls(key);
        }
        self.close_exchange(key, false);
    }

    /// Finishes the exchanges that were written to or closed in this turn: connections that are not
    /// paused any more are read again.
    pub(in crate::server::shard) fn finish_exchanges<R: Ring>(
        &mut self,
        ring: &mut R,
        now: Instant,
    ) {
        while !self.http.dirty_connections.is_empty() || !self.http.evicted_sessions.is_empty() {
            for removed in std::mem::take(&mut self.http.evicted_sessions) {
                self.clean_up_session(removed, now);
            }
            let mut touched = std::mem::take(&mut self.http.dirty_connections);
            for key in touched.drain(..) {
                self.finish_exchange(ring, key, now);
            }
            if self.http.dirty_connections.is_empty() {
                self.http.dirty_connections = touched;
            }
        }
    }

    fn finish_exchange<R: Ring>(&mut self, ring: &mut R, key: Key, now: Instant) {
        let Some(connection) = self.connections.table.get(key) else { return };
        // Output of this turn does not count as slow until it queues behind unread output: a
        // response and a replay may be of any length.
        let is_queued = connection.outgoing.len() > self.connections.options.outgoing_bytes_max;
        let is_slow = is_queued && connection.queued_bytes() > connection.outgoing.len();
        match connection.state.exchange.as_deref() {
            // The session keeps the unread events, and the client may resume the stream.
            Some(HttpExchange { owner: ResponseOwner::Session(_), is_complete: false, .. })
                if is_slow =>
            {
                self.close_exchange(key, false);
                self.connections.close(ring, key, CloseReason::ProtocolViolation);
            }
            Some(_) => self.check_memory_or_close(ring, key, now),
            None if connection.state.is_closing => {
                self.check_memory_or_close(ring, key, now);
                self.connections.close_gracefully(ring, key, CloseReason::PeerClosed, now);
            }
            None => {
                self.check_memory_or_close(ring, key, now);
                let next = self.connections.resume_reading(key);
                self.handle_connection_event(ring, next, now);
                // A closing connection may have waited for that.
                self.connections.advance_closing(ring, key, now);
            }
        }
    }

    /// Processes due exchanges: a slow response becomes an event stream, and an idle event stream
    /// gets a comment.
    pub(in crate::server::shard) fn expire_exchanges(&mut self, now: Instant) {
        while let Some((key, serial)) = self.http.exchange_timers.pop_expired(now) {
            let connection = self.connections.table.get(key);
            let exchange = connection.and_then(|connection| connection.state.exchange.as_ref());
            let Some(exchange) = exchange.filter(|it| it.serial == serial && !it.is_complete)
            else {
                continue;
            };
            if !exchange.format.accepts_event_stream {
                continue;
            }
            let due = self.http.exchange_deadline(exchange);
            let next = now.after(self.http.timeouts.sse_keepalive_interval);
            if due > now {
                self.http.exchange_timers.insert(due.min(next), (key, serial));
                continue;
            }
            self.keep_exchange_alive(key, now);
            self.http.exchange_timers.insert(next, (key, serial));
        }
    }

    /// Shows the client of an exchange that it is alive. A session's stream that has not begun
    /// begins with an empty event that carries an id, to resume from.
    fn keep_exchange_alive(&mut self, key: Key, now: Instant) {
        let Some(connection) = self.connections.table.get(key) else { return };
        let Some(exchange) = &connection.state.exchange else { return };
        let (response_owner, serial) = (exchange.owner, exchange.serial);
        let ResponseOwner::Session(session) = response_owner else {
            return self.write_keepalive(key, now);
        };
        if exchange.is_streaming {
            return self.write_keepalive(key, now);
        }
        let exchange = ExchangeAddress { shard: self.id, connection: key, serial };
        let owner = session.owner_shard(self.dispatcher.shard_count);
        if owner == self.id {
            return self.begin_event_stream(session, exchange);
        }
        let is_queued = HttpMessage::ResponseDelayed { session, exchange };
        self.outbox.forward(owner, ShardMessage::Http(Box::new(is_queued)));
    }

    fn write_keepalive(&mut self, key: Key, now: Instant) {
        let date = *self.http.date();
        self.with_exchange(key, |exchange, out| {
            exchange.write_keepalive(out, &date);
            exchange.last_output = now;
        });
    }
}
