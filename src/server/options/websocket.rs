//! The options of WebSocket.
//!
//! Until the upgrade a connection is subject to the HTTP options: connection limit, hosts and
//! origins, timeouts. From then on it counts against the limit of WebSocket instead.

use std::time::Duration;

/// WebSocket options (RFC 6455).
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct WebSocketOptions {
    /// Path on the HTTP listener that is upgraded; `None` disables WebSocket. Default `/mcp/ws`.
    pub path: Option<String>,
    /// Open connections over all shards, which do not count as HTTP connections; an upgrade beyond
    /// it gets 503, and its connection stays HTTP. Cost: below 1 KiB of memory and one socket each.
    /// Default 1,000.
    pub connections_max: u32,
    /// Interval of pings to an idle peer. Cost: two frames of a few bytes each time. Default 30 s.
    pub ping_interval: Duration,
    /// Time without a frame, pongs included, after which a connection is closed (1000).
    /// Default 5 min.
    pub idle_timeout: Duration,
    /// Time from the upgrade to the first valid message; then the connection is closed (1002). A
    /// message that has begun has `fragment_timeout`. Default 5 s.
    pub first_message_timeout: Duration,
    /// Time from the first fragment of a message to the last; then the connection is closed (1002).
    /// Cost: a longer time lets slow clients hold partial messages. Default 30 s.
    pub fragment_timeout: Duration,
    /// Bytes of queued output above which the connection is not read until half of them are sent.
    /// Cost: that many bytes per slow peer. Default 100 KiB.
    pub outgoing_bytes_max: usize,
    /// Time that a connection may stay above `outgoing_bytes_max`; then it is closed (1011).
    /// Default 5 s.
    pub send_timeout: Duration,
    /// Requires a message to end with a newline; otherwise the connection is closed (1002). The
    /// official SDKs send no newline. Default false.
    pub strict_delimiter: bool,
    /// Close code for text that is not UTF-8. Default [`Utf8CloseCode::InvalidPayload`].
    pub utf8_close_code: Utf8CloseCode,
    /// Accepts compression (`permessage-deflate`, RFC 7692) if the client offers it. Cost: time per
    /// message, and some 300 KiB per shard. Default false.
    pub deflate: bool,
    /// Maximum ratio of inflated to compressed length of a message, beyond 64 KiB; above it the
    /// connection is closed (1008). JSON rarely exceeds 20; the format's maximum is about 1,000.
    /// Default 100.
    pub deflate_ratio_max: u32,
}

/// The close code for text that is not UTF-8.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Utf8CloseCode {
    /// 1007, as RFC 6455, section 8.1 requires.
    #[default]
    InvalidPayload,
    /// 1002, a protocol error.
    ProtocolError,
}

impl Default for WebSocketOptions {
    fn default() -> Self {
        Self {
            path: Some("/mcp/ws".to_owned()),
            connections_max: 1_000,
            ping_interval: Duration::from_secs(30),
            idle_timeout: Duration::from_mins(5),
            first_message_timeout: Duration::from_secs(5),
            fragment_timeout: Duration::from_secs(30),
            outgoing_bytes_max: 100 << 10,
            send_timeout: Duration::from_secs(5),
            strict_delimiter: false,
            utf8_close_code: Utf8CloseCode::default(),
            deflate: false,
            deflate_ratio_max: 100,
        }
    }
}
