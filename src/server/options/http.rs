//! The options of HTTP.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use corelane_protocol::revision::Revision;
use corelane_transport::http::checks::EndpointPaths;

use super::declare::{DAY, GIB, KIB, MIB, options};
use super::loopback;
use super::proxies::{ForwardedField, ProxyProtocol};
use super::value::{Choice, choice};

options! {
    /// HTTP options.
    pub struct HttpOptions at |options| options.http;

    group HTTP {
        /// Address of the HTTP listener: MCP at `http.path`, a web page at `/`; port 0 selects a
        /// free port.
        #[option("http.address" | "http", Address, restart)]
        #[cost = "one listening socket per shard"]
        #[source = "MCP, basic/transports: Streamable HTTP"]
        pub address: Option<SocketAddr> = Some(loopback(8080)), tiny Some(loopback(0));

        /// Path of the MCP endpoint, unlike every other path of the server. Fixed at start.
        ///
        /// It begins with `/` and does not end with it.
        #[option("http.path", EndpointPath, restart)]
        #[cost = "none"]
        #[source = "MCP, basic/transports: Streamable HTTP"]
        pub path: String = EndpointPaths::MCP.to_owned();

        /// Whether connections begin with a PROXY header, as at `tcp.proxy_protocol`. Fixed at
        /// start.
        #[option("http.proxy_protocol", Choice(ProxyProtocol::NAMES), restart)]
        #[cost = "none once a connection is open"]
        #[source = "the PROXY protocol, versions 1 and 2, of haproxy"]
        pub proxy_protocol: ProxyProtocol = ProxyProtocol::Off;

        /// Field in which proxies of `trusted_proxies` name the client of each request: its last
        /// address that is not one of theirs. The other field is not read, since a proxy passes on
        /// what its client has sent there. Fixed at start.
        #[option("http.forwarded_field", Choice(ForwardedField::NAMES), restart)]
        #[cost = "clients choose their address if their proxy writes the other field"]
        #[source = "RFC 7239"]
        pub forwarded_field: ForwardedField = ForwardedField::XForwardedFor;

        /// HTTP connections open at once, over all shards, without those that have sent nothing;
        /// one more gets the place of an idle one, or else status 503.
        #[option("http.connections_max", Count { min: 1, max: 10_000_000 }, reload)]
        #[cost = "less than 1 KiB of memory and one socket each"]
        #[source = "RFC 9110, section 15.6.4"]
        pub connections_max: u32 = 10_000, tiny 4;

        /// Allowed values of the Host header: name, `name:port`, an address, or `*` for any;
        /// default allows localhost and its addresses on loopback, any host elsewhere. A server
        /// behind a name such as `mcp.example.com` must list it to admit browsers. Fixed at start.
        ///
        /// A name that is not listed may be a DNS rebinding attack.
        #[option("http.hosts", Hosts, restart)]
        #[cost = "none; the owner of a listed name controls its address"]
        #[source = "MCP, basic/transports: DNS rebinding"]
        pub hosts: Vec<String> = Vec::new();

        /// Allowed values of the Origin header besides the server's own: `https://name`,
        /// `http://name:*` for any port, or `*` for any origin; default allows origins of this
        /// machine on loopback, none elsewhere. Fixed at start.
        #[option("http.origins", Origins, restart)]
        #[cost = "pages of a listed origin can do what any client can"]
        #[source = "MCP, basic/transports: DNS rebinding; RFC 6454"]
        pub origins: Vec<String> = Vec::new();

        /// Strict profile: JSON responses only, no GET, and every request after `initialize` must
        /// name this revision in `MCP-Protocol-Version`. Fixed at start.
        ///
        /// It decides alone whether there are sessions: `legacy` and `legacy_sse` are ignored.
        #[option("http.strict", Choice(<Option<Revision>>::NAMES), restart)]
        #[cost = "clients of other revisions get status 400"]
        #[source = "MCP, basic/transports: protocol version header"]
        pub strict: Option<Revision> = None;

        /// Like `http.strict`, which it replaces, and `initialize` must name the revision, too.
        /// Fixed at start.
        #[option("http.pinned", Choice(<Option<Revision>>::NAMES), restart)]
        #[cost = "the official SDKs name none in initialize and get status 400"]
        pub pinned: Option<Revision> = None;

        /// Size of a request's header section; a longer one gets status 431.
        #[option("http.head_bytes_max", Bytes { min: 256, max: MIB }, reload)]
        #[cost = "that many bytes per connection with an incomplete header section"]
        #[source = "RFC 6585, section 5"]
        pub head_bytes_max: usize = 16 * 1024, tiny 1024;

        /// A request without a response after this time is answered as an SSE stream, which keeps
        /// client and proxies from timing out.
        #[option("http.sse_start_delay", Milliseconds { min: 1, max: DAY }, reload)]
        #[cost = "a longer time is one in which clients and proxies may time out"]
        #[source = "MCP, basic/transports: Streamable HTTP"]
        pub sse_start_delay: Duration = Duration::from_secs(15), tiny Duration::from_millis(50);

        /// Interval of comments on an idle SSE stream.
        #[option("http.sse_keepalive_interval", Milliseconds { min: 1, max: DAY }, reload)]
        #[cost = "about twenty bytes per stream and interval"]
        #[source = "HTML, server-sent events: authoring notes"]
        pub sse_keepalive_interval: Duration = Duration::from_secs(30),
            tiny Duration::from_millis(100);
    }

    group SESSIONS {
        /// Serve clients of 2025-03-26 to 2025-11-25, with sessions. Fixed at start.
        #[option("http.legacy", Switch, restart)]
        #[cost = "memory of each session, see http.sessions_max"]
        #[source = "MCP 2025-11-25, basic/transports: session management"]
        pub legacy: bool = true;

        /// Also serve the two endpoints of 2024-11-05: an event stream and a path for messages.
        /// Fixed at start.
        ///
        /// Needs `legacy`.
        #[option("http.legacy_sse", Switch, restart)]
        #[cost = "one open connection per such client"]
        #[source = "MCP 2024-11-05, basic/transports: HTTP with SSE"]
        pub legacy_sse: bool = false;

        /// Path of the event stream of 2024-11-05, which such clients connect to. Fixed at start.
        #[option("http.legacy_sse_path", EndpointPath, restart)]
        #[cost = "none"]
        #[source = "MCP 2024-11-05, basic/transports: HTTP with SSE"]
        pub legacy_sse_path: String = EndpointPaths::LEGACY_SSE.to_owned();

        /// Path for messages of 2024-11-05; its clients learn it from the stream. Fixed at start.
        #[option("http.legacy_messages_path", EndpointPath, restart)]
        #[cost = "none"]
        #[source = "MCP 2024-11-05, basic/transports: HTTP with SSE"]
        pub legacy_messages_path: String = EndpointPaths::LEGACY_MESSAGES.to_owned();

        /// Accept the session id as the query parameter `sessionId`, for clients that cannot set
        /// `Mcp-Session-Id`, such as `EventSource` in browsers. If both are sent, they must agree.
        /// Fixed at start.
        #[option("http.session_id_query", Switch, restart)]
        #[cost = "browsers and proxies store and log URLs, and a session id grants the session"]
        #[source = "HTML, server-sent events: EventSource"]
        pub session_id_query: bool = false;

        /// GET of a session with an open GET stream: refuse gets status 409, replace ends the older
        /// stream, join keeps both and sends each message on the newer one.
        #[option("http.second_stream", Choice(SecondStream::NAMES), reload)]
        #[cost = "join: one connection each; messages for a broken one may be lost"]
        #[source = "MCP 2025-11-25, basic/transports: multiple connections"]
        pub second_stream: SecondStream = SecondStream::Replace;

        /// Sessions over all shards; one more ends an idle one, or gets status 503 if there is
        /// none. Sessions without a message after `initialize`, and those of an address with more
        /// than an eighth of all, end first.
        #[option("http.sessions_max", Count { min: 1, max: 10_000_000 }, reload)]
        #[cost = "about 512 bytes each"]
        #[source = "MCP 2025-11-25, basic/transports: session management"]
        pub sessions_max: u32 = 65_536, tiny 4;

        /// Time after which an idle session (no request in flight, no open stream) ends; its client
        /// gets status 404.
        #[option("http.session_idle_timeout", Milliseconds { min: 1, max: 30 * DAY }, reload)]
        #[cost = "a longer time retains the sessions of clients that have vanished"]
        #[source = "MCP 2025-11-25, basic/transports: session management"]
        pub session_idle_timeout: Duration = Duration::from_mins(30),
            tiny Duration::from_millis(200);

        /// Events stored per stream for clients that reconnect with `Last-Event-ID`; 0 disables
        /// replay. A stream delivered completely is stored for another minute.
        #[option("http.replay_events_max", Count { min: 0, max: 1_000_000 }, reload)]
        #[cost = "the size of the events, up to http.replay_bytes_max"]
        #[source = "MCP 2025-11-25, basic/transports: resumability"]
        pub replay_events_max: u32 = 1_000, tiny 8;

        /// Bytes of stored events of all streams, at most an eighth of `memory_bytes_max`, divided
        /// evenly among shards. Delivered streams are evicted first, then the oldest events of a
        /// stream; one stream stores `outgoing_bytes_max`, or a longer response if memory is free.
        ///
        /// One event larger than that may take half of what is left.
        #[option("http.replay_bytes_max", Bytes { min: KIB, max: 1024 * GIB }, reload)]
        #[cost = "that many bytes, once that many events are stored"]
        #[source = "MCP 2025-11-25, basic/transports: resumability"]
        pub replay_bytes_max: usize = 64 * 1024 * 1024, tiny 8 * 1024;

        /// Reconnection time (SSE field retry) sent when a stream is closed early.
        #[option("http.sse_retry", Milliseconds { min: 0, max: DAY }, reload)]
        #[cost = "a shorter time makes all clients reconnect at once"]
        #[source = "HTML, server-sent events: retry"]
        pub sse_retry: Duration = Duration::from_secs(3), tiny Duration::from_millis(10);
    }
}

