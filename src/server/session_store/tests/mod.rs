//! Tests of the session store: creation, expiry and memory limits.

mod eviction;
mod model;
mod model_session;

use std::time::Duration;

use bytes::Bytes;
use corelane_base::slab::Key;
use corelane_base::time::Instant;
use corelane_engine::mesh::ShardId;

use super::*;
use crate::guard::secure_rng::{Purpose, SecureRng};
use crate::guard::state_cipher::KEY_BYTES;
use crate::server::options::SecondStream;
use crate::server::owner_id::{OwnerIds, SessionId};
use crate::server::shard_message::ExchangeAddress;
use crate::server::shard_message::{EventLogLimits, SessionLimits, StreamLimits};

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
