//! One connection of the load, from its first attempt to its last.
//!
//! What a held connection costs the generator: a lane with its books (about 190 bytes; over HTTP
//! and WebSocket a reader, too, of about 110 and 50), the ring's entry for its socket, and 8 bytes
//! in the lists of its worker. An encrypted one has a filter as well, of about 1,100 bytes and the
//! keys that rustls has beside it. Buffers belong to what is under way, not to lanes.

use corelane::base::time::Moment;
use corelane::engine::ring::Socket;

use super::reading::Reading;
use crate::dialogue::{Books, Listening, Opening, Parting, Refused};
use crate::measure::outcome::Failure;
use crate::schedule::Occasion;
use crate::wire::tls::TlsFilter;

/// How far a lane has come.
#[derive(Debug)]
pub(super) enum State {
    /// It has no socket, and gets one when its time has come.
    Away {
        /// Not before this.
        until: Moment,
    },
    /// The kernel connects it.
    Connecting,
    /// What has to be said before the first request is being said.
    Opening(Box<Opening>),
    /// Requests go over it. Nearly all lanes are open for nearly all of the time: their books stand
    /// here and not behind a pointer, because each further place has left the caches when an answer
    /// comes.
    Open(Books),
    /// It is open and reads slowly; no request of the schedule goes over it.
    Slow(Box<Reading>),
    /// It has said goodbye and is closed when the other end has, too.
    Parting(Box<Parting>),
    /// It listens, or asks to.
    Listening(Box<Listening>),
    /// The kernel closes it.
    Closing,
}

/// A lane is to be closed and opened again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Departure {
    /// When it was to be.
    pub(super) intended: Moment,
    /// Why.
    pub(super) occasion: Occasion,
    /// When it was told, and when it said goodbye.
    pub(super) asked: Moment,
}

/// One connection: three lines of the cache, of which none is shared with another.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Lane {
    /// How far it has come.
    pub(super) state: State,
    /// What it hears, from the completion that brought it until the one that took it away.
    pub(super) hears: Option<Socket>,
    /// What it says is sent here: over a network the same socket, over pipes another one.
    pub(super) says: Option<Socket>,
    /// Its encryption, where it has one: from the end of connecting until it ends.
    pub(super) filter: Option<Box<TlsFilter>>,
    /// Bytes that leave at the end of the turn, or when the send under way is over. It has a buffer
    /// only while there are some.
    pub(super) outgoing: Vec<u8>,
    /// A send is with the ring.
    pub(super) is_sending: bool,
    /// It stands in the list of those that have something to send.
    pub(super) is_corked: bool,
    /// It stands in the queue of those that have room.
    pub(super) is_listed: bool,
    /// It ends when it owes nothing: the server has said that it closes, or it is to be replaced.
    pub(super) is_leaving: bool,
    /// When its last connect began.
    pub(super) began: Moment,
    /// It is being replaced: from the moment at which it was told until it is open again.
    pub(super) departure: Option<Box<Departure>>,
    /// It has ended without our doing.
    pub(super) is_lost: bool,
}

impl Lane {
    /// A lane that has not been connected.
    pub(super) const fn new() -> Self {
        Self {
            state: State::Away { until: Moment::ORIGIN },
            hears: None,
            says: None,
            filter: None,
            outgoing: Vec::new(),
            is_sending: false,
            is_corked: false,
            is_listed: false,
            is_leaving: false,
            began: Moment::ORIGIN,
            departure: None,
            is_lost: false,
        }
    }

    /// Whether its handshake of TLS is under way.
    pub(super) fn is_shaking_hands(&self) -> bool {
        self.filter.as_ref().is_some_and(|filter| filter.is_opening())
    }

    /// Why it did not open, where the server has closed it.
    pub(super) fn cut_off(&self) -> Refused {
        let (failure, said) = if self.is_shaking_hands() {
            let said = "the server closed the connection in the middle of the TLS handshake";
            (Failure::Connect, said)
        } else {
            (Failure::Closed, "the server closed the connection")
        };
        Refused { failure, said: said.into() }
    }

    /// Why it did not open, where nothing came in time.
    pub(super) fn given_up(&self) -> Refused {
        let said = if self.is_shaking_hands() {
            "nothing answered the TLS handshake: does the server speak TLS on this port?"
        } else {
            "it said nothing in time"
        };
        Refused { failure: Failure::Timeout, said: said.into() }
    }

    /// Whether it has something to say.
    #[inline]
    pub(super) fn owes(&self) -> bool {
        !self.outgoing.is_empty() || self.filter.as_ref().is_some_and(|filter| filter.owes())
    }

    /// Whether another request may go over it.
    #[inline]
    pub(super) fn has_room(&self, depth: usize) -> bool {
        match &self.state {
            State::Open(books) => !self.is_leaving && books.in_flight() < depth,
            _ => false,
        }
    }
}

impl Default for Lane {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_costs_about_what_the_first_page_says() {
        let sizes = (size_of::<Lane>(), size_of::<TlsFilter>());
        assert!(sizes.0 <= 192 && sizes.1 <= 1_150, "{sizes:?}");
    }
}
