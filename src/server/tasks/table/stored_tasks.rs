//! The tasks of a shard with their indexes: by id, by owner and address, and in the order of their
//! eviction.
//!
//! Invariants: every index agrees with the tasks; only tasks that have ended and whose owner has
//! gone are evicted, and only when no handler runs and no notification is unsent.
//!
//! The order of eviction contains exactly these tasks. Tasks whose result was fetched or that have
//! none come first, then the others, each in the order in which they ended.
//!
//! Owners are the connections and sessions that created the tasks, and their addresses. An owner is
//! stored while it exists and has a task, an address while it has a task; an address takes no more
//! tasks and result bytes than its share.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use corelane_base::client_address::ClientAddress;
use corelane_base::slab::{Key, Slab};
use corelane_base::time::Instant;
use corelane_protocol::model::TaskStatus;

use crate::server::owner_id::TaskId;
use crate::server::reply_to::PeerId;
use crate::server::shard_message::TaskLimits;
use crate::server::tasks::task::{Task, TaskOutcome, TaskOwner};
use crate::telemetry::label::TaskLimit;

/// The tasks of a shard, each with a handler `W`.
#[derive(Debug)]
pub struct StoredTasks<W> {
    slab: Slab<Task<W>>,
    keys: HashMap<TaskId, Key>,
    owners: TaskOwners,
    evictable: EvictableTasks,
}

/// How room was made for a task or a result.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Room {
    /// Number of tasks that were evicted for it.
    pub evicted: usize,
    /// The limit for which there is none.
    pub refused: Option<TaskLimit>,
}

impl<W> StoredTasks<W> {
    pub(super) fn new() -> Self {
        let (owners, evictable) = (TaskOwners::default(), EvictableTasks::default());
        Self { slab: Slab::new(usize::MAX), keys: HashMap::new(), owners, evictable }
    }

    /// Stores a task that runs.
    pub(super) fn insert(&mut self, task: Task<W>) -> Option<Key> {
        let (id, owner) = (task.id(), task.caller.owner());
        let key = self.slab.insert(task).ok()?;
        self.keys.insert(id, key);
        self.owners.add_task(key, owner);
        Some(key)
    }

    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut Task<W>> {
        self.slab.get_mut(key)
    }

    pub(super) fn get(&self, key: Key) -> Option<&Task<W>> {
        self.slab.get(key)
    }

    pub(super) fn find(&self, id: TaskId) -> Option<Key> {
        self.keys.get(&id).copied()
    }

