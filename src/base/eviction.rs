//! Which holder of a place gives it to a newcomer when a table is full.
//!
//! The holders are grouped by address in three levels: IPv6 networks of 48, 56 and 64 bits, IPv4
//! networks of 24 bits and addresses. Holders without an address are one group. The heaviest group
//! of each level loses its oldest idle place.
//!
//! Invariants: a busy holder keeps its place; a holder that was of use loses it only to a group
//! that has fewer, another one only to a group with fewer that were of no use. In its first second
//! a holder loses its place only if it was of no use and its group has several such ones, and in
//! its first tenth only if it has a multiple of what the newcomer's group has. A search costs at
//! most one pass over [`HOLDERS_MAX`] holders, and sorts; there is one in 20 ms, and one for every
//! 256 places that newcomers get.

use std::cmp::Reverse;
use std::time::Duration;

use crate::client_address::ClientAddress;
use crate::time::Instant;

/// How long a place stays with a holder that does nothing.
pub const GRACE: Duration = Duration::from_secs(1);

/// The same for one that was of no use, whose group has several of them.
const SHORT_GRACE: Duration = Duration::from_millis(100);

/// A group with so many times the unused places of a newcomer's has no grace.
const HEAVY_FACTOR: usize = 4;

/// Holders that one search looks at.
pub const HOLDERS_MAX: u32 = 2048;

/// Time between two searches.
const SEARCH_INTERVAL: Duration = Duration::from_millis(20);

/// Places that one search finds.
const VICTIMS_MAX: usize = 256;

/// Levels of groups, the largest groups first.
const LEVELS: [usize; 3] = [0, 1, 2];

/// What has a place.
#[derive(Clone, Copy, Debug)]
pub struct Holder<K> {
    /// The name of the place.
    pub key: K,
    /// `None` if it is exempt from limits by address.
    pub client: Option<ClientAddress>,
    /// `None` if it is busy.
    pub idle: Option<Idle>,
}

/// How far a holder got before it did nothing.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Usage {
    /// It has sent nothing, or nothing that is valid.
    None,
    /// Something is incomplete.
    Begun,
    /// It was served.
    Served,
}

/// Since when a holder does nothing. Those that come first lose their place first.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Idle {
    /// How far it got.
    pub usage: Usage,
    /// Its last use, or when it got its place.
    pub since: Instant,
}

/// A place that a newcomer gets, and since when its holder did nothing when that was looked at.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FoundPlace<K> {
    /// The name of the place.
    pub key: K,
    idle: Idle,
}

impl<K> FoundPlace<K> {
    /// Returns whether the newcomer still gets it at `now`, given what its holder does by then.
    pub fn is_free(&self, idle: Option<Idle>, now: Instant) -> bool {
        idle.is_some_and(|idle| idle == self.idle || idle.since.after(GRACE) <= now)
    }
}

/// The places that newcomers get at the limit of a table, and at that of their address.
#[derive(Debug)]
pub struct Evictions<K> {
    of_all: EvictionQueue<K>,
    /// Apart, so that an address at its limit uses up no search of the others.
    of_address: EvictionQueue<K>,
    /// The address that `of_address` was searched for.
    searched: Option<ClientAddress>,
}

/// Whose places a newcomer may get.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Scope {
    /// Those of all: the table is full.
    All,
    /// Those of its own address, which has as many as it may have.
    Address,
    /// Those of all, of which none was of use: however recent they are, for any newcomer.
    Unused,
}

