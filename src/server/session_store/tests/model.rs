//! Property test of the session store against a simple model.
//!
//! The model searches where the store has lists, totals and keys; removed sessions stay as `None`,
//! so that dead keys are used, too.

use std::collections::BTreeMap;

use corelane_base::holders::{HeldPlaces, Holder, HolderScope};
use proptest::prelude::*;

use super::model_session::{ModelSession, ModelStream, stored_bytes};
use super::*;
use crate::server::session_store::idle_sessions::GRACE;

/// One operation. Sessions are counted back from the newest one, removed ones included; streams and
/// events are, too, from the next one. Stream 0 is itself.
#[derive(Clone, Debug)]
enum Operation {
    Advance { seconds: u64 },
    Begin { address: u8 },
    BeginRequest { session: usize },
    Detach { session: usize, stream: u32, exchange: Option<u32>, is_sent: bool },
    EndRequest { session: usize },
    Expire,
    Finish { session: usize, stream: u32 },
    ExpireLingering,
    Listen { session: usize },
    Open { session: usize },
    Push { session: usize, stream: u32, bytes: usize },
    Remove { session: usize },
    Resume { session: usize, stream: u32, after: u32 },
    Touch { session: usize },
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    // Newer ones are more likely than older ones.
    let session = || prop_oneof![3 => 0..2usize, 1 => 2..6usize];
    let stream = || prop_oneof![4 => 0..4u32, 1 => 4..8u32];
    let step = prop_oneof![
        1 => (0..40u64).prop_map(|seconds| Operation::Advance { seconds }),
        6 => (0..4u8).prop_map(|address| Operation::Begin { address }),
        2 => session().prop_map(|session| Operation::BeginRequest { session }),
        5 => (session(), stream(), prop::option::weighted(0.1, 0..50u32), any::<bool>()).prop_map(
            |(session, stream, exchange, is_sent)| Operation::Detach {
                session,
                stream,
                exchange,
                is_sent
            }
        ),
        3 => session().prop_map(|session| Operation::EndRequest { session }),
        1 => Just(Operation::Expire),
        3 => (session(), stream())
            .prop_map(|(session, stream)| Operation::Finish { session, stream }),
        1 => Just(Operation::ExpireLingering),
        2 => session().prop_map(|session| Operation::Listen { session }),
        4 => session().prop_map(|session| Operation::Open { session }),
        8 => (session(), stream(), prop_oneof![9 => 0..1_200usize, 1 => 1_200..2_600usize])
            .prop_map(|(session, stream, bytes)| Operation::Push { session, stream, bytes }),
        1 => session().prop_map(|session| Operation::Remove { session }),
        3 => (session(), stream(), 0..6u32)
            .prop_map(|(session, stream, after)| Operation::Resume { session, stream, after }),
        1 => session().prop_map(|session| Operation::Touch { session }),
    ];
    prop::collection::vec(step, 0..200)
}

/// The store and its model, driven by the same operations.
struct StoreWithModel {
    store: SessionStore<usize>,
    sessions_max: usize,
    keys: Vec<Key>,
    model: Vec<Option<ModelSession>>,
    now: Instant,
    /// Number of times that a session became idle.
    idle_count: u64,
    /// Streams that began to linger: when, session and number.
    lingering: Vec<(Instant, usize, u32)>,
    /// Number of exchanges.
    serial: u32,
}

/// Returns who has the sessions of an address; 0 is exempt.
fn holder_of(number: u8) -> Holder {
    address(number).filter(|_| number > 0).map_or(Holder::Exempt, Holder::Address)
}

impl StoreWithModel {
    fn new(sessions_max: usize) -> Self {
        Self {
            store: sessions(SessionLimits { sessions_max, ..LIMITS }),
            sessions_max,
            keys: Vec::new(),
            model: Vec::new(),
            now: at(1),
            idle_count: 0,
            lingering: Vec::new(),
            serial: 0,
        }
    }

    /// Returns the key of a session and its model, which is `None` after its removal.
    fn pick(&mut self, session: usize) -> Option<(Key, Option<&mut ModelSession>)> {
        let index = (self.keys.len().checked_sub(1)?).checked_sub(session)?;
        Some((self.keys[index], self.model[index].as_mut()))
    }

    fn exchange(&mut self) -> ExchangeAddress {
        self.serial += 1;
        exchange(self.serial)
    }

