//! The tasks of a shard with their indexes: by id, by owner and holder, and in the order of their
//! eviction.
//!
//! Invariants: every index agrees with the tasks; only tasks that have ended and whose owner has
//! gone are evicted, and only when no handler runs and no notification is unsent.
//!
//! The order of eviction contains exactly these tasks. Tasks whose result was fetched or that have
//! none come first, then the others, each in the order in which they ended.
//!
//! Owners are the connections and sessions that created the tasks. An owner is stored while it
//! exists and has a task. Holders are the authenticated callers, and the addresses of others with
//! the prefixes around them; a holder takes no more tasks and result bytes than it may while the
//! others have theirs, without those that can be evicted. The place of a task that expires while it
//! cannot be evicted is kept for its holder for a second: one that creates tasks steadily goes on
//! when others take all that is free.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use corelane_base::eviction::GRACE;
use corelane_base::heap_bytes::{HeapBytes, map_bytes};
use corelane_base::holders::{HeldPlaces, Holder, HolderScope, PlaceOwner};
use corelane_base::slab::{Key, Slab};
use corelane_base::time::Instant;
use corelane_engine::timer::TimerWheel;
use corelane_protocol::model::TaskStatus;

use super::kept_places::KeptPlaces;
use crate::server::owner_id::TaskId;
use crate::server::reply_to::PeerId;
use crate::server::shard_message::TaskLimits;
use crate::server::tasks::task::{Task, TaskMut, TaskOutcome};
use crate::telemetry::label::TaskLimit;

