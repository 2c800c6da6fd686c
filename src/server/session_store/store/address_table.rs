//! The addresses that created the sessions of a shard.
//!
//! Invariants: an address is in the table exactly while it has a session; sessions know the key of
//! their address, so only the creation and the removal of a session look it up by its value. The
//! addresses with more than their share are few, since a share is a large part of all sessions.

use std::collections::HashMap;

use corelane_base::client_address::ClientAddress;
use corelane_base::slab::{Key, Slab};

use super::stored_session::{IdleLists, OF_ADDRESS};

#[derive(Debug)]
struct AddressEntry {
    address: ClientAddress,
    /// Number of its sessions, idle or not.
    sessions: u32,
    idle: IdleLists<OF_ADDRESS>,
}

/// The addresses that have sessions.
#[derive(Debug)]
pub(super) struct AddressTable {
    entries: Slab<AddressEntry>,
    keys: HashMap<ClientAddress, Key>,
    /// Sessions of one address beyond which its sessions are evicted first.
    share: usize,
    /// Addresses with more than their share.
    beyond_share: Vec<Key>,
}

impl AddressTable {
    /// Upper estimate of the bytes of one address: slab and index may have just doubled.
    pub(super) const ENTRY_BYTES: usize =
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
    pub(super) fn full_share(&self, address: ClientAddress) -> Option<&IdleLists<OF_ADDRESS>> {
        let entry = self.entries.get(*self.keys.get(&address)?)?;
        (entry.sessions as usize >= self.share).then_some(&entry.idle)
    }

    /// Returns the idle sessions of the addresses with more than their share.
    pub(super) fn beyond_share(&self) -> impl Iterator<Item = &IdleLists<OF_ADDRESS>> {
        let keys = self.beyond_share.iter();
        keys.filter_map(|key| self.entries.get(*key)).map(|entry| &entry.idle)
    }

    /// Returns the idle sessions of an address.
    pub(super) fn idle_mut(&mut self, key: Key) -> Option<&mut IdleLists<OF_ADDRESS>> {
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
