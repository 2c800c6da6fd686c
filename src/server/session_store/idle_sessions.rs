//! Stored sessions, and which of the idle ones of a shard expires next, or is evicted for a new
//! one.
//!
//! Invariants: exactly the idle sessions are listed, in the lists of the shard and in those of
//! their address, in the order in which they became idle; unused and used sessions are separate
//! lists; every operation takes constant time. All sessions have the same idle timeout, so the
//! first of a list is the next of it to expire.
//!
//! An address is in the table exactly while it has a session; sessions know the key of their
//! address, so only the creation and the removal of a session look it up by its value. The
//! addresses with more than their share are few, since a share is a large part of all sessions.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use corelane_base::client_address::ClientAddress;
use corelane_base::linked_list::{Linked, LinkedList, Links};
use corelane_base::slab::{Key, Slab};
use corelane_base::time::Instant;

use super::streams::SessionStreams;
use crate::server::owner_id::SessionId;
use crate::telemetry::label::EvictionReason;

/// A session of the store.
#[derive(Debug)]
pub(super) struct StoredSession<S> {
    pub(super) id: SessionId,
    pub(super) session: S,
    pub(super) streams: SessionStreams,
    /// Running requests.
    pub(super) running_requests: u32,
    /// Whether a message was received after `initialize`.
    pub(super) is_used: bool,
    /// Since when it is idle, or was last.
    pub(super) idle_since: Instant,
    /// The address that created it, unless that is exempt.
    pub(super) address: Option<Key>,
    /// Neighbours in a list of idle sessions, of the shard and of the address.
    links: [Links; 2],
}

/// Lists of sessions of the shard.
const OF_SHARD: usize = 0;
/// Lists of sessions of one address.
const OF_ADDRESS: usize = 1;

impl<S> Linked<OF_SHARD> for StoredSession<S> {
    fn links_mut(&mut self) -> &mut Links {
        &mut self.links[OF_SHARD]
    }
}

impl<S> Linked<OF_ADDRESS> for StoredSession<S> {
    fn links_mut(&mut self) -> &mut Links {
        &mut self.links[OF_ADDRESS]
    }
}

impl<S> StoredSession<S> {
    /// Creates a session without streams, which is not in a list of idle ones yet.
    pub(super) fn new(id: SessionId, session: S, address: Option<Key>, now: Instant) -> Self {
        Self {
            id,
            session,
            streams: SessionStreams::default(),
            running_requests: 0,
            is_used: false,
            idle_since: now,
            address,
            links: [Links::NONE; 2],
        }
    }

    /// Returns whether none of its requests runs and none of its streams is attached.
    pub(super) const fn is_idle(&self) -> bool {
        self.running_requests == 0 && self.streams.attached() == 0
    }

    /// Returns whether it is in a list of idle sessions.
    pub(super) const fn is_listed(&self) -> bool {
        self.links[OF_SHARD].is_linked()
    }

    /// Upper estimate of the bytes of one session, without its streams and what its `S` allocates:
    /// slab and index may have just doubled.
    pub(super) const BYTES: usize = 2 * (size_of::<Self>() + INDEX_BYTES);
}

/// Bytes of one session in the index of ids, at the load up to which the table fills.
const INDEX_BYTES: usize = (size_of::<(SessionId, Key)>() + 1) * 8 / 7;

const _: () = assert!(
    size_of::<StoredSession<()>>() + INDEX_BYTES <= 136,
    "a session without streams holds at most 136 bytes besides its `S`"
);

/// The idle sessions of the shard, or those of one address.
#[derive(Debug, Default)]
struct IdleLists<const LIST: usize> {
    /// Sessions without a message after `initialize`.
    unused: LinkedList<LIST>,
    used: LinkedList<LIST>,
}

impl<const LIST: usize> IdleLists<LIST> {
    /// Returns the longest idle session that is used or not.
    fn longest_idle<S>(&self, sessions: &Slab<StoredSession<S>>, is_used: bool) -> Option<Key> {
        if is_used { self.used.first(sessions) } else { self.unused.first(sessions) }
    }

    /// Appends a session that is in no list of this kind.
    pub(super) fn push<S>(&mut self, sessions: &mut Slab<StoredSession<S>>, key: Key, is_used: bool)
    where
        StoredSession<S>: Linked<LIST>,
    {
        self.list_mut(is_used).push_back(sessions, key);
    }

    /// Removes a session that is in the list of used or of unused ones.
    pub(super) fn remove<S>(
        &mut self,
        sessions: &mut Slab<StoredSession<S>>,
        key: Key,
        is_used: bool,
    ) where
        StoredSession<S>: Linked<LIST>,
    {
        self.list_mut(is_used).remove(sessions, key);
    }

