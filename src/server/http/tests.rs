//! The sessions of a shard, from outside: who goes, who stays, and who pays.

mod model;

use std::time::Duration;

use bytes::Bytes;

use super::*;
use crate::base::slab::Key;
use crate::base::time::Moment;
use crate::engine::mesh::ShardId;
use crate::guard::draws::Draws;
use crate::guard::seal::KEY_BYTES;

const BOUNDS: Bounds = Bounds {
    sessions_max: 3,
    ttl: Duration::from_mins(1),
    streams: StreamBounds {
        streams_max: 4,
        streams_kept_max: 2,
        log: LogBounds { events_max: 4, bytes_max: 2_000 },
    },
    event_bytes_max: 4_000,
    linger: Duration::from_secs(10),
    lingering_max: 3,
};

fn sessions<S>(bounds: Bounds) -> Sessions<S> {
    let draws = Draws::new(&[9; KEY_BYTES], 1);
    Sessions::new(bounds, SessionIds::new(ShardId(2), 5, draws))
}

fn exchange(serial: u32) -> ExchangeAddress {
    ExchangeAddress { shard: ShardId(1), connection: Key::from_bits(7), serial }
}

const fn at(seconds: u64) -> Moment {
    Moment::from_milliseconds(seconds * 1_000)
}

fn begin(sessions: &mut Sessions<char>, session: char, now: Moment) -> Key {
    let Begun { key, .. } = sessions.begin(session, now).unwrap();
    assert!(sessions.make_room(key).is_none());
    key
}

/// Begins a session where there are as many as may be, and tells which one made room.
fn squeeze_in(sessions: &mut Sessions<char>, session: char, now: Moment) -> (Key, Gone<char>) {
    let Begun { key, .. } = sessions.begin(session, now).unwrap();
    (key, sessions.make_room(key).unwrap())
}

/// A stream of a session on which `text` was said and that was sent.
fn send_all(sessions: &mut Sessions<char>, key: Key, text: &Bytes, now: Moment) -> u32 {
    let number = sessions.open(key, exchange(9)).unwrap();
    sessions.push(key, number, text.clone()).unwrap();
    sessions.finish(key, number, now);
    assert!(sessions.detach(key, number, exchange(9), true, now));
    number
}

fn expired(sessions: &mut Sessions<char>, now: Moment) -> Vec<char> {
    std::iter::from_fn(|| sessions.expire(now)).map(|gone| gone.session).collect()
}

#[test]
fn a_session_is_known_by_its_name_until_it_ends() {
    let mut sessions = sessions(BOUNDS);
    let Begun { key, id, .. } = sessions.begin('a', at(0)).unwrap();
    assert_eq!(id.owner(5), ShardId(2));
    assert_eq!((sessions.find(id), sessions.id(key)), (Some(key), Some(id)));
    assert_eq!(SessionId::parse(&id.text()).and_then(|id| sessions.find(id)), Some(key));
    assert_eq!(sessions.session(key).copied(), Some('a'));
    let gone = sessions.remove(key).unwrap();
    assert_eq!((gone.key, gone.session), (key, 'a'));
    assert_eq!((sessions.find(id), sessions.len()), (None, 0));
    assert!(sessions.remove(key).is_none());
}

#[test]
fn all_sessions_can_be_told_at_once() {
    let mut sessions = sessions(BOUNDS);
    let keys = ['a', 'b', 'c'].map(|session| begin(&mut sessions, session, at(0)));
    sessions.remove(keys[1]).unwrap();
    sessions.iter_mut().for_each(|(_, session)| session.make_ascii_uppercase());
    assert_eq!(keys.map(|key| sessions.session(key).copied()), [Some('A'), None, Some('C')]);
}

#[test]
fn names_that_were_never_given_find_nothing_and_cost_nothing() {
    let mut sessions = sessions(BOUNDS);
    begin(&mut sessions, 'a', at(0));
    let held_bytes = sessions.held_bytes();
    let mut foreign = SessionIds::new(ShardId(2), 5, Draws::new(&[8; KEY_BYTES], 1));
    assert!((0..1_000).all(|_| sessions.find(foreign.draw().unwrap()).is_none()));
    assert_eq!((sessions.len(), sessions.held_bytes()), (1, held_bytes));
}

