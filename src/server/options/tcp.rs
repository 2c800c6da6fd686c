//! The options of TCP, of MCP over standard input and output, and of WebSocket. Those of TCP
//! connections apply to HTTP, too.
//!
//! Until the upgrade a WebSocket connection is subject to the HTTP options: connection limit, hosts
//! and origins, timeouts. From then on it counts against the limit of WebSocket instead.

use std::net::SocketAddr;
use std::time::Duration;

use super::declare::{DAY, GIB, KIB, MIB, options};
use super::loopback;
use super::proxies::ProxyProtocol;
use super::value::{Choice, choice};

options! {
    /// TCP options.
    pub struct TcpOptions at |options| options.tcp;

    group LISTENER {
        /// Address of the TCP listener (JSON-RPC, one message per line); port 0 selects a free
        /// port.
        #[option("tcp.address" | "tcp", Address, restart)]
        #[cost = "one listening socket per shard"]
        #[source = "MCP, basic/transports: custom transports"]
        pub address: Option<SocketAddr> = Some(loopback(8888)), tiny Some(loopback(0));

        /// Whether connections begin with a PROXY header, version 1 or 2, before TLS. required
        /// resets those without one, and those of peers that are not in `trusted_proxies`. Fixed
        /// at start.
        #[option("tcp.proxy_protocol", Choice(ProxyProtocol::NAMES), restart)]
        #[cost = "none once a connection is open"]
        #[source = "the PROXY protocol, versions 1 and 2, of haproxy"]
        pub proxy_protocol: ProxyProtocol = ProxyProtocol::Off;

        /// TCP connections open at once, over all shards, without those that have sent nothing; one
        /// more gets the place of an idle one, or else error 1001.
        #[option("tcp.connections_max", Count { min: 1, max: 10_000_000 }, reload)]
        #[cost = "less than 1 KiB of memory and one socket each"]
        pub connections_max: u32 = 1024, tiny 4;
    }

    group CONNECTIONS {
        /// Connections that wait in the kernel to be accepted, per shard and listener.
        ///
        /// The default is the kernel's own limit.
        #[option("tcp.backlog_max", Count { min: 1, max: 65_535 }, restart)]
        #[cost = "kernel memory during a connection flood; limited by net.core.somaxconn"]
        #[source = "listen(2)"]
        pub backlog_max: u32 = 4096, tiny 8;

        /// Share the addresses of TCP and HTTP with other servers of the same user that set it, too
        /// (`SO_REUSEPORT`); without it a second server fails to start.
        ///
        /// The kernel distributes connections among all of them.
        #[option("tcp.reuse_port" | "reuse_port", Switch, restart)]
        #[cost = "sessions and subscriptions of one server are unknown to the others"]
        #[source = "socket(7)"]
        pub reuse_port: bool = false;

        /// Idle time (nothing received, no request in flight) after which a TCP or HTTP connection
        /// is closed.
        #[option("tcp.idle_timeout", Milliseconds { min: 1, max: 30 * DAY }, reload)]
        #[cost = "a longer time retains the sockets of peers that have vanished"]
        #[source = "RFC 9112, section 9.5"]
        pub idle_timeout: Duration = Duration::from_mins(5), tiny Duration::from_millis(200);

        /// Time from accept to the first valid JSON-RPC message or HTTP request on a TCP or HTTP
        /// connection; a slower connection is closed.
        ///
        /// Invalid ones do not extend it.
        #[option("tcp.first_message_timeout", Milliseconds { min: 1, max: DAY }, reload)]
        #[cost = "a longer time lets unidentified peers hold connections"]
        #[source = "RFC 9110, section 15.5.9"]
        pub first_message_timeout: Duration = Duration::from_secs(30),
            tiny Duration::from_millis(100);

        /// Time that calls in flight get after a TCP client has shut down writing and still reads,
        /// as `nc -N` does; then they get an error. 0 cancels them at once, without a response. An
        /// eighth of `tcp.connections_max` may wait.
        ///
        /// A client shuts down writing by `shutdown(SHUT_WR)`. The eighth is counted over all
        /// shards.
        #[option("tcp.half_close_timeout", Milliseconds { min: 0, max: DAY }, reload)]
        #[cost = "clients that have closed their connection keep it and their calls for that long"]
        #[source = "RFC 9293, section 3.6"]
        pub half_close_timeout: Duration = Duration::ZERO;

        /// `SO_KEEPALIVE`: the kernel detects vanished peers, of TCP and HTTP.
        #[option("tcp.keepalive", Switch, restart)]
        #[cost = "one probe every two hours of silence"]
        #[source = "tcp(7)"]
        pub keepalive: bool = true;

        /// `TCP_NODELAY`: responses over TCP and HTTP are sent without delay.
        ///
        /// Without it Nagle's algorithm and delayed acknowledgements delay responses.
        #[option("tcp.nodelay", Switch, restart)]
        #[cost = "none: a turn's responses share a send anyway; false delays some by 40 ms"]
        #[source = "tcp(7)"]
        pub nodelay: bool = true;

        /// Kernel receive buffer of a TCP or HTTP connection (`SO_RCVBUF`).
        #[option("tcp.receive_buffer_bytes", Bytes { min: KIB, max: GIB }, restart)]
        #[cost = "kernel memory while unread; limited by net.core.rmem_max"]
        #[source = "socket(7)"]
        pub receive_buffer_bytes: u32 = 64 * 1024, tiny 4 * 1024;

        /// Kernel send buffer of a TCP or HTTP connection (`SO_SNDBUF`).
        #[option("tcp.send_buffer_bytes", Bytes { min: KIB, max: GIB }, restart)]
        #[cost = "kernel memory while the peer is slow; limited by net.core.wmem_max"]
        #[source = "socket(7)"]
        pub send_buffer_bytes: u32 = 64 * 1024, tiny 4 * 1024;
    }
}

options! {
    /// Options of standard input and output.
    pub struct StdioOptions at |options| options.stdio;

    group STDIO {
        /// Size of the read buffer of standard input, and of the write buffer of standard output.
        #[option("stdio.buffer_bytes", Bytes { min: 256, max: 64 * MIB }, restart)]
        #[cost = "that many bytes, twice"]
        #[source = "MCP, basic/transports: stdio"]
        pub buffer_bytes: u32 = 64 * 1024, tiny 512;

        /// Start a request only after the response to the one before; notifications and responses
        /// are handled meanwhile. Requests that wait take up to `message_bytes_max` and
        /// `requests_in_flight_max`, nothing is read beyond that.
        ///
        /// A call can be cancelled and can ask its client. Both limits are those of
        /// [`LimitOptions`](super::LimitOptions).
        #[option("stdio.sequential", Switch, restart)]
        #[cost = "a slow call delays all others"]
        #[source = "JSON-RPC 2.0, section 6"]
        pub sequential: bool = false;
    }
}

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
        /// `http.connections_max`; one more upgrade gets the place of an idle one, or else status
        /// 503.
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