    /// Returns the longest idle of the sessions that `matches` accepts, and since when it is.
    fn idlest(&self, matches: impl Fn(&ModelSession) -> bool) -> Option<(usize, Instant)> {
        let line = self.model.iter().enumerate();
        let idle = line.filter_map(|(index, session)| {
            let held = session.as_ref().filter(|held| matches(held))?;
            Some((held.idle?, held.is_used, index))
        });
        // Those that became idle at the same time expire in this order.
        let first = idle.min_by_key(|((since, order), is_used, _)| (*since, *is_used, *order));
        first.map(|((since, _), _, index)| (index, since))
    }

    fn count_of(&self, address: u8) -> usize {
        self.model.iter().flatten().filter(|held| held.address == address).count()
    }

    fn share(&self) -> usize {
        (self.sessions_max / 8).max(1)
    }

    /// Returns what each holder has.
    fn held(&self) -> HeldPlaces {
        let mut held = HeldPlaces::default();
        for session in self.model.iter().flatten() {
            held.add(holder_of(session.address), 1);
        }
        held
    }

    /// Returns what each holder has of idle sessions that are unused.
    fn unused(&self) -> HeldPlaces {
        let mut held = HeldPlaces::default();
        let sessions = self.model.iter().flatten();
        for session in sessions.filter(|it| it.idle.is_some() && !it.is_used) {
            held.add(holder_of(session.address), 1);
        }
        held
    }

    /// Returns the session that a new one of `address` must evict.
    fn eviction(&self, address: u8) -> Option<(usize, EvictionReason)> {
        let (held, unauthenticated) = (self.held(), HolderScope::Unauthenticated);
        let is_full = address > 0 && self.count_of(address) >= self.share();
        let of = |holder: Holder, is_used: bool| {
            let is_own = |it: &ModelSession| holder_of(it.address) == holder;
            self.idlest(|it| is_own(it) && it.is_used == is_used)
        };
        if is_full {
            let own = [false, true].map(|is_used| of(holder_of(address), is_used));
            if let Some((index, _)) = own.into_iter().flatten().next() {
                return Some((index, EvictionReason::AddressShare));
            }
        }
        let used_of = |it: Holder| {
            let is_beyond = it != Holder::Exempt && held.of(it) > self.share();
            let (index, _) = of(it, true).filter(|_| is_beyond || !is_full)?;
            let reason =
                if is_beyond { EvictionReason::AddressShare } else { EvictionReason::Idle };
            Some((index, reason))
        };
        let unused_held = self.unused();
        let has_less = |it: Holder| {
            let counts = [&held, &unused_held];
            counts.iter().any(|held| held.around(it) < held.around(holder_of(address)))
        };
        let unused = |has_grace: bool| {
            let mut find = |it| {
                let (index, since) = of(it, false)?;
                let found = (index, EvictionReason::Unused);
                if !has_grace || since.after(GRACE) <= self.now {
                    return Some(found);
                }
                let is_mostly_used = held.of(it) > 2 * unused_held.of(it);
                let used = Some(it).filter(|_| is_mostly_used).and_then(used_of);
                (!has_less(it)).then(|| used.unwrap_or(found))
            };
            let found = unused_held.find_heaviest(unauthenticated, &mut find);
            found.or_else(|| find(holder_of(address)))
        };
        if let Some(found) = unused(true) {
            return Some(found);
        }
        let exempt = held.of(Holder::Exempt);
        let of_exempt = used_of(Holder::Exempt);
        let find = |it| Some(it).filter(|it| *it != Holder::Exempt).and_then(used_of);
        let of_address = held.find_heaviest(unauthenticated, find);
        let used = if exempt >= held.total() - exempt {
            of_exempt.or(of_address)
        } else {
            of_address.or(of_exempt)
        };
        used.or_else(|| unused(false))
    }

    /// Queues a stream of a session if it lingers.
    fn enqueue_lingering(&mut self, session: usize, number: u32) {
        let index = self.keys.len() - 1 - session;
        let held = self.model[index].as_mut();
        let stream = held.and_then(|held| held.streams.get_mut(&number));
        if let Some(stream) = stream.filter(|stream| stream.is_lingering()) {
            stream.lingering_since = self.now;
            self.lingering.push((self.now, index, number));
        }
        while self.lingering.len() > LIMITS.lingering_streams_max {
            self.remove_first_lingering();
        }
    }

    /// Removes the first queued stream, unless it was removed or resumed since.
    fn remove_first_lingering(&mut self) {
        let (since, index, number) = self.lingering.remove(0);
        if let Some(held) = &mut self.model[index] {
            held.streams.retain(|at, it| {
                *at != number || !it.is_lingering() || it.lingering_since != since
            });
        }
    }

