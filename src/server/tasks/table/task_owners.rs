//! The owners of the tasks of a shard: the connections and sessions that created them, and their
//! addresses.
//!
//! Invariants: an owner is stored while it exists and has a task, an address while it has a task;
//! an address takes no more tasks and result bytes than its share.

use std::collections::HashMap;

use corelane_base::client_address::ClientAddress;
use corelane_base::slab::Key;

use crate::server::reply_to::PeerId;
use crate::server::shard_message::TaskLimits;
use crate::telemetry::label::TaskLimit;

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
pub(super) struct TaskOwners {
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
        peer: PeerId,
        address: Option<ClientAddress>,
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
        (freed_of_address, freed): (usize, usize),
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
    pub(super) fn add_task(&mut self, key: Key, (peer, address): (PeerId, Option<ClientAddress>)) {
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
    pub(super) fn remove_task(
        &mut self,
        key: Key,
        (peer, address): (PeerId, Option<ClientAddress>),
        (is_running, bytes): (bool, usize),
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
