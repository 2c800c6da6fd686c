//! Options of HTTP: listener, checks of hosts and origins, event streams and sessions.
//!
//! Options of connections of every kind (timeouts, kernel buffers) are in [`super::listeners`].

use crate::config::options::SecondStream;
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
            description: "Address of the HTTP listener: MCP at http.path, a web page at /; port 0 \
                          selects a free port.",
            cost: "one listening socket per shard",
            source: "MCP, basic/transports: Streamable HTTP",
            is_reloadable: false,
            field: |options| &mut options.http.address,
        },
        Row {
            key: "http.path",
            short: None,
            unit: Unit::EndpointPath,
            description: "Path of the MCP endpoint, unlike every other path of the server. Fixed \
                          at start.",
            cost: "none",
            source: "MCP, basic/transports: Streamable HTTP",
            is_reloadable: false,
            field: |options| &mut options.http.path,
        },
        Row {
            key: "http.connections_max",
            short: None,
            unit: Unit::Count { min: 1, max: 10_000_000 },
            description: "HTTP connections open at once, over all shards; one more gets status 503 \
                    and is closed.",
            cost: "less than 1 KiB of memory and one socket each",
            source: "RFC 9110, section 15.6.4",
            is_reloadable: true,
            field: |options| &mut options.http.connections_max,
        },
        Row {
            key: "http.hosts",
            short: None,
            unit: Unit::Hosts,
            description: "Allowed values of the Host header: name, name:port, an address, or * for \
                          any; default allows localhost and its addresses on loopback, any host \
                          elsewhere. A server behind a name such as mcp.example.com must list it \
                          to admit browsers. Fixed at start.",
            cost: "none; the owner of a listed name controls its address",
            source: "MCP, basic/transports: DNS rebinding",
            is_reloadable: false,
            field: |options| &mut options.http.hosts,
        },
        Row {
            key: "http.origins",
            short: None,
            unit: Unit::Origins,
            description: "Allowed values of the Origin header besides the server's own: \
                          https://name, http://name:* for any port, or * for any origin; default \
                          allows origins of this machine on loopback, none elsewhere. Fixed at \
                          start.",
            cost: "pages of a listed origin can do what any client can",
            source: "MCP, basic/transports: DNS rebinding; RFC 6454",
            is_reloadable: false,
            field: |options| &mut options.http.origins,
        },
        Row {
            key: "http.strict",
            short: None,
            unit: Unit::Choice(<Option<Revision>>::NAMES),
            description: "Strict profile: JSON responses only, no GET, and every request after \
                          initialize must name this revision in MCP-Protocol-Version. Fixed at \
                          start.",
            cost: "clients of other revisions get status 400",
            source: "MCP, basic/transports: protocol version header",
            is_reloadable: false,
            field: |options| &mut options.http.strict,
        },
        Row {
            key: "http.pinned",
            short: None,
            unit: Unit::Choice(<Option<Revision>>::NAMES),
            description: "Like http.strict, which it replaces, and initialize must name the \
                          revision, too. Fixed at start.",
            cost: "the official SDKs name none in initialize and get status 400",
            source: "Corelane",
            is_reloadable: false,
            field: |options| &mut options.http.pinned,
        },
        Row {
            key: "http.head_bytes_max",
            short: None,
            unit: Unit::Bytes { min: 256, max: MIB },
            description: "Size of a request's header section; a longer one gets status 431.",
            cost: "that many bytes per connection with an incomplete header section",
            source: "RFC 6585, section 5",
            is_reloadable: true,
            field: |options| &mut options.http.head_bytes_max,
        },
        Row {
            key: "http.sse_start_delay",
            short: None,
            unit: Unit::Milliseconds { min: 1, max: DAY },
            description: "A request without a response after this time is answered as an SSE \
                          stream, which keeps client and proxies from timing out.",
            cost: "a longer time is one in which clients and proxies may time out",
            source: "MCP, basic/transports: Streamable HTTP",
            is_reloadable: true,
            field: |options| &mut options.http.sse_start_delay,
        },
        Row {
            key: "http.sse_keepalive_interval",
            short: None,
            unit: Unit::Milliseconds { min: 1, max: DAY },
            description: "Interval of comments on an idle SSE stream.",
            cost: "about twenty bytes per stream and interval",
            source: "HTML, server-sent events: authoring notes",
            is_reloadable: true,
            field: |options| &mut options.http.sse_keepalive_interval,
        },
    ],
};

pub(super) static ADMIN: Section = Section {
    heading: "Endpoints of operators: /healthz, /readyz, /metrics, /connections",
    rows: &[Row {
        key: "admin.address",
        short: None,
        unit: Unit::Address,
        description: "Address of a listener of their own, at which nothing else is served; port 0 \
                      selects a free port. off serves them at http.address, /connections only on \
                      loopback. They never count against http.connections_max. Fixed at start.",
        cost: "one listening socket; those who reach it see the addresses of clients",
        source: "Corelane",
        is_reloadable: false,
        field: |options| &mut options.admin.address,
    }],
};

