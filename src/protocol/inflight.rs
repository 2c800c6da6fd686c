//! The requests of one connection that have no answer yet.
//!
//! What it keeps true: an id names one request at a time, so that a cancellation and an answer mean
//! the same one; the number of requests is bounded; an idle connection holds no memory here. It
//! keeps no deadlines: a [`Ticket`] names the work, and the work knows its timer.
//!
//! Source: JSON-RPC 2.0, section 4; `basic/index` of each revision ("MUST NOT have been previously
//! used" within a session; 2026-07-28: unique among the sender's requests in flight, which is what
//! is held here).

use crate::protocol::error::Error;
use crate::protocol::rpc::{Id, IdBuf};

/// Names the work behind a request. Drawn by the caller.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Ticket(pub u64);

/// The requests in flight of one connection.
///
/// Cost: three words while empty, 32 bytes a request otherwise. Looking for an id compares it with
/// each, which is the fastest way for the handful a connection has and bounded by the limit for
/// the rest (1,024 take less than a microsecond).
#[derive(Debug, Default)]
pub struct Inflight {
    requests: Vec<(IdBuf, Ticket)>,
}

/// Why a request was not taken in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Rejected {
    /// A request with this id has no answer yet.
    Duplicate,
    /// The connection has as many requests in flight as it may have: this number.
    Full(usize),
}

impl Inflight {
    /// How many requests a connection may have in flight by default. Costs 32 KiB for a connection
    /// that has them, and whatever their handlers hold.
    pub const REQUESTS_MAX: usize = 1024;

    /// No request.
    pub const fn new() -> Self {
        Self { requests: Vec::new() }
    }

    /// Takes in a request; `requests_max` bounds how many there may be.
    ///
    /// # Errors
    ///
    /// See [`Rejected`]; what is in flight stays as it was.
    pub fn insert(
        &mut self,
        id: Id<'_>,
        ticket: Ticket,
        requests_max: usize,
    ) -> Result<(), Rejected> {
        if self.find(id).is_some() {
            return Err(Rejected::Duplicate);
        }
        if self.requests.len() >= requests_max {
            return Err(Rejected::Full(requests_max));
        }
        self.requests.push((IdBuf::from(id), ticket));
        Ok(())
    }

    /// Lets the request called `id` go: it was answered or cancelled.
    pub fn remove(&mut self, id: Id<'_>) -> Option<Ticket> {
        let place = self.requests.iter().position(|(known, _)| known.as_id() == id)?;
        Some(self.take(place).1)
    }

    /// Lets the request behind `ticket` go, and says what it is called.
    pub fn remove_ticket(&mut self, ticket: Ticket) -> Option<IdBuf> {
        let place = self.requests.iter().position(|(_, known)| *known == ticket)?;
        Some(self.take(place).0)
    }

    /// Lets every request go, the connection being over.
    pub fn drain(&mut self) -> impl Iterator<Item = (IdBuf, Ticket)> + use<> {
        std::mem::take(&mut self.requests).into_iter()
    }

    /// The work behind the request called `id`.
    #[inline]
    pub fn find(&self, id: Id<'_>) -> Option<Ticket> {
        self.requests.iter().find(|(known, _)| known.as_id() == id).map(|(_, ticket)| *ticket)
    }

    /// The work behind every request.
    pub fn tickets(&self) -> impl Iterator<Item = Ticket> {
        self.requests.iter().map(|(_, ticket)| *ticket)
    }

    /// How many requests are in flight.
    #[inline]
    pub const fn len(&self) -> usize {
        self.requests.len()
    }

    /// Whether none is.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    fn take(&mut self, place: usize) -> (IdBuf, Ticket) {
        let request = self.requests.swap_remove(place);
        if self.requests.is_empty() {
            self.requests = Vec::new();
        }
        request
    }
}

impl From<Rejected> for Error {
    #[cold]
    fn from(rejected: Rejected) -> Self {
        match rejected {
            Rejected::Duplicate => {
                Self::invalid_request("a request with this id is in flight already")
            }
            Rejected::Full(requests_max) => Self::busy(requests_max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = Inflight::REQUESTS_MAX;

    #[test]
    fn an_id_names_one_request_until_that_is_answered() {
        let mut inflight = Inflight::new();
        inflight.insert(Id::Signed(1), Ticket(10), MAX).unwrap();
        assert_eq!(inflight.insert(Id::Signed(1), Ticket(11), MAX), Err(Rejected::Duplicate));
        inflight.insert(Id::Text("1"), Ticket(12), MAX).unwrap();
        assert_eq!(inflight.find(Id::Signed(1)), Some(Ticket(10)));
        assert_eq!(inflight.find(Id::Text("1")), Some(Ticket(12)));
        assert_eq!(inflight.remove(Id::Signed(1)), Some(Ticket(10)));
        assert_eq!(inflight.remove(Id::Signed(1)), None);
        inflight.insert(Id::Signed(1), Ticket(13), MAX).unwrap();
        assert_eq!(inflight.remove_ticket(Ticket(12)), Some(IdBuf::from(Id::Text("1"))));
        assert_eq!(inflight.len(), 1);
    }

    #[test]
    fn an_idle_connection_holds_no_memory() {
        let mut inflight = Inflight::new();
        for round in 0..3_i64 {
            for id in 0..100 {
                inflight.insert(Id::Signed(id), Ticket(id.cast_unsigned()), MAX).unwrap();
            }
            for id in 0..100 {
                assert!(inflight.remove(Id::Signed((id + round) % 100)).is_some());
            }
            assert_eq!(inflight.requests.capacity(), 0);
        }
        assert!(size_of::<Inflight>() <= 24);
        assert!(size_of::<(IdBuf, Ticket)>() <= 32);
    }

    #[test]
    fn one_request_more_than_the_limit_is_refused() {
        let mut inflight = Inflight::new();
        inflight.insert(Id::Signed(1), Ticket(1), 1).unwrap();
        let rejected = inflight.insert(Id::Signed(2), Ticket(2), 1).unwrap_err();
        let error = Error::from(rejected);
        assert!(error.retryable);
        assert_eq!(error.code, -32603);
    }

    #[test]
    fn the_end_of_a_connection_names_everything_that_was_left() {
        let mut inflight = Inflight::new();
        inflight.insert(Id::Text("a"), Ticket(1), MAX).unwrap();
        inflight.insert(Id::Signed(2), Ticket(2), MAX).unwrap();
        assert_eq!(inflight.drain().map(|(_, ticket)| ticket.0).sum::<u64>(), 3);
        assert!(inflight.is_empty());
    }
}
