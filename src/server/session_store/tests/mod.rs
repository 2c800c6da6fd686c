//! Tests of the session store: creation, expiry, memory limits, and which session a new one evicts
//! at the limit.

mod model;
mod model_session;

use std::time::Duration;

use bytes::Bytes;
use corelane_base::client_address::ClientAddress;
use corelane_base::principal::Principal;
use corelane_base::slab::Key;
use corelane_base::time::Instant;
use corelane_engine::mesh::ShardId;

use super::*;
use crate::guard::secure_rng::{Purpose, SecureRng};
use crate::guard::state_cipher::KEY_BYTES;
use crate::server::options::SecondStream;
use crate::server::shard_message::{EventLogLimits, ExchangeAddress, SessionLimits, StreamLimits};
use crate::telemetry::label::EvictionReason;

const LIMITS: SessionLimits = SessionLimits {
    sessions_max: 3,
    idle_timeout: Duration::from_mins(1),
    streams: StreamLimits {
        streams_max: 4,
        retained_streams_max: 2,
        second_stream: SecondStream::Refuse,
        log: EventLogLimits { events_max: 4, bytes_max: 2_000 },
    },
    event_bytes_max: 4_000,
    linger_timeout: Duration::from_secs(10),
    lingering_streams_max: 3,
};

fn sessions<S>(bounds: SessionLimits) -> SessionStore<S> {
    let draws = SecureRng::new(&[9; KEY_BYTES], Purpose::SessionIds);
    SessionStore::new(bounds, owner_ids(draws))
}

fn owner_ids(mut rng: SecureRng) -> OwnerIds {
    OwnerIds::new(ShardId(2), 5, Box::new(move || rng.next_u128()))
}

fn exchange(serial: u32) -> ExchangeAddress {
    ExchangeAddress { shard: ShardId(1), connection: Key::from_bits(7), serial }
}

const fn at(seconds: u64) -> Instant {
    Instant::from_milliseconds(seconds * 1_000)
}

fn begin(sessions: &mut SessionStore<char>, session: char, now: Instant) -> Key {
    let CreatedSession { key, evicts, .. } = sessions.create(session, None, now).unwrap();
    assert_eq!(evicts, None);
    key
}

/// Opens a stream, pushes `text`, finishes it and detaches it as sent.
fn send_stream(sessions: &mut SessionStore<char>, key: Key, text: &Bytes, now: Instant) -> u32 {
    let number = sessions.streams_mut(key).open(exchange(9)).unwrap();
    sessions.streams_mut(key).push(number, text.clone()).unwrap();
    sessions.streams_mut(key).finish(number, now);
    assert!(sessions.streams_mut(key).detach(number, exchange(9), true, now));
    number
}

fn expire_all(sessions: &mut SessionStore<char>, now: Instant) -> Vec<char> {
    std::iter::from_fn(|| sessions.expire_idle(now)).map(|gone| gone.session).collect()
}

#[test]
fn session_is_found_by_id_until_removed() {
    let mut sessions = sessions(LIMITS);
    let CreatedSession { key, id, .. } = sessions.create('a', None, at(0)).unwrap();
    assert_eq!(id.owner(5), ShardId(2));
    assert_eq!((sessions.find(id), sessions.id(key)), (Some(key), Some(id)));
    assert_eq!(SessionId::parse(&id.to_text()).and_then(|id| sessions.find(id)), Some(key));
    assert_eq!(sessions.get_mut(key).copied(), Some('a'));
    let gone = sessions.remove(key).unwrap();
    assert_eq!((gone.key, gone.session), (key, 'a'));
    assert_eq!((sessions.find(id), sessions.len()), (None, 0));
    assert!(sessions.remove(key).is_none());
}

#[test]
fn iter_mut_visits_all_sessions() {
    let mut sessions = sessions(LIMITS);
    let keys = ['a', 'b', 'c'].map(|session| begin(&mut sessions, session, at(0)));
    sessions.remove(keys[1]).unwrap();
    sessions.iter_mut().for_each(|(_, session)| session.make_ascii_uppercase());
    assert_eq!(keys.map(|key| sessions.get_mut(key).copied()), [Some('A'), None, Some('C')]);
}

