//! The memory limit of a shard, and who pays when it is reached.
//!
//! What peers make a shard hold counts: partial messages, unread input and unsent output of
//! connections, their TLS, sessions with their stored events, handlers with what they hold and the
//! results of blocking ones on their way ([`handler_memory`]), tasks with their results,
//! subscriptions, verified tokens, and what is kept of large messages for the next ones. Each
//! component knows what it holds.
//!
//! Invariants: at the limit the address whose connections hold most pays, not the one that sends
//! next; who holds less than its share is never refused.

pub(super) mod result_sizes;

pub(super) mod handler_memory;

pub(super) mod input_pool;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use corelane_base::client_address::ClientAddress;
use corelane_protocol::error::{Error, ErrorKind};

/// Bytes that every connection and session may hold whatever the others hold, unless the limit is
/// so low that they are more than a sixteenth of it.
const SHARE_BYTES: usize = 64 << 10;

/// The memory limit of a shard.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemoryLimit {
    bytes_max: usize,
}

impl MemoryLimit {
    pub(super) const fn new(bytes_max: usize) -> Self {
        Self { bytes_max }
    }

    /// Returns the limit of `shards` shards together.
    pub(super) fn of_all(self, shards: u16) -> Self {
        Self::new(self.bytes_max.saturating_mul(shards.into()))
    }

    /// Returns the bytes that an owner may hold whatever the others hold.
    pub(super) const fn share(self) -> usize {
        let part = self.bytes_max / 16;
        if part < SHARE_BYTES { part } else { SHARE_BYTES }
    }

    pub(super) const fn bytes_max(self) -> usize {
        self.bytes_max
    }

    /// Returns whether `held_bytes` exceed the limit.
    #[inline]
    pub(super) const fn is_exceeded_by(self, held_bytes: usize) -> bool {
        held_bytes > self.bytes_max
    }

    /// Returns the bytes down to which memory is freed once the limit is exceeded, so that the next
    /// message does not exceed it again.
    const fn low_water(self) -> usize {
        self.bytes_max / 4 * 3
    }

    /// Returns the bytes of the buffers that are kept for large messages, and are freed first.
    pub(super) const fn large_buffers(self) -> usize {
        self.bytes_max / 2
    }

    /// Returns the bytes that verified tokens may take: closing connections does not free them.
    pub(super) const fn tokens(self) -> usize {
        self.bytes_max / 16
    }

    /// Returns the bytes that all handlers may hold, so that connections keep the larger part of
    /// the limit.
    pub(super) const fn handlers(self) -> usize {
        self.bytes_max / 4
    }

    /// Returns the bytes that the results of blocking handlers may take on their way to their
    /// shard.
    pub(super) const fn results(self) -> usize {
        self.bytes_max / 8
    }

    /// Returns those of `holders` that have to go so that `held_bytes` no longer exceed the limit:
    /// one by one the largest of the address whose holders hold most together. So an address does
    /// not gain by dividing what it holds, and one that holds less than others pays after them.
    /// Those that hold less than their share pay only if the limit is exceeded without the others
    /// and without `results_bytes`, the part that results on their way take: closing them frees
    /// nothing of it, and it is bounded by itself.
    pub(super) fn largest_holders<K: Copy>(
        self,
        held_bytes: usize,
        results_bytes: usize,
        holders: impl Iterator<Item = Holder<K>>,
    ) -> Vec<K> {
        let mut holders: Vec<Holder<K>> = holders.filter(|it| it.bytes > 0).collect();
        // The largest of an address is its last.
        holders.sort_by_key(|it| (it.client, it.bytes));
        let (mut addresses, mut from) = (BinaryHeap::new(), 0);
        for group in holders.chunk_by(|a, b| a.client.is_some() && a.client == b.client) {
            let bytes: usize = group.iter().map(|it| it.bytes).sum();
            addresses.push((bytes, Reverse(from), group.len()));
            from += group.len();
        }
        let (mut left, mut chosen) = (held_bytes, Vec::new());
        while let Some((bytes, Reverse(from), count)) = addresses.pop() {
            let goal = if bytes > self.share() {
                self.low_water()
            } else {
                self.bytes_max.saturating_add(results_bytes)
            };
            if left <= goal {
                break;
            }
            let largest = &holders[from + count - 1];
            chosen.push(largest.key);
            left = left.saturating_sub(largest.bytes);
            if count > 1 {
                addresses.push((bytes - largest.bytes, Reverse(from), count - 1));
            }
        }
        chosen
    }

    /// Returns by how much the held bytes grow between two searches for the largest holders.
    const fn search_interval(self) -> usize {
        self.bytes_max / 64
    }
}

/// A connection and what it holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holder<K> {
    pub(super) key: K,
    /// The address that pays for it; `None` if it stands for itself.
    pub(super) client: Option<ClientAddress>,
    pub(super) bytes: usize,
}

/// When a shard above its limit searches for the largest holders.
///
/// A search visits every connection. It may free nothing: what is left may be held by the ring
/// until its sends are cancelled, or by calls. Then the next one follows once the held bytes have
/// grown by a 64th of the limit, which bounds the cost of searches per received byte.
#[derive(Debug, Default)]
pub(super) struct HolderSearch {
    /// The lowest number of held bytes seen since the last search.
    lowest_bytes: usize,
}

