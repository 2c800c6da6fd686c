//! The messages that wait for a connection.

use std::collections::VecDeque;

use crate::client::parity_session::{ParityMessage, ParityMessageKind, ParitySink};

/// Requests in flight and waiting, each on a connection of its own.
const REQUESTS_MAX: usize = 10;

/// What a request of HTTP is for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::client::io::parity) enum Exchange {
    /// It carries a message.
    Post(ParityMessageKind, Vec<u8>),
    /// Its response is the event stream of the session.
    Events,
    /// It ends the session.
    Delete,
}

impl Exchange {
    /// Returns the request of the session that it carries.
    pub(super) const fn request(&self) -> Option<u64> {
        match self {
            Self::Post(ParityMessageKind::Request { id, .. }, _) => Some(*id),
            _ => None,
        }
    }
}

/// The messages of a session that are not sent yet.
#[derive(Debug, Default)]
pub(in crate::client::io) struct ParityOutbox {
    waiting: VecDeque<Exchange>,
    /// Requests of the session that wait or are in flight.
    requests: usize,
    /// The session has sent a request whose chunks come on the event stream.
    needs_events: bool,
    /// The session is lost: nothing is sent any more.
    has_ended: bool,
}

impl ParitySink for ParityOutbox {
    fn send(&mut self, message: ParityMessage<'_>) {
        if self.has_ended {
            return;
        }
        if let ParityMessageKind::Request { streams, .. } = message.kind {
            self.requests += 1;
            self.needs_events |= streams;
        }
        self.waiting.push_back(Exchange::Post(message.kind, message.text.to_vec()));
    }

    fn is_full(&self) -> bool {
        self.has_ended || self.requests >= REQUESTS_MAX
    }
}

impl ParityOutbox {
    /// The session is lost.
    pub(super) fn end(&mut self) {
        *self = Self { has_ended: true, ..Self::default() };
    }

    /// Adds what is not a message, or is sent again.
    pub(super) fn push_front(&mut self, exchange: Exchange) {
        self.waiting.push_front(exchange);
    }

    /// Takes the next exchange to start.
    pub(super) fn pop(&mut self) -> Option<Exchange> {
        self.waiting.pop_front()
    }

    /// Notes the end of an exchange.
    pub(super) const fn finish(&mut self, exchange: &Exchange) {
        if exchange.request().is_some() {
            self.requests = self.requests.saturating_sub(1);
        }
    }

    /// Returns whether the event stream is needed since the last call.
    pub(super) const fn take_needs_events(&mut self) -> bool {
        std::mem::replace(&mut self.needs_events, false)
    }

    /// Returns the number of exchanges that wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }
}
