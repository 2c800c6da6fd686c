//! The unanswered requests of one connection.
//!
//! Invariants: an id identifies one request at a time, so that a cancellation and a response refer
//! to the same one; an idle connection has no memory allocated here. Limits and deadlines belong to
//! the call or stream that a [`RequestKey`] identifies.
//!
//! JSON-RPC 2.0, section 4; MCP `basic/index` of each revision (an id "MUST NOT have been
//! previously used" within a session; 2026-07-28: unique among the sender's requests in flight,
//! which is what is enforced here).

use crate::base::slab::Key;
use crate::protocol::error::Error;
use crate::protocol::jsonrpc::{Id, IdBuf};

/// Identifies a call in the call table of its shard.
pub type CallId = Key;

/// What answers a request in flight.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RequestKey {
    /// A call.
    Call(CallId),
    /// A subscription stream, by its key in the registry.
    Stream(Key),
    /// Nothing yet: it waits for the response to the request before it.
    Waiting,
}

/// The requests in flight of one connection.
///
/// Cost: three words while empty, 40 bytes a request otherwise. Lookup is a linear scan, which is
/// fastest for the few requests of a usual connection and bounded by their limits otherwise (1,024
/// take less than a microsecond).
#[derive(Debug, Default)]
pub struct RequestsInFlight {
    requests: Vec<(IdBuf, RequestKey)>,
}

/// A request with this id is in flight.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DuplicateId;

impl RequestsInFlight {
    /// Creates an empty table.
    pub const fn new() -> Self {
        Self { requests: Vec::new() }
    }

    /// Inserts a request.
    ///
    /// # Errors
    ///
    /// [`DuplicateId`]; the table is unchanged.
    pub fn insert(&mut self, id: Id<'_>, key: RequestKey) -> Result<(), DuplicateId> {
        if self.contains(id) {
            return Err(DuplicateId);
        }
        self.requests.push((IdBuf::from(id), key));
        Ok(())
    }

    /// Removes the request with this `id` and returns its key.
    pub fn remove(&mut self, id: Id<'_>) -> Option<RequestKey> {
        let index = self.requests.iter().position(|(known, _)| known.as_id() == id)?;
        let (_, key) = self.requests.swap_remove(index);
        if self.requests.is_empty() {
            self.requests = Vec::new();
        }
        Some(key)
    }

    /// Removes every request, because the connection has ended, and returns the ids of its calls.
    pub fn drain_calls(&mut self) -> impl Iterator<Item = CallId> + use<> {
        std::mem::take(&mut self.requests).into_iter().filter_map(|(_, key)| key.call())
    }

    /// Returns whether no request is in flight.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Returns whether a request with this `id` is in flight.
    #[inline]
    pub fn contains(&self, id: Id<'_>) -> bool {
        self.requests.iter().any(|(known, _)| known.as_id() == id)
    }

    /// Returns the call that answers the request with this `id`.
    pub fn call_of(&self, id: Id<'_>) -> Option<CallId> {
        self.requests.iter().find(|(known, _)| known.as_id() == id)?.1.call()
    }

    /// Iterates over the ids of all calls.
    pub fn calls(&self) -> impl Iterator<Item = CallId> {
        self.requests.iter().filter_map(|(_, key)| key.call())
    }
}

impl RequestKey {
    const fn call(self) -> Option<CallId> {
        match self {
            Self::Call(key) => Some(key),
            Self::Stream(_) | Self::Waiting => None,
        }
    }
}

impl From<DuplicateId> for Error {
    #[cold]
    fn from(_: DuplicateId) -> Self {
        Self::invalid_request("duplicate request id: a request with this id is still in flight")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(bits: u64) -> RequestKey {
        RequestKey::Call(Key::from_bits(bits))
    }

    #[test]
    fn request_id_is_unique_until_answered() {
        let mut in_flight = RequestsInFlight::new();
        in_flight.insert(Id::Signed(1), call(10)).unwrap();
        assert_eq!(in_flight.insert(Id::Signed(1), call(11)), Err(DuplicateId));
        in_flight.insert(Id::Text("1"), call(12)).unwrap();
        assert!(in_flight.contains(Id::Signed(1)) && in_flight.contains(Id::Text("1")));
        assert_eq!(in_flight.remove(Id::Signed(1)), Some(call(10)));
        assert_eq!(in_flight.remove(Id::Signed(1)), None);
        in_flight.insert(Id::Signed(1), call(13)).unwrap();
        let calls: Vec<Key> = in_flight.calls().collect();
        assert_eq!(calls, [Key::from_bits(12), Key::from_bits(13)]);
    }

    #[test]
    fn idle_connection_has_no_requests_allocated() {
        let mut in_flight = RequestsInFlight::new();
        for round in 0..3_i64 {
            for id in 0..100 {
                in_flight.insert(Id::Signed(id), call(id.cast_unsigned())).unwrap();
            }
            for id in 0..100 {
                assert!(in_flight.remove(Id::Signed((id + round) % 100)).is_some());
            }
            assert_eq!(in_flight.requests.capacity(), 0);
        }
        assert!(size_of::<RequestsInFlight>() <= 24);
        assert!(size_of::<(IdBuf, RequestKey)>() <= 40);
    }

    #[test]
    fn drain_returns_the_calls_in_flight() {
        let mut in_flight = RequestsInFlight::new();
        in_flight.insert(Id::Text("a"), call(1)).unwrap();
        in_flight.insert(Id::Text("b"), RequestKey::Stream(Key::from_bits(1))).unwrap();
        in_flight.insert(Id::Signed(2), call(2)).unwrap();
        assert_eq!(in_flight.drain_calls().map(Key::to_bits).sum::<u64>(), 3);
        assert!(in_flight.requests.is_empty());
    }
}
