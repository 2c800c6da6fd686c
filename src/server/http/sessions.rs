//! The sessions of one shard, from their beginning until they are ended, evicted or idle too long.
//!
//! What it keeps true:
//!
//! - A session is idle while none of its requests runs and no exchange carries one of its streams.
//!   Only an idle session expires, a fixed time after it became so, and only an idle one makes room
//!   for another, the longest idle first.
//! - Idle sessions stand in one line in the order in which they became idle. Since all of them have
//!   the same time left then, the first of the line is the next to expire and the next to make
//!   room: neither needs a search, and no session has a timer of its own.
//! - Sessions, their streams and the bytes of all their events together are bounded. Where the
//!   shard holds as many bytes as it may, streams that linger go, the oldest first; then a stream
//!   pays for a new event with its own old ones, and with nobody else's.
//! - Streams that linger stand in a line of their own, in the order in which they began to: the
//!   first is the next to go, because its time is over, because there are too many, or for room.
//! - A key is dead when its session has gone, and every operation on it changes nothing.
//!
//! What it does not do: tell anybody. Whoever drives it closes the exchanges of a session that is
//! [`Gone`] and ends what its `S` still runs.

mod streaming;

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;
use std::time::Duration;

use super::identity::{DrawnHasher, SessionId, SessionIds};
use super::stream::{ExchangeAddress, Refusal, STREAM_BYTES, StreamBounds, Streams};
use crate::base::slab::{Key, Slab};
use crate::base::time::Moment;

/// How many sessions a shard keeps, how long, and how much of them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::server) struct Bounds {
    /// Sessions.
    pub(in crate::server) sessions_max: usize,
    /// How long a session may be idle.
    pub(in crate::server) ttl: Duration,
    /// The streams of one session.
    pub(in crate::server) streams: StreamBounds,
    /// Bytes that the events of all streams hold together.
    pub(in crate::server) event_bytes_max: usize,
    /// How long a finished stream that was sent lingers, for a client whose connection broke
    /// before all of it had arrived.
    pub(in crate::server) linger: Duration,
    /// How many streams linger at once.
    pub(in crate::server) lingering_max: usize,
}

/// The sessions of one shard, each with an `S`.
#[derive(Debug)]
pub(in crate::server) struct Sessions<S> {
    /// What it keeps to from here on; what is held already stays.
    pub(in crate::server) bounds: Bounds,
    ids: SessionIds,
    slab: Slab<Held<S>>,
    keys: HashMap<SessionId, Key, BuildHasherDefault<DrawnHasher>>,
    /// The ends of the line of idle sessions.
    idle_first: Option<Key>,
    idle_last: Option<Key>,
    /// Streams that linger or did when they were put here, and since when.
    lingering: VecDeque<(Moment, Key, u32)>,
    streams: usize,
    attached: usize,
    event_bytes: usize,
}

/// A session that has begun. It is idle until its first request is noted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::server) struct Begun {
    pub(in crate::server) key: Key,
    pub(in crate::server) id: SessionId,
}

/// A session that is kept no more.
#[derive(Debug)]
pub(in crate::server) struct Gone<S> {
    pub(in crate::server) key: Key,
    pub(in crate::server) session: S,
    /// Exchanges that carried its streams and are to end. None where it was idle.
    pub(in crate::server) exchanges: Vec<ExchangeAddress>,
}

#[derive(Debug)]
struct Held<S> {
    id: SessionId,
    session: S,
    streams: Streams,
    /// Requests that run.
    in_flight: u32,
    /// Whether it stands in the line.
    is_in_line: bool,
    /// Since when it stands there, or stood there last.
    since: Moment,
    /// Its neighbours in the line.
    before: Option<Key>,
    after: Option<Key>,
}

impl<S> Held<S> {
    const fn is_idle(&self) -> bool {
        self.in_flight == 0 && self.streams.attached() == 0
    }
}

impl<S> Sessions<S> {
    /// No sessions yet; their names are drawn from `ids`.
    pub(in crate::server) fn new(bounds: Bounds, ids: SessionIds) -> Self {
        Self {
            bounds,
            ids,
            slab: Slab::new(usize::MAX),
            keys: HashMap::default(),
            idle_first: None,
            idle_last: None,
            lingering: VecDeque::new(),
            streams: 0,
            attached: 0,
            event_bytes: 0,
        }
    }

