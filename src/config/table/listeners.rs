//! Options of the NDJSON transports: TCP, standard input and output. The connection options of TCP
//! apply to HTTP connections, too.

use crate::config::table::{DAY, GIB, KIB, MIB, Row, Section};
use crate::config::unit::Unit;

pub(super) static TCP: Section = Section {
    heading: "TCP",
    rows: &[
        Row {
            key: "tcp.address",
            short: Some("tcp"),
            unit: Unit::Address,
            description: "Address of the TCP listener (JSON-RPC, one message per line); port 0 \
                          selects a free port.",
            cost: "one listening socket per shard",
            source: "MCP, basic/transports: custom transports",
            is_reloadable: false,
            field: |options| &mut options.tcp.address,
        },
        Row {
            key: "tcp.connections_max",
            short: None,
            unit: Unit::Count { min: 1, max: 10_000_000 },
            description: "TCP connections open at once, over all shards; one more gets error 1001 \
                          and is closed.",
            cost: "less than 1 KiB of memory and one socket each",
            source: "Corelane",
            is_reloadable: true,
            field: |options| &mut options.tcp.connections_max,
        },
        Row {
            key: "tcp.acceptors",
            short: None,
            unit: Unit::Count { min: 1, max: 1024 },
            description: "Accept operations in flight per shard on its listener.",
            cost: "about 100 bytes each",
            source: "io_uring_prep_accept(3)",
            is_reloadable: false,
            field: |options| &mut options.engine.ring_sizes.accepts_in_flight,
        },
        Row {
            key: "tcp.backlog_max",
            short: None,
            unit: Unit::Count { min: 1, max: 65_535 },
            description: "Connections that wait in the kernel to be accepted, per shard and \
                          listener.",
            cost: "kernel memory during a connection flood; limited by net.core.somaxconn",
            source: "listen(2)",
            is_reloadable: false,
            field: |options| &mut options.tcp.backlog_max,
        },
        Row {
            key: "tcp.reuse_port",
            short: Some("reuse_port"),
            unit: Unit::Switch,
            description: "Share the addresses of TCP and HTTP with other servers of the same user \
                          that set it, too (SO_REUSEPORT); without it a second server fails to \
                          start.",
            cost: "sessions and subscriptions of one server are unknown to the others",
            source: "socket(7)",
            is_reloadable: false,
            field: |options| &mut options.tcp.reuse_port,
        },
        Row {
            key: "tcp.idle_timeout",
            short: None,
            unit: Unit::Milliseconds { min: 1, max: 30 * DAY },
            description: "Idle time (nothing received, no request in flight) after which a TCP or \
                          HTTP connection is closed.",
            cost: "a longer time retains the sockets of peers that have vanished",
            source: "RFC 9112, section 9.5",
            is_reloadable: true,
            field: |options| &mut options.tcp.idle_timeout,
        },
        Row {
            key: "tcp.first_message_timeout",
            short: None,
            unit: Unit::Milliseconds { min: 1, max: DAY },
            description: "Time from accept to the first valid JSON-RPC message or HTTP request on \
                          a TCP or HTTP connection; a slower connection is closed.",
            cost: "a longer time lets unidentified peers hold connections",
            source: "RFC 9110, section 15.5.9",
            is_reloadable: true,
            field: |options| &mut options.tcp.first_message_timeout,
        },
        Row {
            key: "tcp.half_close_timeout",
            short: None,
            unit: Unit::Milliseconds { min: 0, max: DAY },
            description: "Time that calls in flight get after a TCP client has shut down writing \
                          and still reads, as nc -N does; then they get an error. 0 cancels them \
                          at once, without a response. An eighth of tcp.connections_max may wait.",
            cost: "clients that have closed their connection keep it and their calls for that long",
            source: "RFC 9293, section 3.6",
            is_reloadable: true,
            field: |options| &mut options.tcp.half_close_timeout,
        },
        Row {
            key: "tcp.keepalive",
            short: None,
            unit: Unit::Switch,
            description: "SO_KEEPALIVE: the kernel detects vanished peers, of TCP and HTTP.",
            cost: "one probe every two hours of silence",
            source: "tcp(7)",
            is_reloadable: false,
            field: |options| &mut options.tcp.keepalive,
        },
        Row {
            key: "tcp.nodelay",
            short: None,
            unit: Unit::Switch,
            description: "TCP_NODELAY: responses over TCP and HTTP are sent without delay.",
            cost: "none: a turn's responses share a send anyway; false delays some by 40 ms",
            source: "tcp(7)",
            is_reloadable: false,
            field: |options| &mut options.tcp.nodelay,
        },
        Row {
            key: "tcp.receive_buffer_bytes",
            short: None,
            unit: Unit::Bytes { min: KIB, max: GIB },
            description: "Kernel receive buffer of a TCP or HTTP connection (SO_RCVBUF).",
            cost: "kernel memory while unread; limited by net.core.rmem_max",
            source: "socket(7)",
            is_reloadable: false,
            field: |options| &mut options.tcp.receive_buffer_bytes,
        },
        Row {
            key: "tcp.send_buffer_bytes",
            short: None,
            unit: Unit::Bytes { min: KIB, max: GIB },
            description: "Kernel send buffer of a TCP or HTTP connection (SO_SNDBUF).",
            cost: "kernel memory while the peer is slow; limited by net.core.wmem_max",
            source: "socket(7)",
            is_reloadable: false,
            field: |options| &mut options.tcp.send_buffer_bytes,
        },
    ],
};

pub(super) static STDIO: Section = Section {
    heading: "Standard input and output",
    rows: &[
        Row {
            key: "stdio.buffer_bytes",
            short: None,
            unit: Unit::Bytes { min: 256, max: 64 * MIB },
            description: "Size of the read buffer of standard input, and of the write buffer of \
                          standard output.",
            cost: "that many bytes, twice",
            source: "MCP, basic/transports: stdio",
            is_reloadable: false,
            field: |options| &mut options.stdio.buffer_bytes,
        },
        Row {
            key: "stdio.sequential",
            short: None,
            unit: Unit::Switch,
            description: "Start a request only after the response to the one before; \
                          notifications and responses are handled meanwhile. Requests that wait \
                          take up to message_bytes_max and requests_in_flight_max, nothing is \
                          read beyond that.",
            cost: "a slow call delays all others",
            source: "JSON-RPC 2.0, section 6",
            is_reloadable: false,
            field: |options| &mut options.stdio.sequential,
        },
    ],
};
