//! The exchanges of a session that wait for a connection, and how many may be in flight.
//!
//! ```text
//! send ──▶ waiting ──begin_next──▶ in flight ──finish──▶ (ended)
//!             ▲                        │
//!             └──────push_front────────┘   sent again
//! ```
//!
//! Invariant: nothing that waits behind an ordered exchange is begun before that one is finished.

use std::collections::VecDeque;

use corelane_base::time::Instant;

/// Requests in flight; further calls wait in the session.
pub(super) const REQUESTS_MAX: usize = 10;
/// Notifications and responses in flight, besides the requests: a request may wait for them.
pub(super) const MESSAGES_MAX: usize = 4;

/// How many exchanges of a kind may be in flight.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ExchangeClass {
    /// [`REQUESTS_MAX`].
    Request,
    /// [`MESSAGES_MAX`].
    Message,
    /// Not limited.
    Unlimited,
}

/// One request of HTTP and its response, as they wait for a connection.
pub trait HttpExchange {
    /// Returns its class.
    fn class(&self) -> ExchangeClass;

    /// Returns whether what follows waits for the end of this exchange.
    fn is_ordered(&self) -> bool {
        false
    }

    /// Returns the time before which it is not sent, if there is one.
    fn not_before(&self) -> Option<Instant> {
        None
    }
}

/// The exchanges in flight, counted.
#[derive(Clone, Copy, Debug, Default)]
struct InFlightCounts {
    requests: usize,
    messages: usize,
    /// One of the messages is ordered: nothing is begun before its end.
    has_ordered: bool,
}

impl InFlightCounts {
    const fn has_room(&self, class: ExchangeClass) -> bool {
        !self.has_ordered
            && match class {
                ExchangeClass::Request => self.requests < REQUESTS_MAX,
                ExchangeClass::Message => self.messages < MESSAGES_MAX,
                ExchangeClass::Unlimited => true,
            }
    }

    fn begin(&mut self, exchange: &impl HttpExchange) {
        match exchange.class() {
            ExchangeClass::Request => self.requests += 1,
            ExchangeClass::Message => self.messages += 1,
            ExchangeClass::Unlimited => {}
        }
        self.has_ordered |= exchange.is_ordered();
    }

    fn finish(&mut self, exchange: &impl HttpExchange) {
        match exchange.class() {
            ExchangeClass::Request => self.requests -= 1,
            ExchangeClass::Message => self.messages -= 1,
            ExchangeClass::Unlimited => {}
        }
        self.has_ordered &= !exchange.is_ordered();
    }
}

/// The exchanges that wait, in order.
#[derive(Debug)]
pub struct WaitingExchanges<E> {
    exchanges: VecDeque<E>,
    in_flight: InFlightCounts,
}

impl<E> Default for WaitingExchanges<E> {
    fn default() -> Self {
        Self { exchanges: VecDeque::new(), in_flight: InFlightCounts::default() }
    }
}

impl<E: HttpExchange> WaitingExchanges<E> {
    pub fn push_back(&mut self, exchange: E) {
        self.exchanges.push_back(exchange);
    }

    /// Adds exchanges, in order.
    pub(super) fn extend(&mut self, exchanges: impl IntoIterator<Item = E>) {
        self.exchanges.extend(exchanges);
    }

    /// Adds an exchange before the others, but not before a message that must precede it.
    pub fn push_front(&mut self, exchange: E) {
        let ordered = self.exchanges.iter().rposition(E::is_ordered);
        let index = ordered.filter(|_| !exchange.is_ordered()).map_or(0, |index| index + 1);
        self.exchanges.insert(index, exchange);
    }

    /// Takes the next exchange to send.
    pub(super) fn begin_next(&mut self, now: Instant) -> Option<E> {
        let in_flight = &self.in_flight;
        let is_startable =
            |exchange: &E| is_due(exchange, now) && in_flight.has_room(exchange.class());
        let index = self.unblocked().position(is_startable)?;
        let exchange = self.exchanges.remove(index)?;
        self.in_flight.begin(&exchange);
        Some(exchange)
    }

    /// Notes the end of an exchange that was begun.
    pub(super) fn finish(&mut self, exchange: &E) {
        self.in_flight.finish(exchange);
    }

    /// Returns how many exchanges could be sent now.
    pub(super) fn startable(&self, now: Instant) -> usize {
        let mut in_flight = self.in_flight;
        let due = self.unblocked().filter(|exchange| is_due(*exchange, now));
        due.filter(|exchange| {
            let has_room = in_flight.has_room(exchange.class());
            if has_room {
                in_flight.begin(*exchange);
            }
            has_room
        })
        .count()
    }

    /// Returns what waits, up to the first message that must precede others: nothing overtakes it,
    /// also while it waits for other messages to end.
    fn unblocked(&self) -> impl Iterator<Item = &E> {
        let ordered = self.exchanges.iter().position(E::is_ordered);
        self.exchanges.iter().take(ordered.map_or(usize::MAX, |index| index + 1))
    }

    /// Returns whether as many requests as allowed wait or are in flight.
    pub fn is_full(&self) -> bool {
        let is_request = |exchange: &&E| exchange.class() == ExchangeClass::Request;
        let waiting = self.exchanges.iter().filter(is_request).count();
        self.in_flight.requests + waiting >= REQUESTS_MAX
    }

    /// Returns whether as many requests as allowed are in flight.
    pub(super) const fn is_exhausted(&self) -> bool {
        self.in_flight.requests >= REQUESTS_MAX
    }

    pub(super) fn is_empty(&self) -> bool {
        self.exchanges.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &E> {
        self.exchanges.iter()
    }

    /// Keeps the exchanges that match. Returns whether others waited.
    pub(super) fn retain(&mut self, matches: impl Fn(&E) -> bool) -> bool {
        let count = self.exchanges.len();
        self.exchanges.retain(matches);
        self.exchanges.len() < count
    }

    /// Takes what waits.
    pub fn take(&mut self) -> VecDeque<E> {
        std::mem::take(&mut self.exchanges)
    }

    /// Returns when the next postponed exchange is due.
    pub(super) fn deadline(&self, now: Instant) -> Option<Instant> {
        self.exchanges.iter().filter_map(E::not_before).filter(|time| *time > now).min()
    }
}

fn is_due(exchange: &impl HttpExchange, now: Instant) -> bool {
    exchange.not_before().is_none_or(|not_before| not_before <= now)
}
