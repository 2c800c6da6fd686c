//! What is known of one open connection.

use std::net::SocketAddr;
use std::time::SystemTime;

use super::label::Transport;

/// An open connection of a running server.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ConnectionInfo {
    /// Shard that owns the connection.
    pub shard: u16,
    /// Transport.
    pub transport: Transport,
    /// Address of the peer; `None` over standard input and output.
    pub peer: Option<SocketAddr>,
    /// Time at which it was accepted, to the second.
    pub started: SystemTime,
    /// Bytes and messages since then.
    pub traffic: ConnectionTraffic,
    /// Requests without a response.
    pub requests_pending: u32,
    /// Bytes of incomplete messages, unread input and unsent output.
    pub bytes_buffered: usize,
    /// Control frames of a WebSocket connection; zero over other transports.
    pub pings: PingCounts,
}

/// Bytes and messages of one connection since it was accepted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct ConnectionTraffic {
    /// Bytes received, including framing.
    pub bytes_in: u64,
    /// Bytes accepted by the kernel, including framing.
    pub bytes_out: u64,
    /// Valid JSON-RPC messages received; over HTTP requests.
    pub messages_in: u64,
    /// Messages sent; over HTTP responses, and events of streams.
    pub messages_out: u64,
}

/// Pings and pongs of one WebSocket connection; the counts wrap.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct PingCounts {
    /// Pings received; each was answered by a pong.
    pub pings_in: u32,
    /// Pings sent.
    pub pings_out: u32,
    /// Pongs received, solicited or not.
    pub pongs_in: u32,
}