#[test]
fn unknown_session_ids_are_not_found() {
    let mut sessions = sessions(LIMITS);
    begin(&mut sessions, 'a', at(0));
    let held_bytes = sessions.held_bytes();
    let mut foreign = owner_ids(SecureRng::new(&[8; KEY_BYTES], Purpose::SessionIds));
    assert!((0..1_000).all(|_| sessions.find(foreign.session_id().unwrap()).is_none()));
    assert_eq!((sessions.len(), sessions.held_bytes()), (1, held_bytes));
}

#[test]
fn dead_key_does_not_reach_reused_slot() {
    let mut sessions = sessions(LIMITS);
    let dead = begin(&mut sessions, 'a', at(0));
    sessions.remove(dead).unwrap();
    let key = begin(&mut sessions, 'b', at(1));
    assert_eq!(dead.index(), key.index());
    assert_eq!(sessions.get_mut(dead), None);
    assert!(!sessions.begin_request(dead));
    sessions.end_request(dead, at(2));
    sessions.touch(dead, at(2));
    assert_eq!(sessions.streams_mut(dead).open(exchange(1)), Err(SessionError::UnknownSession));
    assert_eq!(sessions.streams_mut(dead).listen(exchange(1)), Err(SessionError::UnknownSession));
    assert_eq!(
        sessions.streams_mut(dead).resume(0, 0, exchange(1), at(900)),
        Err(SessionError::UnknownSession)
    );
    assert_eq!(sessions.streams_mut(dead).push(LISTENING_STREAM, Bytes::new()), None);
    assert_eq!(sessions.streams_mut(dead).finish(1, at(2)), None);
    assert_eq!(sessions.next_stream_number(dead), None);
    assert!(!sessions.streams_mut(dead).detach(LISTENING_STREAM, exchange(1), true, at(2)));
    assert!(sessions.streams(dead).is_none());
    assert_eq!(sessions.next_deadline(), Some(at(61)));
    sessions.check_invariants();
}

#[test]
fn idle_session_expires_after_timeout() {
    let mut sessions = sessions(LIMITS);
    let [one, other] = ['a', 'b'].map(|session| begin(&mut sessions, session, at(0)));
    assert_eq!(sessions.next_deadline(), Some(at(60)));
    assert!(sessions.begin_request(one) && sessions.begin_request(one));
    sessions.touch(other, at(20));
    sessions.end_request(one, at(30));
    assert!(expire_all(&mut sessions, at(79)).is_empty());
    assert_eq!(expire_all(&mut sessions, at(80)), ['b']);
    // One request still runs.
    assert_eq!((sessions.next_deadline(), expire_all(&mut sessions, at(9_000))), (None, vec![]));
    sessions.end_request(one, at(9_000));
    assert!(expire_all(&mut sessions, at(9_059)).is_empty());
    assert_eq!(expire_all(&mut sessions, at(9_060)), ['a']);
    assert_eq!((sessions.len(), sessions.next_deadline(), sessions.held_bytes()), (0, None, 0));
}

#[test]
fn session_with_attached_stream_does_not_expire() {
    let mut sessions = sessions(LIMITS);
    let key = begin(&mut sessions, 'a', at(0));
    assert_eq!(sessions.streams_mut(key).listen(exchange(1)).map(|it| it.after), Ok(0));
    assert!(sessions.has_listener(key));
    assert_eq!((sessions.next_deadline(), sessions.attached_streams()), (None, 1));
    assert!(sessions.streams_mut(key).detach(LISTENING_STREAM, exchange(1), true, at(500)));
    assert!(!sessions.has_listener(key));
    assert_eq!((sessions.next_deadline(), sessions.attached_streams()), (Some(at(560)), 0));
}

#[test]
fn lingering_stream_is_removed_after_timeout() {
    let mut sessions = sessions(LIMITS);
    let key = begin(&mut sessions, 'a', at(0));
    let held_bytes = sessions.held_bytes();
    let text = Bytes::from_static(b"{}");
    let [first, second] = [at(1), at(3)].map(|now| send_stream(&mut sessions, key, &text, now));
    assert_eq!(sessions.next_deadline(), Some(at(11)));
    sessions.expire_lingering(at(10));
    // Its client resumes it, and so its linger time restarts.
    assert!(sessions.streams_mut(key).resume(first, 0, exchange(2), at(900)).unwrap().is_finished);
    assert!(sessions.streams_mut(key).detach(first, exchange(2), true, at(10)));
    sessions.expire_lingering(at(13));
    assert_eq!(
        sessions.streams_mut(key).resume(second, 0, exchange(3), at(900)),
        Err(SessionError::UnknownEvent)
    );
    assert_eq!(sessions.next_deadline(), Some(at(20)));
    sessions.expire_lingering(at(20));
    assert_eq!(
        sessions.streams_mut(key).resume(first, 0, exchange(3), at(900)),
        Err(SessionError::UnknownEvent)
    );
    assert_eq!(sessions.held_bytes(), held_bytes);
    sessions.check_invariants();
}

