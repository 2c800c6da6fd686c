//! Which session a new one evicts at the limit.

use corelane_base::client_address::ClientAddress;

use super::*;
use crate::telemetry::label::EvictionReason;

/// A share of one session.
const SMALL: SessionLimits = LIMITS;
/// A share of two sessions.
const LARGE: SessionLimits = SessionLimits { sessions_max: 16, ..LIMITS };

/// Returns address 192.0.2.`last`.
pub(super) fn address(last: u8) -> Option<ClientAddress> {
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
    assert_eq!((removed.session, reason), ('a', EvictionReason::Idle));
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
