//! A pool of reusable byte buffers.
//!
//! Invariants: the retained capacity never exceeds `retained_bytes_max`, and a buffer that has
//! grown past `buffer_bytes_max` is freed instead of retained, so that one large message does not
//! leave a large shard behind. A few large buffers are kept between [`BufferPool::keep_large`] and
//! [`BufferPool::free_large`], because each page of a new one costs microseconds at its first use.

use std::ops::RangeInclusive;

/// Capacity of a buffer for what may stay incomplete for long.
const SMALL_BYTES_MAX: usize = 64 << 10;

/// Capacity from which on a buffer may be kept as a large one.
const LARGE_BYTES_MIN: usize = 1 << 20;

/// Large buffers that are kept.
const LARGE_BUFFERS_MAX: usize = 4;

/// Bytes of a large buffer behind its content that do not count as unused.
const LARGE_SPARE_BYTES: usize = 4 << 10;

/// Length from which on a message that is received in parts grows by a quarter.
pub const GROWS_BY_QUARTER_MIN: usize = 64 << 10;

/// Unit in which the capacity of a large buffer is counted.
pub const CAPACITY_UNIT: usize = 4 << 10;

/// Returns the capacity of a buffer with large content in units, and 0 for any other.
#[inline]
pub const fn large_capacity(length: usize, capacity: usize) -> usize {
    if length > SMALL_BYTES_MAX { capacity.div_ceil(CAPACITY_UNIT) } else { 0 }
}

/// Returns the bytes that a buffer of output counts for: with large content its whole capacity. A
/// large one with little content is one of the pool.
#[inline]
pub const fn counted_bytes(length: usize, capacity: usize) -> usize {
    match large_capacity(length, capacity) {
        0 => length,
        units => units * CAPACITY_UNIT,
    }
}

/// Reserves room for `additional` bytes of a message that is received in parts, and is not longer
/// than `length_max`. That of a large message is little more than the message.
#[inline]
pub fn reserve_part(message: &mut Vec<u8>, additional: usize, length_max: usize) {
    let needed = message.len() + additional;
    if needed > message.capacity() && needed > GROWS_BY_QUARTER_MIN / 2 {
        let spare = (message.len() / 4).min(length_max.saturating_sub(needed));
        let spare = spare.max(GROWS_BY_QUARTER_MIN.saturating_sub(needed));
        message.reserve_exact(additional + spare);
    } else {
        message.reserve(additional);
    }
}

/// A shard's pool of empty byte buffers. Once warm, neither [`BufferPool::take`] nor
/// [`BufferPool::put`] allocates.
#[derive(Debug)]
pub struct BufferPool {
    idle: Vec<Vec<u8>>,
    retained_bytes: usize,
    retained_bytes_max: usize,
    buffer_bytes_max: usize,
    large: LargeBuffers,
}

/// Large buffers that are kept.
#[derive(Debug)]
struct LargeBuffers {
    idle: Vec<Vec<u8>>,
    bytes: usize,
    /// 0 while none are kept.
    bytes_max: usize,
}

impl BufferPool {
    /// Creates a pool that retains at most `retained_bytes_max` bytes of capacity, in buffers of at
    /// most `buffer_bytes_max` bytes each.
    pub const fn new(retained_bytes_max: usize, buffer_bytes_max: usize) -> Self {
        let large = LargeBuffers { idle: Vec::new(), bytes: 0, bytes_max: 0 };
        Self { idle: Vec::new(), retained_bytes: 0, retained_bytes_max, buffer_bytes_max, large }
    }

    /// Returns an empty buffer, with the capacity of a retained one if the pool has any.
    #[inline]
    pub fn take(&mut self) -> Vec<u8> {
        match self.idle.pop() {
            Some(buffer) => {
                self.retained_bytes -= buffer.capacity();
                buffer
            }
            None => Vec::new(),
        }
    }

    /// Returns an empty buffer for what may stay incomplete for long: without the capacity of a
    /// retained one that is above 64 KiB, which a few bytes would occupy.
    #[inline]
    pub fn take_small(&mut self) -> Vec<u8> {
        match self.idle.last() {
            Some(buffer) if buffer.capacity() <= SMALL_BYTES_MAX => self.take(),
            _ => Vec::new(),
        }
    }

