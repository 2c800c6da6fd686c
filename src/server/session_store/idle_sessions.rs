//! Stored sessions, and which of the idle ones of a shard expires next, or is evicted for a new
//! one.
//!
//! Invariants: exactly the idle sessions are listed, in the lists of the shard and in those of
//! their holder, in the order in which they became idle; unused and used sessions are separate
//! lists. All sessions have the same idle timeout, so the first of a list is the next of it to
//! expire.
//!
//! A holder is an authenticated caller, or the address of another one. It is in the table exactly
//! while it has a session; sessions know the key of their holder, so only their creation and
//! removal look it up by its value, and requests change lists in constant time. Unauthenticated
//! callers whose address is exempt are one holder without lists of its own.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use corelane_base::heap_bytes;
use corelane_base::heap_bytes::map_bytes;
use corelane_base::holders::{HeldPlaces, Holder, HolderScope, PlaceOwner};
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
    /// Who created it, unless its address is exempt.
    pub(super) holder: Option<Key>,
    /// Neighbours in a list of idle sessions, of the shard and of the holder.
    links: [Links; 2],
}

/// Lists of sessions of the shard.
const OF_SHARD: usize = 0;
/// Lists of sessions of one holder.
const OF_HOLDER: usize = 1;

impl<S> Linked<OF_SHARD> for StoredSession<S> {
    fn links_mut(&mut self) -> &mut Links {
        &mut self.links[OF_SHARD]
    }
}

impl<S> Linked<OF_HOLDER> for StoredSession<S> {
    fn links_mut(&mut self) -> &mut Links {
        &mut self.links[OF_HOLDER]
    }
}

