//! The mesh's lane, its wake protocol and its table of what was redeemed, in every order that the
//! memory model allows.
//!
//! The files under test are the engine's own, included beside a `sync` module made of the model
//! checker's types, so that no flag and no second build of the dependencies is needed.

#[path = "../src/engine/mesh/parking.rs"]
mod parking;
#[path = "../src/engine/mesh/queue.rs"]
mod queue;
#[expect(unreachable_pub, reason = "what is public in the engine has nobody to see it here")]
#[path = "../src/engine/mesh/spent.rs"]
mod spent;

mod sync {
    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::sync::Arc;
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
}

use loom::model::Builder;
use loom::sync::Arc;
use loom::thread::{self, Thread};

use self::parking::Parking;
use self::queue::{Consumer, lane};
use self::spent::{Redeemed, Spent};

#[test]
fn letters_cross_once_and_in_order_through_a_full_lane() {
    loom::model(|| {
        let (mut producer, mut consumer) = lane::<Box<usize>>(2);
        let sender = thread::spawn(move || {
            let mut refused = Vec::new();
            for letter in 0..3 {
                if let Err(letter) = producer.push(Box::new(letter)) {
                    refused.push(*letter);
                }
            }
            refused
        });
        let mut letters = Vec::new();
        consumer.pop_into(&mut letters, 1);
        consumer.pop_into(&mut letters, 4);
        let refused = sender.join().expect("the sender never panics");
        consumer.pop_into(&mut letters, 4);
        assert!(consumer.is_empty());
        let mut letters: Vec<usize> = letters.into_iter().map(|letter| *letter).collect();
        assert!(letters.is_sorted());
        letters.extend(refused);
        letters.sort_unstable();
        assert_eq!(letters, [0, 1, 2]);
    });
}

#[test]
fn letters_left_in_a_lane_are_dropped_by_whichever_end_goes_last() {
    loom::model(|| {
        let witness = std::sync::Arc::new(());
        let (mut producer, mut consumer) = lane(2);
        let letters = [std::sync::Arc::clone(&witness), std::sync::Arc::clone(&witness)];
        let sender = thread::spawn(move || {
            for letter in letters {
                assert!(producer.push(letter).is_ok());
            }
        });
        let mut taken = Vec::new();
        consumer.pop_into(&mut taken, 1);
        drop((consumer, taken));
        sender.join().expect("the sender never panics");
        assert_eq!(std::sync::Arc::strong_count(&witness), 1);
    });
}

#[test]
fn no_letter_is_left_beside_a_sleeper() {
    bounded_model().check(|| {
        let door = Door::shared();
        let (mut producer, consumer) = lane(2);
        let target = Arc::clone(&door);
        thread::spawn(move || {
            for letter in 0..2 {
                assert!(producer.push(letter).is_ok());
                target.rouse();
            }
        });
        door.receive(&mut [consumer], 2);
    });
}

#[test]
fn two_senders_may_share_one_wake() {
    bounded_model().check(|| {
        let door = Door::shared();
        let mut lanes = Vec::new();
        for letter in 0..2 {
            let (mut producer, consumer) = lane(1);
            lanes.push(consumer);
            let target = Arc::clone(&door);
            thread::spawn(move || {
                assert!(producer.push(letter).is_ok());
                target.rouse();
            });
        }
        door.receive(&mut lanes, 2);
    });
}

#[test]
fn of_two_who_redeem_one_number_the_first_has_it() {
    loom::model(|| {
        let spent = Arc::new(Spent::new(32));
        let other = Arc::clone(&spent);
        let thread = thread::spawn(move || (other.redeem(1), other.redeem(2)));
        let (mine, theirs) = (spent.redeem(1), thread.join().expect("it never panics"));
        let redeemed = [mine, theirs.0].map(|outcome| outcome == Redeemed::First);
        assert!(redeemed == [true, false] || redeemed == [false, true]);
        assert_eq!(theirs.1, Redeemed::First);
        assert_eq!(spent.redeem(2), Redeemed::Again);
    });
}

#[test]
fn a_number_is_not_redeemed_again_while_a_later_one_takes_its_place() {
    loom::model(|| {
        let spent = Arc::new(Spent::new(32));
        let (old, later) = (5, 5 + 32);
        assert_eq!(spent.redeem(old), Redeemed::First);
        let other = Arc::clone(&spent);
        let thread = thread::spawn(move || other.redeem(later));
        assert_ne!(spent.redeem(old), Redeemed::First);
        assert_eq!(thread.join().expect("it never panics"), Redeemed::First);
        assert_eq!(spent.redeem(old), Redeemed::Forgotten);
        assert_eq!(spent.redeem(later), Redeemed::Again);
    });
}

#[test]
fn numbers_are_issued_once() {
    loom::model(|| {
        let spent = Arc::new(Spent::new(32));
        let other = Arc::clone(&spent);
        let thread = thread::spawn(move || other.issue());
        assert_ne!(spent.issue(), thread.join().expect("it never panics"));
    });
}

/// Every order with up to three preemptions. Without a bound these two run for minutes, and find
/// nothing more.
fn bounded_model() -> Builder {
    let mut model = Builder::new();
    model.preemption_bound = Some(3);
    model
}

/// A sleeper's flag and its sticky wake.
struct Door {
    parking: Parking,
    sleeper: Thread,
}

impl Door {
    fn shared() -> Arc<Self> {
        Arc::new(Self { parking: Parking::new(), sleeper: thread::current() })
    }

    /// What a sender does after it left its letter.
    fn rouse(&self) {
        if self.parking.rouse() {
            self.sleeper.unpark();
        }
    }

    /// Takes `expected` letters and parks whenever there are none. A wake that got lost leaves it
    /// parked for ever, which the model reports as a deadlock.
    fn receive(&self, lanes: &mut [Consumer<usize>], expected: usize) {
        let mut letters = Vec::new();
        loop {
            for lane in &mut *lanes {
                lane.pop_into(&mut letters, 2);
            }
            if letters.len() == expected {
                return;
            }
            self.parking.announce();
            if lanes.iter().all(Consumer::is_empty) {
                thread::park();
            }
            self.parking.withdraw();
        }
    }
}
