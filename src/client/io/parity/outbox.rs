//! The messages of a session over HTTP that wait for a connection.

use crate::io::http::{ExchangeClass, HttpExchange, WaitingExchanges};
use crate::parity_session::{ParityMessage, ParityMessageKind, ParitySink};

/// What a request of HTTP is for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ParityExchange {
    /// It carries a message.
    Post(ParityMessageKind, Vec<u8>),
    /// Its response is the event stream of the session.
    Events,
    /// It ends the session.
    Delete,
}

impl ParityExchange {
    pub(super) const fn is_handshake(&self) -> bool {
        matches!(self, Self::Post(ParityMessageKind::Handshake, _))
    }

    /// Returns the request of the session that it carries.
    pub(super) const fn request(&self) -> Option<u64> {
        match self {
            Self::Post(ParityMessageKind::Request { id, .. }, _) => Some(*id),
            _ => None,
        }
    }
}

impl HttpExchange for ParityExchange {
    fn class(&self) -> ExchangeClass {
        self.request().map_or(ExchangeClass::Unlimited, |_| ExchangeClass::Request)
    }
}

/// The messages of a session that are not sent yet.
#[derive(Debug, Default)]
pub struct ParityOutbox {
    pub(super) waiting: WaitingExchanges<ParityExchange>,
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
        self.needs_events |=
            matches!(message.kind, ParityMessageKind::Request { streams: true, .. });
        self.waiting.push_back(ParityExchange::Post(message.kind, message.text.to_vec()));
    }

    fn is_full(&self) -> bool {
        self.has_ended || self.waiting.is_full()
    }
}

impl ParityOutbox {
    /// The session is lost.
    pub(super) fn end(&mut self) {
        self.waiting.take();
        (self.needs_events, self.has_ended) = (false, true);
    }

    /// Returns whether the event stream is needed since the last call.
    pub(super) const fn take_needs_events(&mut self) -> bool {
        std::mem::replace(&mut self.needs_events, false)
    }
}
