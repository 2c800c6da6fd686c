//! Counters of the connections of a shard.

/// Counters of all connections of a shard.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ConnectionStatistics {
    /// Times reading stopped because a peer did not read.
    pub read_pauses: u64,
    /// Sends submitted to the ring.
    pub sends: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Counters of WebSocket connections.
    pub websocket: WebSocketStatistics,
}

/// Counters of WebSocket connections.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct WebSocketStatistics {
    /// Connections upgraded to WebSocket.
    pub upgraded: u64,
    /// Messages received.
    pub messages_in: u64,
    /// Messages sent.
    pub messages_out: u64,
    /// Bytes of the messages sent, before compression.
    pub bytes_out: u64,
    /// Pings sent.
    pub pings_out: u64,
    /// Pings received, each answered by a pong.
    pub pings_in: u64,
    /// Pongs received, solicited or not.
    pub pongs_in: u64,
    /// Close frames received.
    pub closes_in: u64,
    /// Close frames queued.
    pub closes_out: u64,
    /// Connections closed because their peer did not read in time.
    pub send_timeouts: u64,
    /// Connections closed because a message was not completed in time.
    pub message_timeouts: u64,
}
