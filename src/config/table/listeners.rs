//! Rows of the doors that take lines of JSON: TCP, standard input and output. What is said here of
//! connections over TCP holds for those of HTTP, too.
//!
//! Each default of the transport contract (seed 001) stands in `options`.

use crate::config::table::{DAY, GIB, KIB, MIB, Row, Section};
use crate::config::unit::Unit;

pub(super) static TCP: Section = Section {
    heading: "TCP",
    rows: &[
        Row {
            key: "tcp.address",
            short: Some("tcp"),
            unit: Unit::Address,
            about: "Where lines of JSON are served over TCP; port 0 takes a free one.",
            cost: "one listening socket for each shard",
            source: "transport contract, section 2",
            field: |options| &mut options.tcp.address,
        },
        Row {
            key: "tcp.connections_max",
            short: None,
            unit: Unit::Count { least: 1, most: 10_000_000 },
            about: "Connections open at once over all shards; one more gets error 1001 and is \
                    closed.",
            cost: "below 1 KiB of memory and one socket each",
            source: "transport contract, section 2",
            field: |options| &mut options.tcp.connections_max,
        },
        Row {
            key: "tcp.acceptors",
            short: None,
            unit: Unit::Count { least: 1, most: 1024 },
            about: "Accepts that each shard keeps in flight on its listener.",
            cost: "about 100 bytes each",
            source: "transport contract, section 2",
            field: |options| &mut options.engine.ring_sizes.accepts_in_flight,
        },
        Row {
            key: "tcp.backlog_max",
            short: None,
            unit: Unit::Count { least: 1, most: 65_535 },
            about: "Connections that wait in the kernel for an accept, on each shard and door.",
            cost: "kernel memory under a flood; bounded by net.core.somaxconn",
            source: "listen(2)",
            field: |options| &mut options.tcp.backlog_max,
        },
        Row {
            key: "tcp.idle_ms_max",
            short: None,
            unit: Unit::Milliseconds { least: 1, most: 30 * DAY },
            about: "A connection, of HTTP too, that is silent for this long with nothing in flight \
                    is closed.",
            cost: "a longer time keeps the sockets of peers that have vanished",
            source: "transport contract, section 2",
            field: |options| &mut options.tcp.idle_max,
        },
        Row {
            key: "tcp.lease_ms_max",
            short: None,
            unit: Unit::Milliseconds { least: 1, most: DAY },
            about: "Time from accept to a first valid request, of HTTP too; a slower connection is \
                    closed.",
            cost: "a longer time lets strangers hold connections for nothing",
            source: "transport contract, section 2",
            field: |options| &mut options.tcp.lease_max,
        },
        Row {
            key: "tcp.keepalive",
            short: None,
            unit: Unit::Switch,
            about: "Let the kernel find peers that have vanished, of HTTP too (SO_KEEPALIVE).",
            cost: "one probe every two hours of silence",
            source: "transport contract, section 2",
            field: |options| &mut options.tcp.keepalive,
        },
        Row {
            key: "tcp.nodelay",
            short: None,
            unit: Unit::Switch,
            about: "Send answers at once, over HTTP too (TCP_NODELAY).",
            cost: "none: answers are corked anyway; without it some wait 40 ms",
            source: "transport contract, section 2",
            field: |options| &mut options.tcp.nodelay,
        },
        Row {
            key: "tcp.receive_buffer_bytes",
            short: None,
            unit: Unit::Bytes { least: KIB, most: GIB },
            about: "The kernel's receive buffer of a connection, of HTTP too (SO_RCVBUF).",
            cost: "kernel memory while the peer is ahead; bounded by net.core.rmem_max",
            source: "transport contract, section 2",
            field: |options| &mut options.tcp.receive_buffer_bytes,
        },
        Row {
            key: "tcp.send_buffer_bytes",
            short: None,
            unit: Unit::Bytes { least: KIB, most: GIB },
            about: "The kernel's send buffer of a connection, of HTTP too (SO_SNDBUF).",
            cost: "kernel memory while the peer is behind; bounded by net.core.wmem_max",
            source: "transport contract, section 2",
            field: |options| &mut options.tcp.send_buffer_bytes,
        },
    ],
};

pub(super) static STDIO: Section = Section {
    heading: "Standard input and output",
    rows: &[Row {
        key: "stdio.buffer_bytes",
        short: None,
        unit: Unit::Bytes { least: 256, most: 64 * MIB },
        about: "Bytes read from standard input at a time, and gathered before a write.",
        cost: "that many bytes, twice",
        source: "transport contract, section 1",
        field: |options| &mut options.stdio.buffer_bytes,
    }],
};
