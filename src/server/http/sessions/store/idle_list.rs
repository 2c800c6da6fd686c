//! List of the idle sessions, in the order in which they became idle.
//!
//! Invariants: the links stand in the sessions themselves, so every operation takes constant time.
//! All sessions have the same idle timeout, so the first is the next to expire and to be evicted.

use std::time::Duration;

use super::stored_session::StoredSession;
use crate::base::slab::{Key, Slab};
use crate::base::time::Instant;

/// Ends of the list of idle sessions.
#[derive(Debug, Default)]
pub(super) struct IdleList {
    first: Option<Key>,
    last: Option<Key>,
}

impl IdleList {
    /// Returns the longest idle session.
    pub(super) const fn first(&self) -> Option<Key> {
        self.first
    }

    /// Returns the longest idle session and when it expires.
    pub(super) fn next_expiry<S>(
        &self,
        sessions: &Slab<StoredSession<S>>,
        idle_timeout: Duration,
    ) -> Option<(Key, Instant)> {
        let first = self.first?;
        Some((first, sessions.get(first)?.idle_since.after(idle_timeout)))
    }

    /// Appends a session, if it is idle and not in the list.
    pub(super) fn push_if_idle<S>(
        &mut self,
        sessions: &mut Slab<StoredSession<S>>,
        key: Key,
        now: Instant,
    ) {
        let held = sessions.get_mut(key).filter(|held| held.is_idle() && !held.is_in_idle_list);
        let Some(held) = held else { return };
        held.is_in_idle_list = true;
        held.idle_since = now;
        held.previous_idle = self.last.replace(key);
        match held.previous_idle.and_then(|before| sessions.get_mut(before)) {
            Some(before) => before.next_idle = Some(key),
            None => self.first = Some(key),
        }
    }

    /// Removes a session, if it is in the list.
    pub(super) fn remove<S>(&mut self, sessions: &mut Slab<StoredSession<S>>, key: Key) {
        let held = sessions.get_mut(key).filter(|held| held.is_in_idle_list);
        let Some(held) = held else { return };
        held.is_in_idle_list = false;
        let (before, after) = (held.previous_idle.take(), held.next_idle.take());
        match before.and_then(|before| sessions.get_mut(before)) {
            Some(neighbour) => neighbour.next_idle = after,
            None => self.first = after,
        }
        match after.and_then(|after| sessions.get_mut(after)) {
            Some(neighbour) => neighbour.previous_idle = before,
            None => self.last = before,
        }
    }

    /// Asserts that the list links exactly the idle sessions, the longest idle first.
    #[cfg(test)]
    pub(super) fn check_invariants<S>(&self, sessions: &Slab<StoredSession<S>>) {
        let mut idle = 0;
        for (_, held) in sessions.iter() {
            assert_eq!(held.is_in_idle_list, held.is_idle());
            idle += usize::from(held.is_idle());
        }
        let (mut before, mut key, mut since) = (None, self.first, Instant::ORIGIN);
        while let Some(held) = key.and_then(|key| sessions.get(key)) {
            assert!(
                held.is_in_idle_list && held.previous_idle == before && held.idle_since >= since
            );
            (before, key, since) = (key, held.next_idle, held.idle_since);
            idle -= 1;
        }
        assert_eq!((before, idle), (self.last, 0));
    }
}