    /// Begins a session. Where there are as many as may be already, it is one too many until
    /// [`Sessions::make_room`] is called, or until it is removed because its handshake failed: that
    /// costs no other session anything.
    ///
    /// # Errors
    ///
    /// [`Refusal::Full`] where none is idle, [`Refusal::Chance`]; nothing has changed then.
    pub(in crate::server) fn begin(&mut self, session: S, now: Moment) -> Result<Begun, Refusal> {
        let is_full = self.slab.len() >= self.bounds.sessions_max;
        if is_full && (self.idle_first.is_none() || self.bounds.sessions_max == 0) {
            return Err(Refusal::Full);
        }
        let id = self.ids.draw().ok_or(Refusal::Chance)?;
        let held = Held {
            id,
            session,
            streams: Streams::default(),
            in_flight: 0,
            is_in_line: false,
            since: now,
            before: None,
            after: None,
        };
        let key = self.slab.insert(held).map_err(|_| Refusal::Full)?;
        self.keys.insert(id, key);
        self.rest(key, now);
        Ok(Begun { key, id })
    }

    /// A session that was begun is to stay: the longest idle one makes room for it, where there is
    /// one too many.
    pub(in crate::server) fn make_room(&mut self, begun: Key) -> Option<Gone<S>> {
        let is_over = self.slab.len() > self.bounds.sessions_max;
        let idlest = self.idle_first.filter(|key| is_over && *key != begun)?;
        self.remove(idlest)
    }

    /// Ends a session, idle or not; `None` where it has gone before.
    pub(in crate::server) fn remove(&mut self, key: Key) -> Option<Gone<S>> {
        self.wake(key);
        let Held { id, session, streams, .. } = self.slab.remove(key)?;
        self.keys.remove(&id);
        self.streams -= streams.len();
        self.attached -= streams.attached() as usize;
        self.event_bytes -= streams.bytes();
        Some(Gone { key, session, exchanges: streams.exchanges().collect() })
    }

    /// Ends one session that has been idle for too long; `None` where no (more) has.
    pub(in crate::server) fn expire(&mut self, now: Moment) -> Option<Gone<S>> {
        let key = self.idle_first.filter(|_| self.expiry().is_some_and(|end| end <= now))?;
        self.remove(key)
    }

    /// When there is something to do next: [`Sessions::expire`], if none of the idle sessions wakes
    /// until then, or [`Sessions::let_go`].
    pub(in crate::server) fn deadline(&self) -> Option<Moment> {
        let lingering = self.lingering.front().map(|(since, ..)| since.after(self.bounds.linger));
        [self.expiry(), lingering].into_iter().flatten().min()
    }

    /// When the next session expires.
    fn expiry(&self) -> Option<Moment> {
        let held = self.slab.get(self.idle_first?)?;
        Some(held.since.after(self.bounds.ttl))
    }

    /// The session of a name, while it is kept.
    pub(in crate::server) fn find(&self, id: SessionId) -> Option<Key> {
        self.keys.get(&id).copied()
    }

    /// What stands behind a key, while it is kept.
    pub(in crate::server) fn session(&mut self, key: Key) -> Option<&mut S> {
        self.slab.get_mut(key).map(|held| &mut held.session)
    }

    /// Whether a session is kept.
    pub(in crate::server) fn has(&self, key: Key) -> bool {
        self.slab.get(key).is_some()
    }

    /// The name of a session.
    #[cfg(test)]
    pub(in crate::server) fn id(&self, key: Key) -> Option<SessionId> {
        self.slab.get(key).map(|held| held.id)
    }

    /// Every session with its key, in no order that means anything.
    pub(in crate::server) fn iter_mut(&mut self) -> impl Iterator<Item = (Key, &mut S)> {
        self.slab.iter_mut().map(|(key, held)| (key, &mut held.session))
    }

    /// A client has spoken without asking for an answer: a notification, a response.
    pub(in crate::server) fn touch(&mut self, key: Key, now: Moment) {
        self.wake(key);
        self.rest(key, now);
    }

