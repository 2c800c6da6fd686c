//! The options of WebSocket, seed 001 section 4.
//!
//! What holds for connections over HTTP holds for these, too, until they are upgraded: how many
//! there may be, who may come, how long they may take to ask.

use std::time::Duration;

/// WebSocket (RFC 6455), through the door of HTTP.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WebSocketOptions {
    /// Where on the door of HTTP connections are upgraded; `None` upgrades none. Default
    /// `/mcp/ws`.
    pub path: Option<String>,
    /// A peer that was silent for this long gets a ping. Cost: two frames of a few bytes each
    /// time. Default 30 s.
    pub ping: Duration,
    /// A connection from which no frame has come for this long, pongs included, is closed (1000).
    /// Default 5 min.
    pub idle_max: Duration,
    /// Time from the first frame of a message to its last; a slower one ends its connection
    /// (1002). Cost: a longer time lets strangers hold half messages. Default 30 s.
    pub fragment_max: Duration,
    /// Bytes that wait for a peer to read them; past it the connection is not read until half of
    /// them are gone. Cost: that many bytes for each connection whose peer is slow. Default
    /// 100 KiB.
    pub frame_buffer_bytes_max: usize,
    /// How long a connection may stay paused for that; then it is closed (1011). Default 5 s.
    pub drain_max: Duration,
    /// Whether the text of a frame has to end in a newline; one that does not ends its connection
    /// (1002). The official SDKs send none. Default false.
    pub strict_delimiter: bool,
    /// The close code that a text which is not UTF-8 gets. Default
    /// [`Utf8CloseCode::InvalidPayload`].
    pub utf8_close_code: Utf8CloseCode,
    /// Whether messages may be compressed (`permessage-deflate`, RFC 7692) where a client offers
    /// it. Cost: time for each message, and some 300 KiB on each shard. Default false.
    pub deflate: bool,
    /// How many times as long as what was sent a compressed message may become, beyond 64 KiB; one
    /// that becomes longer ends its connection (1008). JSON rarely becomes 20 times as long; the
    /// most that the format can do is about 1,000. Default 100.
    pub deflate_ratio_max: u32,
}

/// What a connection is closed with whose peer sent a text that is not UTF-8.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Utf8CloseCode {
    /// 1007, as RFC 6455, section 8.1 has it.
    #[default]
    InvalidPayload,
    /// 1002, as the transport contract has it (seed 001, section 4).
    ProtocolError,
}

impl Default for WebSocketOptions {
    fn default() -> Self {
        Self {
            path: Some("/mcp/ws".to_owned()),
            ping: Duration::from_secs(30),
            idle_max: Duration::from_mins(5),
            fragment_max: Duration::from_secs(30),
            frame_buffer_bytes_max: 100 << 10,
            drain_max: Duration::from_secs(5),
            strict_delimiter: false,
            utf8_close_code: Utf8CloseCode::default(),
            deflate: false,
            deflate_ratio_max: 100,
        }
    }
}
