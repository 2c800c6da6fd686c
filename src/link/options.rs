//! The bounds of connections, each with its default and its cost.

use std::time::Duration;

/// How long, how many and how much. Defaults follow the TCP contract (seed 001, section 2).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LinkOptions {
    /// Connections open at once on this shard, those that are being refused included. Cost: about
    /// 300 bytes each while open. Default 1,088.
    pub connections_max: usize,
    /// A connection that says nothing for this long, with nothing in flight, is closed.
    /// Default 5 min.
    pub idle_max: Duration,
    /// Time from accept to a first complete message. Default 30 s.
    pub lease_max: Duration,
    /// How long a connection that we have finished waits for its peer to finish too. Default 1 s.
    pub linger_max: Duration,
    /// Bytes of one message; a longer one is refused before the rest of it is buffered. Cost: that
    /// many bytes for each connection in the middle of one. Default 16 MiB.
    pub message_bytes_max: usize,
    /// Bytes that wait for a peer to read them; past it the connection is not read until half has
    /// drained. Cost: that many bytes for each connection whose peer is slow. Default 1 MiB.
    pub outgoing_bytes_max: usize,
    /// Bytes that all connections together may hold in messages half received and answers not yet
    /// sent. Default 1 GiB.
    pub held_bytes_max: usize,
    /// Bytes of idle buffers kept for reuse. Default 4 MiB.
    pub pool_bytes_max: usize,
    /// The largest buffer kept for reuse. Default 256 KiB.
    pub pool_buffer_bytes_max: usize,
}

impl Default for LinkOptions {
    fn default() -> Self {
        Self {
            connections_max: 1_088,
            idle_max: Duration::from_mins(5),
            lease_max: Duration::from_secs(30),
            linger_max: Duration::from_secs(1),
            message_bytes_max: 16 << 20,
            outgoing_bytes_max: 1 << 20,
            held_bytes_max: 1 << 30,
            pool_bytes_max: 4 << 20,
            pool_buffer_bytes_max: 256 << 10,
        }
    }
}