impl<S> StoredSession<S> {
    /// Creates a session without streams, which is not in a list of idle ones yet.
    pub(super) fn new(id: SessionId, session: S, holder: Option<Key>, now: Instant) -> Self {
        Self {
            id,
            session,
            streams: SessionStreams::default(),
            running_requests: 0,
            is_used: false,
            idle_since: now,
            holder,
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

    /// Bytes of one session in the tables, at least, without its streams and what its `S` owns.
    pub(super) const PLACE_BYTES: usize = Slab::<Self>::SLOT_BYTES + INDEX_BYTES;
}

heap_bytes!(
    impl<S> StoredSession<S> { streams }
    inline { id, running_requests, is_used, idle_since, holder, links }
    // Its owner counts it.
    elsewhere { session }
);

/// Bytes of one session in the index of ids, at the load up to which the table fills.
const INDEX_BYTES: usize = (size_of::<(SessionId, Key)>() + 1) * 8 / 7;

const _: () = assert!(
    size_of::<StoredSession<()>>() + INDEX_BYTES <= 136,
    "a session without streams holds at most 136 bytes besides its `S`"
);

/// The idle sessions of the shard, or those of one holder.
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
struct HolderEntry {
    holder: Holder,
    idle: IdleLists<OF_HOLDER>,
}

/// Who has sessions.
#[derive(Debug)]
struct HolderTable {
    /// All but the exempt one.
    entries: Slab<HolderEntry>,
    keys: HashMap<Holder, Key>,
    /// Number of sessions, idle or not.
    held: HeldPlaces,
    /// Number of idle sessions that are unused.
    unused: HeldPlaces,
    /// Sessions of one holder beyond which its sessions are evicted first.
    share: usize,
}

impl HolderTable {
    /// Bytes of one holder in the tables, at least.
    const ENTRY_BYTES: usize =
        Slab::<HolderEntry>::SLOT_BYTES + (size_of::<(Holder, Key)>() + 1) * 8 / 7;

    pub(super) fn new() -> Self {
        let (entries, keys) = (Slab::new(usize::MAX), HashMap::new());
        let (held, unused) = (HeldPlaces::default(), HeldPlaces::default());
        Self { entries, keys, held, unused, share: 1 }
    }

    /// Counts a session of `holder`; returns the key of the holder, unless that is exempt.
    pub(super) fn add_session(&mut self, holder: Holder) -> Option<Key> {
        self.held.add(holder, 1);
        if holder == Holder::Exempt {
            return None;
        }
        if let Some(key) = self.keys.get(&holder) {
            return Some(*key);
        }
        let entry = HolderEntry { holder, idle: IdleLists::default() };
        let key = self.entries.insert(entry).ok()?;
        self.keys.insert(holder, key);
        Some(key)
    }

    /// Counts a removed session, which is in no list.
    pub(super) fn remove_session(&mut self, key: Option<Key>) {
        let Some(key) = key else { return self.held.subtract(Holder::Exempt, 1) };
        let Some(&HolderEntry { holder, .. }) = self.entries.get(key) else { return };
        self.held.subtract(holder, 1);
        if self.held.of(holder) == 0 {
            self.keys.remove(&holder);
            self.entries.remove(key);
        }
    }

    /// Returns the idle sessions of a holder.
    fn idle(&self, holder: Holder) -> Option<&IdleLists<OF_HOLDER>> {
        self.entries.get(*self.keys.get(&holder)?).map(|entry| &entry.idle)
    }

    /// Returns the idle sessions of a holder.
    fn idle_mut(&mut self, key: Key) -> Option<&mut IdleLists<OF_HOLDER>> {
        self.entries.get_mut(key).map(|entry| &mut entry.idle)
    }

    /// Counts an unused session that was added to the lists.
    fn add_unused(&mut self, key: Option<Key>) {
        if let Some(holder) = self.holder(key) {
            self.unused.add(holder, 1);
        }
    }

    /// Counts an unused session that was removed from the lists.
    fn remove_unused(&mut self, key: Option<Key>) {
        if let Some(holder) = self.holder(key) {
            self.unused.subtract(holder, 1);
        }
    }

    /// Returns the holder with a key; without one it is exempt.
    fn holder(&self, key: Option<Key>) -> Option<Holder> {
        let Some(key) = key else { return Some(Holder::Exempt) };
        self.entries.get(key).map(|entry| entry.holder)
    }

    /// Returns whether callers of the prefix of `other` have at least as many sessions, and as
    /// many unused ones, as those of the prefix of `holder`.
    fn has_no_less(&self, other: Holder, holder: Holder) -> bool {
        [&self.held, &self.unused].iter().all(|held| held.around(other) >= held.around(holder))
    }

    /// Returns whether more sessions of a holder are used than idle and unused.
    fn is_mostly_used(&self, holder: Holder) -> bool {
        self.held.of(holder) > 2 * self.unused.of(holder)
    }

    /// Returns an estimate of the bytes of all entries.
    pub(super) fn held_bytes(&self) -> usize {
        let counts = self.held.held_bytes() + self.unused.held_bytes();
        self.entries.len() * Self::ENTRY_BYTES + counts
    }

    /// Returns the bytes of the places that are free.
    pub(super) fn place_bytes(&self) -> usize {
        let tables = self.entries.allocated_bytes() + map_bytes(&self.keys);
        let free = tables.saturating_sub(self.entries.len() * Self::ENTRY_BYTES);
        free + self.held.place_bytes() + self.unused.place_bytes()
    }

    /// Returns all holders with the number of their sessions and the idle ones.
    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = (Key, usize, &IdleLists<OF_HOLDER>)> {
        assert_eq!(self.keys.len(), self.entries.len());
        self.entries.iter().map(|(key, entry)| {
            assert_eq!(self.keys.get(&entry.holder), Some(&key));
            (key, self.held.of(entry.holder), &entry.idle)
        })
    }
}

/// A session to be evicted, and why this one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Eviction {
    pub key: Key,
    pub reason: EvictionReason,
}

/// Time for which an unused session is kept from callers of a prefix that has more sessions, so
/// that its client can go on.
pub(super) const GRACE: Duration = Duration::from_secs(1);

/// Sessions of the shard that are visited for one of an exempt address.
const VISITS_MAX: usize = 64;

/// The idle sessions of a shard, also by holder.
#[derive(Debug)]
pub(super) struct IdleSessions {
    of_shard: IdleLists<OF_SHARD>,
    holders: HolderTable,
}

impl IdleSessions {
    pub(super) fn new() -> Self {
        Self { of_shard: IdleLists::default(), holders: HolderTable::new() }
    }

    /// Returns the holder of the sessions of a caller.
    pub(super) fn holder_of(&self, owner: PlaceOwner<'_>) -> Holder {
        self.holders.held.holder_of(owner)
    }

    /// Counts a new session of `holder`; returns the key of the holder, unless that is exempt.
    pub(super) fn add_session(&mut self, holder: Holder) -> Option<Key> {
        self.holders.add_session(holder)
    }

    /// Counts a session that was removed from the lists and from the shard.
    pub(super) fn remove_session<S>(&mut self, removed: &StoredSession<S>) {
        self.holders.remove_session(removed.holder);
    }

    /// Sets the share of a holder.
    pub(super) const fn set_share(&mut self, share: usize) {
        self.holders.share = share;
    }

