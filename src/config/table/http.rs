//! Rows of HTTP: the door, who may come through it, and what is kept for those who do.
//!
//! What holds for connections of every kind (idle and lease times, buffers of the kernel) stands
//! among the rows of TCP.

use crate::config::table::{DAY, GIB, KIB, MIB, Row, Section};
use crate::config::unit::Unit;
use crate::config::value::Choice;
use crate::protocol::revision::Revision;

pub(super) static HTTP: Section = Section {
    heading: "HTTP",
    rows: &[
        Row {
            key: "http.address",
            short: Some("http"),
            unit: Unit::Address,
            about: "Where HTTP is served: MCP at /mcp, a page for people at /; port 0 takes a \
                    free one.",
            cost: "one listening socket for each shard",
            source: "transport contract, section 3",
            field: |options| &mut options.http.address,
        },
        Row {
            key: "http.connections_max",
            short: None,
            unit: Unit::Count { least: 1, most: 10_000_000 },
            about: "Connections over HTTP open at once over all shards; one more gets status 503 \
                    and is closed.",
            cost: "below 1 KiB of memory and one socket each",
            source: "transport contract, section 3",
            field: |options| &mut options.http.connections_max,
        },
        Row {
            key: "http.hosts",
            short: None,
            unit: Unit::Hosts,
            about: "The hosts that requests may name: name, name:port, an address, or * for every \
                    one; default is localhost and its addresses on loopback, every host \
                    elsewhere. Behind a name such as mcp.example.com browsers are let in only \
                    where it is listed. Fixed at start.",
            cost: "none; whoever owns a listed name decides where it leads",
            source: "MCP, basic/transports: DNS rebinding",
            field: |options| &mut options.http.hosts,
        },
        Row {
            key: "http.origins",
            short: None,
            unit: Unit::Origins,
            about: "The origins of pages, besides our own, that may ask: https://name, \
                    http://name:* for every port, or * for every one; default is pages of this \
                    machine on loopback, none elsewhere. Fixed at start.",
            cost: "their pages may do whatever a client may",
            source: "MCP, basic/transports: DNS rebinding; RFC 6454",
            field: |options| &mut options.http.origins,
        },
        Row {
            key: "http.strict",
            short: None,
            unit: Unit::Choice(<Option<Revision>>::WORDS),
            about: "The strict profile: JSON answers only, no GET, and every request names this \
                    revision in MCP-Protocol-Version. Fixed at start.",
            cost: "clients of other revisions are refused with status 400",
            source: "strict header handling (seed 003)",
            field: |options| &mut options.http.strict,
        },
        Row {
            key: "http.head_bytes_max",
            short: None,
            unit: Unit::Bytes { least: 256, most: MIB },
            about: "Bytes of the head of a request; a longer one gets status 431.",
            cost: "that many bytes for each connection in the middle of such a head",
            source: "RFC 6585, section 5",
            field: |options| &mut options.http.head_bytes_max,
        },
        Row {
            key: "http.answer_ms_max",
            short: None,
            unit: Unit::Milliseconds { least: 1, most: DAY },
            about: "A request that has no answer after this long gets an event stream, so that \
                    its client sees that it lives.",
            cost: "a longer time is one in which clients and proxies may give up",
            source: "MCP, basic/transports: Streamable HTTP",
            field: |options| &mut options.http.answer_max,
        },
        Row {
            key: "http.silence_ms_max",
            short: None,
            unit: Unit::Milliseconds { least: 1, most: DAY },
            about: "An event stream that was silent for this long gets a comment.",
            cost: "some twenty bytes for each stream each time",
            source: "HTML, server-sent events: authoring notes",
            field: |options| &mut options.http.silence_max,
        },
    ],
};

pub(super) static SESSIONS: Section = Section {
    heading: "Sessions over HTTP, revisions up to 2025-11-25",
    rows: &[
        Row {
            key: "http.legacy",
            short: None,
            unit: Unit::Switch,
            about: "Serve clients of 2025-03-26 to 2025-11-25, with sessions. Fixed at start.",
            cost: "what is kept for each of their sessions",
            source: "MCP 2025-11-25, basic/transports: session management",
            field: |options| &mut options.http.legacy,
        },
        Row {
            key: "http.sse_pair",
            short: None,
            unit: Unit::Switch,
            about: "Open the two endpoints of 2024-11-05, /sse and /messages, too. Fixed at \
                    start.",
            cost: "a connection for each such client as long as it stays",
            source: "MCP 2024-11-05, basic/transports: HTTP with SSE",
            field: |options| &mut options.http.sse_pair,
        },
        Row {
            key: "http.sessions_max",
            short: None,
            unit: Unit::Count { least: 1, most: 10_000_000 },
            about: "Sessions over all shards; one more makes the longest idle one go, and where \
                    none is idle gets status 503.",
            cost: "about 512 bytes each",
            source: "transport contract, section 3",
            field: |options| &mut options.http.sessions_max,
        },
        Row {
            key: "http.session_idle_ms_max",
            short: None,
            unit: Unit::Milliseconds { least: 1, most: 30 * DAY },
            about: "A session that is idle for this long, no request in flight and no stream \
                    open, ends.",
            cost: "a longer time keeps the sessions of clients that have vanished",
            source: "session TTL (seed 003)",
            field: |options| &mut options.http.session_idle_max,
        },
        Row {
            key: "http.events_max",
            short: None,
            unit: Unit::Count { least: 0, most: 1_000_000 },
            about: "Events kept of one stream, for a client that comes back for them; 0 keeps \
                    none. A stream that was sent to its end is kept for a minute.",
            cost: "their texts, up to http.event_bytes_max",
            source: "MCP 2025-11-25, basic/transports: resumability",
            field: |options| &mut options.http.events_max,
        },
        Row {
            key: "http.event_bytes_max",
            short: None,
            unit: Unit::Bytes { least: KIB, most: 1024 * GIB },
            about: "Bytes that the kept events of all streams hold, divided evenly among shards. \
                    Streams that were sent go first, then the oldest events of a stream; one \
                    stream holds outgoing_bytes_max, or a longer answer while there is room.",
            cost: "that many bytes, once as much was said",
            source: "MCP 2025-11-25, basic/transports: resumability",
            field: |options| &mut options.http.event_bytes_max,
        },
        Row {
            key: "http.retry_ms",
            short: None,
            unit: Unit::Milliseconds { least: 0, most: DAY },
            about: "When a client comes back whose stream was ended early.",
            cost: "a shorter time brings them all back at once",
            source: "HTML, server-sent events: retry",
            field: |options| &mut options.http.retry,
        },
    ],
};
