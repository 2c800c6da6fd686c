//! Limits and timeouts of connections, with their defaults and costs.

use std::time::Duration;

/// Limits and timeouts of all connections of a shard.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ConnectionOptions {
    /// Connections open at once on this shard, including those being refused. Cost: about 300 bytes
    /// each while open. Default 1,088.
    pub connections_max: usize,
    /// Time without a message, with no request in flight, after which a connection is closed.
    /// Default 5 min.
    pub idle_timeout: Duration,
    /// Time from accept to the first valid message. Default 30 s.
    pub first_message_timeout: Duration,
    /// Connections from which no byte has arrived; while there are more than half, each has 3 s.
    /// The owner of the connections applies the limit. Default is no limit.
    pub silent_max: usize,
    /// Time to wait for the peer to close after our side is shut down. Default 1 s.
    pub linger_timeout: Duration,
    /// Bytes of one message; a longer one is refused before the rest is buffered. Cost: that many
    /// bytes per connection with an incomplete message. Default 16 MiB.
    pub message_bytes_max: usize,
    /// Bytes of unsent output; above it reading stops until half is sent. Cost: that many bytes per
    /// connection with a slow peer. Default 1 MiB.
    pub outgoing_bytes_max: usize,
    /// Bytes of idle buffers kept for reuse. Default 4 MiB.
    pub pool_bytes_max: usize,
    /// Bytes of the largest buffer kept for reuse. Default 256 KiB.
    pub pool_buffer_bytes_max: usize,
    /// Bytes of larger buffers that are kept while large messages come. Default 64 MiB.
    pub large_buffers_bytes_max: usize,
    /// Options of WebSocket connections, in place of `idle_timeout`, `first_message_timeout` and
    /// `outgoing_bytes_max`.
    pub websocket: WebSocketFrameOptions,
}

/// Limits and timeouts of WebSocket connections.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WebSocketFrameOptions {
    /// Bytes of unsent output; above it reading stops until half is sent. Cost: that many bytes per
    /// connection with a slow peer. Default 100 KiB.
    pub outgoing_bytes_max: usize,
    /// Time in which output above the limit must be sent; otherwise the connection is closed with
    /// 1011. Output larger than the limit gets this time per `outgoing_bytes_max`, up to
    /// `idle_timeout`. Default 5 s.
    pub send_timeout: Duration,
    /// Time from the upgrade to the first valid message; otherwise the connection is closed with
    /// 1002. Default 5 s.
    pub first_message_timeout: Duration,
    /// Time from the first byte of a message to its last; otherwise the connection is closed with
    /// 1002. Default 30 s.
    pub fragment_timeout: Duration,
    /// Time without any frame, pongs included, after which a connection is closed with 1000.
    /// Default 5 min.
    pub idle_timeout: Duration,
    /// Time without input after which the peer is pinged, repeatedly. No pings are sent if it is at
    /// least `idle_timeout`. Cost: two bytes, and a six-byte pong. Default 30 s.
    pub ping_interval: Duration,
}

impl Default for ConnectionOptions {
    fn default() -> Self {
        Self {
            connections_max: 1_088,
            idle_timeout: Duration::from_mins(5),
            first_message_timeout: Duration::from_secs(30),
            silent_max: usize::MAX,
            linger_timeout: Duration::from_secs(1),
            message_bytes_max: 16 << 20,
            outgoing_bytes_max: 1 << 20,
            pool_bytes_max: 4 << 20,
            pool_buffer_bytes_max: 256 << 10,
            large_buffers_bytes_max: 64 << 20,
            websocket: WebSocketFrameOptions::default(),
        }
    }
}

impl Default for WebSocketFrameOptions {
    fn default() -> Self {
        Self {
            outgoing_bytes_max: 100 << 10,
            send_timeout: Duration::from_secs(5),
            first_message_timeout: Duration::from_secs(5),
            fragment_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_mins(5),
            ping_interval: Duration::from_secs(30),
        }
    }
}
