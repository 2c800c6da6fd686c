//! What the incomplete messages of unproven peers take of a shard together.
//!
//! A peer is unproven until a token or certificate of it is accepted; where callers need none, it
//! stays so. Its connection has the share of the memory limit for input that is not yet a message.
//! What exceeds that comes from the pool of the shard. A connection without room is not read until
//! it has some.
//!
//! One message of the largest size always has room: of the connection that is *preferred*. The
//! others together take the rest of the pool, those of one client address its share of that. The
//! preferred connection is the one that has waited longest of those whose address holds least, to
//! the nearest MiB; its message is complete before the next one is preferred.
//!
//! Invariants: the pool is exceeded by what is received before a stop takes effect, and by the
//! unused end of one large buffer, only; while connections wait, one that has room and does not use
//! it is closed, so that each wait ends.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use corelane_base::client_address::{AddressShare, ClientAddress};
use corelane_base::slab::Key;
use corelane_base::time::Instant;

use super::MemoryLimit;

/// Time in which a connection with room must receive something while others wait.
const PROGRESS_TIME: Duration = Duration::from_secs(1);

/// Bytes that are received in [`PROGRESS_TIME`] at least.
const PROGRESS_BYTES: usize = 64 << 10;

/// The same of the preferred connection, for which others wait whatever they hold.
const PREFERRED_PROGRESS_BYTES: usize = 4 * PROGRESS_BYTES;

/// Bytes of the messages beside the preferred one, unless they are more than a sixteenth of the
/// memory limit: otherwise small messages would wait for a large one.
const SHARED_BYTES_MIN: usize = 4 << 20;

/// Differences of what clients hold below which those that wait have their turn in order.
const WEIGHT_BYTES: usize = 1 << 20;

/// Time between two checks while connections wait.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Connections that are read again in one turn: each may bring what the kernel has buffered.
const RESUMED_MAX: usize = 8;

/// The limits of the pool of one shard.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct InputLimits {
    /// Bytes that every connection may hold.
    own: usize,
    /// Bytes of all connections beyond that, except for the preferred one.
    shared: usize,
    /// The part of `shared` that one client address may take.
    address_share: AddressShare,
}

impl InputLimits {
    /// Returns the limits of a pool of `bytes`, at most half of `memory`. One message of
    /// `message_bytes_max` has room in any case.
    pub fn new(
        bytes: usize,
        memory: MemoryLimit,
        message_bytes_max: usize,
        address_share: AddressShare,
    ) -> Self {
        let bytes = bytes.min(memory.bytes_max() / 2);
        let shared_min = (memory.bytes_max() / 16).min(SHARED_BYTES_MIN);
        let shared = bytes.saturating_sub(message_bytes_max).max(shared_min);
        Self { own: memory.share(), shared, address_share }
    }
}

/// The pool of a shard.
#[derive(Debug)]
pub struct InputPool {
    limits: InputLimits,
    /// The connections that hold more than their own bytes.
    holders: HashMap<Key, InputHolder>,
    /// What the holders of a client address take of the shared bytes; `None` is the exempt ones.
    clients: HashMap<Option<ClientAddress>, usize>,
    /// The sum of `clients`.
    shared: usize,
    preferred: Option<Key>,
    /// A connection that is not preferred, with a buffer that is much larger than what it has
    /// received.
    enlarged: Option<Key>,
    waiting: VecDeque<Key>,
    /// Time since which something is free for those that wait.
    freed_at: Option<Instant>,
    next_check: Instant,
}

/// A connection that holds more than its own bytes.
#[derive(Clone, Copy, Debug)]
struct InputHolder {
    client: Option<ClientAddress>,
    bytes: usize,
    /// Bytes that were held at the last progress, and its time.
    progress_bytes: usize,
    progress_at: Instant,
    is_waiting: bool,
}

/// Whether a connection is read on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub enum InputRoom {
    /// It has room, or needs none.
    Free,
    /// It waits from now on.
    Waits,
    /// It waits already.
    StillWaits,
}