/// The places that newcomers get, in order.
#[derive(Debug)]
struct EvictionQueue<K> {
    /// Those that did nothing for [`GRACE`]. The next one is the last.
    victims: Vec<Victim<K>>,
    /// Those that were of no use for a shorter time. The next one is the last.
    recent: Vec<Victim<K>>,
    /// There were more than are listed.
    is_cut: bool,
    /// The addresses of all holders, in order.
    addresses: Vec<u64>,
    /// The addresses of those that do nothing and were of no use, in order.
    unused: Vec<u64>,
    search_at: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Victim<K> {
    key: K,
    address: u64,
    idle: Idle,
    is_recent: bool,
    /// Holders of its group of each level, without those that lose their place before.
    weights: [usize; LEVELS.len()],
}

impl<K> Default for EvictionQueue<K> {
    fn default() -> Self {
        Self {
            victims: Vec::new(),
            recent: Vec::new(),
            is_cut: false,
            addresses: Vec::new(),
            unused: Vec::new(),
            search_at: Instant::ORIGIN,
        }
    }
}

impl<K> Default for Evictions<K> {
    fn default() -> Self {
        let [of_all, of_address] = [EvictionQueue::default(), EvictionQueue::default()];
        Self { of_all, of_address, searched: None }
    }
}

impl<K: Copy> Evictions<K> {
    /// Takes the place that `newcomer` gets, if it gets one. `holders` lists what has one, of the
    /// address if there is one, and is called if the last search is over. The caller checks that
    /// the place [is still free](FoundPlace::is_free).
    pub fn next<I: Iterator<Item = Holder<K>>>(
        &mut self,
        newcomer: Option<ClientAddress>,
        scope: Scope,
        now: Instant,
        holders: impl FnOnce(Option<ClientAddress>) -> I,
    ) -> Option<FoundPlace<K>> {
        let queue = self.searched_queue(newcomer, scope, now, holders);
        if scope == Scope::Unused { queue.first() } else { queue.next(newcomer, now) }
    }

    /// Returns whether [`Evictions::next`] finds a place that is of use.
    pub fn has_next<I: Iterator<Item = Holder<K>>>(
        &mut self,
        newcomer: Option<ClientAddress>,
        scope: Scope,
        now: Instant,
        holders: impl FnOnce(Option<ClientAddress>) -> I,
    ) -> bool {
        self.searched_queue(newcomer, scope, now, holders).has_next(newcomer, now)
    }

    fn searched_queue<I: Iterator<Item = Holder<K>>>(
        &mut self,
        newcomer: Option<ClientAddress>,
        scope: Scope,
        now: Instant,
        holders: impl FnOnce(Option<ClientAddress>) -> I,
    ) -> &mut EvictionQueue<K> {
        let (queue, of, grace_from) = match scope {
            Scope::All => (&mut self.of_all, None, Some(now)),
            Scope::Unused => (&mut self.of_all, None, None),
            Scope::Address => {
                if self.searched != newcomer {
                    self.searched = newcomer;
                    self.of_address.victims.clear();
                    self.of_address.recent.clear();
                    self.of_address.is_cut = false;
                }
                (&mut self.of_address, newcomer, Some(now))
            }
        };
        queue.update(now, grace_from, || holders(of));
        queue
    }
}

/// Returns the place that is lost first, however recent and used it is. Looks at all holders: for
/// small tables.
pub fn first_idle<K: Copy>(holders: impl Iterator<Item = Holder<K>>) -> Option<K> {
    let mut queue = EvictionQueue::default();
    queue.search(holders, None);
    queue.victims.pop().map(|victim| victim.key)
}

impl<K: Copy> EvictionQueue<K> {
    /// Searches again, if the time for it has come or the places that were found are given away.
    fn update<I: Iterator<Item = Holder<K>>>(
        &mut self,
        now: Instant,
        grace_from: Option<Instant>,
        holders: impl FnOnce() -> I,
    ) {
        let is_listed = !self.victims.is_empty() || !self.recent.is_empty();
        let is_used_up = !is_listed && (self.is_cut || grace_from.is_none());
        if now >= self.search_at || is_used_up {
            self.search_at = now.after(SEARCH_INTERVAL);
            self.search(holders(), grace_from);
        }
    }

    /// Takes the first place, for any newcomer.
    fn first(&mut self) -> Option<FoundPlace<K>> {
        self.victims.pop().map(|Victim { key, idle, .. }| FoundPlace { key, idle })
    }

    fn has_next(&self, newcomer: Option<ClientAddress>, now: Instant) -> bool {
        let Self { victims, recent, addresses, unused, .. } = self;
        let newcomer = number(newcomer);
        victims.last().is_some_and(|victim| admits(victim, newcomer, addresses, unused))
            || recent.last().is_some_and(|victim| admits_recent(victim, newcomer, unused, now))
    }

