//! The memory limit of a shard, and who pays when it is reached.
//!
//! What peers make a shard hold counts: partial messages, unread input and unsent output of
//! connections, stored events of sessions, what handlers hold ([`super::handler_memory`]), results
//! of tasks, subscriptions. Each component knows what it holds.
//!
//! Invariants: at the limit those who hold most pay, not the one who sends next; who holds less
//! than its share is never refused.

use crate::protocol::error::{Error, ErrorKind};

/// Bytes that every connection and session may hold whatever the others hold, unless the limit is
/// so low that they are more than a sixteenth of it.
const SHARE_BYTES: usize = 64 << 10;

/// The memory limit of a shard.
#[derive(Clone, Copy, Debug)]
pub(in crate::server) struct MemoryLimit {
    bytes_max: usize,
}

impl MemoryLimit {
    pub(in crate::server) const fn new(bytes_max: usize) -> Self {
        Self { bytes_max }
    }

    /// Returns the bytes that an owner may hold whatever the others hold.
    pub(in crate::server) const fn share(self) -> usize {
        let part = self.bytes_max / 16;
        if part < SHARE_BYTES { part } else { SHARE_BYTES }
    }

    /// Returns whether `held_bytes` exceed the limit.
    #[inline]
    pub(in crate::server) const fn is_exceeded_by(self, held_bytes: usize) -> bool {
        held_bytes > self.bytes_max
    }

    /// Returns how many of `held_bytes` have to be freed once the limit is exceeded: down to three
    /// quarters of it, so that the next message does not exceed it again.
    const fn excess(self, held_bytes: usize) -> usize {
        held_bytes.saturating_sub(self.bytes_max / 4 * 3)
    }

    /// Returns the bytes that all handlers may hold, so that connections keep the larger part of
    /// the limit.
    pub(in crate::server) const fn handlers(self) -> usize {
        self.bytes_max / 4
    }

    /// Returns those of `holders`, each with what it holds, that have to go so that `held_bytes` no
    /// longer exceed the limit: those that hold most. The share of a holder does not protect it if
    /// all hold less.
    pub(in crate::server) fn largest_holders<K>(
        self,
        held_bytes: usize,
        holders: impl Iterator<Item = (K, usize)>,
    ) -> Vec<K> {
        let mut holders: Vec<(K, usize)> = holders.filter(|(_, bytes)| *bytes > 0).collect();
        holders.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        let mut excess = self.excess(held_bytes);
        let chosen = holders.into_iter().take_while(|(_, bytes)| {
            let is_chosen = excess > 0;
            excess = excess.saturating_sub(*bytes);
            is_chosen
        });
        chosen.map(|(holder, _)| holder).collect()
    }
}

/// Returns the error of a request that does not fit.
#[cold]
pub(in crate::server) fn short_of_memory() -> Error {
    Error::new(ErrorKind::TooManyRequests, "the server is short of memory; try again later")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: MemoryLimit = MemoryLimit::new(1600);

    #[test]
    fn largest_holders_go_first() {
        let holders = [("a", 100), ("b", 900), ("c", 0), ("d", 500), ("e", 200)];
        assert_eq!(LIMIT.largest_holders(1700, holders.into_iter()), ["b"]);
        assert_eq!(LIMIT.largest_holders(2200, holders.into_iter()), ["b", "d"]);
        assert!(LIMIT.largest_holders(1200, holders.into_iter()).is_empty());
    }

    #[test]
    fn share_is_limited_by_a_small_limit() {
        assert_eq!((LIMIT.share(), MemoryLimit::new(1 << 30).share()), (100, SHARE_BYTES));
    }
}
