//! The open connections of a transport over all shards, in total and by client address.
//!
//! Invariants: neither the transport nor an address has more connections than its limit, whichever
//! shards accept them; a part of those of the transport is left to authenticated clients. The
//! counts change when connections begin and close, and when their client is authenticated, never
//! with another request.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{MutexGuard, PoisonError};

use corelane_base::client_address::{AddressShare, ClientAddress};
use corelane_engine::mesh::SharedCounter;

use crate::telemetry::label::RefusalReason;

/// Locked for one change of one count.
#[expect(clippy::disallowed_types, reason = "shared by all shards when a connection opens or ends")]
type Mutex<T> = std::sync::Mutex<T>;

/// The limits of the connections of one transport.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ConnectionLimit {
    connections_max: usize,
    /// Those of clients that are not authenticated.
    unproven_max: usize,
    per_address_max: usize,
}

impl ConnectionLimit {
    /// At most `connections_max` connections, of which one address may have its `share`, and
    /// `per_address` if that is fewer. The reserve of the share is for authenticated clients.
    pub const fn new(connections_max: usize, share: AddressShare, per_address: usize) -> Self {
        let unproven_max = share.of_unauthenticated().of(connections_max);
        let share = share.of(connections_max);
        let per_address_max = if per_address < share { per_address } else { share };
        Self { connections_max, unproven_max, per_address_max }
    }
}

/// Number of connections of one transport.
#[derive(Debug, Default)]
pub struct ConnectionCount {
    total: SharedCounter,
    /// Those of clients that are not authenticated.
    unproven: SharedCounter,
    by_address: AddressCounts,
}

impl ConnectionCount {
    /// Counts a connection of `client`, which `is_proven` if it is authenticated; `None` is exempt
    /// from the limit per address.
    ///
    /// # Errors
    ///
    /// The limit that is reached. Nothing is counted.
    pub fn acquire(
        &self,
        client: Option<ClientAddress>,
        is_proven: bool,
        limit: ConnectionLimit,
    ) -> Result<(), RefusalReason> {
        // The address first: connections that exceed its share never take a place of the total.
        if client.is_some_and(|it| !self.by_address.try_acquire(it, limit.per_address_max)) {
            return Err(RefusalReason::AddressShare);
        }
        if !is_proven && !self.unproven.try_acquire(limit.unproven_max) {
            client.inspect(|it| self.by_address.release(*it));
            return Err(RefusalReason::ConnectionLimit);
        }
        if !self.total.try_acquire(limit.connections_max) {
            if !is_proven {
                self.unproven.release();
            }
            client.inspect(|it| self.by_address.release(*it));
            return Err(RefusalReason::ConnectionLimit);
        }
        Ok(())
    }

    /// Returns whether a connection of `client`, which is not authenticated, can be counted.
    ///
    /// # Errors
    ///
    /// The limit that is reached.
    pub fn check(
        &self,
        client: Option<ClientAddress>,
        limit: ConnectionLimit,
    ) -> Result<(), RefusalReason> {
        if client.is_some_and(|it| self.by_address.count(it) >= limit.per_address_max) {
            return Err(RefusalReason::AddressShare);
        }
        let is_full = self.total.count() >= limit.connections_max
            || self.unproven.count() >= limit.unproven_max;
        if is_full { Err(RefusalReason::ConnectionLimit) } else { Ok(()) }
    }

    /// Counts a connection as that of an authenticated client from now on.
    pub fn prove(&self) {
        self.unproven.release();
    }

    /// Releases the count of a connection of `client`, which `is_proven` if it was authenticated.
    pub fn release(&self, client: Option<ClientAddress>, is_proven: bool) {
        if !is_proven {
            self.unproven.release();
        }
        self.total.release();
        client.inspect(|it| self.by_address.release(*it));
    }

    /// Returns whether there are more connections than `limit` allows, because it was lowered.
    pub fn exceeds(&self, limit: ConnectionLimit) -> bool {
        self.total.count() > limit.connections_max || self.unproven.count() > limit.unproven_max
    }

    /// Returns the number of connections.
    pub fn total(&self) -> usize {
        self.total.count()
    }
}

/// Number of connections of each address that has one.
#[derive(Debug, Default)]
struct AddressCounts {
    counts: Mutex<HashMap<ClientAddress, usize>>,
}

