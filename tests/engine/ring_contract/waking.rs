//! Waiting, and being woken.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use corelane::engine::ring::{Patience, Ring, RingOptions, Waker};

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
    let (parking, parked) = channel::<()>();
    let other = thread::spawn(move || {
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

/// Two rings on two threads, each woken by the other a thousand times. `wakes` is how one does it.
pub(super) fn rings_wake_each_other<R: Ring + 'static>(
    build: impl Fn() -> Option<R> + Send + Sync + 'static,
    wakes: fn(&mut R, &Waker),
) {
    let build = Arc::new(build);
    let (to_first, from_second) = channel::<Waker>();
    let (to_second, from_first) = channel::<Waker>();
    // Each takes its turn: one word, by the wake itself and nothing else, goes to and fro.
    let word = Arc::new(AtomicU32::new(0));
    let side = |own: u32, tell: Sender<Waker>, hear: Receiver<_>| {
        let (build, word) = (Arc::clone(&build), Arc::clone(&word));
        thread::spawn(move || {
            let Some(mut ring) = build() else { return };
            ring.park(Patience::None);
            tell.send(ring.waker()).unwrap();
            let other: Waker = hear.recv().unwrap();
            for round in 0..1_000 {
                let turn = 2 * round + own;
                while word.load(Ordering::Acquire) != turn {
                    // Forever: a wake that is lost is a test that does not end.
                    ring.park(Patience::Forever);
                    ring.reap(&mut Vec::new());
                }
                word.store(turn + 1, Ordering::Release);
                wakes(&mut ring, &other);
                ring.park(Patience::None);
            }
            // Neither ring goes before the other has heard its last.
            tell.send(ring.waker()).unwrap();
            hear.recv().unwrap();
        })
    };
    let sides = [side(0, to_second, from_second), side(1, to_first, from_first)];
    for side in sides {
        side.join().unwrap();
    }
}

/// A wake for a ring whose thread has ended goes nowhere and harms nobody.
pub(super) fn a_ring_that_is_gone_is_woken_in_vain<R: Ring + 'static>(
    build: impl Fn() -> Option<R> + Send + 'static,
) {
    let Some(mut ring) = build() else { return };
    let gone = thread::spawn(move || build().map(|ring| ring.waker())).join().unwrap();
    let Some(gone) = gone else { return };
    for _ in 0..100 {
        ring.wake(&gone);
        ring.park(Patience::None);
        gone.wake();
    }
    ring.waker().wake();
    ring.park(Patience::Forever);
}

/// A message is a submission without a completion of its own: it does not end the sender's wait.
pub(super) fn waking_another_does_not_wake_oneself<R: Ring + 'static>(
    mut ring: R,
    build: impl Fn() -> Option<R> + Send + 'static,
) {
    let (tell, hear) = channel();
    let (release, released) = channel::<()>();
    let other = thread::spawn(move || {
        let Some(mut ring) = build() else { return };
        ring.park(Patience::None);
        tell.send(ring.waker()).unwrap();
        ring.park(Patience::Forever);
        released.recv().unwrap_err();
    });
    let waker = hear.recv().unwrap();
    let before = ring.park(Patience::None);
    ring.wake(&waker);
    let after = ring.park(Patience::For(Duration::from_millis(50)));
    assert!(after.since(before) >= Duration::from_millis(45), "{:?}", after.since(before));
    drop(release);
    other.join().unwrap();
}

pub(super) fn time_does_not_go_back<R: Ring>(mut bench: Bench<R>) {
    let mut before = bench.now;
    for _ in 0..100 {
        let now = bench.ring.park(Patience::None);
        assert!(now >= before);
        before = now;
    }
}
