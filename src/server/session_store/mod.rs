//! Legacy sessions of one shard, from creation until they end, are evicted, or expire idle.
//!
//! Invariants:
//!
//! - A session is idle while none of its requests runs and none of its streams is attached. Only
//!   idle sessions expire, a fixed time after they became idle, and only idle sessions are evicted.
//! - A session is unused until it gets a message after `initialize`. At the limit of sessions a
//!   new one evicts the first that exists of: if its caller has its share, the longest idle unused,
//!   then used session of that caller; an unused session of the heaviest caller of the heaviest
//!   prefix, in its first second only for a prefix that does not have more; unless its caller has
//!   its share, a used session of the heaviest one; a used session of one with more than its share;
//!   an unused one in its first second. Callers of exempt addresses are one caller, which loses
//!   used sessions while it has more of them than all others. Sessions of authenticated callers are
//!   evicted for such callers only, after all others. So neither unused sessions nor many sessions
//!   of many addresses make used sessions of other callers end.
//! - Idle sessions are linked lists in the order in which they became idle: expiry and eviction
//!   need no search, and no session has a timer of its own.
//! - Sessions, their streams and the bytes of all their events are bounded. At the limit of bytes,
//!   lingering streams are removed, the oldest first; then a new event displaces older ones of its
//!   own stream only.
//! - Lingering streams are a queue in the order in which they began to linger; the first is removed
//!   when its time is over, when there are too many, or to free bytes.
//! - A key of a removed session is dead; operations on it change nothing.
//!
//! The caller closes the exchanges of a [`RemovedSession`] and cancels what its `S` still runs.

mod event_log;

mod streams;

mod idle_sessions;

mod keyed_streams;

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use corelane_base::heap_bytes::{HeapBytes, map_bytes};
use corelane_base::holders::PlaceOwner;
use corelane_base::slab::{Key, Slab};
use corelane_base::time::Instant;

use self::idle_sessions::{Eviction, IdleSessions, StoredSession};
use self::keyed_streams::{KeyedStreams, LingeringQueue, StreamTotals};
#[cfg(test)]
use self::streams::ListeningStream;
pub(super) use self::streams::{LISTENING_STREAM, SessionError, SessionStreams};
#[cfg(test)]
use self::streams::{PushedEvent, ResumedStream};
use super::owner_id::{OwnerIds, SessionId, SessionIdHasher};
use super::shard_message::{ExchangeAddress, SessionLimits};

/// The sessions of one shard, each with a state `S`.
#[derive(Debug)]
pub(super) struct SessionStore<S> {
    /// Limits from now on; sessions stored already are not changed.
    pub limits: SessionLimits,
    ids: OwnerIds,
    sessions: Slab<StoredSession<S>>,
    keys: HashMap<SessionId, Key, BuildHasherDefault<SessionIdHasher>>,
    idle: IdleSessions,
    lingering: LingeringQueue,
    totals: StreamTotals,
}

/// A created session. It is idle until its first request begins.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct CreatedSession {
    pub key: Key,
    pub id: SessionId,
    /// The session to remove once this one is certain to stay.
    pub evicts: Option<Eviction>,
}

/// A session that was removed.
#[derive(Debug)]
pub(super) struct RemovedSession<S> {
    pub key: Key,
    pub session: S,
    /// Exchanges that its streams were attached to, which must end. Empty if it was idle.
    pub exchanges: Vec<ExchangeAddress>,
}

impl<S> SessionStore<S> {
    pub fn new(limits: SessionLimits, ids: OwnerIds) -> Self {
        Self {
            limits,
            ids,
            sessions: Slab::new(usize::MAX),
            keys: HashMap::default(),
            idle: IdleSessions::new(),
            lingering: LingeringQueue::default(),
            totals: StreamTotals::default(),
        }
    }

    /// Generates an id for a session stored elsewhere; it is unique and unknown to this store.
    /// Returns `None` if no random bits are available.
    pub fn generate_id(&mut self) -> Option<SessionId> {
        self.ids.session_id()
    }