    fn expire_lingering(&mut self) {
        self.store.expire_lingering(self.now);
        while self
            .lingering
            .first()
            .is_some_and(|(at, ..)| at.after(LIMITS.linger_timeout) <= self.now)
        {
            self.remove_first_lingering();
        }
    }

    fn event_bytes(&self) -> usize {
        let streams = self.model.iter().flatten().flat_map(|session| session.streams.values());
        streams.map(ModelStream::bytes).sum()
    }

    /// Removes a session of the model and compares it with the one removed by the store.
    fn remove_from_model(&mut self, index: usize, gone: &RemovedSession<usize>) {
        let session = self.model[index].take().unwrap();
        let exchanges = session.streams.values().filter_map(|stream| stream.exchange);
        assert_eq!((gone.session, gone.key), (index, self.keys[index]));
        assert_eq!(gone.exchanges, exchanges.collect::<Vec<_>>());
        assert!(!self.store.contains(gone.key));
    }

    fn apply(&mut self, step: &Operation) {
        match *step {
            Operation::Advance { seconds } => {
                self.now = self.now.after(Duration::from_secs(seconds));
            }
            Operation::Begin { address } => self.begin(address),
            Operation::Expire => self.expire(),
            Operation::ExpireLingering => self.expire_lingering(),
            Operation::Remove { session } => {
                let Some((key, held)) = self.pick(session) else { return };
                let is_held = held.is_some();
                let gone = self.store.remove(key);
                assert_eq!(gone.is_some(), is_held);
                if let Some(gone) = gone {
                    self.remove_from_model(gone.session, &gone);
                }
            }
            Operation::BeginRequest { session } | Operation::EndRequest { session } => {
                let begins = matches!(step, Operation::BeginRequest { .. });
                self.count(session, begins);
            }
            Operation::Touch { session } => {
                let Some((key, held)) = self.pick(session) else { return };
                // Its idle time restarts, if it is idle.
                if let Some(held) = held {
                    held.idle = None;
                    held.is_used = true;
                }
                self.store.touch(key, self.now);
            }
            _ => self.apply_to_streams(step),
        }
    }

    fn begin(&mut self, address: u8) {
        let index = self.keys.len();
        let is_full = self.store.len() >= self.sessions_max;
        let expected = self.eviction(address).filter(|_| is_full);
        let client = super::address(address).filter(|_| address > 0);
        match self.store.create(index, client, self.now) {
            Err(refusal) => {
                assert_eq!((refusal, is_full), (SessionError::SessionLimit, true));
                assert_eq!(expected, None);
            }
            Ok(CreatedSession { key, id, evicts }) => {
                let evicted = evicts.map(|it| (self.store.remove(it.key).unwrap(), it.reason));
                let found = evicted.as_ref().map(|(gone, reason)| (gone.session, *reason));
                assert_eq!((found, found.is_some()), (expected, is_full));
                if let Some((gone, _)) = evicted {
                    self.remove_from_model(gone.session, &gone);
                }
                assert_eq!(self.store.find(id), Some(key));
                self.keys.push(key);
                self.model.push(Some(ModelSession {
                    address,
                    is_used: false,
                    in_flight: 0,
                    idle: None,
                    opened: 0,
                    streams: BTreeMap::new(),
                }));
            }
        }
    }

    fn expire(&mut self) {
        let due =
            self.idlest(|_| true).filter(|(_, since)| since.after(LIMITS.idle_timeout) <= self.now);
        let gone = self.store.expire_idle(self.now);
        assert_eq!(gone.is_some(), due.is_some());
        if let (Some(gone), Some((index, _))) = (gone, due) {
            self.remove_from_model(index, &gone);
        }
    }

    fn count(&mut self, session: usize, begins: bool) {
        let now = self.now;
        let Some((key, held)) = self.pick(session) else { return };
        match held {
            Some(held) if begins => {
                held.in_flight += 1;
                assert!(self.store.begin_request(key));
            }
            Some(held) => {
                // A running request ends once.
                let Some(left) = held.in_flight.checked_sub(1) else { return };
                held.in_flight = left;
                self.store.end_request(key, now);
            }
            None if begins => assert!(!self.store.begin_request(key)),
            // A request may end after its session was removed.
            None => self.store.end_request(key, now),
        }
    }

