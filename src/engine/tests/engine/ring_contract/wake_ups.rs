//! Parking and wake-ups.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use corelane_engine::ring::{ParkTimeout, Ring, RingOptions, Waker};

use super::test_ring::TestRing;

pub(super) fn options() -> RingOptions {
    super::small()
}

pub(super) fn park_ends_after_its_timeout<R: Ring>(mut bench: TestRing<R>) {
    let before = bench.ring.park(ParkTimeout::Zero);
    let after = bench.ring.park(ParkTimeout::After(Duration::from_millis(30)));
    assert!(after.since(before) >= Duration::from_millis(25));
    let again = bench.ring.park(ParkTimeout::After(Duration::ZERO));
    assert!(again.since(after) < Duration::from_secs(5));
}

pub(super) fn park_without_timeout_returns_immediately<R: Ring>(mut bench: TestRing<R>) {
    let (_client, _socket) = bench.connect_receiving();
    for _ in 0..1_000 {
        bench.turn(ParkTimeout::Zero);
    }
    assert!(bench.completions.is_empty());
}

pub(super) fn wake_before_park_ends_it<R: Ring>(mut bench: TestRing<R>) {
    let waker = bench.ring.waker();
    for _ in 0..3 {
        waker.wake();
        waker.clone().wake();
        // Forever: without the wake-up the test hangs.
        bench.turn(ParkTimeout::Infinite);
        bench.run_until_idle();
    }
}

pub(super) fn wake_from_other_thread_ends_park<R: Ring>(mut bench: TestRing<R>) {
    let waker = bench.ring.waker();
    let (parking, parked) = channel::<()>();
    let other = thread::spawn(move || {
        let mut wakes = 0_u32;
        while parked.recv().is_ok() {
            waker.wake();
            wakes += 1;
        }
        wakes
    });
    for _ in 0..100 {
        parking.send(()).unwrap();
        bench.turn(ParkTimeout::Infinite);
    }
    drop(parking);
    assert_eq!(other.join().unwrap(), 100);
}

/// Two rings on two threads wake each other a thousand times, by `wakes`.
pub(super) fn rings_wake_each_other<R: Ring + 'static>(
    build: impl Fn() -> Option<R> + Send + Sync + 'static,
    wakes: fn(&mut R, &Waker),
) {
    let build = Arc::new(build);
    let (to_first, from_second) = channel::<Waker>();
    let (to_second, from_first) = channel::<Waker>();
    // A shared counter passes the turn; nothing but the wake-up ends the other's park.
    let counter = Arc::new(AtomicU32::new(0));
    let side = |own: u32, tx: Sender<Waker>, rx: Receiver<_>| {
        let (build, counter) = (Arc::clone(&build), Arc::clone(&counter));
        thread::spawn(move || {
            let Some(mut ring) = build() else { return };
            ring.park(ParkTimeout::Zero);
            tx.send(ring.waker()).unwrap();
            let other: Waker = rx.recv().unwrap();
            for round in 0..1_000 {
                let turn = 2 * round + own;
                while counter.load(Ordering::Acquire) != turn {
                    // Forever: a lost wake-up hangs the test.
                    ring.park(ParkTimeout::Infinite);
                    ring.reap(&mut Vec::new());
                }
                counter.store(turn + 1, Ordering::Release);
                wakes(&mut ring, &other);
                ring.park(ParkTimeout::Zero);
            }
            // Neither ring is dropped before the other has finished.
            tx.send(ring.waker()).unwrap();
            rx.recv().unwrap();
        })
    };
    let sides = [side(0, to_second, from_second), side(1, to_first, from_first)];
    for side in sides {
        side.join().unwrap();
    }
}

/// A wake-up of a ring whose thread has ended has no effect.
pub(super) fn wake_dropped_ring<R: Ring + 'static>(build: impl Fn() -> Option<R> + Send + 'static) {
    let Some(mut ring) = build() else { return };
    let dropped = thread::spawn(move || build().map(|ring| ring.waker())).join().unwrap();
    let Some(dropped) = dropped else { return };
    for _ in 0..100 {
        ring.wake(&dropped);
        ring.park(ParkTimeout::Zero);
        dropped.wake();
    }
    ring.waker().wake();
    ring.park(ParkTimeout::Infinite);
}

/// `IORING_OP_MSG_RING` produces no completion on the sender's ring: its park goes on.
pub(super) fn wake_other_ring_without_ending_own_park<R: Ring + 'static>(
    mut ring: R,
    build: impl Fn() -> Option<R> + Send + 'static,
) {
    let (tx, rx) = channel();
    let (release, released) = channel::<()>();
    let other = thread::spawn(move || {
        let Some(mut ring) = build() else { return };
        ring.park(ParkTimeout::Zero);
        tx.send(ring.waker()).unwrap();
        ring.park(ParkTimeout::Infinite);
        released.recv().unwrap_err();
    });
    let waker = rx.recv().unwrap();
    let before = ring.park(ParkTimeout::Zero);
    ring.wake(&waker);
    let after = ring.park(ParkTimeout::After(Duration::from_millis(50)));
    assert!(after.since(before) >= Duration::from_millis(45), "{:?}", after.since(before));
    drop(release);
    other.join().unwrap();
}

pub(super) fn time_never_goes_back<R: Ring>(mut bench: TestRing<R>) {
    let mut before = bench.now;
    for _ in 0..100 {
        let now = bench.ring.park(ParkTimeout::Zero);
        assert!(now >= before);
        before = now;
    }
}