#[test]
fn lingering_streams_are_bounded_over_all_sessions() {
    let mut sessions = sessions(LIMITS);
    let keys = ['a', 'b'].map(|session| begin(&mut sessions, session, at(0)));
    let text = Bytes::from_static(b"{}");
    let sent = [0, 1, 0, 1]
        .map(|index| (keys[index], send_stream(&mut sessions, keys[index], &text, at(1))));
    let is_stored =
        sent.map(|(key, number)| sessions.streams(key).unwrap().replay(number, 0).next().is_some());
    assert_eq!(is_stored, [false, true, true, true]);
    sessions.check_invariants();
}

#[test]
fn lingering_streams_are_removed_first_at_memory_limit() {
    let mut sessions = sessions(SessionLimits { event_bytes_max: 1_000, ..LIMITS });
    let [one, other] = ['o', 'x'].map(|session| begin(&mut sessions, session, at(0)));
    let text = Bytes::from(vec![b'x'; 400]);
    let number = send_stream(&mut sessions, one, &text, at(1));
    for _ in 0..2 {
        assert!(
            sessions.streams_mut(other).push(LISTENING_STREAM, text.clone()).unwrap().is_stored
        );
    }
    assert_eq!(
        sessions.streams_mut(one).resume(number, 0, exchange(2), at(900)),
        Err(SessionError::UnknownEvent)
    );
    assert_eq!(sessions.streams(other).unwrap().replay(LISTENING_STREAM, 0).count(), 2);
    sessions.check_invariants();
}

#[test]
fn next_stream_is_none_at_stream_limit() {
    let mut sessions = sessions(LIMITS);
    let key = begin(&mut sessions, 'a', at(0));
    for number in 1..=4 {
        assert_eq!(sessions.next_stream_number(key), Some(number));
        assert_eq!(sessions.streams_mut(key).open(exchange(number)), Ok(number));
    }
    assert_eq!(sessions.next_stream_number(key), None);
    assert_eq!(sessions.streams_mut(key).open(exchange(5)), Err(SessionError::StreamLimit(4)));
    sessions.streams_mut(key).finish(2, at(1));
    assert!(sessions.streams_mut(key).detach(2, exchange(2), true, at(1)));
    assert_eq!(sessions.next_stream_number(key), Some(5));
}

#[test]
fn removed_session_returns_its_attached_exchanges() {
    let mut sessions = sessions(LIMITS);
    let key = begin(&mut sessions, 'a', at(0));
    sessions.streams_mut(key).listen(exchange(1)).unwrap();
    sessions.streams_mut(key).open(exchange(2)).unwrap();
    sessions.streams_mut(key).open(exchange(3)).unwrap();
    sessions.streams_mut(key).detach(1, exchange(2), true, at(1));
    assert_eq!(sessions.remove(key).unwrap().exchanges, [exchange(1), exchange(3)]);
    assert_eq!((sessions.attached_streams(), sessions.held_bytes()), (0, 0));
}

#[test]
fn event_at_memory_limit_displaces_own_events() {
    let mut sessions = sessions(SessionLimits { event_bytes_max: 1_500, ..LIMITS });
    let [rich, poor] = ['r', 'p'].map(|session| begin(&mut sessions, session, at(0)));
    let text = Bytes::from(vec![b'x'; 400]);
    for _ in 0..2 {
        assert!(sessions.streams_mut(rich).push(LISTENING_STREAM, text.clone()).unwrap().is_stored);
    }
    let numbers = |sessions: &SessionStore<char>, key| -> Vec<u32> {
        let streams = sessions.streams(key).unwrap();
        streams.replay(LISTENING_STREAM, 0).map(|(number, _)| number).collect()
    };
    assert!(sessions.streams_mut(poor).push(LISTENING_STREAM, text.clone()).unwrap().is_stored);
    assert!(sessions.streams_mut(poor).push(LISTENING_STREAM, text.clone()).unwrap().is_stored);
    assert_eq!((numbers(&sessions, rich), numbers(&sessions, poor)), (vec![1, 2], vec![2]));
    // A removed session frees its bytes.
    sessions.remove(rich).unwrap();
    sessions.streams_mut(poor).push(LISTENING_STREAM, text).unwrap();
    assert_eq!(numbers(&sessions, poor), [2, 3]);
    sessions.check_invariants();
}

