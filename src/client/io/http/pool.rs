//! The open connections to one server, and those being opened.

use std::time::Duration;

use super::connection::{HttpConnection, HttpResponse};
use super::exchange::McpExchange;
use super::queue::HttpQueue;
use super::waiting::{ExchangeClass, HttpExchange, WaitingExchanges};
use corelane_base::time::Instant;
use corelane_engine::ring::{Operation, Ring, Socket};

/// Time before a connection is tried again while others work.
const CONNECT_DELAY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct HttpPool<E> {
    connections: Vec<HttpConnection<E>>,
    /// Connections that are being opened.
    connecting: usize,
    connect_not_before: Option<Instant>,
}

impl<E> Default for HttpPool<E> {
    fn default() -> Self {
        Self { connections: Vec::new(), connecting: 0, connect_not_before: None }
    }
}

/// Opening and closing.
impl<E: HttpExchange> HttpPool<E> {
    /// Returns how many connections to open for what waits, and counts them as begun.
    pub(super) fn begin_connects(&mut self, waiting: &WaitingExchanges<E>, now: Instant) -> usize {
        if self.connect_not_before.is_some_and(|time| time > now) {
            return 0;
        }
        let missing = waiting.startable(now).saturating_sub(self.connecting);
        self.connecting += missing;
        missing
    }

    /// Adds an open connection.
    pub(super) fn add(&mut self, ring: &mut dyn Ring, socket: Socket) {
        self.connecting = self.connecting.saturating_sub(1);
        self.connections.push(HttpConnection::open(ring, socket));
    }

    /// Handles a connection that cannot be opened. Returns whether no other serves requests, or is
    /// being opened; if one does, the next attempt waits.
    pub(super) fn handle_connect_failure(&mut self, now: Instant) -> bool {
        self.connecting = self.connecting.saturating_sub(1);
        let serves_requests = |connection: &HttpConnection<E>| {
            connection.exchange().is_none_or(|exchange| exchange.class() == ExchangeClass::Request)
        };
        if self.connections.iter().any(serves_requests) {
            self.connect_not_before = Some(now.after(CONNECT_DELAY));
            return false;
        }
        self.connecting == 0
    }

    /// Closes a connection, and returns it with what it has read.
    pub(super) fn remove(&mut self, ring: &mut dyn Ring, index: usize) -> HttpConnection<E> {
        let connection = self.connections.swap_remove(index);
        ring.submit(Operation::Close(connection.socket()));
        connection
    }

    /// Ends the exchange of a connection with its response. The connection is closed unless it can
    /// be used again.
    pub(super) fn finish(
        &mut self,
        ring: &mut dyn Ring,
        index: usize,
        now: Instant,
    ) -> Option<(E, HttpResponse)> {
        let finished = self.connections[index].finish(now);
        if !finished.as_ref().is_some_and(|(_, response)| response.head.keep_alive) {
            self.remove(ring, index);
        }
        finished
    }

    /// Closes the idle connections that the server may be closing.
    pub(super) fn close_stale(&mut self, ring: &mut dyn Ring, now: Instant) {
        self.connections.retain(|connection| {
            let is_stale = connection.is_stale(now);
            if is_stale {
                ring.submit(Operation::Close(connection.socket()));
            }
            !is_stale
        });
    }

    /// Closes the connections, except an idle one if `keeps_one`.
    pub(super) fn close(&mut self, ring: &mut dyn Ring, keeps_one: bool) {
        let kept = self.idle().filter(|_| keeps_one);
        let kept = kept.map(|index| self.connections.swap_remove(index));
        for connection in self.connections.drain(..) {
            ring.submit(Operation::Close(connection.socket()));
        }
        self.connections.extend(kept);
    }
}

/// Exchanges of MCP.
impl HttpPool<McpExchange> {
    /// Closes the connections whose exchange matches.
    pub(super) fn close_exchanges(
        &mut self,
        ring: &mut dyn Ring,
        queue: &mut HttpQueue,
        matches: impl Fn(&McpExchange) -> bool,
    ) {
        self.connections.retain(|connection| {
            let Some(exchange) = connection.exchange().filter(|exchange| matches(exchange)) else {
                return true;
            };
            queue.finish(exchange);
            ring.submit(Operation::Close(connection.socket()));
            false
        });
    }
}

/// Search.
impl<E: HttpExchange> HttpPool<E> {
    pub(super) fn index_of(&self, socket: Socket) -> Option<usize> {
        self.connections.iter().position(|connection| connection.socket() == socket)
    }

    /// Returns a connection that can start an exchange.
    pub(super) fn idle(&self) -> Option<usize> {
        self.connections.iter().position(HttpConnection::is_idle)
    }

    /// Returns whether exchanges are in flight.
    pub(super) fn has_exchanges(&self) -> bool {
        self.connections.iter().any(|connection| connection.exchange().is_some())
    }

    /// Returns a connection whose exchange has timed out.
    pub(super) fn expired(&self, now: Instant) -> Option<usize> {
        let is_expired = |connection: &HttpConnection<E>| {
            connection.deadline().is_some_and(|deadline| deadline <= now)
        };
        self.connections.iter().position(is_expired)
    }

    pub(super) fn get_mut(&mut self, index: usize) -> &mut HttpConnection<E> {
        &mut self.connections[index]
    }

    /// Returns when an exchange times out, one of `waiting` is due, or a connection for it can be
    /// opened.
    pub(super) fn deadline(&self, waiting: &WaitingExchanges<E>, now: Instant) -> Option<Instant> {
        let connect = self.connect_not_before.filter(|time| *time > now && !waiting.is_empty());
        let exchange = self.connections.iter().filter_map(HttpConnection::deadline).min();
        Instant::earliest([connect, exchange, waiting.deadline(now)])
    }
}