/// The tasks of a shard, each with a handler `W`.
#[derive(Debug)]
pub struct StoredTasks<W> {
    slab: Slab<Task<W>>,
    keys: HashMap<TaskId, Key>,
    owners: TaskOwners,
    evictable: EvictableTasks,
    /// Bytes that the tasks own besides their results and what their handlers hold.
    owned_bytes: usize,
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
        Self {
            slab: Slab::new(usize::MAX),
            keys: HashMap::new(),
            owners,
            evictable,
            owned_bytes: 0,
        }
    }

    /// Stores a task that runs.
    pub(super) fn insert(&mut self, task: Task<W>) -> Option<Key> {
        let (id, peer, holder) = (task.id(), task.caller.peer(), task.caller.holder());
        let owned_bytes = task.heap_bytes();
        let key = self.slab.insert(task).ok()?;
        self.owned_bytes += owned_bytes;
        self.keys.insert(id, key);
        self.owners.add_task(key, peer, holder);
        Some(key)
    }

    pub(super) fn get_mut(&mut self, key: Key) -> Option<TaskMut<'_, W>> {
        let task = self.slab.get_mut(key)?;
        Some(TaskMut::new(task, &mut self.owned_bytes))
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
        let Some(mut task) = self.get_mut(key).filter(|task| !task.has_ended()) else {
            return false;
        };
        task.end(status, message, outcome, now);
        let (holder, bytes) = (task.caller.holder(), task.result_bytes());
        drop(task);
        self.owners.end_task(holder, bytes);
        self.list_if_evictable(key);
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
            if let Some(mut task) = self.get_mut(key) {
                task.caller.mark_gone();
            }
            self.list_if_evictable(key);
        }
    }

    /// Lists a task as evictable, if it is.
    fn list_if_evictable(&mut self, key: Key) {
        if let Some(task) = self.slab.get(key)
            && self.evictable.add_if_evictable(key, task)
        {
            self.owners.unpin(task.caller.holder(), task.result_bytes());
        }
    }

    /// Returns the holder of each task.
    pub(super) fn holders(&self) -> impl Iterator<Item = Holder> {
        self.slab.iter().map(|(_, task)| task.caller.holder())
    }

    /// Returns the holder of the tasks of a caller.
    pub(super) fn holder_of(&self, owner: PlaceOwner<'_>) -> Holder {
        self.owners.pinned.holder_of(owner)
    }

    /// Checks that an owner may create one more task; returns the first limit that is reached, of
    /// the owner, the holder and the shard.
    fn check_task(
        &self,
        limits: &TaskLimits,
        peer: PeerId,
        holder: Holder,
    ) -> Result<(), TaskLimit> {
        let (pinned, places) = (&self.owners.pinned, limits.tasks_max);
        let held = pinned.of(holder) + self.evictable.held.of_limited(holder);
        let excess = (pinned.total() + 1).saturating_sub(places);
        if self.owners.tasks_of(peer).len() >= limits.tasks_per_connection_max {
            Err(TaskLimit::TasksPerConnection)
        } else if held >= pinned.limit_of(holder, places + excess, limits.address_share) {
            Err(TaskLimit::AddressShare)
        } else if self.owners.total.tasks + self.owners.kept.count() >= places {
            Err(TaskLimit::Tasks)
        } else {
            Ok(())
        }
    }

    /// Checks that a result of `bytes` has room once `freed` is evicted.
    fn check_result(
        &self,
        limits: &TaskLimits,
        holder: Holder,
        bytes: usize,
        freed: FreedBytes,
    ) -> Result<(), TaskLimit> {
        let (pinned, places) = (&self.owners.pinned_bytes, limits.result_bytes_max);
        let held = pinned.of(holder) + self.evictable.bytes.of_limited(holder);
        let excess = (pinned.total() + bytes).saturating_sub(places);
        let limit = pinned.limit_of(holder, places + excess, limits.address_share);
        if held - freed.of_holder + bytes > limit {
            Err(TaskLimit::AddressShare)
        } else if self.owners.total.result_bytes - freed.of_all + bytes > places {
            Err(TaskLimit::TaskBytes)
        } else {
            Ok(())
        }
    }

    /// Makes room for one more task of an owner: in a place that is kept for it, if there is one.
    pub(super) fn make_room_for_task(
        &mut self,
        limits: &TaskLimits,
        peer: PeerId,
        holder: Holder,
        now: Instant,
    ) -> Room {
        let mut room = Room::default();
        self.owners.release_kept(now);
        let own = self.owners.tasks_of(peer).len();
        let is_below_others =
            own < limits.tasks_per_connection_max && self.owners.total.tasks < limits.tasks_max;
        if is_below_others && self.owners.take_kept(holder) {
            return room;
        }
        while let Err(limit) = self.check_task(limits, peer, holder) {
            if !self.evict(limit, holder) {
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
        holder: Holder,
        bytes: usize,
    ) -> Room {
        let mut room = Room::default();
        let mut would_suffice = None;
        let none = FreedBytes::default();
        while let Err(limit) = self.check_result(limits, holder, bytes, none) {
            let would_suffice = *would_suffice.get_or_insert_with(|| {
                let freed = self.evictable.result_bytes(holder);
                self.check_result(limits, holder, bytes, freed).is_ok()
            });
            if !would_suffice || !self.evict(limit, holder) {
                room.refused = Some(limit);
                break;
            }
            room.evicted += 1;
        }
        room
    }

    /// Removes the first evictable task without pending work, because `limit` is reached: at that
    /// of a share one of `holder`, otherwise one of the holder with most of them. Those of
    /// authenticated callers are evicted only for such callers. Returns `false` if there is none.
    fn evict(&mut self, limit: TaskLimit, holder: Holder) -> bool {
        let is_idle = |key: &Key| self.slab.get(*key).is_some_and(|task| !task.has_pending_work());
        let first_of = |holder| self.evictable.keys(holder).find(is_idle);
        let find = |scope| self.evictable.held.find_heaviest(scope, first_of);
        let first = match limit {
            TaskLimit::TasksPerConnection => None,
            TaskLimit::AddressShare => first_of(holder),
            TaskLimit::Tasks | TaskLimit::TaskBytes => {
                let first = find(HolderScope::Unauthenticated);
                let others = || find(HolderScope::Authenticated);
                first.or_else(|| holder.is_authenticated().then(others).flatten())
            }
        };
        first.is_some_and(|key| self.remove(key).is_some())
    }

    /// Removes a task whose ttl has expired, and keeps its place unless it was evictable.
    pub(super) fn expire(&mut self, key: Key) -> Option<Task<W>> {
        let is_pinned = self.slab.get(key).is_some_and(|task| !self.evictable.contains(task));
        let task = self.remove(key)?;
        if is_pinned {
            self.owners.keep_place(task.caller.holder(), task.expires_at().after(GRACE));
        }
        Some(task)
    }

    /// Ends the places that are kept no longer.
    pub(super) fn release_kept(&mut self, now: Instant) {
        self.owners.release_kept(now);
    }

    pub(super) fn remove(&mut self, key: Key) -> Option<Task<W>> {
        let task = self.slab.remove(key)?;
        self.owned_bytes -= task.heap_bytes();
        self.keys.remove(&task.id());
        let is_pinned = !self.evictable.remove(&task);
        self.owners.remove_task(key, &task, is_pinned);
        task.requests.inputs.close();
        Some(task)
    }

    /// Bytes of one task in the tables, at least: its slot, its places in the index of ids and in
    /// the list of its owner, and its deadline.
    const PLACE_BYTES: usize = Slab::<Task<W>>::SLOT_BYTES
        + size_of::<(TaskId, Key)>()
        + size_of::<Key>()
        + TimerWheel::<Key>::ENTRY_BYTES;

    /// Returns the bytes of all tasks without their results and what their handlers hold.
    #[inline]
    pub(super) const fn held_bytes(&self) -> usize {
        self.slab.len() * Self::PLACE_BYTES + self.owned_bytes
    }

    /// Like [`StoredTasks::held_bytes`], from the tasks.
    pub fn recount_bytes(&self) -> usize {
        self.slab.iter().map(|(_, task)| Self::PLACE_BYTES + task.heap_bytes()).sum()
    }

    /// Returns the bytes of the tables without what [`StoredTasks::held_bytes`] has of them, of a
    /// table that has `more_bytes` besides. Cost: a pass over the owners.
    pub(super) fn place_bytes(&self, more_bytes: usize) -> usize {
        let Self { slab, keys, owners, evictable, owned_bytes: _ } = self;
        let indexes = map_bytes(keys) + owners.index_bytes() + evictable.index_bytes();
        let tables = slab.allocated_bytes() + indexes + more_bytes;
        tables.saturating_sub(slab.len() * Self::PLACE_BYTES)
    }

    /// Returns what all tasks hold.
    #[inline]
    pub(super) const fn usage(&self) -> TaskUsage {
        self.owners.total()
    }

    /// Returns the number of stored owners, and the bytes of the holders.
    #[cfg(test)]
    pub fn owner_counts(&self) -> (usize, usize) {
        (
            self.owners.by_peer.len(),
            self.owners.pinned.held_bytes() + self.evictable.held.held_bytes(),
        )
    }

    /// Returns the numbers of all tasks, in the order of creation.
    #[cfg(test)]
    pub fn numbers(&self) -> Vec<u64> {
        let mut numbers: Vec<u64> = self.slab.iter().map(|(_, task)| task.number()).collect();
        numbers.sort_unstable();
        numbers
    }
}

/// The tasks that may be evicted, by holder.
#[derive(Debug, Default)]
struct EvictableTasks {
    by_holder: BTreeMap<(Holder, EvictionRank), Evictable>,
    /// Their number.
    held: HeldPlaces,
    /// Bytes of their results.
    bytes: HeldPlaces,
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
    /// Returns an estimate of the bytes of the entries: nodes are two thirds full on average.
    fn index_bytes(&self) -> usize {
        let Self { by_holder, held, bytes } = self;
        let entries = by_holder.len() * size_of::<((Holder, EvictionRank), Evictable)>();
        entries * 3 / 2 + held.held_bytes() + bytes.held_bytes()
    }

    /// Adds a task, if it has ended and its owner has gone. Returns whether it was added.
    fn add_if_evictable<W>(&mut self, key: Key, task: &Task<W>) -> bool {
        if !task.has_ended() || !task.caller.is_gone() {
            return false;
        }
        let (holder, rank) = (task.caller.holder(), EvictionRank::new(task));
        let evictable = Evictable { key, result_bytes: task.result_bytes() };
        let is_added = self.by_holder.insert((holder, rank), evictable).is_none();
        if is_added {
            self.held.add(holder, 1);
            self.bytes.add(holder, evictable.result_bytes);
        }
        is_added
    }

    /// Removes a task that is unchanged since it was added. Returns whether it was added.
    pub(super) fn remove<W>(&mut self, task: &Task<W>) -> bool {
        let holder = task.caller.holder();
        let removed = self.by_holder.remove(&(holder, EvictionRank::new(task)));
        if let Some(removed) = &removed {
            self.held.subtract(holder, 1);
            self.bytes.subtract(holder, removed.result_bytes);
        }
        removed.is_some()
    }

    fn contains<W>(&self, task: &Task<W>) -> bool {
        self.by_holder.contains_key(&(task.caller.holder(), EvictionRank::new(task)))
    }

    /// Returns the tasks of a holder in order.
    fn keys(&self, holder: Holder) -> impl Iterator<Item = Key> {
        let first = Bound::Included((holder, EvictionRank::default()));
        let range = self.by_holder.range((first, Bound::Unbounded));
        range.take_while(move |((other, _), _)| *other == holder).map(|(_, it)| it.key)
    }

    /// Returns the bytes of the results that are evicted for a result of `holder`, at most.
    pub(super) fn result_bytes(&self, holder: Holder) -> FreedBytes {
        let bytes = &self.bytes;
        let is_authenticated = holder.is_authenticated();
        let of_all = if is_authenticated { bytes.total() } else { bytes.unauthenticated() };
        FreedBytes { of_holder: bytes.of_limited(holder), of_all }
    }
}

/// Bytes of results that could be evicted.
#[derive(Clone, Copy, Debug, Default)]
struct FreedBytes {
    of_holder: usize,
    of_all: usize,
}

/// What a table holds.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TaskUsage {
    /// Tasks, running or ended.
    pub tasks: usize,
    /// Tasks that have not ended.
    pub running: usize,
    /// Bytes of their results.
    pub result_bytes: usize,
}

