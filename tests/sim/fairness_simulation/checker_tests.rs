//! Tests of the checker: it must reject what is unfair and accept what is not.

use std::net::IpAddr;
use std::time::Duration;

use corelane::internal::{HeldPlace, PlaceKind};
use corelane::{Options, Transport};
use corelane_base::client_address::ClientAddress;
use corelane_base::holders::Holder;
use corelane_base::time::Instant;

use crate::fairness_simulation::checker::{FairnessChecker, PlaceLimits};

const TCP: PlaceKind = PlaceKind::Connection(Transport::Tcp);
const IDLE: Duration = Duration::from_millis(500);

fn checker() -> FairnessChecker {
    let mut options = Options::default();
    options.tcp.connections_max = 16;
    options.http.sessions_max = 16;
    options.limits.tasks_max = 16;
    FairnessChecker::new(PlaceLimits::new(&options))
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Places of a kind, so many of each address.
fn places(kind: PlaceKind, held: &[(&str, usize)]) -> Vec<HeldPlace> {
    let of = |(text, count): &(&str, usize)| {
        let holder = Holder::Address(ClientAddress::of(address(text)));
        vec![HeldPlace { kind, holder }; *count]
    };
    held.iter().flat_map(of).collect()
}

const fn at(milliseconds: u64) -> Instant {
    Instant::from_milliseconds(milliseconds)
}

#[test]
fn share_of_places_is_not_exceeded() {
    for kind in [TCP, PlaceKind::Task] {
        let mut checker = checker();
        assert!(checker.record_places(&places(kind, &[("192.0.2.1", 12)])).is_ok());
        assert!(checker.record_places(&places(kind, &[("192.0.2.1", 13)])).is_err());
        let others = [("192.0.2.1", 12), ("192.0.2.2", 5)];
        assert!(checker.record_places(&places(kind, &others)).is_err());
    }
}

#[test]
fn sessions_grow_only_while_some_are_free() {
    let (own, other) = ("192.0.2.1", "198.51.100.1");
    let sessions = |held: &[(&str, usize)]| places(PlaceKind::Session, held);
    let mut checker = checker();
    assert!(checker.record_places(&sessions(&[(own, 10)])).is_ok());
    assert!(checker.record_places(&sessions(&[(own, 12), (other, 4)])).is_ok());
    assert!(checker.record_places(&sessions(&[(own, 12), (other, 4)])).is_ok());
    assert!(checker.record_places(&sessions(&[(own, 13), (other, 3)])).is_err());
}

#[test]
fn place_is_lost_only_by_heaviest_network() {
    let mut checker = checker();
    let held = [("192.0.2.1", 1), ("198.51.100.1", 1), ("198.51.100.2", 1)];
    assert!(checker.record_places(&places(TCP, &held)).is_ok());
    assert!(checker.check_loss(TCP, address("192.0.2.1"), IDLE).is_err());
    // It has lost its only one by then.
    assert!(checker.check_loss(TCP, address("203.0.113.1"), IDLE).is_err());
    assert!(checker.check_loss(TCP, address("198.51.100.1"), IDLE).is_ok());
    assert!(checker.check_loss(PlaceKind::Session, address("192.0.2.1"), IDLE).is_ok());
    let equal = [("192.0.2.1", 1), ("198.51.100.1", 1)];
    assert!(checker.record_places(&places(TCP, &equal)).is_ok());
    assert!(checker.check_loss(TCP, address("192.0.2.1"), IDLE).is_ok());
}

#[test]
fn late_calls_are_reported() {
    let mut checker = checker();
    assert!(checker.check_call(at(100), false, at(1_400)).is_ok());
    assert!(checker.check_call(at(100), false, at(1_401)).is_err());
    assert!(checker.check_call(at(100), true, at(1_100)).is_ok());
    assert!(checker.check_call(at(100), true, at(1_101)).is_err());
    assert_eq!(checker.slowest, Duration::from_millis(1_301));
}
