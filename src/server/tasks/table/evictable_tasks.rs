//! Ended tasks whose owner has gone, in the order in which they are evicted.
//!
//! Invariants: contains exactly these tasks of a table. Tasks whose result was fetched or
//! that have none come first, then the others, each in the order in which they ended.

use std::collections::BTreeMap;
use std::ops::Bound;

use corelane_base::client_address::ClientAddress;
use corelane_base::slab::Key;
use corelane_base::time::Instant;

use crate::server::tasks::task::Task;

/// The tasks that may be evicted: all of the shard, and those of each address that is not exempt.
#[derive(Debug, Default)]
pub(super) struct EvictableTasks {
    all: BTreeMap<EvictionRank, Evictable>,
    by_address: BTreeMap<(ClientAddress, EvictionRank), Evictable>,
}

/// The place of a task in the order; compared from the first field to the last.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
struct EvictionRank {
    has_unfetched_result: bool,
    ended: Instant,
    /// Number of the task, which is unique.
    number: u64,
}

#[derive(Clone, Copy, Debug)]
struct Evictable {
    key: Key,
    result_bytes: usize,
}

impl EvictionRank {
    const fn new<W>(task: &Task<W>) -> Self {
        let has_unfetched_result = task.has_unfetched_result();
        Self { has_unfetched_result, ended: task.updated(), number: task.number() }
    }
}

impl EvictableTasks {
    /// Adds a task, if it has ended and its owner has gone.
    pub(super) fn add_if_evictable<W>(&mut self, key: Key, task: &Task<W>) {
        if !task.has_ended() || !task.caller.is_gone() {
            return;
        }
        let rank = EvictionRank::new(task);
        let evictable = Evictable { key, result_bytes: task.result_bytes() };
        self.all.insert(rank, evictable);
        if let Some(address) = task.caller.address() {
            self.by_address.insert((address, rank), evictable);
        }
    }

    /// Removes a task that is unchanged since it was added, if it was.
    pub(super) fn remove<W>(&mut self, task: &Task<W>) {
        let rank = EvictionRank::new(task);
        self.all.remove(&rank);
        if let Some(address) = task.caller.address() {
            self.by_address.remove(&(address, rank));
        }
    }

    /// Returns the tasks of an address, or of all, in order.
    pub(super) fn keys(&self, address: Option<ClientAddress>) -> impl Iterator<Item = Key> {
        self.of(address).map(|evictable| evictable.key)
    }

    /// Returns the bytes of the results of the tasks of an address, or of all.
    pub(super) fn result_bytes(&self, address: Option<ClientAddress>) -> usize {
        self.of(address).map(|evictable| evictable.result_bytes).sum()
    }

    fn of(&self, address: Option<ClientAddress>) -> impl Iterator<Item = &Evictable> {
        let all = address.is_none().then(|| self.all.values());
        let own = address.map(|address| {
            let first = Bound::Included((address, EvictionRank::default()));
            let range = self.by_address.range((first, Bound::Unbounded));
            range.take_while(move |((other, _), _)| *other == address).map(|(_, it)| it)
        });
        all.into_iter().flatten().chain(own.into_iter().flatten())
    }
}