#[test]
fn stream_of_another_session_cannot_be_resumed() {
    let mut sessions = sessions(LIMITS);
    let [owner, other] = ['o', 'x'].map(|session| begin(&mut sessions, session, at(0)));
    let number = sessions.streams_mut(owner).open(exchange(1)).unwrap();
    sessions.streams_mut(owner).push(number, Bytes::from_static(b"secret")).unwrap();
    assert_eq!(
        sessions.streams_mut(other).resume(number, 0, exchange(2), at(900)),
        Err(SessionError::UnknownEvent)
    );
    assert!(sessions.streams(other).unwrap().replay(number, 0).next().is_none());
}

/// A share of one session.
const SMALL: SessionLimits = LIMITS;
/// A share of two sessions.
const LARGE: SessionLimits = SessionLimits { sessions_max: 16, ..LIMITS };

/// Returns address 192.0.2.`last`.
fn address(last: u8) -> Option<ClientAddress> {
    ClientAddress::new([192, 0, 2, last].into())
}

/// Creates a session at the limit; returns the evicted one, too.
fn begin_evicting(
    sessions: &mut SessionStore<char>,
    session: char,
    address: Option<ClientAddress>,
    now: Instant,
) -> (Key, RemovedSession<char>, EvictionReason) {
    let CreatedSession { key, evicts, .. } = sessions.create(session, address, now).unwrap();
    let Eviction { key: evicted, reason } = evicts.unwrap();
    (key, sessions.remove(evicted).unwrap(), reason)
}

/// Creates used sessions of an exempt client until the limit is reached.
fn fill(sessions: &mut SessionStore<char>, now: Instant) {
    while sessions.len() < sessions.limits.sessions_max {
        let key = begin(sessions, '.', now);
        sessions.touch(key, now);
    }
}

#[test]
fn longest_idle_session_is_evicted_never_active_one() {
    let mut sessions = sessions(SMALL);
    let [running, idle, listening] = ['r', 'i', 'l'].map(|name| begin(&mut sessions, name, at(0)));
    assert!(sessions.begin_request(running));
    sessions.streams_mut(listening).listen(exchange(1)).unwrap();
    let (next, evicted, _) = begin_evicting(&mut sessions, 'n', None, at(1));
    assert_eq!((evicted.key, evicted.session, evicted.exchanges), (idle, 'i', vec![]));
    assert!(!sessions.contains(evicted.key));
    assert!(sessions.begin_request(next));
    assert_eq!(sessions.create('x', None, at(2)).unwrap_err(), SessionError::SessionLimit);
    sessions.end_request(next, at(3));
    sessions.end_request(running, at(4));
    assert_eq!(begin_evicting(&mut sessions, 'y', None, at(5)).1.session, 'n');
    assert_eq!(begin_evicting(&mut sessions, 'z', None, at(5)).1.session, 'r');
    assert_eq!(sessions.len(), 3);
    sessions.check_invariants();
}

#[test]
fn failed_handshake_evicts_no_session() {
    let mut sessions = sessions(SMALL);
    let keys = ['a', 'b', 'c'].map(|session| begin(&mut sessions, session, at(0)));
    let CreatedSession { key, .. } = sessions.create('x', address(1), at(1)).unwrap();
    sessions.remove(key).unwrap();
    assert!(keys.iter().all(|key| sessions.contains(*key)) && sessions.len() == 3);
    sessions.check_invariants();
}

#[test]
fn unused_session_is_evicted_before_used_ones() {
    let mut sessions = sessions(SMALL);
    let used = begin(&mut sessions, 'u', at(0));
    sessions.touch(used, at(0));
    begin(&mut sessions, 'a', at(1));
    begin(&mut sessions, 'b', at(2));
    for (second, name, evicted) in [(3, 'c', 'a'), (4, 'd', 'b'), (5, 'e', 'c')] {
        let (_, removed, reason) = begin_evicting(&mut sessions, name, None, at(second));
        assert_eq!((removed.session, reason), (evicted, EvictionReason::Unused));
    }
    for (_, session) in sessions.iter_mut() {
        assert!(['u', 'd', 'e'].contains(session));
    }
    for key in sessions.iter_mut().map(|(key, _)| key).collect::<Vec<_>>() {
        sessions.touch(key, at(6));
    }
    let (.., reason) = begin_evicting(&mut sessions, 'f', None, at(7));
    assert_eq!(reason, EvictionReason::Idle);
    sessions.check_invariants();
}

