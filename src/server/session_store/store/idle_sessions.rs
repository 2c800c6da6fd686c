//! The idle sessions of a shard: which expires next, and which is evicted for a new one.
//!
//! Invariants: exactly the idle sessions are listed, in the lists of the shard and in those of
//! their address. All sessions have the same idle timeout, so the first of a list is the next of it
//! to expire.

use std::collections::BTreeSet;
use std::time::Duration;

use corelane_base::client_address::ClientAddress;
use corelane_base::slab::{Key, Slab};
use corelane_base::time::Instant;

use super::address_table::AddressTable;
use super::stored_session::{IdleLists, OF_SHARD, StoredSession};
use crate::telemetry::label::EvictionReason;

/// A session to be evicted, and why this one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Eviction {
    pub key: Key,
    pub reason: EvictionReason,
}

/// The idle sessions of a shard, also by address.
#[derive(Debug)]
pub(super) struct IdleSessions {
    of_shard: IdleLists<OF_SHARD>,
    addresses: AddressTable,
}

impl IdleSessions {
    pub(super) fn new() -> Self {
        Self { of_shard: IdleLists::default(), addresses: AddressTable::new() }
    }

    /// Counts a new session of `address`; returns the key of the address.
    pub(super) fn add_session(&mut self, address: ClientAddress) -> Option<Key> {
        self.addresses.add_session(address)
    }

    /// Counts a session that was removed from the lists and from the shard.
    pub(super) fn remove_session<S>(&mut self, removed: &StoredSession<S>) {
        if let Some(address) = removed.address {
            self.addresses.remove_session(address);
        }
    }

    /// Sets the share of an address.
    pub(super) fn set_share(&mut self, share: usize) {
        self.addresses.set_share(share);
    }

    /// Returns the session that a new one of `address` evicts.
    pub(super) fn eviction<S>(
        &self,
        sessions: &Slab<StoredSession<S>>,
        address: Option<ClientAddress>,
    ) -> Option<Eviction> {
        let own = address.and_then(|address| self.addresses.full_share(address));
        let own_idle = own.and_then(|idle| {
            let unused = idle.longest_idle(sessions, false);
            unused.or_else(|| idle.longest_idle(sessions, true))
        });
        if let Some(key) = own_idle {
            return Some(Eviction { key, reason: EvictionReason::AddressShare });
        }
        if let Some(key) = self.of_shard.longest_idle(sessions, false) {
            return Some(Eviction { key, reason: EvictionReason::Unused });
        }
        let mut beyond_share = self.addresses.beyond_share();
        if let Some(key) = beyond_share.find_map(|idle| idle.longest_idle(sessions, true)) {
            return Some(Eviction { key, reason: EvictionReason::AddressShare });
        }
        let idlest = self.of_shard.longest_idle(sessions, true).filter(|_| own.is_none());
        idlest.map(|key| Eviction { key, reason: EvictionReason::Idle })
    }

    /// Returns the session that expires next, and when.
    pub(super) fn next_expiry<S>(
        &self,
        sessions: &Slab<StoredSession<S>>,
        idle_timeout: Duration,
    ) -> Option<(Key, Instant)> {
        let first = [false, true].map(|is_used| {
            let key = self.of_shard.longest_idle(sessions, is_used)?;
            Some((key, sessions.get(key)?.idle_since))
        });
        let first = first.into_iter().flatten().min_by_key(|(_, since)| *since);
        first.map(|(key, since)| (key, since.after(idle_timeout)))
    }

    /// Lists a session, if it is idle and not listed.
    pub(super) fn push_if_idle<S>(
        &mut self,
        sessions: &mut Slab<StoredSession<S>>,
        key: Key,
        now: Instant,
    ) {
        let held = sessions.get_mut(key).filter(|held| held.is_idle() && !held.is_listed());
        let Some(held) = held else { return };
        held.idle_since = now;
        let (address, is_used) = (held.address, held.is_used);
        self.of_shard.push(sessions, key, is_used);
        if let Some(idle) = address.and_then(|address| self.addresses.idle_mut(address)) {
            idle.push(sessions, key, is_used);
        }
    }

    /// Removes a session from the lists, if it is listed.
    pub(super) fn remove<S>(&mut self, sessions: &mut Slab<StoredSession<S>>, key: Key) {
        let Some(held) = sessions.get(key).filter(|held| held.is_listed()) else { return };
        let (address, is_used) = (held.address, held.is_used);
        self.of_shard.remove(sessions, key, is_used);
        if let Some(idle) = address.and_then(|address| self.addresses.idle_mut(address)) {
            idle.remove(sessions, key, is_used);
        }
    }

    /// Returns an upper estimate of the bytes of all addresses.
    pub(super) const fn held_bytes(&self) -> usize {
        self.addresses.held_bytes()
    }

    /// Like [`IdleSessions::held_bytes`], from the addresses of the sessions.
    pub(super) fn recount_bytes<S>(sessions: &Slab<StoredSession<S>>) -> usize {
        let addresses: BTreeSet<Key> =
            sessions.iter().filter_map(|(_, held)| held.address).collect();
        addresses.len() * AddressTable::ENTRY_BYTES
    }

    /// Asserts that the lists contain exactly the idle sessions, the longest idle first.
    #[cfg(test)]
    pub(super) fn check_invariants<S>(&self, sessions: &mut Slab<StoredSession<S>>) {
        assert!(sessions.iter().all(|(_, held)| held.is_listed() == held.is_idle()));
        let listed = self.of_shard.keys(sessions);
        check_lists(&listed, sessions, |_| true);
        let mut counted = 0;
        for (key, count, idle) in self.addresses.iter() {
            let listed = idle.keys(sessions);
            check_lists(&listed, sessions, |held| held.address == Some(key));
            let own = sessions.iter().filter(|(_, held)| held.address == Some(key));
            assert_eq!(own.count(), count);
            counted += count;
        }
        assert_eq!(sessions.iter().filter(|(_, held)| held.address.is_some()).count(), counted);
    }
}

/// Asserts that the lists of unused and used sessions are those of which `is_own` is true.
#[cfg(test)]
fn check_lists<S>(
    listed: &[Vec<Key>; 2],
    sessions: &Slab<StoredSession<S>>,
    is_own: impl Fn(&StoredSession<S>) -> bool,
) {
    let idle = sessions.iter().filter(|(_, held)| held.is_idle() && is_own(held));
    assert_eq!(listed.iter().map(Vec::len).sum::<usize>(), idle.count());
    for (is_used, keys) in [false, true].into_iter().zip(listed) {
        let mut since = Instant::ORIGIN;
        for held in keys.iter().map(|key| sessions.get(*key).unwrap()) {
            assert!(held.is_used == is_used && held.is_idle() && is_own(held));
            assert!(held.idle_since >= since);
            since = held.idle_since;
        }
    }
}
