//! The unanswered requests of one connection or session.
//!
//! Invariants: an id identifies one request of an exchange at a time, so that a response belongs to
//! one request; an idle connection has no memory allocated here. Limits and deadlines belong to the
//! call or stream that a [`RequestKey`] identifies.
//!
//! An **exchange** is what carries the responses to a message. A connection has one for all its
//! messages. A legacy HTTP session has one for each POST: a client that uses an id again while it
//! is in flight tells the responses apart by their exchanges.
//!
//! JSON-RPC 2.0, section 4; MCP `basic/index` of each revision (an id "MUST NOT have been
//! previously used" within a session; 2026-07-28: unique among the sender's requests in flight).
//! Enforced is what keeps responses apart: an id in flight is unique within its exchange.

use crate::error::Error;
use crate::jsonrpc::{Id, IdBuf};
use corelane_base::slab::Key;

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

/// The requests in flight of one connection or session.
///
/// Cost: three words while empty, 40 bytes a request otherwise. Lookup is a linear scan, which is
/// fastest for the few requests of a usual connection and bounded by their limits otherwise (1,024
/// take less than a microsecond).
#[derive(Debug, Default)]
pub struct RequestsInFlight {
    requests: Vec<InFlight>,
}

/// One request.
#[derive(Debug)]
struct InFlight {
    id: IdBuf,
    exchange: u32,
    key: RequestKey,
}

impl InFlight {
    #[inline]
    fn is(&self, id: Id<'_>, exchange: u32) -> bool {
        self.id.as_id() == id && self.exchange == exchange
    }
}

/// A request of the exchange with this id is in flight.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DuplicateId;

impl RequestsInFlight {
    /// Creates an empty table.
    pub const fn new() -> Self {
        Self { requests: Vec::new() }
    }

    /// Inserts a request whose response goes to `exchange`.
    ///
    /// # Errors
    ///
    /// [`DuplicateId`]; the table is unchanged.
    pub fn insert(
        &mut self,
        id: Id<'_>,
        exchange: u32,
        key: RequestKey,
    ) -> Result<(), DuplicateId> {
        if self.contains_in(id, exchange) {
            return Err(DuplicateId);
        }
        if matches!(key, RequestKey::Stream(_)) && self.requests.is_empty() {
            // Most connections have no other request beside a stream, which stays long.
            self.requests.reserve_exact(1);
        }
        self.requests.push(InFlight { id: id.into(), exchange, key });
        Ok(())
    }

    /// Removes the request of `exchange` with this `id` and returns its key.
    pub fn remove(&mut self, id: Id<'_>, exchange: u32) -> Option<RequestKey> {
        let index = self.requests.iter().position(|request| request.is(id, exchange))?;
        Some(self.remove_at(index))
    }

    /// Removes one request with this `id`, whatever its exchange, and returns its key.
    pub fn remove_any(&mut self, id: Id<'_>) -> Option<RequestKey> {
        let index = self.requests.iter().position(|request| request.id.as_id() == id)?;
        Some(self.remove_at(index))
    }

    fn remove_at(&mut self, index: usize) -> RequestKey {
        let InFlight { key, .. } = self.requests.swap_remove(index);
        if self.requests.is_empty() {
            self.requests = Vec::new();
        }
        key
    }

    /// Removes every request, because the connection has ended, and returns the ids of its calls.
    pub fn drain_calls(&mut self) -> impl Iterator<Item = CallId> + use<> {
        std::mem::take(&mut self.requests).into_iter().filter_map(|request| request.key.call())
    }

    /// Returns the bytes of the table, without the ids.
    pub const fn allocated_bytes(&self) -> usize {
        self.requests.capacity() * size_of::<InFlight>()
    }

    /// Returns whether no request is in flight.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Returns whether a request with this `id` is in flight, whatever its exchange.
    #[inline]
    pub fn contains(&self, id: Id<'_>) -> bool {
        self.requests.iter().any(|request| request.id.as_id() == id)
    }