    /// Retains `buffer` for a later [`BufferPool::take`], or frees it if a limit would be exceeded.
    #[inline]
    pub fn put(&mut self, mut buffer: Vec<u8>) {
        let capacity = buffer.capacity();
        if capacity > self.buffer_bytes_max {
            return self.large.put_used(buffer);
        }
        if capacity == 0 || self.retained_bytes + capacity > self.retained_bytes_max {
            return;
        }
        buffer.clear();
        self.retained_bytes += capacity;
        self.idle.push(buffer);
    }

    /// Returns the capacity of all retained buffers in bytes, except for large ones.
    pub const fn retained_bytes(&self) -> usize {
        self.retained_bytes
    }

    /// Keeps large buffers from now on: up to four, of 1 MiB at least and `bytes_max` together.
    pub const fn keep_large(&mut self, bytes_max: usize) {
        self.large.bytes_max = bytes_max;
    }

    /// Frees the large buffers, and keeps none from now on.
    #[cold]
    pub fn free_large(&mut self) {
        self.large = LargeBuffers { idle: Vec::new(), bytes: 0, bytes_max: 0 };
    }

    /// Returns the capacity of the large buffers that are kept.
    #[inline]
    pub const fn large_bytes(&self) -> usize {
        self.large.bytes
    }

    /// Moves the bytes of `buffer` to the largest kept buffer with one of these capacities, unless
    /// its own capacity is as large. `buffer` is retained or freed. Returns whether there is one.
    #[cold]
    pub fn enlarge(&mut self, buffer: &mut Vec<u8>, capacities: RangeInclusive<usize>) -> bool {
        let capacity_min = buffer.capacity().saturating_add(1).max(*capacities.start());
        let larger = self.large.take(capacity_min, *capacities.end());
        let Some(mut larger) = larger else { return false };
        larger.extend_from_slice(buffer);
        let smaller = std::mem::replace(buffer, larger);
        if smaller.capacity() > self.buffer_bytes_max {
            self.large.put(smaller);
        } else {
            self.put(smaller);
        }
        true
    }

    /// Moves the bytes of a large buffer to another one if they are less than half of its capacity.
    #[cold]
    pub fn reduce(&mut self, buffer: &mut Vec<u8>) {
        if buffer.capacity() >= LARGE_BYTES_MIN && buffer.len() < buffer.capacity() / 2 {
            let mut smaller = self.take();
            smaller.reserve_exact(buffer.len());
            smaller.extend_from_slice(buffer);
            self.large.put(std::mem::replace(buffer, smaller));
        }
    }
}

impl LargeBuffers {
    /// Keeps a buffer with what it was used for. Much behind that was never used.
    #[cold]
    fn put_used(&mut self, mut buffer: Vec<u8>) {
        let used = buffer.len() + LARGE_SPARE_BYTES;
        if self.bytes_max > 0 && buffer.capacity() > used + used / 2 {
            buffer.shrink_to(used);
        }
        self.put(buffer);
    }

    /// Keeps a buffer, in place of a smaller one if there is no room for both.
    fn put(&mut self, mut buffer: Vec<u8>) {
        let capacity = buffer.capacity();
        if capacity < LARGE_BYTES_MIN || capacity > self.bytes_max {
            return;
        }
        while self.idle.len() == LARGE_BUFFERS_MAX || self.bytes + capacity > self.bytes_max {
            let capacities = self.idle.iter().map(Vec::capacity).enumerate();
            let smallest = capacities.min_by_key(|(_, capacity)| *capacity);
            let Some((index, _)) = smallest.filter(|(_, smallest)| *smallest < capacity) else {
                return;
            };
            self.bytes -= self.idle.swap_remove(index).capacity();
        }
        buffer.clear();
        self.bytes += capacity;
        self.idle.push(buffer);
    }