#[test]
fn a_dead_key_does_not_reach_the_session_that_took_its_place() {
    let mut sessions = sessions(BOUNDS);
    let dead = begin(&mut sessions, 'a', at(0));
    sessions.remove(dead).unwrap();
    let key = begin(&mut sessions, 'b', at(1));
    assert_eq!(dead.index(), key.index());
    assert_eq!(sessions.session(dead), None);
    assert!(!sessions.begin_request(dead));
    sessions.end_request(dead, at(2));
    sessions.touch(dead, at(2));
    assert_eq!(sessions.open(dead, exchange(1)), Err(Refusal::Session));
    assert_eq!(sessions.listen(dead, exchange(1)), Err(Refusal::Session));
    assert_eq!(sessions.resume(dead, 0, 0, exchange(1)), Err(Refusal::Session));
    assert_eq!(sessions.push(dead, LISTENING, Bytes::new()), None);
    assert_eq!(sessions.finish(dead, 1, at(2)), None);
    assert_eq!(sessions.next_stream(dead), None);
    assert!(!sessions.detach(dead, LISTENING, exchange(1), true, at(2)));
    assert!(sessions.replay(dead, LISTENING, 0).next().is_none());
    assert_eq!(sessions.deadline(), Some(at(61)));
    sessions.check();
}

#[test]
fn a_session_expires_when_it_was_idle_for_its_time() {
    let mut sessions = sessions(BOUNDS);
    let [one, other] = ['a', 'b'].map(|session| begin(&mut sessions, session, at(0)));
    assert_eq!(sessions.deadline(), Some(at(60)));
    assert!(sessions.begin_request(one) && sessions.begin_request(one));
    sessions.touch(other, at(20));
    sessions.end_request(one, at(30));
    assert_eq!(expired(&mut sessions, at(79)), []);
    assert_eq!(expired(&mut sessions, at(80)), ['b']);
    // One request still runs, however long.
    assert_eq!((sessions.deadline(), expired(&mut sessions, at(9_000))), (None, vec![]));
    sessions.end_request(one, at(9_000));
    assert_eq!(expired(&mut sessions, at(9_059)), []);
    assert_eq!(expired(&mut sessions, at(9_060)), ['a']);
    assert_eq!((sessions.len(), sessions.deadline(), sessions.held_bytes()), (0, None, 0));
}

#[test]
fn a_session_whose_stream_is_carried_does_not_expire() {
    let mut sessions = sessions(BOUNDS);
    let key = begin(&mut sessions, 'a', at(0));
    assert_eq!(sessions.listen(key, exchange(1)), Ok(0));
    assert!(sessions.is_listening(key));
    assert_eq!((sessions.deadline(), sessions.attached()), (None, 1));
    assert!(sessions.detach(key, LISTENING, exchange(1), true, at(500)));
    assert!(!sessions.is_listening(key));
    assert_eq!((sessions.deadline(), sessions.attached()), (Some(at(560)), 0));
}

#[test]
fn the_longest_idle_session_makes_room_and_an_active_one_never_does() {
    let mut sessions = sessions(BOUNDS);
    let [running, idle, listening] = ['r', 'i', 'l'].map(|name| begin(&mut sessions, name, at(0)));
    assert!(sessions.begin_request(running));
    sessions.listen(listening, exchange(1)).unwrap();
    let (next, evicted) = squeeze_in(&mut sessions, 'n', at(1));
    assert_eq!((evicted.key, evicted.session, evicted.exchanges), (idle, 'i', vec![]));
    assert!(!sessions.has(evicted.key));
    assert!(sessions.begin_request(next));
    assert_eq!(sessions.begin('x', at(2)).unwrap_err(), Refusal::Full);
    sessions.end_request(next, at(3));
    sessions.end_request(running, at(4));
    assert_eq!(squeeze_in(&mut sessions, 'y', at(5)).1.session, 'n');
    assert_eq!(squeeze_in(&mut sessions, 'z', at(5)).1.session, 'r');
    assert_eq!(sessions.len(), 3);
    sessions.check();
}

#[test]
fn a_session_whose_handshake_fails_costs_no_other_one_its_place() {
    let mut sessions = sessions(BOUNDS);
    let keys = ['a', 'b', 'c'].map(|session| begin(&mut sessions, session, at(0)));
    let Begun { key, .. } = sessions.begin('x', at(1)).unwrap();
    sessions.remove(key).unwrap();
    assert!(keys.iter().all(|key| sessions.has(*key)) && sessions.len() == 3);
    sessions.check();
}

#[test]
fn a_stream_lingers_for_its_time_and_no_longer() {
    let mut sessions = sessions(BOUNDS);
    let key = begin(&mut sessions, 'a', at(0));
    let held_bytes = sessions.held_bytes();
    let text = Bytes::from_static(b"{}");
    let [first, second] = [at(1), at(3)].map(|now| send_all(&mut sessions, key, &text, now));
    assert_eq!(sessions.deadline(), Some(at(11)));
    sessions.let_go(at(10));
    // Its client comes back for it, and so it lingers anew.
    assert!(sessions.resume(key, first, 0, exchange(2)).unwrap().is_finished);
    assert!(sessions.detach(key, first, exchange(2), true, at(10)));
    sessions.let_go(at(13));
    assert_eq!(sessions.resume(key, second, 0, exchange(3)), Err(Refusal::Event));
    assert_eq!(sessions.deadline(), Some(at(20)));
    sessions.let_go(at(20));
    assert_eq!(sessions.resume(key, first, 0, exchange(3)), Err(Refusal::Event));
    assert_eq!(sessions.held_bytes(), held_bytes);
    sessions.check();
}