    /// Returns whether a request of `exchange` with this `id` is in flight.
    pub fn contains_in(&self, id: Id<'_>, exchange: u32) -> bool {
        self.requests.iter().any(|request| request.is(id, exchange))
    }

    /// Returns the call that answers the request of `exchange` with this `id`.
    pub fn call_of(&self, id: Id<'_>, exchange: u32) -> Option<CallId> {
        self.requests.iter().find(|request| request.is(id, exchange))?.key.call()
    }

    /// Iterates over the ids of all calls.
    pub fn calls(&self) -> impl Iterator<Item = CallId> {
        self.requests.iter().filter_map(|request| request.key.call())
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
        in_flight.insert(Id::Signed(1), 0, call(10)).unwrap();
        assert_eq!(in_flight.insert(Id::Signed(1), 0, call(11)), Err(DuplicateId));
        in_flight.insert(Id::Text("1"), 0, call(12)).unwrap();
        assert!(in_flight.contains(Id::Signed(1)) && in_flight.contains(Id::Text("1")));
        assert_eq!(in_flight.remove(Id::Signed(1), 0), Some(call(10)));
        assert_eq!(in_flight.remove(Id::Signed(1), 0), None);
        in_flight.insert(Id::Signed(1), 0, call(13)).unwrap();
        let calls: Vec<Key> = in_flight.calls().collect();
        assert_eq!(calls, [Key::from_bits(12), Key::from_bits(13)]);
    }

    #[test]
    fn exchanges_share_an_id() {
        let mut in_flight = RequestsInFlight::new();
        for exchange in 1..=3 {
            in_flight.insert(Id::Signed(1), exchange, call(exchange.into())).unwrap();
        }
        assert_eq!(in_flight.insert(Id::Whole(1), 2, call(9)), Err(DuplicateId));
        assert_eq!(in_flight.call_of(Id::Signed(1), 2), Some(Key::from_bits(2)));
        assert_eq!(in_flight.call_of(Id::Text("1"), 2), None);
        assert_eq!(in_flight.remove(Id::Signed(1), 2), Some(call(2)));
        assert_eq!(in_flight.remove(Id::Signed(1), 2), None);
        assert!(in_flight.contains_in(Id::Signed(1), 3) && in_flight.contains(Id::Signed(1)));
        let mut others = [(); 2].map(|()| in_flight.remove_any(Id::Whole(1)).unwrap());
        others.sort_by_key(|key| key.call());
        assert_eq!(others, [call(1), call(3)]);
        assert_eq!(in_flight.remove_any(Id::Signed(1)), None);
        assert!(in_flight.is_empty());
    }

    #[test]
    fn idle_connection_has_no_requests_allocated() {
        let mut in_flight = RequestsInFlight::new();
        for round in 0..3_i64 {
            for id in 0..100 {
                in_flight.insert(Id::Signed(id), 0, call(id.cast_unsigned())).unwrap();
            }
            for id in 0..100 {
                assert!(in_flight.remove(Id::Signed((id + round) % 100), 0).is_some());
            }
            assert_eq!(in_flight.requests.capacity(), 0);
        }
        assert!(size_of::<RequestsInFlight>() <= 24);
        assert!(size_of::<InFlight>() <= 40);
    }

    #[test]
    fn single_stream_takes_one_place() {
        let mut in_flight = RequestsInFlight::new();
        in_flight.insert(Id::Signed(1), 0, RequestKey::Stream(Key::from_bits(1))).unwrap();
        assert_eq!(in_flight.requests.capacity(), 1);
    }

    #[test]
    fn drain_returns_the_calls_in_flight() {
        let mut in_flight = RequestsInFlight::new();
        in_flight.insert(Id::Text("a"), 0, call(1)).unwrap();
        in_flight.insert(Id::Text("b"), 0, RequestKey::Stream(Key::from_bits(1))).unwrap();
        in_flight.insert(Id::Signed(2), 0, call(2)).unwrap();
        assert_eq!(in_flight.drain_calls().map(Key::to_bits).sum::<u64>(), 3);
        assert!(in_flight.requests.is_empty());
    }
}
