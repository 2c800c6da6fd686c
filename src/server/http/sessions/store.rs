//! Legacy sessions of one shard, from creation until they end, are evicted, or expire idle.
//!
//! Invariants:
//!
//! - A session is idle while none of its requests runs and none of its streams is attached. Only
//!   idle sessions expire, a fixed time after they became idle, and only idle sessions are evicted,
//!   the longest idle first.
//! - Idle sessions are a linked list in the order in which they became idle. As all have the same
//!   timeout, the first is the next to expire and the next to be evicted: neither needs a search,
//!   and no session has a timer of its own.
//! - Sessions, their streams and the bytes of all their events are bounded. At the limit of bytes,
//!   lingering streams are removed, the oldest first; then a new event displaces older ones of its
//!   own stream only.
//! - Lingering streams are a queue in the order in which they began to linger; the first is removed
//!   when its time is over, when there are too many, or to free bytes.
//! - A key of a removed session is dead; operations on it change nothing.
//!
//! The caller closes the exchanges of a [`RemovedSession`] and cancels what its `S` still runs.

mod keyed_streams;

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;

use super::streams::{STREAM_BYTES, SessionError, SessionStreams};
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
    slab: Slab<StoredSession<S>>,
    keys: HashMap<SessionId, Key, BuildHasherDefault<SessionIdHasher>>,
    /// Ends of the list of idle sessions.
    idle_first: Option<Key>,
    idle_last: Option<Key>,
    /// Streams that linger, or did when they were queued, and since when.
    lingering: VecDeque<(Instant, Key, u32)>,
    streams: usize,
    attached_streams: usize,
    event_bytes: usize,
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

#[derive(Debug)]
struct StoredSession<S> {
    id: SessionId,
    session: S,
    streams: SessionStreams,
    /// Running requests.
    in_flight: u32,
    /// Whether it is in the list of idle sessions.
    is_in_idle_list: bool,
    /// Since when it is idle, or was last.
    idle_since: Instant,
    /// Neighbours in the list of idle sessions.
    previous_idle: Option<Key>,
    next_idle: Option<Key>,
}

impl<S> StoredSession<S> {
    const fn is_idle(&self) -> bool {
        self.in_flight == 0 && self.streams.attached() == 0
    }
}