    /// Returns the session that a new one of `holder` evicts.
    pub(super) fn eviction<S>(
        &self,
        sessions: &mut Slab<StoredSession<S>>,
        holder: Holder,
        now: Instant,
    ) -> Option<Eviction> {
        let is_full = self.is_beyond(holder, 1);
        let own = self.holders.idle(holder).filter(|_| is_full).and_then(|idle| {
            let unused = idle.longest_idle(sessions, false);
            unused.or_else(|| idle.longest_idle(sessions, true))
        });
        if let Some(key) = own {
            return Some(Eviction { key, reason: EvictionReason::AddressShare });
        }
        let unauthenticated = HolderScope::Unauthenticated;
        let others = holder.is_authenticated().then_some(HolderScope::Authenticated);
        let scopes = [Some(unauthenticated), others];
        let heaviest = scopes.into_iter().flatten().find_map(|scope| {
            let unused = self.unused_in(sessions, scope, holder, Some(now));
            let found = unused.or_else(|| self.used_in(sessions, scope, is_full));
            found.or_else(|| self.unused_in(sessions, scope, holder, None))
        });
        heaviest.or_else(|| self.longest_idle_of_all(sessions, holder, is_full))
    }

    /// Returns the session that a new one of `holder` evicts if the heaviest callers have no idle
    /// one. `is_full`: for a holder that has its share.
    fn longest_idle_of_all<S>(
        &self,
        sessions: &mut Slab<StoredSession<S>>,
        holder: Holder,
        is_full: bool,
    ) -> Option<Eviction> {
        let entries = &self.holders.entries;
        let is_open = |held: &StoredSession<S>| {
            let of = held.holder.and_then(|key| entries.get(key));
            holder.is_authenticated() || of.is_none_or(|entry| !entry.holder.is_authenticated())
        };
        let unused = self.of_shard.unused.find_first(sessions, VISITS_MAX, is_open);
        if let Some(key) = unused {
            return Some(Eviction { key, reason: EvictionReason::Unused });
        }
        let used = self.of_shard.used.find_first(sessions, VISITS_MAX, is_open);
        let key = used.filter(|_| !is_full)?;
        Some(Eviction { key, reason: EvictionReason::Idle })
    }

    /// Returns whether a holder has more than its share with `more` sessions; an exempt one has
    /// none.
    fn is_beyond(&self, holder: Holder, more: usize) -> bool {
        holder != Holder::Exempt && self.holders.held.of(holder) + more > self.holders.share
    }

    /// Returns the unused session of some holders that a new one of `holder` evicts, of the caller
    /// with most of them. Until its [`GRACE`] is over at `now` it is not one of a prefix that has
    /// fewer sessions or fewer unused ones, and a used one of its caller is evicted in its place if
    /// that has more of those.
    fn unused_in<S>(
        &self,
        sessions: &mut Slab<StoredSession<S>>,
        scope: HolderScope,
        holder: Holder,
        now: Option<Instant>,
    ) -> Option<Eviction> {
        let is_full = self.is_beyond(holder, 1);
        let mut find = |other| {
            let key = self.longest_idle(sessions, other, false)?;
            let is_new = now.is_some_and(|now| {
                sessions.get(key).is_some_and(|held| held.idle_since.after(GRACE) > now)
            });
            let unused = Eviction { key, reason: EvictionReason::Unused };
            if !is_new {
                return Some(unused);
            }
            if !self.holders.has_no_less(other, holder) {
                return None;
            }
            let is_used = self.holders.is_mostly_used(other);
            let used = is_used.then(|| self.used_of(sessions, other, is_full)).flatten();
            used.or(Some(unused))
        };
        let heaviest = self.holders.unused.find_heaviest(scope, &mut find);
        let is_own = holder.is_authenticated() == (scope == HolderScope::Authenticated);
        heaviest.or_else(|| is_own.then(|| find(holder)).flatten())
    }

    /// Returns the used session of a holder that is evicted. `is_full`: for a holder that has its
    /// share, and then only one of a holder beyond that.
    fn used_of<S>(
        &self,
        sessions: &mut Slab<StoredSession<S>>,
        holder: Holder,
        is_full: bool,
    ) -> Option<Eviction> {
        let is_beyond = self.is_beyond(holder, 0);
        let is_tried = is_beyond || !is_full;
        let key = is_tried.then(|| self.longest_idle(sessions, holder, true)).flatten()?;
        let reason = if is_beyond { EvictionReason::AddressShare } else { EvictionReason::Idle };
        Some(Eviction { key, reason })
    }