impl HolderSearch {
    /// Records that a closed connection no longer holds `freed_bytes`. A search does not count them
    /// as held, so what the others have grown since then has to be known without them.
    pub(super) const fn record_freed(&mut self, freed_bytes: usize) {
        self.lowest_bytes = self.lowest_bytes.saturating_sub(freed_bytes);
    }

    /// Returns whether a search is due at `held_bytes`: they exceed `limit`, and have grown.
    #[inline]
    pub(super) const fn is_due(&mut self, held_bytes: usize, limit: MemoryLimit) -> bool {
        if held_bytes < self.lowest_bytes {
            self.lowest_bytes = held_bytes;
        }
        limit.is_exceeded_by(held_bytes)
            && held_bytes - self.lowest_bytes >= limit.search_interval()
    }

    /// Records that a search has left `held_bytes`.
    pub(super) const fn record(&mut self, held_bytes: usize) {
        self.lowest_bytes = held_bytes;
    }
}

/// Returns the error of a request that does not fit.
#[cold]
pub(super) fn short_of_memory() -> Error {
    Error::new(ErrorKind::TooManyRequests, "the server is short of memory; try again later")
}

/// Returns the error of an incomplete message whose rest has not come while others wait for its
/// memory.
#[cold]
pub(super) fn incomplete_too_long() -> Error {
    let message = "the server is short of memory, and the rest of the message came too slowly; try \
                   again later";
    Error::new(ErrorKind::TooManyRequests, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: MemoryLimit = MemoryLimit::new(1600);

    /// Returns the indices of the largest of `holders`, each with the last byte of its address.
    fn largest(held_bytes: usize, holders: &[(u8, usize)]) -> Vec<usize> {
        let holders = holders.iter().enumerate().map(|(key, &(host, bytes))| Holder {
            key,
            client: ClientAddress::new([127, 0, 0, host].into()),
            bytes,
        });
        LIMIT.largest_holders(held_bytes, RESULTS, holders)
    }

    /// Bytes of results on their way.
    const RESULTS: usize = 50;

    /// The host of an exempt address.
    const EXEMPT: u8 = 1;

    #[test]
    fn largest_exempt_holders_go_first() {
        let holders = [100, 900, 0, 500, 200].map(|bytes| (EXEMPT, bytes));
        assert_eq!(largest(1700, &holders), [1]);
        assert_eq!(largest(2200, &holders), [1, 3]);
        assert!(largest(1200, &holders).is_empty());
    }

    #[test]
    fn address_pays_for_all_its_holders() {
        let divided = [(2, 90), (EXEMPT, 400), (2, 100), (3, 300), (2, 80), (2, 95), (2, 85)];
        assert_eq!(largest(1201, &divided), [2]);
        // Until it holds less than the next one: 450, 350, then 400 and 300 are the most.
        assert_eq!(largest(1301, &divided), [2, 1]);
        assert_eq!(largest(2200, &divided), [2, 1, 5, 3, 0, 6]);
    }

    #[test]
    fn search_repeats_only_after_growth() {
        let mut search = HolderSearch::default();
        assert!(search.is_due(1601, LIMIT));
        search.record(1700);
        // In each of a thousand turns the shard is above its limit.
        let searches = (0..1000).filter(|turn| search.is_due(1700 + turn % 25, LIMIT));
        assert_eq!(searches.count(), 0);
        assert!(search.is_due(1725, LIMIT));
        search.record(1200);
        assert!(search.is_due(1601, LIMIT));
        search.record(1800);
        assert!(!search.is_due(1601, LIMIT) && !search.is_due(1625, LIMIT));
        assert!(search.is_due(1626, LIMIT));
        search.record(1800);
        assert!(!search.is_due(1500, LIMIT) && search.is_due(1601, LIMIT));
    }

    #[test]
    fn closed_connections_do_not_hide_growth() {
        let mut search = HolderSearch::default();
        // A closed connection holds 100 of them.
        search.record(1680);
        assert!(!search.is_due(1704, LIMIT));
        search.record_freed(100);
        assert!(!search.is_due(1604, LIMIT) && search.is_due(1605, LIMIT));
    }

    #[test]
    fn holders_below_their_share_go_last() {
        let exempt = [(EXEMPT, 100), (EXEMPT, 101), (EXEMPT, 60)];
        assert_eq!(largest(1601, &exempt), [1]);
        assert_eq!(largest(1702 + RESULTS, &exempt), [1, 0]);
        assert!(largest(1600, &[(EXEMPT, 90)]).is_empty());
        // The share is that of the address.
        let divided = [(2, 90), (3, 95), (2, 20)];
        assert_eq!(largest(1400, &divided), [0]);
        assert_eq!(largest(1700 + RESULTS, &divided), [0, 1]);
    }

    #[test]
    fn small_holders_do_not_pay_for_results() {
        let holders = [(EXEMPT, 90), (EXEMPT, 80)];
        assert!(largest(1600 + RESULTS, &holders).is_empty());
        assert_eq!(largest(1601 + RESULTS, &holders), [0]);
    }

    #[test]
    fn share_is_limited_by_a_small_limit() {
        assert_eq!((LIMIT.share(), MemoryLimit::new(1 << 30).share()), (100, SHARE_BYTES));
    }
}