impl<S> SessionStore<S> {
    pub(in crate::server) fn new(limits: SessionLimits, ids: OwnerIds) -> Self {
        Self {
            limits,
            ids,
            slab: Slab::new(usize::MAX),
            keys: HashMap::default(),
            idle_first: None,
            idle_last: None,
            lingering: VecDeque::new(),
            streams: 0,
            attached_streams: 0,
            event_bytes: 0,
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
        let is_full = self.slab.len() >= self.limits.sessions_max;
        if is_full && (self.idle_first.is_none() || self.limits.sessions_max == 0) {
            return Err(SessionError::SessionLimit);
        }
        let id = self.ids.session_id().ok_or(SessionError::NoEntropy)?;
        let held = StoredSession {
            id,
            session,
            streams: SessionStreams::default(),
            in_flight: 0,
            is_in_idle_list: false,
            idle_since: now,
            previous_idle: None,
            next_idle: None,
        };
        let key = self.slab.insert(held).map_err(|_| SessionError::SessionLimit)?;
        self.keys.insert(id, key);
        self.enqueue_idle(key, now);
        Ok(CreatedSession { key, id })
    }

    /// Evicts the longest idle session if there is one too many, but not `begun`.
    pub(in crate::server) fn evict_idle(&mut self, begun: Key) -> Option<RemovedSession<S>> {
        let is_over_limit = self.slab.len() > self.limits.sessions_max;
        let idlest = self.idle_first.filter(|key| is_over_limit && *key != begun)?;
        self.remove(idlest)
    }

    /// Removes a session, idle or not; returns `None` if it was removed before.
    pub(in crate::server) fn remove(&mut self, key: Key) -> Option<RemovedSession<S>> {
        self.dequeue_idle(key);
        let StoredSession { id, session, streams, .. } = self.slab.remove(key)?;
        self.keys.remove(&id);
        self.streams -= streams.len();
        self.attached_streams -= streams.attached() as usize;
        self.event_bytes -= streams.bytes();
        Some(RemovedSession { key, session, exchanges: streams.exchanges().collect() })
    }

    /// Removes one session whose idle timeout has expired.
    pub(in crate::server) fn expire_idle(&mut self, now: Instant) -> Option<RemovedSession<S>> {
        let key = self.idle_first.filter(|_| self.next_expiry().is_some_and(|end| end <= now))?;
        self.remove(key)
    }

    /// Returns the next deadline: of [`SessionStore::expire_idle`], unless the session becomes
    /// active, or of [`SessionStore::expire_lingering`].
    pub(in crate::server) fn next_deadline(&self) -> Option<Instant> {
        let lingering =
            self.lingering.front().map(|(since, ..)| since.after(self.limits.linger_timeout));
        [self.next_expiry(), lingering].into_iter().flatten().min()
    }

    /// Returns when the next session expires.
    fn next_expiry(&self) -> Option<Instant> {
        let held = self.slab.get(self.idle_first?)?;
        Some(held.idle_since.after(self.limits.idle_timeout))
    }

    /// Returns the key of the session with this id.
    pub(in crate::server) fn find(&self, id: SessionId) -> Option<Key> {
        self.keys.get(&id).copied()
    }

    /// Returns the state of a session.
    pub(in crate::server) fn get_mut(&mut self, key: Key) -> Option<&mut S> {
        self.slab.get_mut(key).map(|held| &mut held.session)
    }

    /// Returns whether a session is stored.
    pub(in crate::server) fn contains(&self, key: Key) -> bool {
        self.slab.get(key).is_some()
    }

    /// Returns the id of a session.
    #[cfg(test)]
    pub(in crate::server) fn id(&self, key: Key) -> Option<SessionId> {
        self.slab.get(key).map(|held| held.id)
    }

    /// Returns all sessions in arbitrary order.
    pub(in crate::server) fn iter_mut(&mut self) -> impl Iterator<Item = (Key, &mut S)> {
        self.slab.iter_mut().map(|(key, held)| (key, &mut held.session))
    }

    /// Restarts the idle time: the client sent a notification or a response.
    pub(in crate::server) fn touch(&mut self, key: Key, now: Instant) {
        self.dequeue_idle(key);
        self.enqueue_idle(key, now);
    }

    /// Counts a running request; returns `false` if the session was removed.
    pub(in crate::server) fn begin_request(&mut self, key: Key) -> bool {
        self.dequeue_idle(key);
        let held = self.slab.get_mut(key);
        held.map(|held| held.in_flight = held.in_flight.saturating_add(1)).is_some()
    }

    /// Counts a request that has completed or was cancelled.
    pub(in crate::server) fn end_request(&mut self, key: Key, now: Instant) {
        if let Some(held) = self.slab.get_mut(key) {
            debug_assert!(held.in_flight > 0, "a request ends once");
            held.in_flight = held.in_flight.saturating_sub(1);
        }
        self.enqueue_idle(key, now);
    }

    /// Returns the number of sessions.
    pub(in crate::server) const fn len(&self) -> usize {
        self.slab.len()
    }

    /// Returns the number of attached streams.
    pub(in crate::server) const fn attached_streams(&self) -> usize {
        self.attached_streams
    }

    /// Returns an upper estimate of the bytes of all sessions, without what an `S` allocates;
    /// events shared by several streams are counted in each.
    pub(in crate::server) const fn held_bytes(&self) -> usize {
        let session_bytes = 2 * (size_of::<StoredSession<S>>() + INDEX_BYTES);
        self.slab.len() * session_bytes + self.streams * STREAM_BYTES + self.event_bytes
    }

    /// Appends a session to the list of idle ones, if it is idle and not in it.
    fn enqueue_idle(&mut self, key: Key, now: Instant) {
        let held = self.slab.get_mut(key).filter(|held| held.is_idle() && !held.is_in_idle_list);
        let Some(held) = held else { return };
        held.is_in_idle_list = true;
        held.idle_since = now;
        held.previous_idle = self.idle_last.replace(key);
        match held.previous_idle.and_then(|before| self.slab.get_mut(before)) {
            Some(before) => before.next_idle = Some(key),
            None => self.idle_first = Some(key),
        }
    }

    /// Removes a session from the list of idle ones.
    fn dequeue_idle(&mut self, key: Key) {
        let held = self.slab.get_mut(key).filter(|held| held.is_in_idle_list);
        let Some(held) = held else { return };
        held.is_in_idle_list = false;
        let (before, after) = (held.previous_idle.take(), held.next_idle.take());
        match before.and_then(|before| self.slab.get_mut(before)) {
            Some(neighbour) => neighbour.next_idle = after,
            None => self.idle_first = after,
        }
        match after.and_then(|after| self.slab.get_mut(after)) {
            Some(neighbour) => neighbour.previous_idle = before,
            None => self.idle_last = before,
        }
    }

    /// Asserts the invariants.
    #[cfg(test)]
    pub(in crate::server::http) fn check_invariants(&self) {
        let (mut streams, mut attached, mut event_bytes, mut idle) = (0, 0, 0, 0);
        for (key, held) in self.slab.iter() {
            assert_eq!(self.find(held.id), Some(key));
            assert_eq!(held.is_in_idle_list, held.is_idle());
            idle += usize::from(held.is_idle());
            streams += held.streams.len();
            attached += held.streams.exchanges().count();
            event_bytes += held.streams.bytes();
        }
        assert_eq!(self.keys.len(), self.slab.len());
        assert_eq!((streams, attached), (self.streams, self.attached_streams));
        assert_eq!(event_bytes, self.event_bytes);
        assert!(event_bytes <= self.limits.event_bytes_max);
        assert!(self.lingering.len() <= self.limits.lingering_streams_max);
        assert!(self.lingering.iter().is_sorted_by_key(|(since, ..)| *since));
        let (mut before, mut key, mut since) = (None, self.idle_first, Instant::ORIGIN);
        while let Some(held) = key.and_then(|key| self.slab.get(key)) {
            assert!(
                held.is_in_idle_list && held.previous_idle == before && held.idle_since >= since
            );
            (before, key, since) = (key, held.next_idle, held.idle_since);
            idle -= 1;
        }
        assert_eq!((before, idle), (self.idle_last, 0));
    }
}

/// Bytes of one session in the index of ids, at the load up to which the table fills.
const INDEX_BYTES: usize = (size_of::<(SessionId, Key)>() + 1) * 8 / 7;

const _: () = assert!(
    size_of::<StoredSession<()>>() + INDEX_BYTES <= 160,
    "a session without streams holds at most 160 bytes besides its `S`"
);
