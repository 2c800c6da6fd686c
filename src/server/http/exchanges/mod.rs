//! The open HTTP exchanges of one shard, each on its connection.
//!
//! Invariants: a connection has at most one exchange, and is paused while it has one; output to an
//! exchange that is over is dropped, or kept by its session.

mod output;

use corelane_base::slab::Key;
use corelane_base::time::{Instant, WallClock};
use corelane_engine::mesh::ShardId;
use corelane_engine::timer::TimerWheel;
use corelane_parity::error::ParityError;
use corelane_transport::http::head_template::HeadTemplate;
use corelane_transport::http::sse::{self, EventId};

use crate::connection::Connections;
use crate::server::connection_state::{
    ConnectionState, EchoedFields, HttpExchange, ResponseFormat, ResponseOwner,
};
use crate::server::outbox::{Effect, Outbox};
use crate::server::owner_id::SessionId;
use crate::server::reply_to::Outcome;
use crate::server::shard_message::{CarrierAddress, ExchangeAddress, HttpTimeouts, SessionMessage};

/// Number and timers of the open exchanges, and the clock of their response heads. The exchanges
/// themselves are in the state of their connections.
#[derive(Debug)]
pub struct Exchanges {
    shard: ShardId,
    shard_count: u16,
    pub timeouts: HttpTimeouts,
    open: usize,
    /// Timers of incomplete exchanges, by connection and serial number.
    timers: TimerWheel<(Key, u32)>,
    pub wall_clock: WallClock,
    heads: HeadTemplate,
}

impl Exchanges {
    pub fn new(
        shard: ShardId,
        shard_count: u16,
        timeouts: HttpTimeouts,
        request_ids: u128,
    ) -> Self {
        let (timers, wall_clock) = (TimerWheel::new(), WallClock::default());
        let heads = HeadTemplate::new(0, request_ids, shard.0);
        Self { shard, shard_count, timeouts, open: 0, timers, wall_clock, heads }
    }

    /// Returns the number of incomplete exchanges.
    pub const fn open(&self) -> usize {
        self.open
    }

    /// Returns the id of this shard.
    pub const fn shard(&self) -> ShardId {
        self.shard
    }

    /// Returns the shard that owns a session.
    pub fn owner_of(&self, session: SessionId) -> ShardId {
        session.owner(self.shard_count)
    }

    /// Returns what response heads at `now` have in common.
    #[inline]
    pub fn heads(&mut self, now: Instant) -> &mut HeadTemplate {
        self.heads.advance(self.wall_clock.unix_ms(now) / 1_000);
        &mut self.heads
    }

    /// Returns the same as of the last response.
    pub const fn template(&self) -> &HeadTemplate {
        &self.heads
    }

    /// Begins a request, whose id is [`HeadTemplate::request_id`] if it brings none.
    #[inline]
    pub fn begin_request(&mut self) {
        self.heads.begin_request();
    }

    pub fn next_deadline(&self) -> Option<Instant> {
        self.timers.next_deadline()
    }

    /// Returns when the timer of `exchange` expires.
    fn deadline_of(&self, exchange: &HttpExchange) -> Instant {
        let HttpTimeouts { sse_start_delay, sse_keepalive_interval, .. } = self.timeouts;
        let is_streaming = exchange.is_streaming;
        exchange.last_output.after(if is_streaming {
            sse_keepalive_interval
        } else {
            sse_start_delay
        })
    }
}

/// The exchanges together with the connections that carry them.
#[derive(Debug)]
pub struct ExchangePath<'a> {
    pub exchanges: &'a mut Exchanges,
    pub connections: &'a mut Connections<ConnectionState>,
    pub outbox: &'a mut Outbox,
    pub now: Instant,
}