/// The tasks of each owner, and what each holder has of those that cannot be evicted.
#[derive(Debug, Default)]
struct TaskOwners {
    /// In the order of creation.
    by_peer: HashMap<PeerId, Vec<Key>>,
    /// Tasks that cannot be evicted, and places that are kept.
    pinned: HeldPlaces,
    /// Bytes of their results.
    pinned_bytes: HeldPlaces,
    kept: KeptPlaces,
    total: TaskUsage,
}

impl TaskOwners {
    /// Returns an estimate of the bytes of the indexes. Cost: a pass over the owners.
    fn index_bytes(&self) -> usize {
        let Self { by_peer, pinned, pinned_bytes, kept, total: _ } = self;
        let keys = by_peer.values().map(HeapBytes::heap_bytes).sum::<usize>();
        let held = pinned.held_bytes() + pinned_bytes.held_bytes();
        map_bytes(by_peer) + keys + held + kept.heap_bytes()
    }

    /// Adds a task that runs.
    pub(super) fn add_task(&mut self, key: Key, peer: PeerId, holder: Holder) {
        self.by_peer.entry(peer).or_default().push(key);
        self.pinned.add(holder, 1);
        self.total.tasks += 1;
        self.total.running += 1;
    }

    /// Counts the end of a task, with a result of `bytes`.
    pub(super) fn end_task(&mut self, holder: Holder, bytes: usize) {
        self.pinned_bytes.add(holder, bytes);
        self.total.running -= 1;
        self.total.result_bytes += bytes;
    }

