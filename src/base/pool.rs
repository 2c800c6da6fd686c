//! Byte buffers that come back.
//!
//! What it keeps true: the bytes kept for later never pass `retained_bytes_max`, and a buffer that
//! grew past `buffer_bytes_max` is given back to the allocator instead of being kept, so that one
//! large message does not leave a large shard behind.

/// A shard's store of empty byte buffers: taking and giving back allocates nothing once warm.
#[derive(Debug)]
pub struct BufferPool {
    idle: Vec<Vec<u8>>,
    retained_bytes: usize,
    retained_bytes_max: usize,
    buffer_bytes_max: usize,
}

impl BufferPool {
    /// A pool that keeps at most `retained_bytes_max` bytes of capacity, in buffers of at most
    /// `buffer_bytes_max` each.
    pub const fn new(retained_bytes_max: usize, buffer_bytes_max: usize) -> Self {
        Self { idle: Vec::new(), retained_bytes: 0, retained_bytes_max, buffer_bytes_max }
    }

    /// An empty buffer, with capacity from an earlier life where there is one.
    pub fn take(&mut self) -> Vec<u8> {
        match self.idle.pop() {
            Some(buffer) => {
                self.retained_bytes -= buffer.capacity();
                buffer
            }
            None => Vec::new(),
        }
    }

    /// Keeps `buffer` for the next [`BufferPool::take`] where the bounds allow.
    pub fn give(&mut self, mut buffer: Vec<u8>) {
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

    /// Bytes of capacity that wait here.
    pub const fn retained_bytes(&self) -> usize {
        self.retained_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_empty_and_with_its_capacity() {
        let mut pool = BufferPool::new(4096, 1024);
        let mut buffer = pool.take();
        buffer.extend_from_slice(&[7; 100]);
        let capacity = buffer.capacity();
        pool.give(buffer);
        let again = pool.take();
        assert!(again.is_empty());
        assert_eq!(again.capacity(), capacity);
        assert_eq!(pool.retained_bytes(), 0);
    }

    #[test]
    fn large_buffers_and_a_full_pool_keep_nothing() {
        let mut pool = BufferPool::new(300, 200);
        pool.give(Vec::with_capacity(201));
        assert_eq!(pool.retained_bytes(), 0);
        pool.give(Vec::with_capacity(200));
        pool.give(Vec::with_capacity(200));
        assert_eq!(pool.retained_bytes(), 200);
    }
}