#[test]
fn address_beyond_its_share_evicts_its_own() {
    let mut sessions = sessions(LARGE);
    let other = begin(&mut sessions, 'o', at(0));
    let create = |sessions: &mut SessionStore<char>, name, second| {
        let created = sessions.create(name, address(1), at(second)).unwrap();
        (created.key, created.evicts)
    };
    let (used, _) = create(&mut sessions, 'u', 1);
    sessions.touch(used, at(2));
    create(&mut sessions, 'a', 3);
    fill(&mut sessions, at(4));
    let beyond = EvictionReason::AddressShare;
    for (second, name, evicted) in [(5, 'b', 'a'), (6, 'c', 'b')] {
        let (_, removed, reason) = begin_evicting(&mut sessions, name, address(1), at(second));
        assert_eq!((removed.session, reason), (evicted, beyond));
        sessions.check_invariants();
    }
    let newest = sessions.iter_mut().find(|(_, name)| **name == 'c').unwrap().0;
    sessions.touch(newest, at(7));
    // None of its own is unused, but that of the other client is not evicted for it.
    let (_, removed, reason) = begin_evicting(&mut sessions, 'd', address(1), at(8));
    assert_eq!((removed.session, reason), ('u', beyond));
    assert!(sessions.contains(other));
    // An address within its share evicts the unused ones of all.
    let (_, removed, reason) = begin_evicting(&mut sessions, 'e', address(2), at(9));
    assert_eq!((removed.session, reason), ('o', EvictionReason::Unused));
    sessions.check_invariants();
}

#[test]
fn active_sessions_beyond_share_evict_no_used_one() {
    let mut sessions = sessions(LARGE);
    for name in ['a', 'b'] {
        let key = sessions.create(name, address(1), at(0)).unwrap().key;
        assert!(sessions.begin_request(key));
    }
    let unused = begin(&mut sessions, 'u', at(1));
    fill(&mut sessions, at(2));
    let CreatedSession { key, evicts, .. } = sessions.create('c', address(1), at(3)).unwrap();
    assert_eq!(evicts, Some(Eviction { key: unused, reason: EvictionReason::Unused }));
    sessions.remove(unused).unwrap();
    assert!(sessions.begin_request(key));
    assert_eq!(sessions.create('d', address(1), at(4)), Err(SessionError::SessionLimit));
    // The others are not refused.
    let (_, removed, reason) = begin_evicting(&mut sessions, 'e', address(2), at(5));
    assert_eq!((removed.session, reason), ('.', EvictionReason::Idle));
    sessions.check_invariants();
}

#[test]
fn address_beyond_its_share_is_evicted_for_others() {
    let mut sessions = sessions(LARGE);
    let honest = begin(&mut sessions, 'h', at(0));
    sessions.touch(honest, at(0));
    for second in 1..16 {
        let key = sessions.create('a', address(1), at(second)).unwrap().key;
        sessions.touch(key, at(second));
    }
    for second in 16..29 {
        let (key, removed, reason) = begin_evicting(&mut sessions, 'n', address(2), at(second));
        assert!(removed.session != 'h' && reason == EvictionReason::AddressShare);
        sessions.touch(key, at(second));
        sessions.check_invariants();
    }
    assert!(sessions.contains(honest));
    sessions.limits.sessions_max = 8;
    // All addresses have more than the new share, and still no other client is affected.
    let (_, removed, reason) = begin_evicting(&mut sessions, 'e', None, at(30));
    assert!(removed.session != 'h' && reason == EvictionReason::AddressShare);
    sessions.check_invariants();
}

#[test]
fn exempt_clients_have_no_share() {
    let mut sessions = sessions(LARGE);
    let own = sessions.create('a', address(1), at(0)).unwrap().key;
    sessions.touch(own, at(0));
    fill(&mut sessions, at(1));
    let (_, removed, reason) = begin_evicting(&mut sessions, 'b', None, at(2));
    // They evict each other while they have more than all others.
    assert_eq!((removed.session, reason), ('.', EvictionReason::Idle));
    assert!(sessions.contains(own));
    sessions.check_invariants();
}

