//! A bounded queue from one thread to one other: a lane of the mesh.
//!
//! A ring of places between two counters that only grow. The producer alone moves `tail`, the
//! consumer alone moves `head`; each keeps a copy of the other's counter and looks again only when
//! the copy says full or empty, so that a busy lane moves a cache line once for many letters.
//!
//! What it keeps true: places in `head..tail` (counters taken modulo the number of places) hold
//! values that belong to the consumer, all others are empty and belong to the producer;
//! `tail - head` never passes the number of places; what goes in comes out once, in order, or is
//! dropped with the queue.
//!
//! What it does not do: wake anybody ([`super::parking`] does), or tell that the other end has
//! gone.
//!
//! Checked under `loom` by `tests/mesh_loom.rs`.

use std::mem::MaybeUninit;

use crossbeam::utils::CachePadded;

use super::sync::{Arc, AtomicUsize, Ordering, UnsafeCell};

/// A queue of at least `letters_max` places (the next power of two), as its two ends.
pub(crate) fn lane<T: Send>(letters_max: usize) -> (Producer<T>, Consumer<T>) {
    let places = letters_max.max(1).next_power_of_two();
    let lane = Arc::new(Lane {
        head: CachePadded::new(AtomicUsize::new(0)),
        tail: CachePadded::new(AtomicUsize::new(0)),
        places: (0..places).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect(),
    });
    let producer = Producer { lane: Arc::clone(&lane), tail: 0, head_seen: 0 };
    (producer, Consumer { lane, head: 0, tail_seen: 0 })
}

/// The end that writes.
#[derive(Debug)]
pub(crate) struct Producer<T> {
    lane: Arc<Lane<T>>,
    tail: usize,
    head_seen: usize,
}

/// The end that reads.
#[derive(Debug)]
pub(crate) struct Consumer<T> {
    lane: Arc<Lane<T>>,
    head: usize,
    tail_seen: usize,
}

#[derive(Debug)]
struct Lane<T> {
    head: CachePadded<AtomicUsize>,
    tail: CachePadded<AtomicUsize>,
    places: Box<[UnsafeCell<MaybeUninit<T>>]>,
}

// SAFETY: the ends are two and cannot be cloned, and each place belongs to exactly one of them at
// a time (first page); values cross from thread to thread, hence `T: Send`.
unsafe impl<T: Send> Send for Lane<T> {}
// SAFETY: as above; the counters are atomic.
unsafe impl<T: Send> Sync for Lane<T> {}

impl<T> Lane<T> {
    #[inline]
    fn place(&self, counter: usize) -> &UnsafeCell<MaybeUninit<T>> {
        &self.places[counter & (self.places.len() - 1)]
    }
}

impl<T> Producer<T> {
    /// Puts `value` at the end, or hands it back when the queue is full.
    #[inline]
    pub(crate) fn push(&mut self, value: T) -> Result<(), T> {
        let places = self.lane.places.len();
        if self.tail.wrapping_sub(self.head_seen) == places {
            // Acquire: the consumer has finished reading the places before this counter.
            self.head_seen = self.lane.head.load(Ordering::Acquire);
            if self.tail.wrapping_sub(self.head_seen) == places {
                return Err(value);
            }
        }
        self.lane.place(self.tail).with_mut(|place| {
            // SAFETY: the place is outside `head..tail`, so it is ours and empty; the consumer
            // looks at it only after the store below.
            unsafe { (*place).write(value) };
        });
        self.tail = self.tail.wrapping_add(1);
        // Release: whoever sees the counter sees the value.
        self.lane.tail.store(self.tail, Ordering::Release);
        Ok(())
    }
}

impl<T> Consumer<T> {
    /// Moves at most `values_max` values to the end of `into` and tells how many; the places are
    /// given back all at once.
    pub(crate) fn pop_into(&mut self, into: &mut Vec<T>, values_max: usize) -> usize {
        if self.tail_seen.wrapping_sub(self.head) < values_max {
            // Acquire: the values before this counter have been written.
            self.tail_seen = self.lane.tail.load(Ordering::Acquire);
        }
        let values = self.tail_seen.wrapping_sub(self.head).min(values_max);
        if values == 0 {
            return 0;
        }
        // Grown here, so that nothing can fail while values are between the two owners.
        into.reserve(values);
        for _ in 0..values {
            let value = self.lane.place(self.head).with(|place| {
                // SAFETY: the place is inside `head..tail`, so it holds a value that is ours; it
                // is read once, because `head` passes it here and is published below.
                unsafe { (*place).assume_init_read() }
            });
            self.head = self.head.wrapping_add(1);
            into.push(value);
        }
        // Release: the producer writes to these places only after it has seen this counter.
        self.lane.head.store(self.head, Ordering::Release);
        values
    }

    /// Whether nothing waits at this moment.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.lane.tail.load(Ordering::Acquire) == self.head
    }
}

impl<T> Drop for Lane<T> {
    fn drop(&mut self) {
        let tail = self.tail.load(Ordering::Acquire);
        let mut head = self.head.load(Ordering::Acquire);
        while head != tail {
            self.place(head).with_mut(|place| {
                // SAFETY: both ends are gone, and places in `head..tail` hold values that nobody
                // has read.
                unsafe { (*place).assume_init_drop() };
            });
            head = head.wrapping_add(1);
        }
    }
}