#[test]
fn streams_that_linger_are_bounded_over_all_sessions() {
    let mut sessions = sessions(BOUNDS);
    let keys = ['a', 'b'].map(|session| begin(&mut sessions, session, at(0)));
    let text = Bytes::from_static(b"{}");
    let sent =
        [0, 1, 0, 1].map(|place| (keys[place], send_all(&mut sessions, keys[place], &text, at(1))));
    let is_there = sent.map(|(key, number)| sessions.replay(key, number, 0).next().is_some());
    assert_eq!(is_there, [false, true, true, true]);
    sessions.check();
}

#[test]
fn where_memory_ends_what_lingers_pays_first() {
    let mut sessions = sessions(Bounds { event_bytes_max: 1_000, ..BOUNDS });
    let [one, other] = ['o', 'x'].map(|session| begin(&mut sessions, session, at(0)));
    let text = Bytes::from(vec![b'x'; 400]);
    let number = send_all(&mut sessions, one, &text, at(1));
    for _ in 0..2 {
        assert!(sessions.push(other, LISTENING, text.clone()).unwrap().is_kept);
    }
    assert_eq!(sessions.resume(one, number, 0, exchange(2)), Err(Refusal::Event));
    assert_eq!(sessions.replay(other, LISTENING, 0).count(), 2);
    sessions.check();
}

#[test]
fn no_stream_is_promised_where_there_is_no_room_for_one() {
    let mut sessions = sessions(BOUNDS);
    let key = begin(&mut sessions, 'a', at(0));
    for number in 1..=4 {
        assert_eq!(sessions.next_stream(key), Some(number));
        assert_eq!(sessions.open(key, exchange(number)), Ok(number));
    }
    assert_eq!(sessions.next_stream(key), None);
    assert_eq!(sessions.open(key, exchange(5)), Err(Refusal::Streams(4)));
    sessions.finish(key, 2, at(1));
    assert!(sessions.detach(key, 2, exchange(2), true, at(1)));
    assert_eq!(sessions.next_stream(key), Some(5));
}

#[test]
fn a_session_that_ends_tells_the_exchanges_that_end_with_it() {
    let mut sessions = sessions(BOUNDS);
    let key = begin(&mut sessions, 'a', at(0));
    sessions.listen(key, exchange(1)).unwrap();
    sessions.open(key, exchange(2)).unwrap();
    sessions.open(key, exchange(3)).unwrap();
    sessions.detach(key, 1, exchange(2), true, at(1));
    assert_eq!(sessions.remove(key).unwrap().exchanges, [exchange(1), exchange(3)]);
    assert_eq!((sessions.attached(), sessions.held_bytes()), (0, 0));
}

#[test]
fn where_memory_ends_a_stream_pays_with_its_own_past() {
    let mut sessions = sessions(Bounds { event_bytes_max: 1_500, ..BOUNDS });
    let [rich, poor] = ['r', 'p'].map(|session| begin(&mut sessions, session, at(0)));
    let text = Bytes::from(vec![b'x'; 400]);
    for _ in 0..2 {
        assert!(sessions.push(rich, LISTENING, text.clone()).unwrap().is_kept);
    }
    let numbers = |sessions: &Sessions<char>, key| -> Vec<u32> {
        sessions.replay(key, LISTENING, 0).map(|(number, _)| number).collect()
    };
    assert!(sessions.push(poor, LISTENING, text.clone()).unwrap().is_kept);
    assert!(sessions.push(poor, LISTENING, text.clone()).unwrap().is_kept);
    assert_eq!((numbers(&sessions, rich), numbers(&sessions, poor)), (vec![1, 2], vec![2]));
    // What ends makes room.
    sessions.remove(rich).unwrap();
    sessions.push(poor, LISTENING, text).unwrap();
    assert_eq!(numbers(&sessions, poor), [2, 3]);
    sessions.check();
}

#[test]
fn a_stream_without_its_session_cannot_be_resumed_by_another_one() {
    let mut sessions = sessions(BOUNDS);
    let [owner, other] = ['o', 'x'].map(|session| begin(&mut sessions, session, at(0)));
    let number = sessions.open(owner, exchange(1)).unwrap();
    sessions.push(owner, number, Bytes::from_static(b"secret")).unwrap();
    assert_eq!(sessions.resume(other, number, 0, exchange(2)), Err(Refusal::Event));
    assert!(sessions.replay(other, number, 0).next().is_none());
}