options! {
    /// Options of the endpoints of operators: `/healthz`, `/readyz`, `/metrics`, `/connections`,
    /// `/upstreams`.
    pub struct AdminOptions at |options| options.admin;

    group ADMIN {
        /// Address of a listener of their own, at which nothing else is served; port 0 selects a
        /// free port. off serves them at `http.address`, `/connections` and `/upstreams` only on
        /// loopback. They never count against `http.connections_max`. Fixed at start.
        ///
        /// The listener has up to 64 connections, on the first shard.
        #[option("admin.address", Address, restart)]
        #[cost = "one listening socket; those who reach it see the addresses of clients"]
        pub address: Option<SocketAddr> = None;

        /// File with the token that `/metrics`, `/connections` and `/upstreams` need, as
        /// `Authorization: Bearer`, wherever they are served; off needs none.
        ///
        /// `/healthz` and `/readyz` need none.
        #[option("admin.token", File, restart)]
        #[cost = "one SHA-256 for each such request"]
        #[source = "RFC 6750, section 2.1"]
        pub token: Option<PathBuf> = None;
    }
}

choice! {
    /// What happens to the open GET streams of a legacy session when its client opens another one.
    #[non_exhaustive]
    pub enum SecondStream {
        /// They stay, and the new one gets status 409.
        Refuse = "refuse",
        /// They end, so that a client whose connection has broken unnoticed gets its messages on
        /// the new one. What they have got is not repeated, unless the client resumes them.
        #[default]
        Replace = "replace",
        /// All stay open; each message is sent on the newest one only.
        Join = "join",
    }
}

impl HttpOptions {
    /// Returns the only revision served, and whether `initialize` must name it, too.
    pub(crate) fn only_revision(&self) -> Option<(Revision, bool)> {
        let pinned = self.pinned.map(|revision| (revision, true));
        pinned.or_else(|| self.strict.map(|revision| (revision, false)))
    }
}
