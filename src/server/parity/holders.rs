//! Who has the sessions of a shard, and which of them is ended for a new one.
//!
//! Invariants: a caller has at most its share while the others have what they have. At its share a
//! new session ends one of its own, at the limit of the shard one of the heaviest caller of the
//! heaviest prefix: the oldest whose client is away, or that is over HTTP and idle. Sessions of
//! authenticated callers are ended for such callers only. Where none can be ended, the new one is
//! refused.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

use corelane_base::holders::{HeldPlaces, Holder, HolderScope, PlaceOwner};
use corelane_parity::error::ParityError;

use super::ParitySessions;
use super::output::ParityPath;
use super::session::{ParitySession, SessionPlace};
use crate::server::reply_to::ParityKey;
use crate::telemetry::label::Transport;

/// Sessions of one caller that are visited for one that can be ended.
const VISITS_MAX: usize = 256;

/// The sessions of each caller.
#[derive(Debug, Default)]
pub(super) struct SessionHolders {
    held: HeldPlaces,
    /// In order of creation.
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

    /// Returns the place of a new session.
    pub(super) fn next_place(&mut self, owner: PlaceOwner<'_>) -> SessionPlace {
        self.created += 1;
        SessionPlace { holder: self.held.holder_of(owner), number: self.created }
    }

    pub(super) fn add(&mut self, place: SessionPlace, key: ParityKey) {
        self.held.add(place.holder, 1);
        self.by_holder.insert((place.holder, place.number), key);
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
        let excess = (self.sessions.len() + 1).saturating_sub(sessions_max);
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

    /// Returns whom a session counts for, and whom it is to count for.
    fn holders_of(&self, key: ParityKey) -> Option<HolderChange> {
        let session = self.get(key)?;
        let principal = session.state.principal().map(|principal| &**principal);
        let to = PlaceOwner { principal, address: session.state.client };
        Some(HolderChange { from: session.place.holder, to: self.holders.held.holder_of(to) })
    }

    /// What a session needs to count for its caller from now on.
    fn room_to_change(&self, key: ParityKey) -> SessionRoom {
        let Some(HolderChange { from, to }) = self.holders_of(key) else {
            return SessionRoom::Free;
        };
        let (held, share) = (&self.holders.held, self.settings.address_share);
        // The session no longer counts for another caller then.
        let limit = held.limit_of(to, self.settings.sessions_max + 1, share);
        if from == to || held.of(to) < limit {
            return SessionRoom::Free;
        }
        self.oldest_evictable(to).map_or(SessionRoom::None, SessionRoom::Evicts)
    }

    fn change_holder(&mut self, key: ParityKey) {
        let Some(HolderChange { from, to }) = self.holders_of(key) else { return };
        if from != to
            && let Some(session) = self.sessions.get_mut(key.0)
        {
            self.holders.remove(session.place);
            session.place.holder = to;
            self.holders.add(session.place, key);
        }
    }
}

/// Whom a session counts for.
struct HolderChange {
    from: Holder,
    /// Its caller, who is authenticated now.
    to: Holder,
}

/// Returns the error of a session for which there is no place.
pub(super) fn too_many_sessions() -> ParityError {
    ParityError::rate_limited("the server has too many sessions; try again later", 1_000)
}

impl ParityPath<'_> {
    /// Begins a session. At a limit another one ends for it. Returns `None` if none can.
    pub(super) fn create_session(
        &mut self,
        transport: Transport,
        owner: PlaceOwner<'_>,
    ) -> Option<ParityKey> {
        match self.parity.room_for(owner) {
            SessionRoom::Free => {}
            SessionRoom::Evicts(key) => self.end_session(key, None),
            SessionRoom::None => return None,
        }
        self.parity.create(transport, owner, self.now)
    }

    /// Has a session count for its caller, who is authenticated now. At the limit of that one
    /// another session of its ends for it.
    ///
    /// # Errors
    ///
    /// None of them can end.
    pub(super) fn count_for_caller(&mut self, key: ParityKey) -> Result<(), ParityError> {
        match self.parity.room_to_change(key) {
            SessionRoom::Free => {}
            SessionRoom::Evicts(other) => self.end_session(other, None),
            SessionRoom::None => return Err(too_many_sessions()),
        }
        self.parity.change_holder(key);
        Ok(())
    }
}
