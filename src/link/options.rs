//! The bounds of connections, each with its default and its cost.

use std::time::Duration;

/// How long, how many and how much. Defaults follow the TCP contract (seed 001, section 2), those
/// of frames the WebSocket contract (section 4).
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
    /// What holds for connections whose bytes are frames, in place of `idle_max`, `lease_max` and
    /// `outgoing_bytes_max`.
    pub frames: FrameOptions,
}

/// The bounds of connections whose bytes are frames.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FrameOptions {
    /// Bytes that wait for a peer to read them; past it the connection is not read until half has
    /// drained. Cost: that many bytes for each connection whose peer is slow. Default 100 KiB.
    pub buffer_bytes_max: usize,
    /// How long a connection that is not read for that reason has to drain: one that has not is
    /// closed with 1011. Where one answer alone is longer than the bound there is that much time
    /// for each `buffer_bytes_max` that waits, up to `idle_max`. Default 5 s.
    pub drain_max: Duration,
    /// Time from the first byte of a message to its last; past it the connection is closed with
    /// 1002. Default 30 s.
    pub fragment_max: Duration,
    /// A connection from which nothing comes for this long, not even a pong, is closed with 1000.
    /// Default 5 min.
    pub idle_max: Duration,
    /// After this long without a word the peer is asked for a sign of life, again and again. Where
    /// it is as long as `idle_max` none is asked. Cost: two bytes, and six that come back.
    /// Default 30 s.
    pub ping_max: Duration,
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
            frames: FrameOptions::default(),
        }
    }
}

impl Default for FrameOptions {
    fn default() -> Self {
        Self {
            buffer_bytes_max: 100 << 10,
            drain_max: Duration::from_secs(5),
            fragment_max: Duration::from_secs(30),
            idle_max: Duration::from_mins(5),
            ping_max: Duration::from_secs(30),
        }
    }
}
