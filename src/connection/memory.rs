//! Memory account of the connections of a shard.

use super::state::Connection;

/// Bytes held by all connections, each as last accounted.
#[derive(Debug, Default)]
pub struct MemoryAccount {
    held_bytes: usize,
}

impl MemoryAccount {
    /// Returns the bytes held by all connections.
    #[inline]
    pub const fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Updates the accounted memory of one connection.
    #[inline]
    pub(super) const fn update<S>(&mut self, connection: &mut Connection<S>) {
        let held_bytes = connection.held_bytes();
        self.held_bytes = self.held_bytes - connection.accounted_bytes + held_bytes;
        connection.accounted_bytes = held_bytes;
    }

    /// Removes a connection from the account.
    pub(super) const fn remove<S>(&mut self, connection: &Connection<S>) {
        self.held_bytes -= connection.accounted_bytes;
    }
}
