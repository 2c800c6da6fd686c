//! The unanswered requests of one connection.
//!
//! Invariants: an id identifies one request at a time, so that a cancellation and a response refer
//! to the same one; the number of requests is bounded; an idle connection has no memory allocated
//! here. Deadlines belong to the call that a [`CallId`] identifies.
//!
//! JSON-RPC 2.0, section 4; MCP `basic/index` of each revision (an id "MUST NOT have been
//! previously used" within a session; 2026-07-28: unique among the sender's requests in flight,
//! which is what is enforced here).

use crate::protocol::error::Error;
use crate::protocol::jsonrpc::{Id, IdBuf};

/// Identifies the call behind a request. Assigned by the caller.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct CallId(pub u64);

/// The requests in flight of one connection.
///
/// Cost: three words while empty, 32 bytes a request otherwise. Lookup is a linear scan, which is
/// fastest for the few requests of a usual connection and bounded by the limit otherwise (1,024
/// take less than a microsecond).
#[derive(Debug, Default)]
pub struct RequestsInFlight {
    requests: Vec<(IdBuf, CallId)>,
}

/// Why a request was rejected.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum InsertError {
    /// A request with this id is in flight.
    Duplicate,
    /// The connection has reached its limit of requests in flight: this number.
    Full(usize),
}

impl RequestsInFlight {
    /// Creates an empty table.
    pub const fn new() -> Self {
        Self { requests: Vec::new() }
    }

    /// Inserts a request unless `requests_max` are in flight.
    ///
    /// # Errors
    ///
    /// See [`InsertError`]; the table is unchanged.
    pub fn insert(
        &mut self,
        id: Id<'_>,
        ticket: CallId,
        requests_max: usize,
    ) -> Result<(), InsertError> {
        if self.find(id).is_some() {
            return Err(InsertError::Duplicate);
        }
        if self.requests.len() >= requests_max {
            return Err(InsertError::Full(requests_max));
        }
        self.requests.push((IdBuf::from(id), ticket));
        Ok(())
    }

    /// Removes the request with this `id` and returns its call.
    pub fn remove(&mut self, id: Id<'_>) -> Option<CallId> {
        let index = self.requests.iter().position(|(known, _)| known.as_id() == id)?;
        Some(self.remove_at(index).1)
    }

    /// Removes every request, because the connection has ended.
    pub fn drain(&mut self) -> impl Iterator<Item = (IdBuf, CallId)> + use<> {
        std::mem::take(&mut self.requests).into_iter()
    }

    /// Returns the call of the request with this `id`.
    #[inline]
    pub fn find(&self, id: Id<'_>) -> Option<CallId> {
        self.requests.iter().find(|(known, _)| known.as_id() == id).map(|(_, ticket)| *ticket)
    }

    /// Iterates over the calls of all requests.
    pub fn call_ids(&self) -> impl Iterator<Item = CallId> {
        self.requests.iter().map(|(_, ticket)| *ticket)
    }

    /// Returns whether no request is in flight.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    fn remove_at(&mut self, index: usize) -> (IdBuf, CallId) {
        let request = self.requests.swap_remove(index);
        if self.requests.is_empty() {
            self.requests = Vec::new();
        }
        request
    }
}

impl From<InsertError> for Error {
    #[cold]
    fn from(error: InsertError) -> Self {
        match error {
            InsertError::Duplicate => Self::invalid_request(
                "duplicate request id: a request with this id is still in flight",
            ),
            InsertError::Full(requests_max) => Self::too_many_requests(requests_max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 1024;

    #[test]
    fn request_id_is_unique_until_answered() {
        let mut in_flight = RequestsInFlight::new();
        in_flight.insert(Id::Signed(1), CallId(10), MAX).unwrap();
        assert_eq!(in_flight.insert(Id::Signed(1), CallId(11), MAX), Err(InsertError::Duplicate));
        in_flight.insert(Id::Text("1"), CallId(12), MAX).unwrap();
        assert_eq!(in_flight.find(Id::Signed(1)), Some(CallId(10)));
        assert_eq!(in_flight.find(Id::Text("1")), Some(CallId(12)));
        assert_eq!(in_flight.remove(Id::Signed(1)), Some(CallId(10)));
        assert_eq!(in_flight.remove(Id::Signed(1)), None);
        in_flight.insert(Id::Signed(1), CallId(13), MAX).unwrap();
        let calls: Vec<CallId> = in_flight.call_ids().collect();
        assert_eq!(calls, [CallId(12), CallId(13)]);
    }

    #[test]
    fn idle_connection_has_no_requests_allocated() {
        let mut in_flight = RequestsInFlight::new();
        for round in 0..3_i64 {
            for id in 0..100 {
                in_flight.insert(Id::Signed(id), CallId(id.cast_unsigned()), MAX).unwrap();
            }
            for id in 0..100 {
                assert!(in_flight.remove(Id::Signed((id + round) % 100)).is_some());
            }
            assert_eq!(in_flight.requests.capacity(), 0);
        }
        assert!(size_of::<RequestsInFlight>() <= 24);
        assert!(size_of::<(IdBuf, CallId)>() <= 32);
    }

    #[test]
    fn request_above_in_flight_limit_is_rejected() {
        let mut in_flight = RequestsInFlight::new();
        in_flight.insert(Id::Signed(1), CallId(1), 1).unwrap();
        let rejected = in_flight.insert(Id::Signed(2), CallId(2), 1).unwrap_err();
        let error = Error::from(rejected);
        assert_eq!(error.code, -32603);
    }

    #[test]
    fn drain_returns_every_request_in_flight() {
        let mut in_flight = RequestsInFlight::new();
        in_flight.insert(Id::Text("a"), CallId(1), MAX).unwrap();
        in_flight.insert(Id::Signed(2), CallId(2), MAX).unwrap();
        assert_eq!(in_flight.drain().map(|(_, ticket)| ticket.0).sum::<u64>(), 3);
        assert!(in_flight.is_empty());
    }
}