#[test]
fn used_sessions_of_many_addresses_evict_each_other() {
    let mut sessions = sessions(LARGE);
    let own = sessions.create('h', address(200), at(0)).unwrap().key;
    sessions.touch(own, at(0));
    let mut second = 1;
    for _ in 0..4 {
        for last in 1..=12 {
            let created = sessions.create('a', address(last), at(second)).unwrap();
            sessions.touch(created.key, at(second));
            if let Some(Eviction { key, .. }) = created.evicts {
                assert_eq!(sessions.remove(key).unwrap().session, 'a');
            }
            second += 1;
        }
    }
    assert!(sessions.contains(own));
    sessions.check_invariants();
}

/// A share of 32 sessions.
const HUGE: SessionLimits = SessionLimits { sessions_max: 256, ..LIMITS };

/// Returns address 198.51.`prefix`.1.
fn address_in(prefix: u8) -> Option<ClientAddress> {
    ClientAddress::new([198, 51, prefix, 1].into())
}

/// Creates sessions of forty prefixes and uses some of them; removes what they evict, and returns
/// the names of that.
fn flood(sessions: &mut SessionStore<char>, uses: bool, now: Instant) -> Vec<char> {
    let mut evicted = Vec::new();
    for number in 0..1_000_u32 {
        let prefix = u8::try_from(number % 40).unwrap();
        let created = sessions.create('a', address_in(prefix), now).unwrap();
        if let Some(Eviction { key, .. }) = created.evicts {
            evicted.push(sessions.remove(key).unwrap().session);
        }
        if uses {
            sessions.touch(created.key, now);
        }
    }
    evicted
}

#[test]
fn new_session_outlives_flood_from_many_prefixes() {
    for uses in [false, true] {
        let mut sessions = sessions(HUGE);
        for second in 0..24 {
            let key = sessions.create('u', address(1), at(second)).unwrap().key;
            sessions.touch(key, at(second));
        }
        flood(&mut sessions, uses, at(30));
        let CreatedSession { key, evicts, .. } = sessions.create('n', address(1), at(30)).unwrap();
        sessions.remove(evicts.unwrap().key).unwrap();
        let evicted = flood(&mut sessions, uses, at(30));
        assert!(sessions.contains(key), "{uses} {evicted:?}");
        // Sessions without a message end no used one of another caller.
        assert!(uses || !evicted.contains(&'u'), "{evicted:?}");
        sessions.check_invariants();
    }
}

#[test]
fn unauthenticated_session_evicts_no_authenticated_one() {
    let mut sessions = sessions(SMALL);
    let principal = Principal::new("ada");
    let ada = PlaceOwner { principal: Some(&principal), address: None };
    for second in 0..3 {
        let key = sessions.create('h', ada, at(second)).unwrap().key;
        sessions.touch(key, at(second));
    }
    assert_eq!(sessions.create('a', None, at(3)), Err(SessionError::SessionLimit));
    assert_eq!(sessions.create('a', address(1), at(3)), Err(SessionError::SessionLimit));
    let created = sessions.create('n', ada, at(4)).unwrap();
    assert_eq!(created.evicts.map(|it| it.reason), Some(EvictionReason::AddressShare));
    sessions.check_invariants();
}

#[test]
fn address_of_removed_sessions_is_not_stored() {
    let mut sessions = sessions::<char>(LARGE);
    let keys = [1, 1, 2].map(|last| sessions.create('a', address(last), at(0)).unwrap().key);
    let held_bytes = sessions.held_bytes();
    for key in keys {
        sessions.remove(key).unwrap();
        sessions.check_invariants();
    }
    assert_eq!(sessions.held_bytes(), 0);
    for last in [1, 1, 1] {
        sessions.create('a', address(last), at(1)).unwrap();
    }
    assert!(sessions.held_bytes() < held_bytes);
}

#[test]
fn unused_sessions_expire_in_order_with_used_ones() {
    let mut sessions = sessions(SMALL);
    let [first, second, _] = ['a', 'b', 'c'].map(|name| begin(&mut sessions, name, at(0)));
    sessions.touch(second, at(5));
    assert_eq!(sessions.next_deadline(), Some(at(60)));
    sessions.touch(first, at(10));
    assert_eq!(expire_all(&mut sessions, at(60)), ['c']);
    assert_eq!(expire_all(&mut sessions, at(65)), ['b']);
    assert_eq!(sessions.next_deadline(), Some(at(70)));
}
