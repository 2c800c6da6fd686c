//! A bounded single-producer single-consumer channel.
//!
//! A ring of slots between two counters that only grow. The producer alone advances `tail`, the
//! consumer alone advances `head`; each caches the other's counter and reloads it only when the
//! cached value shows a full or empty queue, so that a busy channel moves a cache line once for
//! many messages.
//!
//! Invariants: slots in `head..tail` (modulo the number of slots) hold values and belong to the
//! consumer, all others are empty and belong to the producer; `tail - head` never exceeds the
//! number of slots; each value is received once and in order, or dropped with the channel.
//!
//! It neither wakes the consumer (see [`super::event_count`]) nor reports that the other end has
//! been dropped. Checked under `loom` by `tests/engine/mesh_loom.rs`.

use std::mem::MaybeUninit;

use crossbeam::utils::CachePadded;

use super::sync::{Arc, AtomicUsize, Ordering, UnsafeCell};

/// Creates a channel of at least `messages_max` slots (rounded up to a power of two).
pub(crate) fn channel<T: Send>(messages_max: usize) -> (Producer<T>, Consumer<T>) {
    let slots = messages_max.max(1).next_power_of_two();
    let channel = Arc::new(Channel {
        head: CachePadded::new(AtomicUsize::new(0)),
        tail: CachePadded::new(AtomicUsize::new(0)),
        slots: (0..slots).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect(),
    });
    let producer = Producer { channel: Arc::clone(&channel), tail: 0, cached_head: 0 };
    (producer, Consumer { channel, head: 0, cached_tail: 0 })
}

/// The end that sends, of one thread at a time: only it advances `tail`.
#[derive(Debug)]
pub(crate) struct Producer<T> {
    channel: Arc<Channel<T>>,
    tail: usize,
    cached_head: usize,
}

/// The end that receives, of one thread at a time: only it advances `head`.
#[derive(Debug)]
pub(crate) struct Consumer<T> {
    channel: Arc<Channel<T>>,
    head: usize,
    cached_tail: usize,
}

#[derive(Debug)]
struct Channel<T> {
    head: CachePadded<AtomicUsize>,
    tail: CachePadded<AtomicUsize>,
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
}

// SAFETY: there is one end of each kind, neither can be cloned, and each slot belongs to exactly
// one of them at a time (see the invariants); values cross threads, hence `T: Send`.
unsafe impl<T: Send> Send for Channel<T> {}
// SAFETY: as above; the counters are atomic.
unsafe impl<T: Send> Sync for Channel<T> {}

impl<T> Channel<T> {
    #[inline]
    fn slot(&self, counter: usize) -> &UnsafeCell<MaybeUninit<T>> {
        &self.slots[counter & (self.slots.len() - 1)]
    }
}

impl<T> Producer<T> {
    /// Appends `value`, or returns it as an error if the channel is full.
    #[inline]
    pub(crate) fn push(&mut self, value: T) -> Result<(), T> {
        let slots = self.channel.slots.len();
        if self.tail.wrapping_sub(self.cached_head) == slots {
            // Acquire: the consumer has finished reading the slots before this counter.
            self.cached_head = self.channel.head.load(Ordering::Acquire);
            if self.tail.wrapping_sub(self.cached_head) == slots {
                return Err(value);
            }
        }
        self.channel.slot(self.tail).with_mut(|slot| {
            // SAFETY: the slot is outside `head..tail`, so it is empty and belongs to the producer;
            // the consumer reads it only after the store below.
            unsafe { (*slot).write(value) };
        });
        self.tail = self.tail.wrapping_add(1);
        // Release: a thread that sees the counter sees the value.
        self.channel.tail.store(self.tail, Ordering::Release);
        Ok(())
    }
}

impl<T> Consumer<T> {
    /// Appends at most `values_max` values to `into` and returns their number. The slots are
    /// released all at once.
    pub(crate) fn pop_into(&mut self, into: &mut Vec<T>, values_max: usize) -> usize {
        if self.cached_tail.wrapping_sub(self.head) < values_max {
            // Acquire: the values before this counter have been written.
            self.cached_tail = self.channel.tail.load(Ordering::Acquire);
        }
        let values = self.cached_tail.wrapping_sub(self.head).min(values_max);
        if values == 0 {
            return 0;
        }
        // Reserved here, so that nothing can panic between reading values and publishing `head`.
        into.reserve(values);
        for _ in 0..values {
            let value = self.channel.slot(self.head).with(|slot| {
                // SAFETY: the slot is inside `head..tail`, so it holds a value; it is read once,
                // because `head` is advanced past it here and published below.
                unsafe { (*slot).assume_init_read() }
            });
            self.head = self.head.wrapping_add(1);
            into.push(value);
        }
        // Release: the producer writes to these slots only after it has seen this counter.
        self.channel.head.store(self.head, Ordering::Release);
        values
    }

    /// Returns the number of values in the channel at this moment.
    pub(crate) fn len(&self) -> usize {
        self.channel.tail.load(Ordering::Acquire).wrapping_sub(self.head)
    }

    /// Returns whether the channel is empty at this moment.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.channel.tail.load(Ordering::Acquire) == self.head
    }
}

impl<T> Drop for Channel<T> {
    fn drop(&mut self) {
        let tail = self.tail.load(Ordering::Acquire);
        let mut head = self.head.load(Ordering::Acquire);
        while head != tail {
            self.slot(head).with_mut(|slot| {
                // SAFETY: both ends have been dropped, and slots in `head..tail` hold values that
                // have not been read.
                unsafe { (*slot).assume_init_drop() };
            });
            head = head.wrapping_add(1);
        }
    }
}
