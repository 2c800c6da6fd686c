//! Waiting, and being woken.

use std::time::Duration;

use corelane::engine::ring::{Patience, Ring, RingOptions};

use super::bench::Bench;

pub(super) fn options() -> RingOptions {
    super::small()
}

pub(super) fn patience_ends<R: Ring>(mut bench: Bench<R>) {
    let before = bench.ring.park(Patience::None);
    let after = bench.ring.park(Patience::For(Duration::from_millis(30)));
    assert!(after.since(before) >= Duration::from_millis(25));
    let again = bench.ring.park(Patience::For(Duration::ZERO));
    assert!(again.since(after) < Duration::from_secs(5));
}

pub(super) fn no_patience_comes_back_at_once<R: Ring>(mut bench: Bench<R>) {
    let (_client, _socket) = bench.connected();
    for _ in 0..1_000 {
        bench.turn(Patience::None);
    }
    assert!(bench.told.is_empty());
}

pub(super) fn a_wake_before_the_park_ends_it<R: Ring>(mut bench: Bench<R>) {
    let waker = bench.ring.waker();
    for _ in 0..3 {
        waker.wake();
        waker.clone().wake();
        // Forever: without the wake this test would not end.
        bench.turn(Patience::Forever);
        bench.settle();
    }
}

pub(super) fn a_wake_from_another_thread_ends_the_park<R: Ring>(mut bench: Bench<R>) {
    let reach = bench.ring.waker();
    let (parking, parked) = std::sync::mpsc::channel::<()>();
    let other = std::thread::spawn(move || {
        let mut wakes = 0_u32;
        while parked.recv().is_ok() {
            reach.wake();
            wakes += 1;
        }
        wakes
    });
    for _ in 0..100 {
        parking.send(()).unwrap();
        bench.turn(Patience::Forever);
    }
    drop(parking);
    assert_eq!(other.join().unwrap(), 100);
}

pub(super) fn time_does_not_go_back<R: Ring>(mut bench: Bench<R>) {
    let mut before = bench.now;
    for _ in 0..100 {
        let now = bench.ring.park(Patience::None);
        assert!(now >= before);
        before = now;
    }
}