    /// Takes the largest buffer of `capacity_min` to `capacity_max` bytes.
    fn take(&mut self, capacity_min: usize, capacity_max: usize) -> Option<Vec<u8>> {
        let capacities = self.idle.iter().map(Vec::capacity).enumerate();
        let fitting = capacities.filter(|(_, it)| (capacity_min..=capacity_max).contains(it));
        let (index, capacity) = fitting.max_by_key(|(_, capacity)| *capacity)?;
        self.bytes -= capacity;
        Some(self.idle.swap_remove(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returned_buffer_is_reused_empty() {
        let mut pool = BufferPool::new(4096, 1024);
        let mut buffer = pool.take();
        buffer.extend_from_slice(&[7; 100]);
        let capacity = buffer.capacity();
        pool.put(buffer);
        let again = pool.take();
        assert!(again.is_empty());
        assert_eq!(again.capacity(), capacity);
        assert_eq!(pool.retained_bytes(), 0);
    }

    #[test]
    fn large_buffer_is_not_for_small_input() {
        let mut pool = BufferPool::new(1 << 20, 1 << 20);
        pool.put(Vec::with_capacity(SMALL_BYTES_MAX));
        pool.put(Vec::with_capacity(SMALL_BYTES_MAX + 1));
        assert_eq!(pool.take_small().capacity(), 0);
        assert!(pool.take().capacity() > SMALL_BYTES_MAX);
        assert_eq!(pool.take_small().capacity(), SMALL_BYTES_MAX);
    }

    #[test]
    fn large_message_takes_little_more_than_its_length() {
        let mut message = Vec::new();
        while message.len() < 16 << 20 {
            reserve_part(&mut message, 50_000, 17 << 20);
            message.resize(message.len() + 50_000, 0);
            let spare = message.capacity() - message.len();
            assert!(spare <= (message.len() / 4).max(GROWS_BY_QUARTER_MIN));
        }
        assert_eq!(message.capacity(), 17 << 20);
    }

    #[test]
    fn small_message_grows_to_limit_of_small_ones() {
        let mut message = vec![0; 40_000];
        message.shrink_to_fit();
        reserve_part(&mut message, 1, 17 << 20);
        assert_eq!(message.capacity(), GROWS_BY_QUARTER_MIN);
    }

    #[test]
    fn large_buffers_are_kept_while_asked_for() {
        const MIB: usize = 1 << 20;
        let mut pool = BufferPool::new(1 << 20, 1 << 10);
        pool.put(vec![7; MIB]);
        assert_eq!(pool.large_bytes(), 0);
        pool.keep_large(8 * MIB);
        pool.put(vec![7; MIB - 1]);
        pool.put(vec![7; 3 * MIB]);
        pool.put(vec![7; 9 * MIB]);
        assert_eq!(pool.large_bytes(), 3 * MIB);
        for _ in 0..LARGE_BUFFERS_MAX {
            pool.put(vec![7; MIB]);
        }
        assert_eq!(pool.large_bytes(), 6 * MIB);
        let mut buffer = vec![1, 2];
        assert!(pool.enlarge(&mut buffer, 0..=2 * MIB));
        assert_eq!((&*buffer, buffer.capacity()), (&[1, 2][..], MIB));
        assert!(!pool.enlarge(&mut buffer, 4 * MIB..=9 * MIB));
        assert!(pool.enlarge(&mut buffer, 0..=4 * MIB) && !pool.enlarge(&mut buffer, 0..=9 * MIB));
        assert_eq!((&*buffer, buffer.capacity()), (&[1, 2][..], 3 * MIB));
        assert_eq!(pool.large_bytes(), 3 * MIB);
        pool.reduce(&mut buffer);
        assert_eq!((&*buffer, pool.large_bytes()), (&[1, 2][..], 6 * MIB));
        assert!(buffer.capacity() <= 1 << 10);
        pool.free_large();
        pool.put(vec![7; MIB]);
        assert_eq!(pool.large_bytes(), 0);
    }

    #[test]
    fn large_buffer_replaces_smaller_ones() {
        const MIB: usize = 1 << 20;
        let mut pool = BufferPool::new(1 << 20, 1 << 10);
        pool.keep_large(12 * MIB);
        for mib in [1, 2, 3, 4, 1, 2] {
            pool.put(vec![7; mib * MIB]);
        }
        assert_eq!(pool.large_bytes(), 11 * MIB);
        pool.put(vec![7; 7 * MIB]);
        assert_eq!(pool.large_bytes(), 11 * MIB);
        pool.put(vec![7; 5 * MIB]);
        assert_eq!(pool.large_bytes(), 12 * MIB);
    }

    #[test]
    fn unused_end_of_large_buffer_is_not_kept() {
        let mut pool = BufferPool::new(1 << 20, 1 << 10);
        pool.keep_large(8 << 20);
        let mut buffer = Vec::with_capacity(4 << 20);
        buffer.resize(2 << 20, 0);
        pool.put(buffer);
        assert_eq!(pool.large_bytes(), (2 << 20) + LARGE_SPARE_BYTES);
    }

    #[test]
    fn oversized_or_excess_buffers_are_freed() {
        let mut pool = BufferPool::new(300, 200);
        pool.put(Vec::with_capacity(201));
        assert_eq!(pool.retained_bytes(), 0);
        pool.put(Vec::with_capacity(200));
        pool.put(Vec::with_capacity(200));
        assert_eq!(pool.retained_bytes(), 200);
    }
}
