//! A pool of reusable byte buffers.
//!
//! Invariants: the retained capacity never exceeds `retained_bytes_max`, and a buffer that has
//! grown past `buffer_bytes_max` is freed instead of retained, so that one large message does not
//! leave a large shard behind.

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
    fn oversized_or_excess_buffers_are_freed() {
        let mut pool = BufferPool::new(300, 200);
        pool.put(Vec::with_capacity(201));
        assert_eq!(pool.retained_bytes(), 0);
        pool.put(Vec::with_capacity(200));
        pool.put(Vec::with_capacity(200));
        assert_eq!(pool.retained_bytes(), 200);
    }
}