impl InputPool {
    pub fn new(limits: InputLimits) -> Self {
        Self {
            limits,
            holders: HashMap::new(),
            clients: HashMap::new(),
            shared: 0,
            preferred: None,
            enlarged: None,
            waiting: VecDeque::new(),
            freed_at: None,
            next_check: Instant::default(),
        }
    }

    /// Applies new limits to what is received from now on.
    pub const fn set_limits(&mut self, limits: InputLimits) {
        self.limits = limits;
    }

    /// Returns whether a connection that holds `input_bytes` has to be recorded.
    #[inline]
    pub fn concerns(&self, input_bytes: usize) -> bool {
        input_bytes > self.limits.own || !self.holders.is_empty()
    }

    /// Returns the number of connections that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns whether a connection waits for room.
    pub fn is_waiting(&self, key: Key) -> bool {
        self.holders.get(&key).is_some_and(|holder| holder.is_waiting)
    }

    /// Returns whether a connection may receive into a buffer that is much larger than what it has
    /// received: the preferred one, and one other.
    pub fn admits_large_buffer(&self, key: Key) -> bool {
        self.preferred == Some(key) || self.enlarged.is_none_or(|enlarged| enlarged == key)
    }

    /// Records that a connection has moved to a larger buffer, which counts as such a one unless
    /// another connection has it.
    pub fn record_large_buffer(&mut self, key: Key) {
        if self.preferred != Some(key) {
            self.enlarged.get_or_insert(key);
        }
    }

    /// Records that a connection of `client` holds `input_bytes`.
    pub fn record(
        &mut self,
        key: Key,
        client: Option<ClientAddress>,
        input_bytes: usize,
        now: Instant,
    ) -> InputRoom {
        let bytes = input_bytes.saturating_sub(self.limits.own);
        let known = self.take(key);
        if bytes == 0 {
            if known.is_some() {
                self.end(key, now);
            }
            return InputRoom::Free;
        }
        let is_new = known.is_none_or(|known| bytes < known.bytes);
        self.enlarged = self.enlarged.filter(|enlarged| *enlarged != key || !is_new);
        if is_new && self.preferred == Some(key) {
            // Its message is complete, and the next one has begun.
            self.preferred = None;
            self.freed_at = Some(now);
        }
        let begun = InputHolder {
            client,
            bytes: 0,
            progress_bytes: bytes,
            progress_at: now,
            is_waiting: false,
        };
        let mut holder = known.filter(|_| !is_new).unwrap_or(begun);
        holder.is_waiting = known.is_some_and(|known| known.is_waiting);
        holder.bytes = bytes;
        if bytes - holder.progress_bytes >= self.progress_bytes(key) {
            (holder.progress_bytes, holder.progress_at) = (bytes, now);
        }
        self.insert(key, holder);
        if holder.is_waiting {
            return InputRoom::StillWaits;
        }
        if self.preferred == Some(key) || self.has_room(holder.client, 0) {
            return InputRoom::Free;
        }
        if self.preferred.is_none() && self.waiting.is_empty() {
            self.prefer(key);
            return InputRoom::Free;
        }
        self.wait(key, now);
        InputRoom::Waits
    }

    /// Removes a connection whose input is gone, or whose peer is proven.
    pub fn release(&mut self, key: Key, now: Instant) {
        if self.take(key).is_some() {
            self.end(key, now);
        }
    }

    /// Returns whether connections that wait have to be looked at.
    #[inline]
    pub fn is_due(&self, now: Instant) -> bool {
        !self.waiting.is_empty() && (self.freed_at.is_some() || self.next_check <= now)
    }

    /// Returns when [`InputPool::is_due`] is `true` at the latest.
    pub fn next_deadline(&self) -> Option<Instant> {
        let due = self.freed_at.unwrap_or(self.next_check);
        (!self.waiting.is_empty()).then_some(due)
    }