    /// Returns all tasks in arbitrary order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Key, &Task<W>)> {
        self.slab.iter()
    }

    /// Returns the tasks of an owner that has not gone, in the order of creation.
    pub(super) fn tasks_of(&self, peer: PeerId) -> impl Iterator<Item = &Task<W>> {
        self.owners.tasks_of(peer).iter().filter_map(|key| self.slab.get(*key))
    }

    /// Ends a task; returns `false` if it has ended before.
    pub(super) fn end(
        &mut self,
        key: Key,
        status: TaskStatus,
        message: Option<Cow<'static, str>>,
        outcome: Option<TaskOutcome>,
        now: Instant,
    ) -> bool {
        let Some(task) = self.slab.get_mut(key).filter(|task| !task.has_ended()) else {
            return false;
        };
        task.end(status, message, outcome, now);
        self.owners.end_task(task.caller.address(), task.result_bytes());
        self.evictable.add_if_evictable(key, task);
        true
    }

    /// Records that the outcome of a task was written to a client.
    pub(super) fn mark_fetched(&mut self, key: Key) {
        if let Some(task) = self.slab.get_mut(key).filter(|task| task.has_unfetched_result()) {
            self.evictable.remove(task);
            task.mark_fetched();
            self.evictable.add_if_evictable(key, task);
        }
    }

    /// Marks the tasks of a connection or session that has gone.
    pub(super) fn remove_owner(&mut self, peer: PeerId) {
        for key in self.owners.remove_owner(peer) {
            if let Some(task) = self.slab.get_mut(key) {
                task.caller.mark_gone();
                self.evictable.add_if_evictable(key, task);
            }
        }
    }

    /// Makes room for one more task of an owner.
    pub(super) fn make_room_for_task(&mut self, limits: &TaskLimits, owner: TaskOwner) -> Room {
        let mut room = Room::default();
        while let Err(limit) = self.owners.check_task(limits, owner) {
            if !self.evict(limit, owner.address) {
                room.refused = Some(limit);
                break;
            }
            room.evicted += 1;
        }
        room
    }

    /// Makes room for a result of `bytes`; evicts nothing if that would not suffice.
    pub(super) fn make_room_for_result(
        &mut self,
        limits: &TaskLimits,
        address: Option<ClientAddress>,
        bytes: usize,
    ) -> Room {
        let mut room = Room::default();
        let mut would_suffice = None;
        while let Err(limit) = self.owners.check_result(limits, address, bytes, 0, 0) {
            let would_suffice = *would_suffice.get_or_insert_with(|| {
                let [of_address, of_all] =
                    [address, None].map(|owner| self.evictable.result_bytes(owner));
                self.owners.check_result(limits, address, bytes, of_address, of_all).is_ok()
            });
            if !would_suffice || !self.evict(limit, address) {
                room.refused = Some(limit);
                break;
            }
            room.evicted += 1;
        }
        room
    }

    /// Removes the first evictable task without pending work, because `limit` is reached: one of
    /// `address` at the limit of its share. Returns `false` if there is none.
    fn evict(&mut self, limit: TaskLimit, address: Option<ClientAddress>) -> bool {
        let owner = match limit {
            TaskLimit::TasksPerConnection => return false,
            TaskLimit::AddressShare => address,
            TaskLimit::Tasks | TaskLimit::TaskBytes => None,
        };
        let is_idle = |key: &Key| self.slab.get(*key).is_some_and(|task| !task.has_pending_work());
        let first = self.evictable.keys(owner).find(is_idle);
        first.is_some_and(|key| self.remove(key).is_some())
    }

    pub(super) fn remove(&mut self, key: Key) -> Option<Task<W>> {
        let task = self.slab.remove(key)?;
        self.keys.remove(&task.id());
        self.owners.remove_task(key, task.caller.owner(), !task.has_ended(), task.result_bytes());
        self.evictable.remove(&task);
        task.requests.inputs.close();
        Some(task)
    }

    /// Returns what all tasks hold.
    #[inline]
    pub(super) const fn usage(&self) -> TaskUsage {
        self.owners.total()
    }

    /// Returns the number of stored owners and addresses.
    #[cfg(test)]
    pub fn owner_counts(&self) -> (usize, usize) {
        self.owners.counts()
    }

    /// Returns the numbers of all tasks, in the order of creation.
    #[cfg(test)]
    pub fn numbers(&self) -> Vec<u64> {
        let mut numbers: Vec<u64> = self.slab.iter().map(|(_, task)| task.number()).collect();
        numbers.sort_unstable();
        numbers
    }
}

