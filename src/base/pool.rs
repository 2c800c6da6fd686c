//! A pool of reusable byte buffers.
//!
//! Invariants: the retained capacity never exceeds `retained_bytes_max`, and a buffer that has
//! grown past `buffer_bytes_max` is freed instead of retained, so that one large message does not
//! leave a large shard behind.

/// Capacity of a buffer for what may stay incomplete for long.
const SMALL_BYTES_MAX: usize = 64 << 10;

/// Length from which on a message that is received in parts grows by a quarter.
pub const GROWS_BY_QUARTER_MIN: usize = 64 << 10;

/// Reserves room for `additional` bytes of a message that is received in parts. That of a large
/// message is little more than the message.
#[inline]
pub fn reserve_part(message: &mut Vec<u8>, additional: usize) {
    let needed = message.len() + additional;
    if needed > message.capacity() && needed > GROWS_BY_QUARTER_MIN {
        message.reserve_exact(additional + message.len() / 4);
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
}

impl BufferPool {
    /// Creates a pool that retains at most `retained_bytes_max` bytes of capacity, in buffers of at
    /// most `buffer_bytes_max` bytes each.
    pub const fn new(retained_bytes_max: usize, buffer_bytes_max: usize) -> Self {
        Self { idle: Vec::new(), retained_bytes: 0, retained_bytes_max, buffer_bytes_max }
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
        if capacity == 0
            || capacity > self.buffer_bytes_max
            || self.retained_bytes + capacity > self.retained_bytes_max
        {
            return;
        }
        buffer.clear();
        self.retained_bytes += capacity;
        self.idle.push(buffer);
    }

    /// Returns the capacity of all retained buffers in bytes.
    pub const fn retained_bytes(&self) -> usize {
        self.retained_bytes
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
            reserve_part(&mut message, 50_000);
            message.resize(message.len() + 50_000, 0);
            let spare = message.capacity() - message.len();
            assert!(spare <= (message.len() / 4).max(GROWS_BY_QUARTER_MIN));
        }
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