    const fn list_mut(&mut self, is_used: bool) -> &mut LinkedList<LIST> {
        if is_used { &mut self.used } else { &mut self.unused }
    }

    /// Returns all sessions, the unused ones first.
    #[cfg(test)]
    pub(super) fn keys<S>(&self, sessions: &mut Slab<StoredSession<S>>) -> [Vec<Key>; 2]
    where
        StoredSession<S>: Linked<LIST>,
    {
        [self.unused.keys(sessions), self.used.keys(sessions)]
    }
}

#[derive(Debug)]
struct AddressEntry {
    address: ClientAddress,
    /// Number of its sessions, idle or not.
    sessions: u32,
    idle: IdleLists<OF_ADDRESS>,
}

/// The addresses that have sessions.
#[derive(Debug)]
struct AddressTable {
    entries: Slab<AddressEntry>,
    keys: HashMap<ClientAddress, Key>,
    /// Sessions of one address beyond which its sessions are evicted first.
    share: usize,
    /// Addresses with more than their share.
    beyond_share: Vec<Key>,
}

impl AddressTable {
    /// Upper estimate of the bytes of one address: slab and index may have just doubled.
    const ENTRY_BYTES: usize =
        2 * (size_of::<AddressEntry>() + 8 + (size_of::<(ClientAddress, Key)>() + 1) * 8 / 7);

    pub(super) fn new() -> Self {
        let (entries, keys) = (Slab::new(usize::MAX), HashMap::new());
        Self { entries, keys, share: 1, beyond_share: Vec::new() }
    }

    /// Sets the share of an address.
    pub(super) fn set_share(&mut self, share: usize) {
        if share != self.share {
            let entries = self.entries.iter();
            let beyond = entries.filter(|(_, entry)| entry.sessions as usize > share);
            self.beyond_share = beyond.map(|(key, _)| key).collect();
            self.share = share;
        }
    }

    /// Counts a session of `address`; returns the key of the address.
    pub(super) fn add_session(&mut self, address: ClientAddress) -> Option<Key> {
        let key = if let Some(key) = self.keys.get(&address).copied() {
            self.entries.get_mut(key)?.sessions += 1;
            key
        } else {
            let entry = AddressEntry { address, sessions: 1, idle: IdleLists::default() };
            let key = self.entries.insert(entry).ok()?;
            self.keys.insert(address, key);
            key
        };
        if self.entries.get(key)?.sessions as usize == self.share + 1 {
            self.beyond_share.push(key);
        }
        Some(key)
    }

    /// Counts a removed session, which is in no list.
    pub(super) fn remove_session(&mut self, key: Key) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        entry.sessions -= 1;
        if entry.sessions as usize == self.share {
            self.beyond_share.retain(|it| *it != key);
        }
        if entry.sessions == 0 {
            self.keys.remove(&entry.address);
            self.entries.remove(key);
        }
    }

    /// Returns the idle sessions of `address` if one more is beyond its share.
    fn full_share(&self, address: ClientAddress) -> Option<&IdleLists<OF_ADDRESS>> {
        let entry = self.entries.get(*self.keys.get(&address)?)?;
        (entry.sessions as usize >= self.share).then_some(&entry.idle)
    }

    /// Returns the idle sessions of the addresses with more than their share.
    pub(super) fn beyond_share(&self) -> impl Iterator<Item = &IdleLists<OF_ADDRESS>> {
        let keys = self.beyond_share.iter();
        keys.filter_map(|key| self.entries.get(*key)).map(|entry| &entry.idle)
    }

    /// Returns the idle sessions of an address.
    fn idle_mut(&mut self, key: Key) -> Option<&mut IdleLists<OF_ADDRESS>> {
        self.entries.get_mut(key).map(|entry| &mut entry.idle)
    }

    /// Returns an upper estimate of the bytes of all entries.
    pub(super) const fn held_bytes(&self) -> usize {
        self.entries.len() * Self::ENTRY_BYTES
    }

    /// Returns all addresses with the number of their sessions and the idle ones.
    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = (Key, usize, &IdleLists<OF_ADDRESS>)> {
        assert_eq!(self.keys.len(), self.entries.len());
        let is_beyond = |entry: &AddressEntry| entry.sessions as usize > self.share;
        let beyond = self.entries.iter().filter(|(_, entry)| is_beyond(entry));
        assert_eq!(beyond.count(), self.beyond_share.len());
        let mut beyond = self.beyond_share.iter().map(|key| self.entries.get(*key).unwrap());
        assert!(beyond.all(is_beyond));
        self.entries.iter().map(|(key, entry)| {
            assert_eq!(self.keys.get(&entry.address), Some(&key));
            (key, entry.sessions as usize, &entry.idle)
        })
    }
}

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