    /// Returns the connections of the pool, if a check of them is due.
    pub fn begin_check(&mut self, now: Instant) -> Option<Vec<Key>> {
        if self.next_check > now {
            return None;
        }
        self.next_check = now.after(CHECK_INTERVAL);
        Some(self.holders.keys().copied().collect())
    }

    /// Records that a connection with room cannot receive anything at present.
    pub fn excuse(&mut self, key: Key, now: Instant) {
        if let Some(holder) = self.holders.get_mut(&key) {
            holder.progress_at = now;
        }
    }

    /// Returns a connection that has to be closed because it does not use its room and others wait:
    /// of the address that holds most the one that has received nothing for longest. Those of an
    /// address that holds less than another one stay. Release it.
    pub fn next_stalled(&self, now: Instant) -> Option<Key> {
        if self.waiting.is_empty() || self.shared <= self.limits.shared / 4 * 3 {
            return None;
        }
        let others = || self.holders.iter().filter(|(key, _)| self.preferred != Some(**key));
        let most = others().map(|(_, holder)| self.weight(holder)).max().unwrap_or_default();
        let stalled = others().filter(|(_, holder)| {
            let is_stalled = now.since(holder.progress_at) >= PROGRESS_TIME;
            self.weight(holder) >= most && !holder.is_waiting && is_stalled
        });
        let first =
            stalled.max_by_key(|(key, holder)| (now.since(holder.progress_at), key.to_bits()));
        first.map(|(key, _)| *key)
    }

    /// Ends the preference of a connection that does not use it while others wait. Returns one that
    /// has to be closed if what it holds has no room beside the others: the largest of an address
    /// that holds more than its own, or else itself. Release it and call again.
    pub fn end_stalled_preference(&mut self, now: Instant) -> Option<Key> {
        let key = self.preferred.filter(|_| !self.waiting.is_empty())?;
        let holder = *self.holders.get(&key)?;
        if now.since(holder.progress_at) < PROGRESS_TIME {
            return None;
        }
        let (shared, client) = (self.limits.shared, holder.client);
        let of_client = client.map_or(0, |_| self.client_bytes(client)) + holder.bytes;
        let is_within_share = client.is_none() || of_client <= self.limits.address_share.of(shared);
        if is_within_share && self.shared + holder.bytes <= shared {
            let holder = self.take(key)?;
            self.preferred = None;
            self.insert(key, holder);
            self.freed_at = Some(now);
            return None;
        }
        let others = self.holders.iter().filter(|(other, _)| **other != key);
        let largest = others.max_by_key(|(key, it)| (self.weight(it), it.bytes, key.to_bits()));
        let larger = largest.filter(|(_, it)| is_within_share && self.weight(it) > of_client);
        Some(larger.map_or(key, |(other, _)| *other))
    }

    /// Returns the connections that are read again in this turn.
    pub fn resume(&mut self, now: Instant) -> Vec<Key> {
        let mut resumed = Vec::new();
        self.freed_at = None;
        while resumed.len() < RESUMED_MAX {
            // Each of them is going to receive something.
            let expected = resumed.len() * PROGRESS_BYTES;
            let may_be_preferred = self.preferred.is_none();
            let candidates = self.waiting.iter().copied().enumerate();
            let candidates = candidates.filter_map(|(index, key)| {
                let client = self.holders.get(&key)?.client;
                let has_room = may_be_preferred || self.has_room(client, expected);
                // An exempt client stands for itself.
                let weight = client.map_or(0, |_| self.client_bytes(client) / WEIGHT_BYTES);
                has_room.then_some((weight, index, key))
            });
            let Some((_, index, key)) = candidates.min() else { break };
            self.waiting.remove(index);
            if let Some(holder) = self.holders.get_mut(&key) {
                (holder.is_waiting, holder.progress_at) = (false, now);
                holder.progress_bytes = holder.bytes;
            }
            if may_be_preferred {
                self.prefer(key);
            }
            resumed.push(key);
        }
        if resumed.len() == RESUMED_MAX {
            self.freed_at = Some(now);
        }
        resumed
    }