    fn apply_to_streams(&mut self, step: &Operation) {
        let own = self.exchange();
        let now = self.now;
        match *step {
            Operation::Open { session } => {
                let Some((key, held)) = self.pick(session) else { return };
                let expected =
                    held.map_or(Err(SessionError::UnknownSession), |held| held.open(own));
                assert_eq!(self.store.streams_mut(key).open(own), expected);
            }
            Operation::Listen { session } => {
                let Some((key, held)) = self.pick(session) else { return };
                let expected =
                    held.map_or(Err(SessionError::UnknownSession), |held| held.listen(own));
                assert_eq!(self.store.streams_mut(key).listen(own), expected);
            }
            Operation::Resume { session, stream, after } => {
                let Some((key, held)) = self.pick(session) else { return };
                let stream = held.as_ref().map_or(stream, |held| held.number(stream));
                let last = held.as_ref().and_then(|held| Some(held.streams.get(&stream)?.last));
                let after = last.map_or(after, |last| (last + 1).saturating_sub(after));
                let resume = |held: &mut ModelSession| held.resume(stream, after, own);
                let expected = held.map_or(Err(SessionError::UnknownSession), resume);
                assert_eq!(self.store.streams_mut(key).resume(stream, after, own, now), expected);
            }
            Operation::Push { session, stream, bytes } => {
                if self.pick(session).is_none() {
                    return;
                }
                let room = |pair: &Self| LIMITS.event_bytes_max - pair.event_bytes();
                while room(self) < stored_bytes(bytes) && !self.lingering.is_empty() {
                    self.remove_first_lingering();
                }
                let room = room(self);
                let Some((key, held)) = self.pick(session) else { return };
                let stream = held.as_ref().map_or(stream, |held| held.number(stream));
                let expected = held.and_then(|held| held.push(stream, bytes, room));
                let text = Bytes::from(vec![b'x'; bytes]);
                assert_eq!(self.store.streams_mut(key).push(stream, text), expected);
            }
            Operation::Finish { session, stream } => {
                let Some((key, held)) = self.pick(session) else { return };
                let stream = held.as_ref().map_or(stream, |held| held.number(stream));
                let expected = held.and_then(|held| held.finish(stream));
                assert_eq!(self.store.streams_mut(key).finish(stream, now), expected);
                self.enqueue_lingering(session, stream);
            }
            Operation::Detach { session, stream, exchange: serial, is_sent } => {
                let Some((key, held)) = self.pick(session) else { return };
                let stream = held.as_ref().map_or(stream, |held| held.number(stream));
                let carried = held.as_ref().and_then(|held| held.streams.get(&stream)?.exchange);
                let address = serial.map(exchange).or(carried).unwrap_or(own);
                let expected = held.is_some_and(|held| held.detach(stream, address, is_sent));
                let mut streams = self.store.streams_mut(key);
                assert_eq!(streams.detach(stream, address, is_sent, now), expected);
                if expected {
                    self.enqueue_lingering(session, stream);
                }
            }
            _ => unreachable!("operations on sessions are handled in `step`"),
        }
    }

    /// Updates which sessions are idle, and compares everything observable.
    fn compare(&mut self) {
        for session in self.model.iter_mut().flatten() {
            if session.is_active() {
                session.idle = None;
            } else if session.idle.is_none() {
                self.idle_count += 1;
                session.idle = Some((self.now, self.idle_count));
            }
        }
        self.store.check_invariants();
        let live = || self.model.iter().flatten();
        let streams = || live().flat_map(|session| session.streams.values());
        assert_eq!(self.store.len(), live().count());
        let attached = streams().filter(|stream| stream.exchange.is_some()).count();
        assert_eq!(self.store.attached_streams(), attached);
        let expiry = self.idlest(|_| true).map(|(_, since)| since.after(LIMITS.idle_timeout));
        let lingering =
            self.lingering.first().map(|(since, ..)| since.after(LIMITS.linger_timeout));
        let deadline = [expiry, lingering].into_iter().flatten().min();
        assert_eq!(self.store.next_deadline(), deadline);
        for (index, session) in self.model.iter().enumerate() {
            let key = self.keys[index];
            assert_eq!(self.store.get_mut(key).copied(), session.as_ref().map(|_| index));
            let streams = session.iter().flat_map(|session| &session.streams);
            for (number, stream) in streams {
                let held = self.store.streams(key).unwrap();
                assert_eq!(held.exchange(*number), stream.exchange);
                let replayed = held.replay(*number, 0).map(|(number, text)| (number, text.len()));
                assert!(replayed.eq(stream.events.iter().copied()));
            }
        }
    }
}

proptest! {
    #[test]
    fn session_store_agrees_with_model(
        sessions_max in prop_oneof![Just(3), Just(16)],
        steps in operations(),
    ) {
        let mut pair = StoreWithModel::new(sessions_max);
        for step in &steps {
            pair.apply(step);
            pair.compare();
        }
    }
}
