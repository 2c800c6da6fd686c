//! The options of TCP, and of MCP over standard input and output. Those of connections apply to
//! HTTP, too.

use std::net::SocketAddr;
use std::time::Duration;

use super::declare::{DAY, GIB, KIB, MIB, options};
use super::loopback;

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

        /// TCP connections open at once, over all shards; one more gets error 1001 and is closed.
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