    fn progress_bytes(&self, key: Key) -> usize {
        if self.preferred == Some(key) { PREFERRED_PROGRESS_BYTES } else { PROGRESS_BYTES }
    }

    /// Returns what the client of a connection holds; an exempt one stands for itself.
    fn weight(&self, holder: &InputHolder) -> usize {
        if holder.client.is_none() { holder.bytes } else { self.client_bytes(holder.client) }
    }

    fn client_bytes(&self, client: Option<ClientAddress>) -> usize {
        self.clients.get(&client).copied().unwrap_or_default()
    }

    /// Returns whether a client may hold more, and `expected` bytes of others are still to come.
    fn has_room(&self, client: Option<ClientAddress>, expected: usize) -> bool {
        let limits = &self.limits;
        let share = limits.address_share.of(limits.shared);
        let is_within_share = client.is_none() || self.client_bytes(client) <= share;
        self.shared.saturating_add(expected) <= limits.shared && is_within_share
    }

    fn prefer(&mut self, key: Key) {
        if let Some(holder) = self.take(key) {
            self.preferred = Some(key);
            self.insert(key, holder);
        }
    }

    fn wait(&mut self, key: Key, now: Instant) {
        if let Some(holder) = self.holders.get_mut(&key) {
            holder.is_waiting = true;
            if self.waiting.is_empty() {
                self.next_check = now.after(CHECK_INTERVAL);
            }
            self.waiting.push_back(key);
        }
    }

    fn insert(&mut self, key: Key, holder: InputHolder) {
        self.holders.insert(key, holder);
        if self.preferred != Some(key) {
            self.shared += holder.bytes;
            *self.clients.entry(holder.client).or_default() += holder.bytes;
        }
    }

    fn take(&mut self, key: Key) -> Option<InputHolder> {
        let holder = self.holders.remove(&key)?;
        if self.preferred != Some(key) {
            self.shared -= holder.bytes;
            if let Some(bytes) = self.clients.get_mut(&holder.client) {
                *bytes -= holder.bytes;
                if *bytes == 0 {
                    self.clients.remove(&holder.client);
                }
            }
        }
        Some(holder)
    }

