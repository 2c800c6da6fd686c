//! The options of WebSocket.
//!
//! Until the upgrade a connection is subject to the HTTP options: connection limit, hosts and
//! origins, timeouts. From then on it counts against the limit of WebSocket instead.

use std::time::Duration;

use super::declare::{DAY, GIB, KIB, options};
use super::value::{Choice, choice};

options! {
    /// WebSocket options (RFC 6455).
    pub struct WebSocketOptions at |options| options.websocket;

    group WEBSOCKET {
        /// Path on `http.address` where connections upgrade to WebSocket. Fixed at start.
        #[option("websocket.path", UrlPath, restart)]
        #[cost = "none: they count towards websocket.connections_max"]
        #[source = "RFC 6455, section 4"]
        pub path: Option<String> = Some("/mcp/ws".to_owned());

        /// WebSocket connections open at once, over all shards, beside those of
        /// `http.connections_max`; one more upgrade gets status 503.
        ///
        /// The connection of a refused upgrade stays HTTP.
        #[option("websocket.connections_max", Count { min: 1, max: 10_000_000 }, reload)]
        #[cost = "less than 1 KiB of memory and one socket each"]
        #[source = "RFC 9110, section 15.6.4"]
        pub connections_max: u32 = 1_000, tiny 4;

        /// Idle time after which a peer is pinged.
        #[option("websocket.ping_interval", Milliseconds { min: 1, max: DAY }, reload)]
        #[cost = "two frames of a few bytes per connection and interval"]
        #[source = "RFC 6455, section 5.5.2"]
        pub ping_interval: Duration = Duration::from_secs(30), tiny Duration::from_millis(50);

        /// Time without a received frame (pongs count) after which a connection is closed with code
        /// 1000.
        #[option("websocket.idle_timeout", Milliseconds { min: 1, max: 30 * DAY }, reload)]
        #[cost = "a longer time retains the sockets of peers that have vanished"]
        #[source = "RFC 6455, section 7.4.1"]
        pub idle_timeout: Duration = Duration::from_mins(5), tiny Duration::from_millis(200);

        /// Time from the upgrade to the first valid JSON-RPC message; a slower connection is closed
        /// with code 1002.
        ///
        /// A message that has begun has `fragment_timeout`.
        #[option("websocket.first_message_timeout", Milliseconds { min: 1, max: DAY }, reload)]
        #[cost = "a longer time lets unidentified peers hold connections"]
        #[source = "RFC 6455, section 7.4.1"]
        pub first_message_timeout: Duration = Duration::from_secs(5),
            tiny Duration::from_millis(100);

        /// Time from the first frame of a message to its last; a slower message closes its
        /// connection with code 1002.
        #[option("websocket.fragment_timeout", Milliseconds { min: 1, max: DAY }, reload)]
        #[cost = "a longer time lets peers hold incomplete messages"]
        #[source = "RFC 6455, section 5.4"]
        pub fragment_timeout: Duration = Duration::from_secs(30), tiny Duration::from_millis(100);

        /// Bytes queued for a slow peer; beyond it the connection is not read until half of them
        /// are sent.
        #[option("websocket.outgoing_bytes_max", Bytes { min: KIB, max: GIB }, reload)]
        #[cost = "that many bytes per connection with a slow peer"]
        #[source = "RFC 6455, section 10.4"]
        pub outgoing_bytes_max: usize = 100 * 1024, tiny 4096;

        /// Time a connection may stay paused by `websocket.outgoing_bytes_max`; after it the
        /// connection is closed with code 1011.
        #[option("websocket.send_timeout", Milliseconds { min: 1, max: DAY }, reload)]
        #[cost = "a longer time retains the output of slow peers"]
        #[source = "RFC 6455, section 7.4.1"]
        pub send_timeout: Duration = Duration::from_secs(5), tiny Duration::from_millis(100);

        /// Require a newline at the end of each text message; one without it closes its connection
        /// with code 1002.
        #[option("websocket.strict_delimiter", Switch, reload)]
        #[cost = "excludes clients that send one message per frame, as the official SDKs do"]
        pub strict_delimiter: bool = false;

        /// Close code for a text message that is not UTF-8.
        #[option("websocket.utf8_close_code", Choice(Utf8CloseCode::NAMES), reload)]
        #[cost = "none"]
        #[source = "RFC 6455, section 8.1 (1007)"]
        pub utf8_close_code: Utf8CloseCode = Utf8CloseCode::InvalidPayload;

        /// Compress messages (permessage-deflate) if the client offers it. Fixed at start.
        #[option("websocket.deflate", Switch, restart)]
        #[cost = "CPU time per message, and about 300 KiB per shard"]
        #[source = "RFC 7692"]
        pub deflate: bool = false;

        /// Largest ratio of a message, beyond 64 KiB, to its compressed size; a larger one closes
        /// the connection with code 1008.
        ///
        /// JSON rarely exceeds 20; the format's maximum is about 1,000.
        #[option("websocket.deflate_ratio_max", Count { min: 1, max: 1_000_000 }, reload)]
        #[cost = "a higher ratio lets a few bytes use much memory"]
        #[source = "RFC 7692, section 8"]
        pub deflate_ratio_max: u32 = 100, tiny 10;
    }
}

choice! {
    /// The close code for text that is not UTF-8.
    pub enum Utf8CloseCode {
        /// 1007, as RFC 6455, section 8.1 requires.
        #[default]
        InvalidPayload = "1007",
        /// 1002, a protocol error.
        ProtocolError = "1002",
    }
}