/// The tasks that may be evicted: all of the shard, and those of each address that is not exempt.
#[derive(Debug, Default)]
struct EvictableTasks {
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
    fn add_if_evictable<W>(&mut self, key: Key, task: &Task<W>) {
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
    fn keys(&self, address: Option<ClientAddress>) -> impl Iterator<Item = Key> {
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

/// What a table, or one address, holds.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TaskUsage {
    /// Tasks, running or ended.
    pub tasks: usize,
    /// Tasks that have not ended.
    pub running: usize,
    /// Bytes of their results.
    pub result_bytes: usize,
}

/// The tasks of each owner, and the usage of each address that is not exempt.
#[derive(Debug, Default)]
struct TaskOwners {
    /// In the order of creation.
    by_peer: HashMap<PeerId, Vec<Key>>,
    by_address: HashMap<ClientAddress, TaskUsage>,
    total: TaskUsage,
}

impl TaskOwners {
    /// Checks that an owner may create one more task; returns the first limit that is reached, of
    /// the owner, the address and the shard.
    pub(super) fn check_task(
        &self,
        limits: &TaskLimits,
        TaskOwner { peer, address }: TaskOwner,
    ) -> Result<(), TaskLimit> {
        let (of_address, tasks_max) = (self.usage_of(address), limits.tasks_max);
        let share = limits.address_share.of(tasks_max);
        if self.tasks_of(peer).len() >= limits.tasks_per_connection_max {
            Err(TaskLimit::TasksPerConnection)
        } else if address.is_some() && share < tasks_max && of_address.tasks >= share {
            Err(TaskLimit::AddressShare)
        } else if self.total.tasks >= tasks_max {
            Err(TaskLimit::Tasks)
        } else {
            Ok(())
        }
    }

    /// Checks that a result of `bytes` has room once the address has freed `freed_of_address`
    /// bytes, and all together have freed `freed`.
    pub(super) fn check_result(
        &self,
        limits: &TaskLimits,
        address: Option<ClientAddress>,
        bytes: usize,
        freed_of_address: usize,
        freed: usize,
    ) -> Result<(), TaskLimit> {
        let (of_address, bytes_max) = (self.usage_of(address), limits.result_bytes_max);
        let share = limits.address_share.of(bytes_max);
        let bytes_of_address = of_address.result_bytes.saturating_sub(freed_of_address) + bytes;
        if address.is_some() && share < bytes_max && bytes_of_address > share {
            Err(TaskLimit::AddressShare)
        } else if self.total.result_bytes - freed + bytes > bytes_max {
            Err(TaskLimit::TaskBytes)
        } else {
            Ok(())
        }
    }

    /// Adds a task that runs.
    pub(super) fn add_task(&mut self, key: Key, TaskOwner { peer, address }: TaskOwner) {
        self.by_peer.entry(peer).or_default().push(key);
        let of_address = address.map(|address| self.by_address.entry(address).or_default());
        for usage in of_address.into_iter().chain([&mut self.total]) {
            usage.tasks += 1;
            usage.running += 1;
        }
    }

    /// Counts the end of a task, with a result of `bytes`.
    pub(super) fn end_task(&mut self, address: Option<ClientAddress>, bytes: usize) {
        let of_address = address.and_then(|address| self.by_address.get_mut(&address));
        for usage in of_address.into_iter().chain([&mut self.total]) {
            usage.running -= 1;
            usage.result_bytes += bytes;
        }
    }

    /// Removes a task that runs or has ended, and its result of `bytes`.
    fn remove_task(
        &mut self,
        key: Key,
        TaskOwner { peer, address }: TaskOwner,
        is_running: bool,
        bytes: usize,
    ) {
        if let Some(tasks) = self.by_peer.get_mut(&peer) {
            tasks.retain(|task| *task != key);
            if tasks.is_empty() {
                self.by_peer.remove(&peer);
            }
        }
        let of_address = address.and_then(|address| self.by_address.get_mut(&address));
        for usage in of_address.into_iter().chain([&mut self.total]) {
            usage.tasks -= 1;
            usage.running -= usize::from(is_running);
            usage.result_bytes -= bytes;
        }
        if let Some(address) = address.filter(|_| self.usage_of(address).tasks == 0) {
            self.by_address.remove(&address);
        }
    }

    /// Removes an owner that has gone; returns its tasks, which still count for its address.
    pub(super) fn remove_owner(&mut self, peer: PeerId) -> Vec<Key> {
        self.by_peer.remove(&peer).unwrap_or_default()
    }

    /// Returns the tasks of an owner in the order of creation.
    pub(super) fn tasks_of(&self, peer: PeerId) -> &[Key] {
        self.by_peer.get(&peer).map_or(&[], Vec::as_slice)
    }

    fn usage_of(&self, address: Option<ClientAddress>) -> TaskUsage {
        let usage = address.and_then(|address| self.by_address.get(&address));
        usage.copied().unwrap_or_default()
    }

    /// Returns what all tasks hold.
    #[inline]
    pub(super) const fn total(&self) -> TaskUsage {
        self.total
    }

    /// Returns the number of stored owners and addresses.
    #[cfg(test)]
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.by_peer.len(), self.by_address.len())
    }
}