    /// Returns the used session of some holders that is evicted. `is_full`: for a holder that has
    /// its share.
    fn used_in<S>(
        &self,
        sessions: &mut Slab<StoredSession<S>>,
        scope: HolderScope,
        is_full: bool,
    ) -> Option<Eviction> {
        let held = &self.holders.held;
        // All callers of exempt addresses count as much as all others together.
        let exempt = held.of(Holder::Exempt);
        let is_exempt_first = scope == HolderScope::Unauthenticated
            && exempt >= held.unauthenticated().saturating_sub(exempt);
        let of_exempt =
            |sessions: &mut Slab<StoredSession<S>>| self.used_of(sessions, Holder::Exempt, is_full);
        if is_exempt_first && let Some(found) = of_exempt(sessions) {
            return Some(found);
        }
        let of_address = held.find_heaviest(scope, |holder| {
            let is_tried = holder != Holder::Exempt;
            is_tried.then(|| self.used_of(sessions, holder, is_full)).flatten()
        });
        let others = scope == HolderScope::Unauthenticated && !is_exempt_first;
        of_address.or_else(|| others.then(|| of_exempt(sessions)).flatten())
    }

    /// Returns the longest idle session of a holder that is used or not.
    fn longest_idle<S>(
        &self,
        sessions: &mut Slab<StoredSession<S>>,
        holder: Holder,
        is_used: bool,
    ) -> Option<Key> {
        if holder != Holder::Exempt {
            return self.holders.idle(holder)?.longest_idle(sessions, is_used);
        }
        let list = if is_used { &self.of_shard.used } else { &self.of_shard.unused };
        let is_exempt = |held: &StoredSession<S>| held.holder.is_none();
        list.find_first(sessions, VISITS_MAX, is_exempt)
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
        let (holder, is_used) = (held.holder, held.is_used);
        self.of_shard.push(sessions, key, is_used);
        if let Some(idle) = holder.and_then(|holder| self.holders.idle_mut(holder)) {
            idle.push(sessions, key, is_used);
        }
        if !is_used {
            self.holders.add_unused(holder);
        }
    }

    /// Removes a session from the lists, if it is listed.
    pub(super) fn remove<S>(&mut self, sessions: &mut Slab<StoredSession<S>>, key: Key) {
        let Some(held) = sessions.get(key).filter(|held| held.is_listed()) else { return };
        let (holder, is_used) = (held.holder, held.is_used);
        self.of_shard.remove(sessions, key, is_used);
        if let Some(idle) = holder.and_then(|holder| self.holders.idle_mut(holder)) {
            idle.remove(sessions, key, is_used);
        }
        if !is_used {
            self.holders.remove_unused(holder);
        }
    }

    /// Returns an estimate of the bytes of all holders.
    pub(super) fn held_bytes(&self) -> usize {
        self.holders.held_bytes()
    }

    /// Returns the bytes of the places of holders that are free.
    pub(super) fn place_bytes(&self) -> usize {
        self.holders.place_bytes()
    }

    /// Like [`IdleSessions::held_bytes`], from the sessions.
    pub(super) fn recount_bytes<S>(&self, sessions: &Slab<StoredSession<S>>) -> usize {
        let holder_of = |held: &StoredSession<S>| self.holders.holder(held.holder);
        let stored = || sessions.iter().map(|(_, held)| held);
        let holders: HashSet<Holder> = stored().filter_map(holder_of).collect();
        let unused = stored().filter(|held| held.is_listed() && !held.is_used);
        let unused = HeldPlaces::bytes_of(unused.filter_map(holder_of));
        let listed = holders.iter().filter(|holder| **holder != Holder::Exempt).count();
        listed * HolderTable::ENTRY_BYTES + HeldPlaces::bytes_of(holders.into_iter()) + unused
    }

    /// Asserts that the lists contain exactly the idle sessions, the longest idle first.
    #[cfg(test)]
    pub(super) fn check_invariants<S>(&self, sessions: &mut Slab<StoredSession<S>>) {
        assert!(sessions.iter().all(|(_, held)| held.is_listed() == held.is_idle()));
        let listed = self.of_shard.keys(sessions);
        check_lists(&listed, sessions, |_| true);
        let mut counted = 0;
        for (key, count, idle) in self.holders.iter() {
            let listed = idle.keys(sessions);
            check_lists(&listed, sessions, |held| held.holder == Some(key));
            let own = sessions.iter().filter(|(_, held)| held.holder == Some(key));
            assert_eq!(own.count(), count);
            counted += count;
        }
        assert_eq!(sessions.iter().filter(|(_, held)| held.holder.is_some()).count(), counted);
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