    fn next(&mut self, newcomer: Option<ClientAddress>, now: Instant) -> Option<FoundPlace<K>> {
        let Self { victims, recent, addresses, unused, .. } = self;
        let newcomer = number(newcomer);
        let victim = victims.pop_if(|victim| admits(victim, newcomer, addresses, unused));
        let is_admitted = |victim: &mut Victim<K>| admits_recent(victim, newcomer, unused, now);
        let victim = victim.or_else(|| recent.pop_if(is_admitted))?;
        if victim.idle.usage < Usage::Served
            && let Ok(index) = unused.binary_search(&victim.address)
        {
            unused.remove(index);
        }
        for listed in [addresses, unused] {
            let index = listed.partition_point(|address| *address < newcomer);
            listed.insert(index, newcomer);
        }
        Some(FoundPlace { key: victim.key, idle: victim.idle })
    }

    /// Orders the holders that are idle, at `now` for long enough or without any use; without it
    /// all that are idle.
    fn search(&mut self, holders: impl Iterator<Item = Holder<K>>, now: Option<Instant>) {
        let Self { victims, recent, is_cut, addresses, unused, .. } = self;
        victims.clear();
        addresses.clear();
        unused.clear();
        for Holder { key, client, idle } in holders {
            let address = number(client);
            addresses.push(address);
            unused.extend(idle.filter(|idle| idle.usage < Usage::Served).map(|_| address));
            let weights = [0; LEVELS.len()];
            victims.extend(idle.map(|idle| {
                let is_recent = now.is_some_and(|now| idle.since.after(GRACE) > now);
                Victim { key, address, idle, is_recent, weights }
            }));
        }
        victims.retain(|victim| !victim.is_recent || victim.idle.usage < Usage::Served);
        addresses.sort_unstable();
        unused.sort_unstable();
        victims.sort_by_key(|victim| (victim.is_recent, victim.idle));
        for level in LEVELS.into_iter().rev() {
            weigh(victims, addresses, level);
        }
        recent.clear();
        recent.extend(victims.drain(victims.partition_point(|victim| !victim.is_recent)..));
        *is_cut = victims.len().max(recent.len()) > VICTIMS_MAX;
        for list in [victims, recent] {
            list.truncate(VICTIMS_MAX);
            list.reverse();
            list.shrink_to(VICTIMS_MAX);
        }
    }
}

/// Orders victims by the weight of their group of `level` once those before them are gone. Within a
/// group the order stays, as far as it is that of use.
fn weigh<K>(victims: &mut [Victim<K>], addresses: &[u64], level: usize) {
    victims.sort_by_key(|victim| group(victim.address, level));
    for chunk in victims.chunk_by_mut(|a, b| group(a.address, level) == group(b.address, level)) {
        let size = chunk.first().map_or(0, |first| size_of_group(addresses, first.address, level));
        for (before, victim) in chunk.iter_mut().enumerate() {
            victim.weights[level] = size - before;
        }
    }
    victims.sort_by_key(|victim| {
        let Idle { usage, since } = victim.idle;
        (victim.is_recent, usage, Reverse(victim.weights[level]), since)
    });
}

/// Returns whether `newcomer` gets the place of `victim`: if the group of that has more `unused`
/// ones than its own, or more in all if the victim was of use. So a group that fills its places
/// again and again takes them from itself.
fn admits<K>(victim: &Victim<K>, newcomer: u64, addresses: &[u64], unused: &[u64]) -> bool {
    let differ = |level: &usize| group(victim.address, *level) != group(newcomer, *level);
    let is_served = victim.idle.usage == Usage::Served;
    LEVELS.into_iter().find(differ).map_or(!is_served, |level| {
        if is_served {
            return victim.weights[level] > size_of_group(addresses, newcomer, level) + 1;
        }
        let of_victim = size_of_group(unused, victim.address, level);
        of_victim > size_of_group(unused, newcomer, level)
    })
}

/// Returns whether `newcomer` gets the place of `victim`, which did nothing for less than
/// [`GRACE`]: if the group of that has more `unused` ones, and several; at first only if they are a
/// multiple.
fn admits_recent<K>(victim: &Victim<K>, newcomer: u64, unused: &[u64], now: Instant) -> bool {
    let differ = |level: &usize| group(victim.address, *level) != group(newcomer, *level);
    LEVELS.into_iter().find(differ).is_some_and(|level| {
        let of_victim = size_of_group(unused, victim.address, level);
        let of_newcomer = size_of_group(unused, newcomer, level);
        let is_heavy = of_victim >= HEAVY_FACTOR * (of_newcomer + 1);
        let has_waited = victim.idle.since.after(SHORT_GRACE) <= now;
        is_heavy || (has_waited && of_victim > of_newcomer.max(1))
    })
}

/// Returns the number that stands for an address; 0 for none.
const fn number(client: Option<ClientAddress>) -> u64 {
    match client {
        Some(client) => client.to_bits(),
        None => 0,
    }
}

/// Returns the first and the last number of the group of an address.
const fn group(address: u64, level: usize) -> (u64, u64) {
    let is_ipv4 = address >> 32 == 0xffff;
    let bits = match (level, is_ipv4) {
        (0, false) => 16,
        (0, true) | (1, _) => 8,
        _ => 0,
    };
    let rest = (1 << bits) - 1;
    (address & !rest, address | rest)
}

fn size_of_group(addresses: &[u64], address: u64, level: usize) -> usize {
    let (first, last) = group(address, level);
    let before = addresses.partition_point(|address| *address < first);
    addresses.partition_point(|address| *address <= last) - before
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::Usage::{None as Nothing, Served};
    use super::*;

    const NOW: Instant = Instant::from_milliseconds(60_000);

    fn holder(key: u32, address: &str, idle_ms: u64, usage: Usage) -> Holder<u32> {
        let since = Instant::from_milliseconds(NOW.milliseconds() - idle_ms);
        let client = ClientAddress::new(address.parse().unwrap());
        Holder { key, client, idle: Some(Idle { usage, since }) }
    }

    /// Returns the places that `newcomer` gets from `holders`, in order.
    fn victims(newcomer: &str, holders: &[Holder<u32>]) -> Vec<u32> {
        let newcomer = ClientAddress::new(newcomer.parse().unwrap());
        let mut queue = EvictionQueue::default();
        queue.search(holders.iter().copied(), Some(NOW));
        std::iter::from_fn(|| Some(queue.next(newcomer, NOW)?.key)).collect()
    }

    /// Returns the places of `holders` in the order in which they are lost.
    fn order(holders: &[Holder<u32>]) -> Vec<u32> {
        let mut queue = EvictionQueue::default();
        queue.search(holders.iter().copied(), Some(NOW));
        queue.victims.iter().rev().map(|victim| victim.key).collect()
    }

    #[test]
    fn heaviest_network_loses_oldest_idle_place() {
        // Three of one /48 in different /64, two of one /64, one of another address.
        let holders = [
            holder(0, "2001:db8:1:1::1", 1000, Nothing),
            holder(1, "2001:db8:1:100::1", 4000, Nothing),
            holder(2, "2001:db8:1:200::1", 3000, Nothing),
            holder(3, "2001:db8:2:1::1", 9000, Nothing),
            holder(4, "2001:db8:2:1::2", 8000, Nothing),
            holder(5, "192.0.2.1", 20_000, Nothing),
        ];
        assert_eq!(order(&holders), [1, 3, 2, 5, 4, 0]);
        // The newcomers have as many places then as the others.
        assert_eq!(victims("198.51.100.1", &holders), [1, 3]);
    }

    #[test]
    fn group_with_most_unused_places_displaces_itself() {
        let mut holders: Vec<_> =
            (0..20).map(|key| holder(key, "192.0.2.1", 9000, Nothing)).collect();
        holders.extend((20..30).map(|key| holder(key, "198.51.100.1", 9500, Nothing)));
        // Busy ones are many places of use.
        let busy = holder(0, "203.0.113.1", 0, Nothing);
        holders.extend((30..130).map(|key| Holder { key, idle: None, ..busy }));
        assert_eq!(victims("203.0.113.1", &holders).len(), 10);
        assert!(victims("192.0.2.1", &holders).iter().all(|key| *key < 20));
        holders.truncate(20);
        holders.extend((20..50).map(|key| holder(key, "198.51.100.1", 500, Nothing)));
        assert!(victims("198.51.100.1", &holders).is_empty());
    }

    #[test]
    fn heaviest_address_of_network_loses_first() {
        let holders = [
            holder(0, "192.0.2.1", 9000, Nothing),
            holder(1, "192.0.2.2", 2000, Nothing),
            holder(2, "192.0.2.2", 3000, Nothing),
            holder(3, "198.51.100.1", 9500, Nothing),
            holder(4, "198.51.100.1", 9000, Nothing),
        ];
        assert_eq!(order(&holders)[..2], [2, 3]);
    }

    #[test]
    fn unused_places_go_before_used_ones() {
        let holders = [
            holder(0, "192.0.2.1", 9000, Served),
            holder(1, "192.0.2.1", 8000, Served),
            holder(2, "192.0.2.1", 7000, Served),
            holder(3, "198.51.100.1", 1000, Nothing),
        ];
        // The newcomers have two places then, as the others.
        assert_eq!(victims("203.0.113.1", &holders), [3, 0]);
    }

    #[test]
    fn group_gets_no_used_place_of_lighter_one() {
        let holders = [
            holder(0, "192.0.2.1", 9000, Served),
            holder(1, "192.0.2.1", 9000, Served),
            holder(2, "198.51.100.1", 9000, Served),
            holder(3, "127.0.0.1", 9000, Served),
        ];
        assert!(victims("192.0.2.1", &holders).is_empty());
        assert_eq!(victims("192.0.2.9", &holders), [0]);
        assert!(victims("127.0.0.1", &holders).is_empty());
        assert_eq!(victims("203.0.113.1", &holders), [0]);
    }

    #[test]
    fn busy_and_recent_holders_keep_their_places() {
        let busy = Holder { idle: None, ..holder(0, "192.0.2.1", 0, Nothing) };
        let holders = [busy, holder(1, "192.0.2.1", 999, Nothing), holder(2, "::1", 1000, Nothing)];
        assert_eq!(victims("::1", &holders), [2]);
    }

    #[test]
    fn holders_are_searched_once_in_interval() {
        let mut queue = EvictionQueue::default();
        let holders = || [holder(0, "192.0.2.1", 9000, Nothing)].into_iter();
        let mut next = |now| {
            queue.update(now, Some(now), holders);
            Some(queue.next(None, now)?.key)
        };
        assert_eq!(next(NOW), Some(0));
        assert_eq!(next(NOW), None);
        assert_eq!(next(NOW.after(SEARCH_INTERVAL)), Some(0));
    }

    #[test]
    fn recent_places_of_heavy_group_go_to_newcomer() {
        let recent = |count: u32, idle_ms| -> Vec<Holder<u32>> {
            (0..count).map(|key| holder(key, "192.0.2.1", idle_ms, Nothing)).collect()
        };
        // A multiple of those of the newcomer, which has one more after each.
        assert_eq!(victims("198.51.100.1", &recent(12, 0)).len(), 2);
        assert_eq!(victims("198.51.100.1", &recent(12, 100)).len(), 6);
        assert!(victims("198.51.100.1", &recent(3, 99)).is_empty());
        assert_eq!(victims("198.51.100.1", &recent(2, 100)), [0]);
        assert!(victims("198.51.100.1", &recent(1, 999)).is_empty());
        assert!(victims("192.0.2.1", &recent(12, 999)).is_empty());
        let used: Vec<_> = (0..12).map(|key| holder(key, "192.0.2.1", 999, Served)).collect();
        assert!(victims("198.51.100.1", &used).is_empty());
    }

    #[test]
    fn used_up_list_is_searched_again() {
        for (listed, expected) in [(VICTIMS_MAX, 1), (VICTIMS_MAX + 1, 2)] {
            let holders = || vec![holder(0, "192.0.2.1", 0, Nothing); listed].into_iter();
            let (mut queue, searches) = (EvictionQueue::default(), Cell::new(0));
            let next = |queue: &mut EvictionQueue<u32>, newcomer| {
                queue.update(NOW, Some(NOW), || {
                    searches.set(searches.get() + 1);
                    holders()
                });
                queue.next(newcomer, NOW)
            };
            // Newcomers of different networks.
            for number in 0..200 {
                let newcomer = ClientAddress::new([198, 51, number, 1].into());
                assert!(next(&mut queue, newcomer).is_some());
            }
            assert_eq!(searches.get(), 1);
            queue.victims.clear();
            queue.recent.clear();
            next(&mut queue, None);
            assert_eq!(searches.get(), expected);
        }
    }

    #[test]
    fn place_is_free_while_unchanged() {
        let idle = |idle_ms| holder(0, "192.0.2.1", idle_ms, Nothing).idle;
        let place = FoundPlace { key: 0, idle: idle(100).unwrap() };
        assert!(place.is_free(idle(100), NOW));
        assert!(!place.is_free(idle(99), NOW) && !place.is_free(None, NOW));
        assert!(place.is_free(idle(1000), NOW));
    }

    #[test]
    fn address_at_its_limit_gets_own_places() {
        let mut evictions = Evictions::default();
        let holders = [
            holder(0, "192.0.2.1", 9000, Nothing),
            holder(1, "192.0.2.1", 9000, Served),
            holder(2, "192.0.2.2", 9000, Nothing),
        ];
        let mut next = |address: &str, now| {
            let client = ClientAddress::new(address.parse().unwrap());
            evictions
                .next(client, Scope::Address, now, |of| {
                    assert_eq!(of, client);
                    holders.iter().copied().filter(move |it| it.client == of)
                })
                .map(|place| place.key)
        };
        assert_eq!(next("192.0.2.1", NOW), Some(0));
        assert_eq!(next("192.0.2.1", NOW), None);
        assert_eq!(next("192.0.2.2", NOW), None);
        assert_eq!(next("192.0.2.2", NOW.after(SEARCH_INTERVAL)), Some(2));
    }

    #[test]
    fn addresses_at_their_limit_share_searches() {
        let (mut evictions, searches) = (Evictions::default(), Cell::new(0));
        let mut next = |address: &str, now| {
            let client = ClientAddress::new(address.parse().unwrap());
            evictions.next(client, Scope::Address, now, |_| {
                searches.set(searches.get() + 1);
                (0..300).map(|key| holder(key, address, 9000, Nothing))
            })
        };
        for now in [NOW, NOW.after(SEARCH_INTERVAL)] {
            let found = [(); 4]
                .map(|()| ["192.0.2.1", "192.0.2.2"].map(|address| next(address, now).is_some()));
            assert_eq!(
                found.as_flattened(),
                [true, false, false, false, false, false, false, false]
            );
        }
        assert_eq!(searches.get(), 2);
    }

    #[test]
    fn unused_places_are_lost_however_recent() {
        let mut evictions = Evictions::default();
        let holders = [
            holder(0, "192.0.2.1", 0, Nothing),
            holder(1, "192.0.2.1", 1, Nothing),
            holder(2, "198.51.100.1", 2, Nothing),
        ];
        let holders = |_| holders.iter().copied();
        let newcomer = ClientAddress::new([203, 0, 113, 1].into());
        // The oldest of the heaviest network first, then the oldest.
        let mut next = || evictions.next(newcomer, Scope::Unused, NOW, holders);
        let place = next().unwrap();
        assert!(place.is_free(holder(1, "192.0.2.1", 1, Nothing).idle, NOW));
        assert_eq!(place.key, 1);
        assert_eq!([next(), next()].map(|place| place.map(|it| it.key)), [Some(2), Some(0)]);
        // They are searched again.
        assert_eq!(next().map(|place| place.key), Some(1));
    }

    #[test]
    fn first_idle_place_is_of_heaviest_group() {
        let holders = [
            holder(0, "192.0.2.1", 1, Nothing),
            holder(1, "192.0.2.1", 2, Served),
            holder(2, "198.51.100.1", 3, Nothing),
        ];
        assert_eq!(first_idle(holders.into_iter()), Some(0));
        assert_eq!(first_idle(holders[1..2].iter().copied()), Some(1));
        assert_eq!(first_idle::<u32>(std::iter::empty()), None);
    }

    #[test]
    fn places_of_search_are_limited() {
        let holders: Vec<_> =
            (0..1000).map(|key| holder(key, "192.0.2.1", 9000, Nothing)).collect();
        assert_eq!(order(&holders).len(), VICTIMS_MAX);
    }
}
