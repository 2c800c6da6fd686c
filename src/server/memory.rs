//! The memory limit of a shard, and who pays when it is reached.
//!
//! What peers make a shard hold counts: partial messages, unread input and unsent output of
//! connections, stored events of sessions, the arguments of calls and tasks until their handlers
//! end, subscriptions. Each component knows what it holds.
//!
//! Invariants: at the limit those who hold most pay, not the one who sends next; who holds less
//! than its share is never refused.

use std::sync::Arc;

use crate::engine::mesh::SharedCounter;
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

    /// Returns the bytes that the arguments of all calls and tasks may hold. They are freed only
    /// when their handlers end, so connections keep the larger part of the limit.
    const fn arguments(self) -> usize {
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

/// The arguments of the calls and tasks of a shard, until their handlers end.
#[derive(Debug)]
pub(in crate::server) struct ArgumentMemory {
    /// The limit of the shard.
    pub(in crate::server) limit: MemoryLimit,
    held: Arc<SharedCounter>,
}

impl ArgumentMemory {
    pub(in crate::server) fn new(limit: MemoryLimit) -> Self {
        Self { limit, held: Arc::default() }
    }

    /// Returns the bytes of the arguments of all calls and tasks.
    #[inline]
    pub(in crate::server) fn held_bytes(&self) -> usize {
        self.held.count()
    }

    /// Charges the arguments of a call, of `bytes`, to an owner whose other calls hold
    /// `owner_bytes`.
    ///
    /// # Errors
    ///
    /// The server is short of memory, and the owner holds more than its share.
    pub(in crate::server) fn charge(
        &self,
        bytes: usize,
        owner_bytes: impl FnOnce() -> usize,
    ) -> Result<ArgumentCharge, Error> {
        let is_free = self.held_bytes().saturating_add(bytes) <= self.limit.arguments();
        if !is_free && owner_bytes().saturating_add(bytes) > self.limit.share() {
            return Err(short_of_memory());
        }
        self.held.adjust(0, bytes);
        Ok(ArgumentCharge { held: Arc::clone(&self.held), bytes })
    }
}

/// The charge for the arguments of one handler, which owns it until it ends.
#[derive(Debug)]
pub(in crate::server) struct ArgumentCharge {
    held: Arc<SharedCounter>,
    bytes: usize,
}

impl ArgumentCharge {
    pub(in crate::server) const fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for ArgumentCharge {
    fn drop(&mut self) {
        self.held.adjust(self.bytes, 0);
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
    fn calls_below_their_share_are_admitted() {
        assert_eq!((LIMIT.share(), MemoryLimit::new(1 << 30).share()), (100, SHARE_BYTES));
        let memory = ArgumentMemory::new(LIMIT);
        let large = memory.charge(400, || 0).unwrap();
        assert_eq!(memory.charge(101, || 0).unwrap_err().code, -32603);
        assert!(memory.charge(60, || 41).is_err());
        let small = memory.charge(60, || 40).unwrap();
        assert_eq!((memory.held_bytes(), small.bytes()), (460, 60));
        drop((large, small));
        assert_eq!(memory.held_bytes(), 0);
        assert!(memory.charge(400, || 400).is_ok());
    }
}