pub(super) static SESSIONS: Section = Section {
    heading: "Sessions over HTTP, revisions up to 2025-11-25",
    rows: &[
        Row {
            key: "http.legacy",
            short: None,
            unit: Unit::Switch,
            description: "Serve clients of 2025-03-26 to 2025-11-25, with sessions. Fixed at \
                          start.",
            cost: "memory of each session, see http.sessions_max",
            source: "MCP 2025-11-25, basic/transports: session management",
            is_reloadable: false,
            field: |options| &mut options.http.legacy,
        },
        Row {
            key: "http.legacy_sse",
            short: None,
            unit: Unit::Switch,
            description: "Also serve the two endpoints of 2024-11-05: an event stream and a path \
                          for messages. Fixed at start.",
            cost: "one open connection per such client",
            source: "MCP 2024-11-05, basic/transports: HTTP with SSE",
            is_reloadable: false,
            field: |options| &mut options.http.legacy_sse,
        },
        Row {
            key: "http.legacy_sse_path",
            short: None,
            unit: Unit::EndpointPath,
            description: "Path of the event stream of 2024-11-05, which such clients connect to. \
                          Fixed at start.",
            cost: "none",
            source: "MCP 2024-11-05, basic/transports: HTTP with SSE",
            is_reloadable: false,
            field: |options| &mut options.http.legacy_sse_path,
        },
        Row {
            key: "http.legacy_messages_path",
            short: None,
            unit: Unit::EndpointPath,
            description: "Path for messages of 2024-11-05; its clients learn it from the stream. \
                          Fixed at start.",
            cost: "none",
            source: "MCP 2024-11-05, basic/transports: HTTP with SSE",
            is_reloadable: false,
            field: |options| &mut options.http.legacy_messages_path,
        },
        Row {
            key: "http.session_id_query",
            short: None,
            unit: Unit::Switch,
            description: "Accept the session id as the query parameter sessionId, for clients that \
                          cannot set Mcp-Session-Id, such as EventSource in browsers. If both are \
                          sent, they must agree. Fixed at start.",
            cost: "browsers and proxies store and log URLs, and a session id grants the session",
            source: "HTML, server-sent events: EventSource",
            is_reloadable: false,
            field: |options| &mut options.http.session_id_query,
        },
        Row {
            key: "http.second_stream",
            short: None,
            unit: Unit::Choice(SecondStream::NAMES),
            description: "GET of a session with an open GET stream: refuse gets status 409, \
                          replace ends the older stream, join keeps both and sends each message \
                          on the newer one.",
            cost: "join: one connection each; messages for a broken one may be lost",
            source: "MCP 2025-11-25, basic/transports: multiple connections",
            is_reloadable: true,
            field: |options| &mut options.http.second_stream,
        },
        Row {
            key: "http.sessions_max",
            short: None,
            unit: Unit::Count { min: 1, max: 10_000_000 },
            description: "Sessions over all shards; one more ends an idle one, or gets status 503 \
                          if there is none. Sessions without a message after initialize, and \
                          those of an address with more than an eighth of all, end first.",
            cost: "about 512 bytes each",
            source: "MCP 2025-11-25, basic/transports: session management",
            is_reloadable: true,
            field: |options| &mut options.http.sessions_max,
        },
        Row {
            key: "http.session_idle_timeout",
            short: None,
            unit: Unit::Milliseconds { min: 1, max: 30 * DAY },
            description: "Time after which an idle session (no request in flight, no open stream) \
                          ends; its client gets status 404.",
            cost: "a longer time retains the sessions of clients that have vanished",
            source: "MCP 2025-11-25, basic/transports: session management",
            is_reloadable: true,
            field: |options| &mut options.http.session_idle_timeout,
        },
        Row {
            key: "http.replay_events_max",
            short: None,
            unit: Unit::Count { min: 0, max: 1_000_000 },
            description: "Events stored per stream for clients that reconnect with Last-Event-ID; \
                          0 disables replay. A stream delivered completely is stored for another \
                          minute.",
            cost: "the size of the events, up to http.replay_bytes_max",
            source: "MCP 2025-11-25, basic/transports: resumability",
            is_reloadable: true,
            field: |options| &mut options.http.replay_events_max,
        },
        Row {
            key: "http.replay_bytes_max",
            short: None,
            unit: Unit::Bytes { min: KIB, max: 1024 * GIB },
            description: "Bytes of stored events of all streams, at most an eighth of \
                    memory_bytes_max, divided evenly among shards. Delivered streams are evicted \
                    first, then the oldest events of a stream; one stream stores \
                    outgoing_bytes_max, or a longer response if memory is free.",
            cost: "that many bytes, once that many events are stored",
            source: "MCP 2025-11-25, basic/transports: resumability",
            is_reloadable: true,
            field: |options| &mut options.http.replay_bytes_max,
        },
        Row {
            key: "http.sse_retry",
            short: None,
            unit: Unit::Milliseconds { min: 0, max: DAY },
            description: "Reconnection time (SSE field retry) sent when a stream is closed early.",
            cost: "a shorter time makes all clients reconnect at once",
            source: "HTML, server-sent events: retry",
            is_reloadable: true,
            field: |options| &mut options.http.sse_retry,
        },
    ],
};