    /// A request runs from here on; `false` where its session has gone.
    pub(in crate::server) fn begin_request(&mut self, key: Key) -> bool {
        self.wake(key);
        let held = self.slab.get_mut(key);
        held.map(|held| held.in_flight = held.in_flight.saturating_add(1)).is_some()
    }

    /// A request has been answered, or has ended without an answer.
    pub(in crate::server) fn end_request(&mut self, key: Key, now: Moment) {
        if let Some(held) = self.slab.get_mut(key) {
            debug_assert!(held.in_flight > 0, "a request ends once");
            held.in_flight = held.in_flight.saturating_sub(1);
        }
        self.rest(key, now);
    }

    /// Sessions that are kept.
    pub(in crate::server) const fn len(&self) -> usize {
        self.slab.len()
    }

    /// Streams that are carried by an exchange.
    pub(in crate::server) const fn attached(&self) -> usize {
        self.attached
    }

    /// Bytes that all sessions hold, estimated from above; what an `S` holds elsewhere is not among
    /// them, and events that several streams share are counted in each.
    pub(in crate::server) const fn held_bytes(&self) -> usize {
        let session_bytes = 2 * (size_of::<Held<S>>() + INDEX_BYTES);
        self.slab.len() * session_bytes + self.streams * STREAM_BYTES + self.event_bytes
    }

    /// Puts a session at the end of the line, if it is idle and does not stand there.
    fn rest(&mut self, key: Key, now: Moment) {
        let held = self.slab.get_mut(key).filter(|held| held.is_idle() && !held.is_in_line);
        let Some(held) = held else { return };
        held.is_in_line = true;
        held.since = now;
        held.before = self.idle_last.replace(key);
        match held.before.and_then(|before| self.slab.get_mut(before)) {
            Some(before) => before.after = Some(key),
            None => self.idle_first = Some(key),
        }
    }

    /// Takes a session out of the line.
    fn wake(&mut self, key: Key) {
        let held = self.slab.get_mut(key).filter(|held| held.is_in_line);
        let Some(held) = held else { return };
        held.is_in_line = false;
        let (before, after) = (held.before.take(), held.after.take());
        match before.and_then(|before| self.slab.get_mut(before)) {
            Some(neighbour) => neighbour.after = after,
            None => self.idle_first = after,
        }
        match after.and_then(|after| self.slab.get_mut(after)) {
            Some(neighbour) => neighbour.before = before,
            None => self.idle_last = before,
        }
    }

    /// What the files of tests hold true after every step.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let (mut streams, mut attached, mut event_bytes, mut idle) = (0, 0, 0, 0);
        for (key, held) in self.slab.iter() {
            assert_eq!(self.find(held.id), Some(key));
            assert_eq!(held.is_in_line, held.is_idle());
            idle += usize::from(held.is_idle());
            streams += held.streams.len();
            attached += held.streams.exchanges().count();
            event_bytes += held.streams.bytes();
        }
        assert_eq!(self.keys.len(), self.slab.len());
        assert_eq!((streams, attached), (self.streams, self.attached));
        assert_eq!(event_bytes, self.event_bytes);
        assert!(event_bytes <= self.bounds.event_bytes_max);
        assert!(self.lingering.len() <= self.bounds.lingering_max);
        assert!(self.lingering.iter().is_sorted_by_key(|(since, ..)| *since));
        let (mut before, mut key, mut since) = (None, self.idle_first, Moment::ORIGIN);
        while let Some(held) = key.and_then(|key| self.slab.get(key)) {
            assert!(held.is_in_line && held.before == before && held.since >= since);
            (before, key, since) = (key, held.after, held.since);
            idle -= 1;
        }
        assert_eq!((before, idle), (self.idle_last, 0));
    }
}

/// Bytes of one session in the index of names, at the load up to which the table fills.
const INDEX_BYTES: usize = (size_of::<(SessionId, Key)>() + 1) * 8 / 7;

const _: () = assert!(
    size_of::<Held<()>>() + INDEX_BYTES <= 160,
    "a session without streams holds at most 160 bytes besides its `S`"
);
