//! One stored session, and the lists of idle ones in the order in which they became idle.
//!
//! Invariants: unused and used sessions are separate lists; every operation takes constant time.

use corelane_base::linked_list::{Linked, LinkedList, Links};
use corelane_base::slab::{Key, Slab};
use corelane_base::time::Instant;

use crate::server::owner_id::SessionId;
use crate::server::session_store::streams::SessionStreams;

#[derive(Debug)]
pub(super) struct StoredSession<S> {
    pub(super) id: SessionId,
    pub(super) session: S,
    pub(super) streams: SessionStreams,
    /// Running requests.
    pub(super) in_flight: u32,
    /// Whether a message was received after `initialize`.
    pub(super) is_used: bool,
    /// Since when it is idle, or was last.
    pub(super) idle_since: Instant,
    /// The address that created it, unless that is exempt.
    pub(super) address: Option<Key>,
    /// Neighbours in a list of idle sessions, of the shard and of the address.
    links: [Links; 2],
}

/// Lists of sessions of the shard.
pub(super) const OF_SHARD: usize = 0;
/// Lists of sessions of one address.
pub(super) const OF_ADDRESS: usize = 1;

impl<S> Linked<OF_SHARD> for StoredSession<S> {
    fn links_mut(&mut self) -> &mut Links {
        &mut self.links[OF_SHARD]
    }
}

impl<S> Linked<OF_ADDRESS> for StoredSession<S> {
    fn links_mut(&mut self) -> &mut Links {
        &mut self.links[OF_ADDRESS]
    }
}

impl<S> StoredSession<S> {
    /// Creates a session without streams, which is not in a list of idle ones yet.
    pub(super) fn new(id: SessionId, session: S, address: Option<Key>, now: Instant) -> Self {
        Self {
            id,
            session,
            streams: SessionStreams::default(),
            in_flight: 0,
            is_used: false,
            idle_since: now,
            address,
            links: [Links::NONE; 2],
        }
    }

    /// Returns whether none of its requests runs and none of its streams is attached.
    pub(super) const fn is_idle(&self) -> bool {
        self.in_flight == 0 && self.streams.attached() == 0
    }

    /// Returns whether it is in a list of idle sessions.
    pub(super) const fn is_listed(&self) -> bool {
        self.links[OF_SHARD].is_linked()
    }

    /// Upper estimate of the bytes of one session, without its streams and what its `S` allocates:
    /// slab and index may have just doubled.
    pub(super) const BYTES: usize = 2 * (size_of::<Self>() + INDEX_BYTES);
}

/// Bytes of one session in the index of ids, at the load up to which the table fills.
const INDEX_BYTES: usize = (size_of::<(SessionId, Key)>() + 1) * 8 / 7;

const _: () = assert!(
    size_of::<StoredSession<()>>() + INDEX_BYTES <= 136,
    "a session without streams holds at most 136 bytes besides its `S`"
);

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
