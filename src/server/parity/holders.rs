//! Who has the sessions of a shard, and which of them is ended for a new one.
//!
//! Invariants: a caller has at most its share while the others have what they have. At its share a
//! new session ends one of its own, at the limit of the shard one of the heaviest caller of the
//! heaviest prefix: the oldest whose client is away, or that is over HTTP and idle. Sessions of
//! authenticated callers are ended for such callers only. Where none can be ended, the new one is
//! refused. A session has a place once its handshake is accepted. One whose client resumes another
//! one needs none, and ends none: that keeps its place.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

use corelane_base::holders::{HeldPlaces, Holder, HolderScope, PlaceOwner};
use corelane_parity::error::ParityError;

use super::ParitySessions;
use super::output::ParityPath;
use super::session::{ParitySession, SessionPlace};
use crate::server::reply_to::ParityKey;

/// Sessions of one caller that are visited for one that can be ended.
const VISITS_MAX: usize = 256;

/// The sessions of each caller.
#[derive(Debug, Default)]
pub(super) struct SessionHolders {
    held: HeldPlaces,
    /// In the order in which they were accepted.
    by_holder: BTreeMap<(Holder, u64), ParityKey>,
    created: u64,
    /// Where the next search of the sessions of one caller begins: the last one has seen only such
    /// as cannot be ended.
    next_visit: Cell<u64>,
    /// The same of the sessions of all callers.
    next_of_all: Cell<Option<(Holder, u64)>>,
}

impl SessionHolders {
    /// Returns an estimate of the bytes of the indexes: nodes are two thirds full on average.
    pub(super) fn held_bytes(&self) -> usize {
        let entries = self.by_holder.len() * size_of::<((Holder, u64), ParityKey)>();
        entries * 3 / 2 + self.held.held_bytes()
    }

    /// Returns the number of sessions that have a place.
    fn len(&self) -> usize {
        self.by_holder.len()
    }

    /// Adds a session of this owner, and returns its place.
    fn add(&mut self, owner: PlaceOwner<'_>, key: ParityKey) -> SessionPlace {
        self.created += 1;
        let place = SessionPlace { holder: self.held.holder_of(owner), number: self.created };
        self.held.add(place.holder, 1);
        self.by_holder.insert((place.holder, place.number), key);
        place
    }

    pub(super) fn remove(&mut self, place: SessionPlace) {
        if self.by_holder.remove(&(place.holder, place.number)).is_some() {
            self.held.subtract(place.holder, 1);
        }
    }

    /// Returns the oldest session of a caller that can be ended, of those that are visited.
    fn find(&self, holder: Holder, can_end: impl Fn(ParityKey) -> bool) -> Option<ParityKey> {
        let begin = self.next_visit.get();
        let later = self.by_holder.range((holder, begin)..=(holder, u64::MAX));
        let before = self.by_holder.range((holder, 0)..(holder, begin));
        let mut last = begin;
        for (&(_, number), key) in later.chain(before).take(VISITS_MAX) {
            if can_end(*key) {
                return Some(*key);
            }
            last = number + 1;
        }
        self.next_visit.set(last);
        None
    }

    /// [`SessionHolders::find`] for all callers, or for those that are not authenticated.
    fn find_of_all(
        &self,
        with_authenticated: bool,
        can_end: impl Fn(ParityKey) -> bool,
    ) -> Option<ParityKey> {
        let begin = self.next_of_all.take();
        let later = self.by_holder.range((begin.map_or(Unbounded, Excluded), Unbounded));
        let before = begin.map(|begin| self.by_holder.range(..=begin));
        let sessions = later.chain(before.into_iter().flatten()).take(VISITS_MAX);
        for (place, key) in sessions {
            if (with_authenticated || !place.0.is_authenticated()) && can_end(*key) {
                return Some(*key);
            }
            self.next_of_all.set(Some(*place));
        }
        None
    }
}

/// What a new session needs.
enum SessionRoom {
    /// Nothing: there is a place.
    Free,
    /// That this session ends.
    Evicts(ParityKey),
    /// There is none.
    None,
}

impl ParitySessions {
    fn room_for(&self, owner: PlaceOwner<'_>) -> SessionRoom {
        let (held, sessions_max) = (&self.holders.held, self.settings.sessions_max);
        let holder = held.holder_of(owner);
        let excess = (self.holders.len() + 1).saturating_sub(sessions_max);
        let limit = held.limit_of(holder, sessions_max + excess, self.settings.address_share);
        let is_full = held.of(holder) >= limit;
        if !is_full && excess == 0 {
            return SessionRoom::Free;
        }
        let find = |scope| held.find_heaviest(scope, |of| self.oldest_evictable(of));
        let found = if is_full && held.of(holder) > 0 {
            self.oldest_evictable(holder)
        } else {
            let around = is_full.then_some(HolderScope::Around(holder));
            let others = holder.is_authenticated().then_some(HolderScope::Authenticated);
            let scopes = [around, Some(HolderScope::Unauthenticated), others];
            let heaviest = scopes.into_iter().flatten().find_map(find);
            let is_open = holder.is_authenticated();
            heaviest.or_else(|| self.holders.find_of_all(is_open, |key| self.can_end(key)))
        };
        found.map_or(SessionRoom::None, SessionRoom::Evicts)
    }

    /// Returns the oldest session of a caller that can be ended.
    fn oldest_evictable(&self, holder: Holder) -> Option<ParityKey> {
        self.holders.find(holder, |key| self.can_end(key))
    }

    fn can_end(&self, key: ParityKey) -> bool {
        self.get(key).is_some_and(ParitySession::is_evictable)
    }

    fn add_place(&mut self, key: ParityKey, owner: PlaceOwner<'_>) {
        let Self { sessions, holders, .. } = self;
        if let Some(session) = sessions.get_mut(key.0)
            && session.place.is_none()
        {
            session.place = Some(holders.add(owner, key));
        }
    }
}

/// Returns the error of a session for which there is no place.
pub(super) fn too_many_sessions() -> ParityError {
    ParityError::rate_limited("the server has too many sessions; try again later", 1_000)
}

impl ParityPath<'_> {
    /// Gives a session a place whose handshake is accepted, so that its caller is known. At a limit
    /// another one ends for it.
    ///
    /// # Errors
    ///
    /// There is no place, and none can end.
    pub(super) fn give_place(&mut self, key: ParityKey) -> Result<(), ParityError> {
        let Some(session) = self.parity.get(key) else { return Ok(()) };
        let principal = session.state.principal().cloned();
        let owner = PlaceOwner { principal: principal.as_deref(), address: session.state.client };
        match self.parity.room_for(owner) {
            SessionRoom::Free => {}
            SessionRoom::Evicts(other) => self.end_session(other, None),
            SessionRoom::None => return Err(too_many_sessions()),
        }
        self.parity.add_place(key, owner);
        Ok(())
    }
}