    /// Creates a session for its owner. Beyond the limit it is one too many until the caller
    /// removes the session that it evicts, or this one because its handshake failed.
    ///
    /// # Errors
    ///
    /// [`SessionError::SessionLimit`] if it can evict none, [`SessionError::NoEntropy`]; nothing is
    /// changed then.
    pub fn create<'o>(
        &mut self,
        session: S,
        owner: impl Into<PlaceOwner<'o>>,
        now: Instant,
    ) -> Result<CreatedSession, SessionError> {
        let sessions_max = self.limits.sessions_max;
        let is_full = self.sessions.len() >= sessions_max;
        self.idle.set_share((sessions_max / ADDRESS_SHARE_DIVISOR).max(1));
        let holder = self.idle.holder_of(owner.into());
        let eviction = || self.idle.eviction(&mut self.sessions, holder, now);
        let evicts = is_full.then(eviction).flatten();
        if is_full && (evicts.is_none() || sessions_max == 0) {
            return Err(SessionError::SessionLimit);
        }
        let id = self.ids.session_id().ok_or(SessionError::NoEntropy)?;
        let holder = self.idle.add_session(holder);
        let held = StoredSession::new(id, session, holder, now);
        let key = self.sessions.insert(held).map_err(|held| {
            self.idle.remove_session(&held);
            SessionError::SessionLimit
        })?;
        self.keys.insert(id, key);
        self.idle.push_if_idle(&mut self.sessions, key, now);
        Ok(CreatedSession { key, id, evicts })
    }

    /// Removes a session, idle or not; returns `None` if it was removed before.
    pub fn remove(&mut self, key: Key) -> Option<RemovedSession<S>> {
        self.idle.remove(&mut self.sessions, key);
        let removed = self.sessions.remove(key)?;
        self.idle.remove_session(&removed);
        let StoredSession { id, session, streams, .. } = removed;
        self.keys.remove(&id);
        self.totals.subtract(&streams);
        Some(RemovedSession { key, session, exchanges: streams.exchanges().collect() })
    }

    /// Removes one session whose idle timeout has expired.
    pub fn expire_idle(&mut self, now: Instant) -> Option<RemovedSession<S>> {
        let (key, expiry) = self.idle.next_expiry(&self.sessions, self.limits.idle_timeout)?;
        if expiry <= now { self.remove(key) } else { None }
    }

    /// Removes the streams whose linger time is over.
    pub fn expire_lingering(&mut self, now: Instant) {
        let timeout = self.limits.linger_timeout;
        while self.lingering.next_expiry(timeout).is_some_and(|expiry| expiry <= now) {
            self.lingering.remove_first(&mut self.sessions, &mut self.totals);
        }
    }

    /// Returns the next deadline: of [`SessionStore::expire_idle`], unless the session becomes
    /// active, or of [`SessionStore::expire_lingering`].
    pub fn next_deadline(&self) -> Option<Instant> {
        let idle = self.idle.next_expiry(&self.sessions, self.limits.idle_timeout);
        let lingering = self.lingering.next_expiry(self.limits.linger_timeout);
        Instant::earliest([idle.map(|(_, expiry)| expiry), lingering])
    }

    /// Returns the key of the session with this id.
    pub fn find(&self, id: SessionId) -> Option<Key> {
        self.keys.get(&id).copied()
    }

    /// Returns the state of a session.
    pub fn get_mut(&mut self, key: Key) -> Option<&mut S> {
        self.sessions.get_mut(key).map(|held| &mut held.session)
    }

    /// Returns whether a session is stored.
    pub fn contains(&self, key: Key) -> bool {
        self.sessions.get(key).is_some()
    }

    /// Returns the id of a session.
    #[cfg(test)]
    pub fn id(&self, key: Key) -> Option<SessionId> {
        self.sessions.get(key).map(|held| held.id)
    }

    /// Returns all sessions in arbitrary order.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Key, &mut S)> {
        self.sessions.iter_mut().map(|(key, held)| (key, &mut held.session))
    }

    /// Returns all states in arbitrary order.
    pub fn iter(&self) -> impl Iterator<Item = &S> {
        self.sessions.iter().map(|(_, held)| &held.session)
    }

    /// Restarts the idle time of a session that got a message, which is used from now on.
    pub fn touch(&mut self, key: Key, now: Instant) {
        self.idle.remove(&mut self.sessions, key);
        if let Some(held) = self.sessions.get_mut(key) {
            held.is_used = true;
        }
        self.idle.push_if_idle(&mut self.sessions, key, now);
    }

    /// Counts a running request; returns `false` if the session was removed.
    pub fn begin_request(&mut self, key: Key) -> bool {
        self.idle.remove(&mut self.sessions, key);
        let held = self.sessions.get_mut(key);
        held.map(|held| held.running_requests = held.running_requests.saturating_add(1)).is_some()
    }

    /// Counts a request that has completed or was cancelled.
    pub fn end_request(&mut self, key: Key, now: Instant) {
        if let Some(held) = self.sessions.get_mut(key) {
            debug_assert!(held.running_requests > 0, "a request ends once");
            held.running_requests = held.running_requests.saturating_sub(1);
        }
        self.idle.push_if_idle(&mut self.sessions, key, now);
    }

    /// Returns the streams of a session, to change them.
    pub const fn streams_mut(&mut self, key: Key) -> KeyedStreams<'_, S> {
        KeyedStreams { store: self, key }
    }

    /// Returns the streams of a session.
    pub fn streams(&self, key: Key) -> Option<&SessionStreams> {
        self.sessions.get(key).map(|held| &held.streams)
    }

    /// Returns the number of the next stream of a request; `None` if the limit is reached or the
    /// session was removed.
    pub fn next_stream_number(&self, key: Key) -> Option<u32> {
        self.streams(key)?.next_number(self.limits.streams).ok()
    }

    /// Returns whether the listening stream is attached.
    pub fn has_listener(&self, key: Key) -> bool {
        self.streams(key).and_then(|streams| streams.exchange(streams.listening())).is_some()
    }

    /// Returns the number of sessions.
    pub const fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Returns the number of attached streams.
    pub const fn attached_streams(&self) -> usize {
        self.totals.attached()
    }

    /// Returns the bytes of all sessions, without what an `S` owns; events shared by several
    /// streams are counted in each.
    pub fn held_bytes(&self) -> usize {
        let sessions = self.sessions.len() * StoredSession::<S>::PLACE_BYTES;
        sessions + self.idle.held_bytes() + self.totals.held_bytes()
    }

    /// Like [`SessionStore::held_bytes`], from the sessions and their stored events.
    pub fn recount_bytes(&self) -> usize {
        let counted = |held: &StoredSession<S>| {
            let streams = held.streams.recount_bytes();
            let others = held.heap_bytes() - held.streams.heap_bytes();
            StoredSession::<S>::PLACE_BYTES + others + streams
        };
        let sessions: usize = self.sessions.iter().map(|(_, held)| counted(held)).sum();
        sessions + self.idle.recount_bytes(&self.sessions)
    }

    /// Returns the bytes of the tables without what [`SessionStore::held_bytes`] has of them: the
    /// places that are free.
    pub fn place_bytes(&self) -> usize {
        let Self { sessions, keys, idle, lingering, limits: _, ids: _, totals: _ } = self;
        let tables = sessions.allocated_bytes() + map_bytes(keys);
        let free = tables.saturating_sub(sessions.len() * StoredSession::<S>::PLACE_BYTES);
        free + idle.place_bytes() + lingering.allocated_bytes()
    }

    /// Asserts the invariants.
    #[cfg(test)]
    pub fn check_invariants(&mut self) {
        for (key, held) in self.sessions.iter() {
            assert_eq!(self.find(held.id), Some(key));
        }
        assert_eq!(self.keys.len(), self.sessions.len());
        assert_eq!(self.held_bytes(), self.recount_bytes());
        self.totals.check_invariants(&self.sessions, self.limits.event_bytes_max);
        self.lingering.check_invariants(self.limits.lingering_streams_max);
        self.idle.check_invariants(&mut self.sessions);
    }
}

/// The share of a caller is one of this many parts of all sessions. It decides only which
/// session a new one evicts at the limit, so that it can be much smaller than a share that refuses.
const ADDRESS_SHARE_DIVISOR: usize = 8;

#[cfg(test)]
mod tests;
