//! Legacy sessions of one shard, from creation until they end, are evicted, or expire idle.
//!
//! Invariants:
//!
//! - A session is idle while none of its requests runs and none of its streams is attached. Only
//!   idle sessions expire, a fixed time after they became idle, and only idle sessions are evicted,
//!   the longest idle first.
//! - Idle sessions are a linked list in the order in which they became idle: expiry and eviction
//!   need no search, and no session has a timer of its own.
//! - Sessions, their streams and the bytes of all their events are bounded. At the limit of bytes,
//!   lingering streams are removed, the oldest first; then a new event displaces older ones of its
//!   own stream only.
//! - Lingering streams are a queue in the order in which they began to linger; the first is removed
//!   when its time is over, when there are too many, or to free bytes.
//! - A key of a removed session is dead; operations on it change nothing.
//!
//! The caller closes the exchanges of a [`RemovedSession`] and cancels what its `S` still runs.

mod stored_session;

mod idle_list;

mod stream_totals;

mod lingering_queue;

mod keyed_streams;

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use self::idle_list::IdleList;
use self::keyed_streams::KeyedStreams;
use self::lingering_queue::LingeringQueue;
use self::stored_session::StoredSession;
use self::stream_totals::StreamTotals;
use super::streams::{LISTENING_STREAM, SessionError, SessionStreams};
use crate::base::slab::{Key, Slab};
use crate::base::time::Instant;
use crate::server::owner_id::{OwnerIds, SessionId, SessionIdHasher};
use crate::server::shard_message::{ExchangeAddress, SessionLimits};

/// The sessions of one shard, each with a state `S`.
#[derive(Debug)]
pub(in crate::server) struct SessionStore<S> {
    /// Limits from now on; sessions stored already are not changed.
    pub(in crate::server) limits: SessionLimits,
    ids: OwnerIds,
    sessions: Slab<StoredSession<S>>,
    keys: HashMap<SessionId, Key, BuildHasherDefault<SessionIdHasher>>,
    idle: IdleList,
    lingering: LingeringQueue,
    totals: StreamTotals,
}

/// A created session. It is idle until its first request begins.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::server) struct CreatedSession {
    pub(in crate::server) key: Key,
    pub(in crate::server) id: SessionId,
}

/// A session that was removed.
#[derive(Debug)]
pub(in crate::server) struct RemovedSession<S> {
    pub(in crate::server) key: Key,
    pub(in crate::server) session: S,
    /// Exchanges that its streams were attached to, which must end. Empty if it was idle.
    pub(in crate::server) exchanges: Vec<ExchangeAddress>,
}

impl<S> SessionStore<S> {
    pub(in crate::server) fn new(limits: SessionLimits, ids: OwnerIds) -> Self {
        Self {
            limits,
            ids,
            sessions: Slab::new(usize::MAX),
            keys: HashMap::default(),
            idle: IdleList::default(),
            lingering: LingeringQueue::default(),
            totals: StreamTotals::default(),
        }
    }

    /// Generates an id for a session stored elsewhere; it is unique and unknown to this store.
    /// Returns `None` if no random bits are available.
    pub(in crate::server) fn generate_id(&mut self) -> Option<SessionId> {
        self.ids.session_id()
    }

    /// Creates a session. Beyond the limit it is one too many until [`SessionStore::evict_idle`] is
    /// called, or until it is removed because its handshake failed, which evicts no other session.
    ///
    /// # Errors
    ///
    /// [`SessionError::SessionLimit`] if none is idle, [`SessionError::NoEntropy`]; nothing is
    /// changed then.
    pub(in crate::server) fn create(
        &mut self,
        session: S,
        now: Instant,
    ) -> Result<CreatedSession, SessionError> {
        let is_full = self.sessions.len() >= self.limits.sessions_max;
        if is_full && (self.idle.first().is_none() || self.limits.sessions_max == 0) {
            return Err(SessionError::SessionLimit);
        }
        let id = self.ids.session_id().ok_or(SessionError::NoEntropy)?;
        let held = StoredSession::new(id, session, now);
        let key = self.sessions.insert(held).map_err(|_| SessionError::SessionLimit)?;
        self.keys.insert(id, key);
        self.idle.push_if_idle(&mut self.sessions, key, now);
        Ok(CreatedSession { key, id })
    }

    /// Evicts the longest idle session if there is one too many, but not `begun`.
    pub(in crate::server) fn evict_idle(&mut self, begun: Key) -> Option<RemovedSession<S>> {
        let is_over_limit = self.sessions.len() > self.limits.sessions_max;
        let idlest = self.idle.first().filter(|key| is_over_limit && *key != begun)?;
        self.remove(idlest)
    }

    /// Removes a session, idle or not; returns `None` if it was removed before.
    pub(in crate::server) fn remove(&mut self, key: Key) -> Option<RemovedSession<S>> {
        self.idle.remove(&mut self.sessions, key);
        let StoredSession { id, session, streams, .. } = self.sessions.remove(key)?;
        self.keys.remove(&id);
        self.totals.subtract(&streams);
        Some(RemovedSession { key, session, exchanges: streams.exchanges().collect() })
    }