impl AddressCounts {
    /// Increments the count of `address` unless it has reached `max`; returns whether it did.
    fn try_acquire(&self, address: ClientAddress, max: usize) -> bool {
        match self.lock().entry(address) {
            Entry::Occupied(entry) if *entry.get() >= max => false,
            entry => {
                *entry.or_default() += 1;
                true
            }
        }
    }

    /// Returns the count of `address`.
    fn count(&self, address: ClientAddress) -> usize {
        self.lock().get(&address).copied().unwrap_or_default()
    }

    /// Decrements the count of `address`.
    fn release(&self, address: ClientAddress) {
        let mut counts = self.lock();
        let Entry::Occupied(mut entry) = counts.entry(address) else {
            debug_assert!(false, "released more often than acquired");
            return;
        };
        *entry.get_mut() -= 1;
        if *entry.get() == 0 {
            entry.remove();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ClientAddress, usize>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Option<ClientAddress> {
        ClientAddress::new(text.parse().unwrap())
    }

    #[test]
    fn address_share_leaves_connections_to_others() {
        let (count, limit) =
            (ConnectionCount::default(), ConnectionLimit::new(4, THREE_QUARTERS, usize::MAX));
        let (first, second) = (address("192.0.2.1"), address("2001:db8::1"));
        for _ in 0..3 {
            assert_eq!(count.acquire(first, false, limit), Ok(()));
        }
        assert_eq!(count.acquire(first, false, limit), Err(RefusalReason::AddressShare));
        assert_eq!(count.acquire(second, false, limit), Ok(()));
        assert_eq!(count.acquire(second, false, limit), Err(RefusalReason::ConnectionLimit));
        assert_eq!(
            count.acquire(address("127.0.0.1"), false, limit),
            Err(RefusalReason::ConnectionLimit)
        );
        count.release(first, false);
        assert_eq!((count.acquire(first, false, limit), count.total()), (Ok(()), 4));
        let lowered = ConnectionLimit::new(3, THREE_QUARTERS, usize::MAX);
        assert!(count.exceeds(lowered) && !count.exceeds(limit));
    }

    #[test]
    fn exempt_address_may_take_all_connections() {
        let (count, limit) =
            (ConnectionCount::default(), ConnectionLimit::new(4, THREE_QUARTERS, usize::MAX));
        for _ in 0..4 {
            assert_eq!(count.acquire(None, false, limit), Ok(()));
        }
        assert!(count.by_address.lock().is_empty());
    }

    #[test]
    fn address_without_connections_takes_no_memory() {
        let (count, limit) =
            (ConnectionCount::default(), ConnectionLimit::new(2, THREE_QUARTERS, usize::MAX));
        for host in 0..100 {
            let client = address(&format!("192.0.2.{host}"));
            assert_eq!(count.acquire(client, false, limit), Ok(()));
            assert_eq!(count.acquire(client, false, limit), Err(RefusalReason::AddressShare));
            count.release(client, false);
        }
        assert_eq!((count.by_address.lock().len(), count.total()), (0, 0));
    }

    #[test]
    fn address_has_fewer_connections_than_its_share() {
        let (count, client) = (ConnectionCount::default(), address("192.0.2.1"));
        let limit = ConnectionLimit::new(100, THREE_QUARTERS, 2);
        let results = [(); 3].map(|()| count.acquire(client, false, limit));
        assert_eq!(results, [Ok(()), Ok(()), Err(RefusalReason::AddressShare)]);
        assert_eq!(count.acquire(None, false, limit), Ok(()));
    }

    #[test]
    fn unauthenticated_clients_leave_an_eighth_to_others() {
        let count = ConnectionCount::default();
        let share = AddressShare::new(100).with_reserve(true);
        let limit = ConnectionLimit::new(8, share, usize::MAX);
        for _ in 0..7 {
            assert_eq!(
                (count.check(None, limit), count.acquire(None, false, limit)),
                (Ok(()), Ok(()))
            );
        }
        let reached = Err(RefusalReason::ConnectionLimit);
        assert_eq!(
            (count.check(None, limit), count.acquire(None, false, limit)),
            (reached, reached)
        );
        assert_eq!(count.acquire(None, true, limit), Ok(()));
        assert_eq!(count.acquire(None, true, limit), reached);
        // One of the seven is authenticated later, and closes.
        count.prove();
        count.release(None, true);
        assert_eq!((count.acquire(None, false, limit), count.total()), (Ok(()), 8));
        assert_eq!(count.unproven.count(), 7);
    }

    const THREE_QUARTERS: AddressShare = AddressShare::new(75);
}