    /// Forgets a connection that is no longer a holder.
    fn end(&mut self, key: Key, now: Instant) {
        if self.preferred == Some(key) {
            self.preferred = None;
        }
        self.enlarged = self.enlarged.filter(|enlarged| *enlarged != key);
        self.waiting.retain(|waiting| *waiting != key);
        self.freed_at = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use corelane_base::slab::Slab;

    use super::*;

    const MIB: usize = 1 << 20;
    const OWN: usize = 64 << 10;

    /// 16 MiB for the preferred message and 16 MiB for the others, 12 MiB for an address.
    fn pool() -> InputPool {
        let (memory, share) = (MemoryLimit::new(1 << 30), AddressShare::new(75));
        InputPool::new(InputLimits::new(32 * MIB, memory, 16 * MIB, share))
    }

    fn keys<const N: usize>() -> [Key; N] {
        let mut slab = Slab::new(N);
        [(); N].map(|()| slab.insert(()).unwrap())
    }

    fn address(host: u8) -> Option<ClientAddress> {
        ClientAddress::new([127, 0, 0, host].into())
    }

    fn at(ms: u64) -> Instant {
        Instant::from_milliseconds(ms)
    }

    #[test]
    fn bytes_of_connection_itself_need_no_room() {
        let (mut pool, [key]) = (pool(), keys());
        assert!(!pool.concerns(OWN) && pool.concerns(OWN + 1));
        assert_eq!(pool.record(key, None, OWN, at(0)), InputRoom::Free);
        assert!(pool.holders.is_empty());
    }

    #[test]
    fn address_waits_at_its_share() {
        let (mut pool, [first, second, other]) = (pool(), keys());
        assert_eq!(pool.record(first, address(2), 13 * MIB, at(0)), InputRoom::Free);
        // Preferred, because no other connection is.
        assert_eq!(pool.preferred, Some(first));
        assert_eq!(pool.record(second, address(2), 13 * MIB, at(0)), InputRoom::Waits);
        assert_eq!(pool.record(other, address(3), 2 * MIB, at(0)), InputRoom::Free);
        pool.release(first, at(1));
        assert!(pool.is_due(at(1)));
        assert_eq!(pool.resume(at(1)), [second]);
        assert_eq!((pool.preferred, pool.shared), (Some(second), 2 * MIB - OWN));
    }

    #[test]
    fn preferred_message_completes_before_next_one() {
        let (mut pool, [first, second, third]) = (pool(), keys());
        for key in [first, second] {
            assert_eq!(pool.record(key, None, 15 * MIB, at(0)), InputRoom::Free);
        }
        // The shared part is exceeded by the last receive.
        assert_eq!(pool.preferred, Some(second));
        assert_eq!(pool.record(third, None, 3 * MIB, at(0)), InputRoom::Waits);
        assert_eq!(pool.record(third, None, 3 * MIB + 1, at(1)), InputRoom::StillWaits);
        assert_eq!(pool.record(first, None, 16 * MIB, at(1)), InputRoom::Waits);
        assert_eq!(pool.record(second, None, 16 * MIB, at(1)), InputRoom::Free);
        assert!(pool.resume(at(1)).is_empty());
        // Its next message has to wait.
        assert_eq!(pool.record(second, None, MIB, at(2)), InputRoom::Waits);
        assert_eq!(pool.resume(at(2)), [third]);
        assert_eq!(pool.preferred, Some(third));
        pool.release(third, at(3));
        assert_eq!(pool.resume(at(3))[0], first);
    }

    #[test]
    fn address_that_holds_least_is_preferred_next() {
        let (mut pool, [first, second, third, light]) = (pool(), keys());
        for (key, mib) in [(first, 12), (second, 13)] {
            assert_eq!(pool.record(key, address(2), mib * MIB, at(0)), InputRoom::Free);
        }
        assert_eq!(pool.preferred, Some(second));
        assert_eq!(pool.record(third, address(2), MIB, at(0)), InputRoom::Waits);
        assert_eq!(pool.record(light, address(3), 7 * MIB, at(0)), InputRoom::Waits);
        pool.release(second, at(1));
        assert_eq!(pool.resume(at(1)), [light]);
    }

    #[test]
    fn stalled_connection_goes_only_while_others_wait() {
        let (mut pool, [first, second]) = (pool(), keys());
        assert_eq!(pool.record(first, address(2), 17 * MIB, at(0)), InputRoom::Free);
        assert_eq!(pool.end_stalled_preference(at(5_000)), None);
        assert_eq!(pool.record(second, address(3), 17 * MIB, at(5_000)), InputRoom::Waits);
        assert_eq!(pool.end_stalled_preference(at(5_000)), Some(first));
        // What trickles in is no progress, and what cannot be received no fault.
        assert_eq!(pool.record(first, address(2), 17 * MIB + 1, at(5_001)), InputRoom::Free);
        assert_eq!(pool.end_stalled_preference(at(5_001)), Some(first));
        pool.excuse(first, at(5_001));
        assert_eq!(pool.end_stalled_preference(at(5_500)), None);
        assert_eq!(pool.record(first, address(2), 18 * MIB, at(5_500)), InputRoom::Free);
        assert_eq!(pool.end_stalled_preference(at(6_499)), None);
        assert_eq!(pool.end_stalled_preference(at(6_500)), Some(first));
        pool.release(first, at(6_500));
        assert_eq!(pool.resume(at(6_500)), [second]);
        assert_eq!((pool.waiting(), pool.next_deadline()), (0, None));
    }

    #[test]
    fn stalled_connection_of_light_address_stays() {
        let (mut pool, [heavy, light, preferred, other]) = (pool(), keys());
        assert_eq!(pool.record(light, address(4), 4 * MIB, at(0)), InputRoom::Free);
        assert_eq!(pool.record(heavy, address(2), 12 * MIB, at(0)), InputRoom::Free);
        assert_eq!(pool.record(preferred, address(3), 16 * MIB, at(0)), InputRoom::Free);
        assert_eq!(pool.preferred, Some(preferred));
        assert_eq!(pool.record(other, address(5), MIB, at(0)), InputRoom::Waits);
        pool.excuse(preferred, at(1_000));
        assert_eq!(pool.next_stalled(at(1_000)), Some(heavy));
        pool.release(heavy, at(1_000));
        assert_eq!(pool.next_stalled(at(1_000)), None);
        assert_eq!(pool.resume(at(1_000)), [other]);
    }

    #[test]
    fn stalled_preferred_connection_stays_if_it_has_room() {
        let (mut pool, [slow, second, third]) = (pool(), keys());
        assert_eq!(pool.record(second, address(3), 12 * MIB, at(0)), InputRoom::Free);
        assert_eq!(pool.record(slow, address(2), 5 * MIB, at(0)), InputRoom::Free);
        assert_eq!(pool.preferred, Some(slow));
        assert_eq!(pool.record(third, address(3), MIB, at(0)), InputRoom::Waits);
        assert_eq!(pool.next_stalled(at(1_000)), Some(second));
        pool.release(second, at(1_000));
        assert_eq!(pool.end_stalled_preference(at(1_000)), None);
        assert_eq!(pool.preferred, None);
        assert_eq!(pool.resume(at(1_000)), [third]);
    }

    #[test]
    fn released_connection_leaves_nothing() {
        let (mut pool, keys) = (pool(), keys::<4>());
        for key in keys {
            let room = pool.record(key, address(2), 9 * MIB, at(0));
            assert_ne!(room, InputRoom::StillWaits);
        }
        for key in keys {
            pool.release(key, at(1));
        }
        assert_eq!((pool.shared, pool.waiting(), pool.preferred), (0, 0, None));
        assert!(pool.clients.is_empty() && pool.holders.is_empty());
    }

    #[test]
    fn one_connection_beside_preferred_one_has_large_buffer() {
        let (mut pool, [preferred, first, second]) = (pool(), keys());
        assert_eq!(pool.record(preferred, None, 17 * MIB, at(0)), InputRoom::Free);
        for key in [first, second] {
            assert_eq!(pool.record(key, None, MIB, at(0)), InputRoom::Free);
            assert!(pool.admits_large_buffer(key));
        }
        pool.record_large_buffer(preferred);
        pool.record_large_buffer(first);
        assert!(pool.admits_large_buffer(preferred) && pool.admits_large_buffer(first));
        assert!(!pool.admits_large_buffer(second));
        // Of one that has moved to a slightly larger buffer.
        pool.record_large_buffer(second);
        assert!(pool.admits_large_buffer(first) && !pool.admits_large_buffer(second));
        // The next message has begun.
        assert_eq!(pool.record(first, None, MIB / 2, at(1)), InputRoom::Free);
        assert!(pool.admits_large_buffer(second));
        pool.record_large_buffer(second);
        pool.release(second, at(2));
        assert!(pool.admits_large_buffer(first));
    }

    #[test]
    fn small_pool_holds_one_message() {
        let (memory, share) = (MemoryLimit::new(16 * MIB), AddressShare::new(75));
        let mut pool = InputPool::new(InputLimits::new(64 * MIB, memory, 16 * MIB, share));
        let [small, first, second] = keys();
        // A sixteenth of the memory limit is for messages beside it.
        assert_eq!(pool.record(small, None, MIB, at(0)), InputRoom::Free);
        assert_eq!(pool.record(first, None, MIB, at(0)), InputRoom::Free);
        assert_eq!(pool.record(second, None, MIB, at(0)), InputRoom::Waits);
        assert_eq!(pool.record(first, None, 16 * MIB, at(0)), InputRoom::Free);
    }
}