    /// Keeps a place for a holder.
    fn keep_place(&mut self, holder: Holder, until: Instant) {
        self.pinned.add(holder, 1);
        self.kept.push(holder, until);
    }

    /// Takes a place that is kept for a holder. Returns whether there was one.
    fn take_kept(&mut self, holder: Holder) -> bool {
        let is_kept = self.kept.take(holder);
        self.pinned.subtract(holder, usize::from(is_kept));
        is_kept
    }

    /// Ends the places that are kept no longer at `now`.
    fn release_kept(&mut self, now: Instant) {
        while let Some(holder) = self.kept.pop_ended(now) {
            self.pinned.subtract(holder, 1);
        }
    }

    /// Counts a task, with a result of `bytes`, that can be evicted from now on.
    fn unpin(&mut self, holder: Holder, bytes: usize) {
        self.pinned.subtract(holder, 1);
        self.pinned_bytes.subtract(holder, bytes);
    }

    /// Removes a task that runs or has ended, and its result. `is_pinned`: it could not be evicted.
    fn remove_task<W>(&mut self, key: Key, task: &Task<W>, is_pinned: bool) {
        let (peer, holder, bytes) = (task.caller.peer(), task.caller.holder(), task.result_bytes());
        if let Some(tasks) = self.by_peer.get_mut(&peer) {
            tasks.retain(|task| *task != key);
            if tasks.is_empty() {
                self.by_peer.remove(&peer);
            }
        }
        if is_pinned {
            self.unpin(holder, bytes);
        }
        self.total.tasks -= 1;
        self.total.running -= usize::from(!task.has_ended());
        self.total.result_bytes -= bytes;
    }

    /// Removes an owner that has gone; returns its tasks, which still count for their holder.
    pub(super) fn remove_owner(&mut self, peer: PeerId) -> Vec<Key> {
        self.by_peer.remove(&peer).unwrap_or_default()
    }

    /// Returns the tasks of an owner in the order of creation.
    pub(super) fn tasks_of(&self, peer: PeerId) -> &[Key] {
        self.by_peer.get(&peer).map_or(&[], Vec::as_slice)
    }

    /// Returns what all tasks hold.
    #[inline]
    pub(super) const fn total(&self) -> TaskUsage {
        self.total
    }
}