impl ExchangePath<'_> {
    /// Opens an exchange for the request with these fields, the last one that has begun, and pauses
    /// the connection until it is over.
    pub fn open(
        &mut self,
        key: Key,
        echoed: EchoedFields<'_>,
        format: ResponseFormat,
        response_owner: ResponseOwner,
    ) -> ExchangeAddress {
        let Self { exchanges, connections, now, .. } = self;
        let shard = exchanges.shard;
        connections.table.set_suspended(key, true);
        let Some(connection) = connections.table.get_mut(key) else {
            return ExchangeAddress { shard, connection: key, serial: 0 };
        };
        let state = &mut connection.state;
        // Each request has at most one exchange.
        #[expect(clippy::cast_possible_truncation, reason = "it wraps")]
        let serial = connection.record.traffic.messages_in as u32;
        let exchange = HttpExchange {
            serial,
            owner: response_owner,
            format,
            allowed_origin: echoed.origin.map(Box::from),
            request_id: Some(echoed.request_id_or(&exchanges.heads).into()),
            is_streaming: false,
            is_complete: false,
            last_output: *now,
        };
        if response_owner != ResponseOwner::Connection {
            connection.pending_work.pending_responses += 1;
        }
        // It may become a stream at any time, and needs keep-alives from then on.
        let keepalive = now.after(exchanges.timeouts.sse_keepalive_interval);
        let due = exchanges.deadline_of(&exchange).min(keepalive);
        state.exchange = Some(Box::new(exchange));
        exchanges.open += 1;
        let connections = &connections.table;
        exchanges.timers.purge_stale(exchanges.open, |(key, serial)| {
            let exchange = connections.get(*key).and_then(|it| it.state.exchange.as_ref());
            exchange.is_some_and(|exchange| exchange.serial == *serial)
        });
        exchanges.timers.insert(due, (key, serial));
        ExchangeAddress { shard, connection: key, serial }
    }

    /// Marks the exchange of a connection as a stream on which nothing is outstanding: it neither
    /// delays a drain nor is subject to a timeout.
    pub fn mark_idle_stream(&mut self, key: Key) {
        if let Some(connection) = self.connections.table.get_mut(key)
            && connection.state.exchange.is_some()
        {
            connection.pending_work.count_response();
            connection.pending_work.has_open_stream = true;
        }
    }

    /// Marks the stream of a connection as one on which a response is outstanding: its connection
    /// stays open until the stream has ended.
    pub fn mark_awaited_stream(&mut self, key: Key) {
        if let Some(connection) = self.connections.table.get_mut(key) {
            connection.pending_work.pending_responses += 1;
            connection.pending_work.has_open_stream = false;
        }
    }

    /// Writes a message to the exchange of a connection, and ends the exchange if that completes
    /// the response.
    pub fn write_message(
        &mut self,
        key: Key,
        outcome: Outcome,
        event: Option<EventId>,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let now = self.now;
        self.with_exchange(key, |exchange, out, heads| {
            if outcome == Outcome::Notification && !exchange.format.accepts_event_stream {
                return;
            }
            exchange.is_complete = exchange.write_message(out, outcome, event, heads, write);
            exchange.last_output = now;
        });
        if let Some(connection) = self.connections.table.get_mut(key) {
            connection.record.traffic.messages_out += 1;
        }
        self.outbox.count_outcome(outcome);
    }

    /// Runs `write` on the exchange of a connection, then closes the exchange if it is complete.
    /// The caller accounts the memory of a connection that is still waiting.
    pub fn with_exchange(
        &mut self,
        key: Key,
        write: impl FnOnce(&mut HttpExchange, &mut Vec<u8>, &mut HeadTemplate),
    ) {
        let Some(connection) = self.connections.table.get_mut(key) else { return };
        let Some(mut exchange) = connection.state.exchange.take() else { return };
        if let Some(out) = self.connections.outgoing(key).filter(|_| !exchange.is_complete) {
            write(&mut exchange, out, self.exchanges.heads(self.now));
        }
        // A session's stream ends once it is sent: until then its client can resume it.
        let is_sent = self.connections.table.get(key).is_some_and(|it| it.queued_bytes() == 0);
        let is_of_session = exchange.owner != ResponseOwner::Connection;
        let is_unresumable = !is_of_session || !exchange.is_streaming;
        let is_done = exchange.is_complete && (is_unresumable || is_sent);
        if let Some(connection) = self.connections.table.get_mut(key) {
            connection.state.exchange = Some(exchange);
        }
        if is_done {
            self.close(key, true);
        }
        if is_done || is_of_session {
            self.outbox.push(Effect::AdvanceExchange(key));
        }
    }

    /// After a send: closes an exchange whose last bytes have left.
    #[inline]
    pub fn close_sent(&mut self, key: Key) {
        let Some(connection) = self.connections.table.get(key) else { return };
        if connection.is_read() {
            // Not paused, so it has no exchange.
            return;
        }
        let exchange = connection.state.exchange.as_ref();
        if exchange.is_some_and(|exchange| exchange.is_complete) && connection.queued_bytes() == 0 {
            self.close(key, true);
            self.outbox.push(Effect::AdvanceExchange(key));
        }
    }

    /// Closes the exchange of a connection and informs its session.
    pub fn close(&mut self, key: Key, is_sent: bool) {
        let Some(connection) = self.connections.table.get_mut(key) else { return };
        let Some(exchange) = connection.state.exchange.take() else { return };
        connection.state.is_closing |= exchange.format.closes || !exchange.is_reusable();
        if exchange.owner != ResponseOwner::Connection {
            connection.pending_work.count_response();
        }
        connection.pending_work.has_open_stream = false;
        self.release(key, &exchange, is_sent);
    }

    /// Informs the session of an exchange that was closed.
    pub fn release(&mut self, key: Key, exchange: &HttpExchange, is_sent: bool) {
        let Self { exchanges, outbox, .. } = self;
        exchanges.open -= 1;
        let address =
            ExchangeAddress { shard: exchanges.shard, connection: key, serial: exchange.serial };
        if let Some(session) = exchange.owner.session() {
            let carrier = CarrierAddress::Exchange(address);
            let message = SessionMessage::Closed { session, carrier, is_sent };
            outbox.forward(exchanges.owner_of(session), message);
        }
    }

    /// Ends a session's stream without outstanding responses. In the parity dialect `reason` is its
    /// last event.
    pub fn end_idle_stream(&mut self, key: Key, reason: &ParityError) {
        let connection = self.connections.table.get(key);
        if connection.is_none_or(|it| {
            !it.pending_work.has_open_stream || it.pending_work.pending_responses > 0
        }) {
            return;
        }
        self.with_exchange(key, |exchange, out, _| {
            if exchange.owner != ResponseOwner::Connection && exchange.is_streaming {
                if let ResponseOwner::Parity(_) = exchange.owner {
                    let mut data = Vec::new();
                    corelane_parity::write::error(&mut data, None, reason);
                    let framing = exchange.format.framing();
                    sse::write_named_event(out, framing, "error", None, &data);
                }
                exchange.end_event_stream(out, None);
                exchange.is_complete = true;
            }
        });
    }

    /// Processes due exchanges: a slow response becomes an event stream, and an idle event stream
    /// gets a comment.
    pub fn expire(&mut self) {
        let now = self.now;
        while let Some((key, serial)) = self.exchanges.timers.pop_expired(now) {
            let connection = self.connections.table.get(key);
            let exchange = connection.and_then(|connection| connection.state.exchange.as_ref());
            let Some(exchange) = exchange.filter(|it| it.serial == serial && !it.is_complete)
            else {
                continue;
            };
            if !exchange.format.accepts_event_stream {
                continue;
            }
            let due = self.exchanges.deadline_of(exchange);
            let next = now.after(self.exchanges.timeouts.sse_keepalive_interval);
            if due > now {
                self.exchanges.timers.insert(due.min(next), (key, serial));
                continue;
            }
            self.keep_alive(key);
            self.exchanges.timers.insert(next, (key, serial));
        }
    }

    /// Shows the client of an exchange that it is alive. A session's stream that has not begun
    /// begins with an empty event that carries an id, to resume from.
    fn keep_alive(&mut self, key: Key) {
        let Some(connection) = self.connections.table.get(key) else { return };
        let Some(exchange) = &connection.state.exchange else { return };
        match exchange.owner {
            ResponseOwner::Session(session) if !exchange.is_streaming => {
                let (shard, serial) = (self.exchanges.shard, exchange.serial);
                let exchange = ExchangeAddress { shard, connection: key, serial };
                let message = SessionMessage::ResponseDelayed { session, exchange };
                self.outbox.forward(self.exchanges.owner_of(session), message);
            }
            // Its session sends events.
            ResponseOwner::Parity(_) => {}
            ResponseOwner::Session(_) | ResponseOwner::Connection => {
                let now = self.now;
                self.with_exchange(key, |exchange, out, heads| {
                    exchange.write_keepalive(out, heads);
                    exchange.last_output = now;
                });
            }
        }
    }
}