    /// Removes one session whose idle timeout has expired.
    pub(in crate::server) fn expire_idle(&mut self, now: Instant) -> Option<RemovedSession<S>> {
        let (key, expiry) = self.idle.next_expiry(&self.sessions, self.limits.idle_timeout)?;
        if expiry <= now { self.remove(key) } else { None }
    }

    /// Removes the streams whose linger time is over.
    pub(in crate::server) fn expire_lingering(&mut self, now: Instant) {
        let timeout = self.limits.linger_timeout;
        while self.lingering.next_expiry(timeout).is_some_and(|expiry| expiry <= now) {
            self.lingering.remove_first(&mut self.sessions, &mut self.totals);
        }
    }

    /// Returns the next deadline: of [`SessionStore::expire_idle`], unless the session becomes
    /// active, or of [`SessionStore::expire_lingering`].
    pub(in crate::server) fn next_deadline(&self) -> Option<Instant> {
        let idle = self.idle.next_expiry(&self.sessions, self.limits.idle_timeout);
        let lingering = self.lingering.next_expiry(self.limits.linger_timeout);
        [idle.map(|(_, expiry)| expiry), lingering].into_iter().flatten().min()
    }

    /// Returns the key of the session with this id.
    pub(in crate::server) fn find(&self, id: SessionId) -> Option<Key> {
        self.keys.get(&id).copied()
    }

    /// Returns the state of a session.
    pub(in crate::server) fn get_mut(&mut self, key: Key) -> Option<&mut S> {
        self.sessions.get_mut(key).map(|held| &mut held.session)
    }

    /// Returns whether a session is stored.
    pub(in crate::server) fn contains(&self, key: Key) -> bool {
        self.sessions.get(key).is_some()
    }

    /// Returns the id of a session.
    #[cfg(test)]
    pub(in crate::server) fn id(&self, key: Key) -> Option<SessionId> {
        self.sessions.get(key).map(|held| held.id)
    }

    /// Returns all sessions in arbitrary order.
    pub(in crate::server) fn iter_mut(&mut self) -> impl Iterator<Item = (Key, &mut S)> {
        self.sessions.iter_mut().map(|(key, held)| (key, &mut held.session))
    }

    /// Restarts the idle time: the client sent a notification or a response.
    pub(in crate::server) fn touch(&mut self, key: Key, now: Instant) {
        self.idle.remove(&mut self.sessions, key);
        self.idle.push_if_idle(&mut self.sessions, key, now);
    }

    /// Counts a running request; returns `false` if the session was removed.
    pub(in crate::server) fn begin_request(&mut self, key: Key) -> bool {
        self.idle.remove(&mut self.sessions, key);
        let held = self.sessions.get_mut(key);
        held.map(|held| held.in_flight = held.in_flight.saturating_add(1)).is_some()
    }

    /// Counts a request that has completed or was cancelled.
    pub(in crate::server) fn end_request(&mut self, key: Key, now: Instant) {
        if let Some(held) = self.sessions.get_mut(key) {
            debug_assert!(held.in_flight > 0, "a request ends once");
            held.in_flight = held.in_flight.saturating_sub(1);
        }
        self.idle.push_if_idle(&mut self.sessions, key, now);
    }

    /// Returns the streams of a session, to change them.
    pub(in crate::server::http) const fn streams_mut(&mut self, key: Key) -> KeyedStreams<'_, S> {
        KeyedStreams { store: self, key }
    }

    /// Returns the streams of a session.
    pub(in crate::server::http) fn streams(&self, key: Key) -> Option<&SessionStreams> {
        self.sessions.get(key).map(|held| &held.streams)
    }

    /// Returns the number of the next stream of a request; `None` if the limit is reached or the
    /// session was removed.
    pub(in crate::server::http) fn next_stream_number(&self, key: Key) -> Option<u32> {
        self.streams(key)?.next_number(self.limits.streams).ok()
    }

    /// Returns whether the listening stream is attached.
    pub(in crate::server) fn has_listener(&self, key: Key) -> bool {
        self.streams(key).and_then(|streams| streams.exchange(LISTENING_STREAM)).is_some()
    }

    /// Returns the number of sessions.
    pub(in crate::server) const fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Returns the number of attached streams.
    pub(in crate::server) const fn attached_streams(&self) -> usize {
        self.totals.attached()
    }

    /// Returns an upper estimate of the bytes of all sessions, without what an `S` allocates;
    /// events shared by several streams are counted in each.
    pub(in crate::server) const fn held_bytes(&self) -> usize {
        self.sessions.len() * StoredSession::<S>::BYTES + self.totals.held_bytes()
    }

    /// Asserts the invariants.
    #[cfg(test)]
    pub(in crate::server::http) fn check_invariants(&self) {
        for (key, held) in self.sessions.iter() {
            assert_eq!(self.find(held.id), Some(key));
        }
        assert_eq!(self.keys.len(), self.sessions.len());
        self.totals.check_invariants(&self.sessions, self.limits.event_bytes_max);
        self.lingering.check_invariants(self.limits.lingering_streams_max);
        self.idle.check_invariants(&self.sessions);
    }
}
