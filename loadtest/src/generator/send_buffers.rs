//! Buffers of data to send, and the connections that have some.

use super::connection::Connection;

/// Connections to flush, and buffers that no send uses.
#[derive(Debug, Default)]
pub(super) struct SendBuffers {
    /// Connections with data to send.
    flush_queue: Vec<u32>,
    spare: Vec<Vec<u8>>,
}

impl SendBuffers {
    /// Gives a connection without a send buffer a spare one.
    #[inline]
    pub(super) fn prepare(&mut self, conn: &mut Connection) {
        if conn.send_buffer.capacity() == 0 {
            conn.send_buffer = self.take_spare();
        }
    }

    /// Appends bytes to the send buffer of a connection.
    pub(super) fn append_output(&mut self, conn: &mut Connection, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.prepare(conn);
        }
        conn.send_buffer.extend_from_slice(bytes);
    }

    /// Queues a connection for the flush at the end of the turn.
    #[inline]
    pub(super) fn queue_connection(&mut self, index: usize, conn: &mut Connection) {
        if !conn.is_flush_queued {
            conn.is_flush_queued = true;
            self.flush_queue.push(u32::try_from(index).unwrap_or(u32::MAX));
        }
    }

    /// Returns whether no connection is queued for the flush.
    pub(super) const fn is_flushed(&self) -> bool {
        self.flush_queue.is_empty()
    }

    /// Takes the queue of connections to flush; [`restore_queue`](Self::restore_queue) returns it.
    pub(super) fn take_queue(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.flush_queue)
    }

    /// Returns an empty queue for reuse.
    pub(super) fn restore_queue(&mut self, queue: Vec<u32>) {
        self.flush_queue = queue;
    }

    /// Takes a spare buffer, or an empty one without capacity.
    #[inline]
    pub(super) fn take_spare(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Returns a buffer to the spare ones.
    #[inline]
    pub(super) fn recycle(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        if buffer.capacity() > 0 {
            self.spare.push(buffer);
        }
    }
}
