//! Model checks of the mesh's channel, wake-up protocol, replay filter and set of digests with
//! `loom`: every execution that the memory model allows.
//!
//! The engine's own files are included next to a `sync` module of loom's types, so that no `cfg`
//! flag and no second build of the dependencies is needed.

#[path = "../../mesh/event_count.rs"]
mod event_count;
#[path = "../../mesh/queue.rs"]
mod queue;
#[expect(unreachable_pub, reason = "this crate has no users")]
#[path = "../../mesh/single_use.rs"]
mod single_use;

mod sync {
    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::sync::Arc;
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};

    pub(crate) fn zeroed_words(count: usize) -> Box<[AtomicU64]> {
        (0..count).map(|_| AtomicU64::new(0)).collect()
    }
}

use loom::model::Builder;
use loom::sync::Arc;
use loom::thread::{self, Thread};

use self::event_count::EventCount;
use self::queue::{Consumer, channel};
use self::single_use::{ExpiringSet, InsertResult, ReplayFilter, UseResult};

#[test]
fn full_channel_delivers_messages_once_and_in_order() {
    loom::model(|| {
        let (mut producer, mut consumer) = channel::<Box<usize>>(2);
        let sender = thread::spawn(move || {
            let mut refused = Vec::new();
            for message in 0..3 {
                if let Err(message) = producer.push(Box::new(message)) {
                    refused.push(*message);
                }
            }
            refused
        });
        let mut messages = Vec::new();
        consumer.pop_into(&mut messages, 1);
        consumer.pop_into(&mut messages, 4);
        let refused = sender.join().expect("sender does not panic");
        consumer.pop_into(&mut messages, 4);
        assert_eq!((consumer.len(), consumer.is_empty()), (0, true));
        let mut messages: Vec<usize> = messages.into_iter().map(|message| *message).collect();
        assert!(messages.is_sorted());
        messages.extend(refused);
        messages.sort_unstable();
        assert_eq!(messages, [0, 1, 2]);
    });
}

#[test]
fn messages_left_in_channel_are_dropped_with_it() {
    loom::model(|| {
        let witness = std::sync::Arc::new(());
        let (mut producer, mut consumer) = channel(2);
        let messages = [std::sync::Arc::clone(&witness), std::sync::Arc::clone(&witness)];
        let sender = thread::spawn(move || {
            for message in messages {
                assert!(producer.push(message).is_ok());
            }
        });
        let mut received = Vec::new();
        consumer.pop_into(&mut received, 1);
        drop((consumer, received));
        sender.join().expect("sender does not panic");
        assert_eq!(std::sync::Arc::strong_count(&witness), 1);
    });
}

#[test]
fn parked_receiver_misses_no_message() {
    bounded_model().check(|| {
        let receiver = ParkedReceiver::shared();
        let (mut producer, consumer) = channel(2);
        let target = Arc::clone(&receiver);
        thread::spawn(move || {
            for message in 0..2 {
                assert!(producer.push(message).is_ok());
                target.wake();
            }
        });
        receiver.receive(&mut [consumer], 2);
    });
}

#[test]
fn one_wake_serves_two_senders() {
    bounded_model().check(|| {
        let receiver = ParkedReceiver::shared();
        let mut channels = Vec::new();
        for message in 0..2 {
            let (mut producer, consumer) = channel(1);
            channels.push(consumer);
            let target = Arc::clone(&receiver);
            thread::spawn(move || {
                assert!(producer.push(message).is_ok());
                target.wake();
            });
        }
        receiver.receive(&mut channels, 2);
    });
}

#[test]
fn concurrent_use_of_one_number_succeeds_once() {
    loom::model(|| {
        let filter = Arc::new(ReplayFilter::new(32));
        let other = Arc::clone(&filter);
        let thread = thread::spawn(move || (other.mark_used(1), other.mark_used(2)));
        let (mine, theirs) = (filter.mark_used(1), thread.join().expect("thread does not panic"));
        let redeemed = [mine, theirs.0].map(|outcome| outcome == UseResult::First);
        assert!(redeemed == [true, false] || redeemed == [false, true]);
        assert_eq!(theirs.1, UseResult::First);
        assert_eq!(filter.mark_used(2), UseResult::Replayed);
    });
}

#[test]
fn redeemed_number_stays_redeemed_when_evicted() {
    loom::model(|| {
        let filter = Arc::new(ReplayFilter::new(32));
        let (old, later) = (5, 5 + 32);
        assert_eq!(filter.mark_used(old), UseResult::First);
        let other = Arc::clone(&filter);
        let thread = thread::spawn(move || other.mark_used(later));
        assert_ne!(filter.mark_used(old), UseResult::First);
        assert_eq!(thread.join().expect("thread does not panic"), UseResult::First);
        assert_eq!(filter.mark_used(old), UseResult::Expired);
        assert_eq!(filter.mark_used(later), UseResult::Replayed);
    });
}

#[test]
fn numbers_are_issued_once() {
    loom::model(|| {
        let filter = Arc::new(ReplayFilter::new(32));
        let other = Arc::clone(&filter);
        let thread = thread::spawn(move || other.issue());
        assert_ne!(filter.issue(), thread.join().expect("thread does not panic"));
    });
}

/// All executions with up to three preemptions. Without this bound the two models take minutes and
/// find nothing more.
fn bounded_model() -> Builder {
    let mut model = Builder::new();
    model.preemption_bound = Some(3);
    model
}

/// The event count of a receiver and its thread.
struct ParkedReceiver {
    event_count: EventCount,
    thread: Thread,
}

impl ParkedReceiver {
    fn shared() -> Arc<Self> {
        Arc::new(Self { event_count: EventCount::new(), thread: thread::current() })
    }

    /// Wakes the receiver after a message was sent.
    fn wake(&self) {
        if self.event_count.wake() {
            self.thread.unpark();
        }
    }

    /// Receives `expected` messages and parks while there are none. After a lost wake-up it stays
    /// parked, which the model reports as a deadlock.
    fn receive(&self, channels: &mut [Consumer<usize>], expected: usize) {
        let mut messages = Vec::new();
        loop {
            for channel in &mut *channels {
                channel.pop_into(&mut messages, 2);
            }
            if messages.len() == expected {
                return;
            }
            self.event_count.prepare_wait();
            if channels.iter().all(Consumer::is_empty) {
                thread::park();
            }
            self.event_count.cancel_wait();
        }
    }
}

#[test]
fn digest_is_first_for_one_thread() {
    loom::model(|| {
        let set = Arc::new(ExpiringSet::new(1));
        // It expires between the two, so that they find different words free.
        assert_eq!(set.insert(2 << 64, 100, 102), InsertResult::First);
        let other = Arc::clone(&set);
        let later = thread::spawn(move || other.insert(4 << 64, 102, 110));
        let first = set.insert(4 << 64, 101, 110);
        let results = [first, later.join().expect("no panic")];
        let firsts = results.iter().filter(|result| **result == InsertResult::First).count();
        assert!(firsts <= 1, "{results:?}");
        assert_eq!(set.insert(4 << 64, 102, 110), InsertResult::Present);
    });
}
