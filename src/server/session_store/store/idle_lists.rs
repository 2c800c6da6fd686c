//! Idle sessions in the order in which they became idle.
//!
//! Invariants: unused and used sessions are separate lists; every operation takes constant time.

use corelane_base::linked_list::{Linked, LinkedList};
use corelane_base::slab::{Key, Slab};

use super::stored_session::StoredSession;

/// The idle sessions of the shard, or those of one address.
#[derive(Debug, Default)]
pub(super) struct IdleLists<const LIST: usize> {
    /// Sessions without a message after `initialize`.
    unused: LinkedList<LIST>,
    used: LinkedList<LIST>,
}

impl<const LIST: usize> IdleLists<LIST> {
    /// Returns the longest idle session that is used or not.
    pub(super) fn longest_idle<S>(
        &self,
        sessions: &Slab<StoredSession<S>>,
        is_used: bool,
    ) -> Option<Key> {
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
